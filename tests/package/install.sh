#!/usr/bin/env bash
# An installed samara can be found by pkg-config, compiled against and run.
set -eu
if [ -n "$SAMARA_SANITIZE" ]; then
	echo "a sanitized library is not installed"
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$SAMARA_BUILD_DIR" --prefix "$work/usr" >/dev/null
libdir=$(dirname "$(find "$work/usr" -name libsamara.so)")
sed -i "s|^prefix=.*|prefix=$work/usr|" "$libdir/pkgconfig/samara.pc"
cat >"$work/user.c" <<'C'
#include <samara/samara.h>
#include <stdio.h>

int main(void)
{
	printf("%d\n", SM_PROT_READ);
	return 0;
}
C
export PKG_CONFIG_PATH="$libdir/pkgconfig"
# shellcheck disable=SC2046
"$CC" -o "$work/user" "$work/user.c" $(pkg-config --cflags --libs samara)
LD_LIBRARY_PATH="$libdir" "$work/user" | grep -qx 1
