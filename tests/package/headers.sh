#!/usr/bin/env bash
# Every installed header compiles alone, as C17 and as C++17, without a warning; samara.h includes them all.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fine=1
for h in "$SAMARA_SOURCE_DIR"/include/samara/*.h; do
	name=$(basename "$h")
	printf '#include <samara/%s>\nextern int unused_%s;\n' "$name" "${name%.h}" >"$work/t.c"
	cp "$work/t.c" "$work/t.cc"
	"$CC" -std=c17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I "$SAMARA_SOURCE_DIR/include" "$work/t.c" || fine=0
	"$CXX" -std=c++17 -Wall -Wextra -Werror -fsyntax-only -I "$SAMARA_SOURCE_DIR/include" "$work/t.cc" || fine=0
	if [ "$name" != samara.h ] && ! grep -q "<samara/$name>" "$SAMARA_SOURCE_DIR/include/samara/samara.h"; then
		echo "samara.h does not include $name"
		fine=0
	fi
done
[ "$fine" = 1 ]
