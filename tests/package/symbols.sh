#!/usr/bin/env bash
# The shared library exports exactly what the installed headers declare with SM_API.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for h in "$SAMARA_SOURCE_DIR"/include/samara/*.h; do
	printf '#include <samara/%s>\n' "$(basename "$h")"
done >"$work/all.c"
"$CC" -std=gnu17 -E -P -I "$SAMARA_SOURCE_DIR/include" "$work/all.c" | tr '\n' ' ' |
	grep -oE '__attribute__ *\(\(visibility\("default"\)\)\)[^;{]*' |
	sed -E 's/__attribute__ *\(\([^()]*(\([^()]*\))?[^()]*\)\)//g' |
	grep -oE '\bsm_[a-z0-9_]+ *(\(|$|\[)' | awk -F'[ ([]' '!seen[$1]++ { print $1 }' | sort -u >"$work/declared.all"
nm -D --defined-only "$SAMARA_BUILD_DIR"/libsamara.so | awk '{ print $3 }' | sort -u >"$work/exported"

# A declaration's parameters may name other sm_ identifiers followed by '(': only function types do, and
# they are not symbols, so everything exported must be declared and every API function must exist.
if ! comm -13 "$work/declared.all" "$work/exported" | grep . >"$work/undeclared"; then :; fi
if ! comm -23 "$work/declared.all" "$work/exported" | grep . >"$work/missing"; then :; fi
if [ -s "$work/undeclared" ]; then
	echo "exported, but no installed header declares them:"
	cat "$work/undeclared"
fi
if [ -s "$work/missing" ]; then
	echo "declared with SM_API, but not exported:"
	cat "$work/missing"
fi
[ ! -s "$work/undeclared" ] && [ ! -s "$work/missing" ]
echo "$(wc -l <"$work/exported") symbols, all declared"
