#!/bin/bash
set -eu
# shellcheck source=examples/check_lib.sh
. "$EXAMPLES/check_lib.sh"
need_command pkg-config pkg-config
need_header hwy/highway.h libhwy-dev
need_prefix

cd "$(dirname "$0")"
cxx=${CXX:-c++}
# -O0 leaves the inline functions of this Highway in the archive, where a linker
# that merges them with ffnorm's would do the most harm.
"$cxx" -std=c++17 -O0 -I. -c filter.cc -o "$WORK/filter.o"
ar rcs "$WORK/libfilter.a" "$WORK/filter.o"
ffnorm=$(pkg-config --variable=libdir ffnorm)/libffnorm.a

# No name is defined twice, weak ones included: there is nothing to merge.
symbols() {
  nm -g --defined-only "$1" | awk 'NF == 3 { print $3 }' | LC_ALL=C sort -u
}
symbols "$ffnorm" >"$WORK/ffnorm"
{
  symbols "$WORK/libfilter.a"
  nm -D --defined-only "$("$cxx" -print-file-name=libhwy.so)" |
    awk '{ sub(/@.*/, "", $3); print $3 }'
} | LC_ALL=C sort -u >"$WORK/other"
grep -q hwy "$WORK/other" || fail "the other library has no Highway"
if LC_ALL=C comm -12 "$WORK/ffnorm" "$WORK/other" | grep .; then
  fail "names that both libraries define (above)"
fi

# Both orders on the command line; whole, so that no symbol goes unlinked.
for libraries in "$ffnorm $WORK/libfilter.a" "$WORK/libfilter.a $ffnorm"; do
  # shellcheck disable=SC2046,SC2086  # words for the compiler
  "$cxx" -std=c++17 -Wall -Wextra -Werror main.cc -o "$WORK/main" \
    $(pkg-config --cflags ffnorm) -Wl,--whole-archive $libraries \
    -Wl,--no-whole-archive $(pkg-config --libs libhwy)
  "$WORK/main"
done
