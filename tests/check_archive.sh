#!/bin/sh
# Checks what libffnorm.a brings into a program, and prints the first fault.
#
#     check_archive.sh ARCHIVE [TOOL_PREFIX]
#
# - every global symbol that it defines starts with ffnorm_;
# - none is weak, common or unique: code compiled for one instruction set can
#   never be the copy that a linker keeps for another caller;
# - the symbols that it leaves open neither allocate, lock, print nor abort;
# - nothing runs before main (no initializers), so no instruction that the CPU
#   lacks can run uncalled;
# - on x86-64, no function has an instruction beyond those of its own target;
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
  awk 'NF == 3 { print $3 }' | LC_ALL=C sort -u >"$scratch/defined"
[ -s "$scratch/defined" ] || fail "$archive defines nothing"
grep -qx ffnorm_forward "$scratch/defined" ||
  fail "$archive does not define ffnorm_forward"
if grep -v '^ffnorm_' "$scratch/defined"; then
  fail "global symbols without the prefix ffnorm_ (above)"
fi

if "${prefix}nm" "$archive" | awk 'NF == 3 && $2 ~ /^[WwVvuiCc]$/' |
    grep .; then
  fail "symbols that a linker merges or replaces (above)"
fi

# __stack_chk_fail is the compiler's, where it protects stacks.
cat >"$scratch/allowed" <<'END'
_GLOBAL_OFFSET_TABLE_
__stack_chk_fail
bcmp
getenv
memcmp
memcpy
memmove
memset
strcmp
strlen
END
"${prefix}nm" -u "$archive" | awk 'NF == 2 { print $2 }' | LC_ALL=C sort -u |
  LC_ALL=C comm -23 - "$scratch/defined" >"$scratch/open"
if grep -vxFf "$scratch/allowed" "$scratch/open"; then
  fail "open symbols other than those of the C library that it may use (above)"
fi

if "${prefix}objdump" -h "$archive" |
    grep -E '\.(init_array|preinit_array|ctors|init)\b'; then
  fail "code that runs before main (above)"
fi

# Each instruction has the level of the first target that has it: 1 SSSE3, 2
# SSE4, 3 AVX2, 4 AVX3. A function has its target's, 0 if it is of none. (xgetbv
# is in the baseline's cpu.h, behind a test of the bit that says it exists.)
if "${prefix}objdump" -f "$archive" | grep -q 'architecture: i386:x86-64'; then
  "${prefix}objdump" -d --no-show-raw-insn "$archive" | awk -F '\t' '
    function level(op, operands) {
      if (operands ~ /%zmm|%k[0-7]|mm(1[6-9]|2[0-9]|3[01])/) return 4
      if (op ~ /^v/ && op !~ /^ver[rw]$/) return 3
      if (op ~ /^(andn|bextr|bls(i|r|msk)|bzhi|mulx|pdep|pext|rorx|sarx|sh[lr]x|lzcnt)[lq]?$/) {
        return 3
      }
      if (op ~ /^(ptest|p?blend|dpp[sd]|insertps|extractps|pextr[bdq]|pinsr[bdq])/) return 2
      if (op ~ /^(pmul(ld|dq)|p(min|max)(sb|uw|ud|sd)|pmov[sz]x|round[ps][sd])/) return 2
      if (op ~ /^(pcmp(eqq|gtq|[ei]str)|packusdw|movntdqa|mpsadbw|phminpos)/) return 2
      if (op ~ /^(crc32|popcnt|aes|pclmul)/) return 2
      if (op ~ /^(addsubp|haddp|hsubp|lddqu|mov(d|sl|sh)dup|fisttp|palignr|pshufb)/) return 1
      if (op ~ /^(phadd|phsub|psign|pabs|pmaddubsw|pmulhrsw|monitor|mwait)/) return 1
      return 0
    }
    /^[0-9a-f]+ </ {
      name = $0
      own = name ~ /N_AVX3/ ? 4 : name ~ /N_AVX2/ ? 3 : name ~ /N_SSE4/ ? 2 : name ~ /N_SSSE3/ ? 1 : 0
      ++functions[own]
    }
    NF >= 2 {
      op = $2
      sub(/ .*/, "", op)
      needs = level(op, $2)
      if (needs == own) ++seen[own]
      if (needs > own) { print name, $2; bad = 1 }
    }
    END {
      if (functions[0] == 0) { print "no functions"; bad = 1 }
      for (i = 3; i <= 4; ++i) {
        if (functions[i] && !seen[i]) { print "no instruction of level", i; bad = 1 }
      }
      exit bad
    }' >"$scratch/instructions" || {
    head -n 20 "$scratch/instructions" >&2
    fail "functions with instructions that their target lacks (above)"
  }
fi

"${prefix}gcc" -shared -Wl,-z,text -Wl,--whole-archive "$archive" \
  -Wl,--no-whole-archive -Wl,-z,defs -lm -o "$scratch/whole.so" ||
  fail "$archive cannot go into a shared library"

echo "check_archive: $(wc -l <"$scratch/defined") symbols, all ffnorm_;" \
  "open: $(tr '\n' ' ' <"$scratch/open")"
