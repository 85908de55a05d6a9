#!/bin/bash
#
# The same bits on every machine: builds the library for each instruction set,
# by several compilers and with two versions of Highway, runs it on emulated
# CPUs where this one lacks the instructions, and compares all results with one
# table of hashes (tests/data/result_hashes.txt).
#
# Usage: run_matrix.sh quick|full [PATTERN]
#
# With a pattern (an extended regular expression) only those of the calls below
# that match it, such as "sve", "clang" or "x86 .*-O3".
#
# One line for each target x compiler x check, as it ends: "ok", "skipped" and
# why, or "FAILED" and the end of the output. The last line is
# "N passed, N failed, N skipped"; the exit status is 0 if none failed.
#
# quick takes about 5 minutes on two cores. full has more compilers, options,
# CPUs and lengths of vectors, and the whole test suite on AArch64, on Windows (in
# Wine) and on musl.
#
# Compilers and emulators are installed by apt, as root or with sudo.
#
# Environment:
#   MATRIX_JOBS    how many jobs at once, by default one for each processor
#   MATRIX_CACHE   cache directory, by default run_matrix in the user's cache
#                  directory; remove it to download afresh
#   AVX512_*       see run_avx512.sh

set -uo pipefail
cd "$(dirname "$0")/.." || exit
case "${1:-}" in
  quick | full) readonly MODE="$1" ;;
  *)
    sed -n '3,/^$/s/^# \{0,1\}//p' tests/run_matrix.sh
    exit 2
    ;;
esac

readonly WANTED="${2:-}"

readonly root="$PWD"
work="$(mktemp -d)"
readonly work
: > "$work/lines"
cp tests/data/result_hashes.txt "$work/table"

# Debian's wine64 has no command.
wine="$(command -v wine64 || echo /usr/lib/wine/wine64)"
readonly wine
# Quiet, with a Windows of its own.
export WINEDEBUG=-all WINEPREFIX="$work/wine"

# shellcheck source=tests/matrix/report.sh
. tests/matrix/report.sh
# shellcheck source=tests/matrix/tools.sh
. tests/matrix/tools.sh
# shellcheck source=tests/matrix/build.sh
. tests/matrix/build.sh
# shellcheck source=tests/matrix/cpus.sh
. tests/matrix/cpus.sh
# shellcheck source=tests/matrix/suites.sh
. tests/matrix/suites.sh

clean_up() {
  [[ ! -d "$WINEPREFIX" ]] || "${wine%64}server" -k 2> /dev/null
  rm -rf "$work"
}
trap clean_up EXIT

packages=(binutils clang-14 clang-19 g++ g++-aarch64-linux-gnu
  g++-mingw-w64-x86-64-posix g++-riscv64-linux-gnu g++-s390x-linux-gnu
  libhwy-dev musl-tools qemu-user wine64)
[[ "$MODE" == quick ]] || packages+=(doctest-dev lld-14 lld-19 make meson
  ninja-build python3-pip zstd)
install_packages "${packages[@]}"

# The directories of Highway's headers, which are named by their version.
installed="$(installed_highway)" || {
  echo 'there are no headers of Highway'
  exit 1
}
newest="$(newest_highway)" || {
  newest=
  line skipped 'newest Highway' '' "all ($(tail -n 1 "$work/highway.log"))"
}
highway="$installed"

# newer COMMAND...: one that builds, with the newest headers.
newer() {
  local highway="$newest"
  [[ -z "$highway" ]] || "$@"
}

quick_matrix() {
  start newer riscv clang++-19 -O2
  start x86 g++ -O2
  start windows x86_64-w64-mingw32-g++-posix -O2
  start newer x86 clang++-19 -O2
  start x86 clang++-14 -O2
  start sve aarch64-linux-gnu-g++ -O2
  start neon aarch64-linux-gnu-g++ -O2
  start big_endian s390x-linux-gnu-g++ -O2
  wait
  start musl g++ -O2
  wait
}

full_matrix() {
  local cxx options
  for cxx in g++ clang++-14 clang++-19; do
    for options in -O1 -O3 '-O2 -flto'; do start x86 "$cxx" "$options"; done
  done
  start x86 clang++-19 -O2
  start older_x86 g++ -O2
  start newer x86 g++ -O2
  start newer x86 clang++-14 -O2
  for options in -O1 -O3; do
    start neon aarch64-linux-gnu-g++ "$options"
    start sve aarch64-linux-gnu-g++ "$options"
  done
  start newer riscv clang++-19 -O3
  start neon clang++-19 -O2
  start newer neon aarch64-linux-gnu-g++ -O2
  start newer neon clang++-19 -O2
  # No SVE with the newest Highway: it is off for clang 19 and does not compile
  # with g++ 12.
  start newer big_endian s390x-linux-gnu-g++ -O2
  wait
}

# Packed blocks from one build to the next. (All have the bytes that the table
# says; this is the whole way.)
crossings() {
  local x86_build neon_build sve_build windows_build riscv_build
  x86_build="$(build_name x86 g++ -O2)"
  neon_build="$(build_name neon aarch64-linux-gnu-g++ -O2)"
  start crossing AVX2 "$x86_build" natively NEON "$neon_build" on_aarch64
  start crossing NEON "$neon_build" on_aarch64 AVX2 "$x86_build" natively
  if [[ "$MODE" == full ]]; then
    sve_build="$(build_name sve aarch64-linux-gnu-g++ -O2)"
    windows_build="$(build_name windows x86_64-w64-mingw32-g++-posix -O2)"
    riscv_build="$(newer build_name riscv clang++-19 -O2)"
    start crossing NEON "$neon_build" on_aarch64 SVE "$sve_build" on_sve512
    start crossing SVE "$sve_build" on_sve512 RVV "$riscv_build" on_riscv256
    start crossing RVV "$riscv_build" on_riscv256 Windows "$windows_build" \
      on_windows
    start crossing Windows "$windows_build" on_windows AVX2 "$x86_build" \
      natively
  fi
  wait
}

quick_matrix
[[ "$MODE" == quick ]] || full_matrix
crossings
if [[ "$MODE" == full ]]; then
  start neon_suite
  start windows_suite
  start musl_suite
  wait
fi
summary
