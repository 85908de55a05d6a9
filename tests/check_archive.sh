#!/bin/sh
# Checks what libffnorm.a brings into a program, and prints the first fault.
#
#     check_archive.sh ARCHIVE [TOOL_PREFIX]
#
# - every global symbol that it defines starts with ffnorm_, weak ones included;
# - every symbol that it leaves open is in libc or libm;
# - nothing runs before main (no initializers), so no instruction that the CPU
#   lacks can run uncalled;
# - its objects can go into a shared library.
set -eu
archive=$1
prefix=${2-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "check_archive: $*" >&2
  exit 1
}

"${prefix}nm" -g --defined-only "$archive" |
  awk 'NF == 3 { print $3 }' | sort -u >"$scratch/defined"
[ -s "$scratch/defined" ] || fail "$archive defines nothing"
grep -qx ffnorm_forward "$scratch/defined" ||
  fail "$archive does not define ffnorm_forward"
if grep -v '^ffnorm_' "$scratch/defined"; then
  fail "global symbols without the prefix ffnorm_ (above)"
fi

# The C library's own symbols: those of a program's shared libraries.
echo 'int main(void) { return 0; }' >"$scratch/main.c"
"${prefix}gcc" "$scratch/main.c" -o "$scratch/main" \
  -Wl,--no-as-needed -lm -Wl,-t >"$scratch/linked" 2>&1
grep -oE '[^ ()]*lib(c|m)\.so\.6' "$scratch/linked" | sort -u >"$scratch/libs"
[ "$(wc -l <"$scratch/libs")" -ge 2 ] || fail "libc and libm were not found"
while read -r library; do
  "${prefix}nm" -D --defined-only "$library"
done <"$scratch/libs" | awk '{ sub(/@.*/, "", $NF); print $NF }' |
  sort -u >"$scratch/system"
"${prefix}nm" -u "$archive" | awk 'NF == 2 { print $2 }' |
  grep -v '^_GLOBAL_OFFSET_TABLE_$' | sort -u >"$scratch/undefined"
comm -23 "$scratch/undefined" "$scratch/defined" >"$scratch/foreign"
if comm -23 "$scratch/foreign" "$scratch/system" | grep .; then
  fail "undefined symbols outside libc and libm (above)"
fi

if "${prefix}objdump" -h "$archive" |
    grep -E '\.(init_array|preinit_array|ctors|init)\b'; then
  fail "code that runs before main (above)"
fi

"${prefix}gcc" -shared -Wl,-z,text -Wl,--whole-archive "$archive" \
  -Wl,--no-whole-archive -Wl,-z,defs -lm -o "$scratch/whole.so" ||
  fail "$archive cannot go into a shared library"

echo "check_archive: $(wc -l <"$scratch/defined") symbols, all ffnorm_;" \
  "open: $(tr '\n' ' ' <"$scratch/foreign")"
