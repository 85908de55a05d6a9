# shellcheck shell=bash
# The instruction sets of the matrix: how each is built and run. For
# run_matrix.sh.

readonly BASELINE='SSE2\|EMU128\|SCALAR/[0-9]*'
readonly X86_TARGETS="AVX2/32,SSE4/16,SSSE3/16,$BASELINE"

has_cpu_flags() {
  local flag
  for flag in "$@"; do
    grep -qw -m 1 "$flag" /proc/cpuinfo || return 1
  done
}
readonly AVX512_FLAGS=(avx512f avx512dq avx512cd avx512bw avx512vl)

# ---- Runners: each takes a program and its arguments ------------------------

natively() { "$@"; }
on_haswell() { qemu-x86_64 -cpu Haswell "$@"; }
on_westmere() { qemu-x86_64 -cpu Westmere "$@"; }
on_core2() { qemu-x86_64 -cpu core2duo "$@"; }
on_baseline() { qemu-x86_64 -cpu qemu64 "$@"; }
on_bochs() { "$root/tests/run_avx512.sh" --file table "$@"; }
on_aarch64() { qemu-aarch64 "$@"; }
on_sve() { qemu-aarch64 -cpu "max,sve-default-vector-length=$1" "${@:2}"; }
on_sve128() { on_sve 16 "$@"; }
on_sve256() { on_sve 32 "$@"; }
on_sve512() { on_sve 64 "$@"; }
on_sve2048() { on_sve 256 "$@"; }
on_riscv() { qemu-riscv64 -cpu "rv64,v=true,vlen=$1,vext_spec=v1.0" "${@:2}"; }
on_riscv128() { on_riscv 128 "$@"; }
on_riscv256() { on_riscv 256 "$@"; }
on_riscv512() { on_riscv 512 "$@"; }
on_riscv1024() { on_riscv 1024 "$@"; }
on_s390x() { qemu-s390x "$@"; }
on_windows() { "$wine" "$@"; }

# ---- Configurations: a compiler and its options each ------------------------

# build_name ARGUMENT...: where a configuration is built.
build_name() {
  local IFS=_
  echo "$*_${highway##*/}" | tr -d ' '
}

x86() {
  local name expected="$X86_TARGETS" runner=natively
  local -a flags=()
  # The linker of clang's link-time optimization is its own.
  [[ "$*" != clang*-flto* ]] || flags=(-fuse-ld=lld)
  name="$(build_name x86 "$@")"
  build "$name" x86-64 "$1" "$2" "${flags[@]}" || return
  if has_cpu_flags "${AVX512_FLAGS[@]}"; then
    expected="AVX3/64,$expected"
  elif ! has_cpu_flags avx2 fma f16c bmi1 bmi2; then
    runner=on_haswell
    missing x86-64 "$1 $2" hashes qemu-x86_64 && return
  fi
  hashes "$name" x86-64 "$expected" hashes "$runner"
  # The emulator is slow: not for each option.
  has_cpu_flags "${AVX512_FLAGS[@]}" || [[ "$2" == -O1 ]] || avx512 "$name"
}

# On the emulator, which takes minutes to set up.
avx512() {
  local cache="${AVX512_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/run_avx512}"
  if [[ "$MODE" == quick && ! -d "$cache/${AVX512_SUITE:-trixie}" ]]; then
    line skipped 'x86-64 AVX-512' "$(< "$work/$1/label")" \
      'hashes (no such CPU, and its emulator is set up by the full run)'
  else
    hashes "$1" 'x86-64 AVX-512' AVX3/64 hashes on_bochs --target AVX3
  fi
}

# What x86 has built, on CPUs that end at a target.
older_x86() {
  local name
  name="$(build_name x86 "$@")"
  missing x86-64 "$1 $2" hashes qemu-x86_64 && return
  not_built "$name" 'x86-64, older CPUs' hashes && return
  hashes "$name" 'x86-64, Haswell CPU' AVX2/32 hashes on_haswell --target AVX2
  hashes "$name" 'x86-64, Westmere CPU' SSE4/16 hashes on_westmere
  hashes "$name" 'x86-64, Core 2 CPU' SSSE3/16 hashes on_core2
  hashes "$name" 'x86-64, first CPU' "$BASELINE" hashes on_baseline
}

