#!/bin/bash
set -eu
# shellcheck source=examples/check_lib.sh
. "$EXAMPLES/check_lib.sh"
need_command pkg-config pkg-config
need_prefix

cd "$(dirname "$0")"
program=$WORK/pkg_config
# A plain C compiler: nothing of C++ may be needed at link time.
# shellcheck disable=SC2046  # words for the compiler
{
  "${CC:-cc}" -std=c99 -Wall -Wextra -Werror main.c -o "$program" \
    $(pkg-config --cflags --libs --static ffnorm)
  "${CC:-cc}" -std=c99 -static main.c -o "$program-static" \
    $(pkg-config --cflags --libs --static ffnorm)
}
"$program"
if readelf -l "$program-static" | grep INTERP; then
  fail "-static made a program that needs a loader"
fi
"$program-static"