# machine_flags CXX MACHINE: clang compiles for all machines.
machine_flags() {
  case "$1" in clang*) echo "--target=$2-linux-gnu" ;; esac
}

neon() {
  local name
  name="$(build_name neon "$@")"
  missing 'AArch64 NEON' "$1 $2" hashes qemu-aarch64 && return
  # shellcheck disable=SC2046 # there may be none
  build "$name" 'AArch64 NEON' "$1" "$2" $(machine_flags "$1" aarch64) &&
    hashes "$name" 'AArch64 NEON' 'NEON\|NEON_WITHOUT_AES/16' hashes \
      on_aarch64
}

sve() {
  local name bits
  name="$(build_name sve "$@")"
  missing 'AArch64 SVE' "$1 $2" hashes qemu-aarch64 && return
  # shellcheck disable=SC2046
  build "$name" 'AArch64 SVE' "$1" "$2" $(machine_flags "$1" aarch64) \
    -march=armv8.2-a+sve || return
  for bits in 128 256 512 2048; do
    [[ "$MODE" == full || "$bits" == 128 || "$bits" == 512 ]] || continue
    hashes "$name" "AArch64 SVE $bits bits" "SVE/$((bits / 8))" hashes \
      "on_sve$bits"
  done
}

riscv() {
  local name bits
  name="$(build_name riscv "$@")"
  missing 'RISC-V V' "$1 $2" hashes qemu-riscv64 && return
  # shellcheck disable=SC2046
  build "$name" 'RISC-V V' "$1" "$2" $(machine_flags "$1" riscv64) \
    -march=rv64gcv || return
  for bits in 128 256 512 1024; do
    [[ "$MODE" == full || "$bits" == 256 ]] || continue
    hashes "$name" "RISC-V V $bits bits" "RVV/$((bits / 8))" hashes \
      "on_riscv$bits"
  done
}

big_endian() {
  local name target='s390x, big-endian'
  name="$(build_name s390x "$@")"
  missing "$target" "$1 $2" hashes qemu-s390x && return
  build "$name" "$target" "$1" "$2" || return
  hashes "$name" "$target" "$BASELINE" 'hashes, blocks refused' on_s390x
  [[ "$MODE" == quick ]] ||
    check "$target" "$(< "$work/$name/label")" 'hashes of the reference' \
      run "$name" on_s390x reference table
}

windows() {
  local name
  name="$(build_name windows "$@")"
  missing 'x86-64 Windows' "$1 $2" hashes "$wine" && return
  build "$name" 'x86-64 Windows' "$1" "$2" || return
  hashes "$name" 'x86-64 Windows' "$X86_TARGETS" 'hashes in Wine' on_windows
}

# What x86 has built with the headers of glibc, linked with musl.
musl() {
  local name from label
  name="$(build_name musl "$@")"
  from="$work/$(build_name x86 "$@")"
  missing 'x86-64 musl' "$1 $2" hashes musl-gcc && return
  not_built "${from##*/}" 'x86-64 musl' hashes && return
  mkdir -p "$work/$name"
  label="$(< "$from/label")"
  echo "$label" > "$work/$name/label"
  if link "$from" "$work/$name" musl-gcc -O2 > "$work/$name/log" 2>&1; then
    hashes "$name" 'x86-64 musl' "$X86_TARGETS" 'hashes, linked by musl-gcc' \
      natively
  else
    line FAILED 'x86-64 musl' "$label" 'link by musl-gcc' "$work/$name/log"
  fi
}

# crossing FROM FROM_BUILD FROM_RUNNER TO TO_BUILD TO_RUNNER: all packed blocks
# that one wrote, run by the other.
crossing() {
  local target="$1 to $4" blocks
  if [[ ! -e "$work/$2/result_hashes.exe" ||
    ! -e "$work/$5/result_hashes.exe" ]]; then
    line skipped "$target" '' 'packed blocks (one of both was not built)'
    return
  fi
  blocks="$(mktemp -p "$work" blocks.XXXX)"
  blocks="${blocks##*/}"
  check "$target" '' 'packed blocks' cross "$2" "$3" "$5" "$6" "$blocks"
  rm "$work/$blocks"
}

cross() {
  run "$1" "$2" check table --pack "$5" && [[ -s "$work/$5" ]] &&
    run "$3" "$4" check table --run "$5"
}
