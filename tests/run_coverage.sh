#!/bin/bash
# Line and branch coverage of kernels/ by the test suite: prints a table, and
# fails where less than 97% of the lines were run.
#
#     tests/run_coverage.sh [--lines]
#
# --lines also prints each line that was not run. Built with clang's source
# coverage, once for AVX2 (where the CPU has it) and once for the baseline, each
# with that target alone: what Highway compiles for further targets comes out of
# one of its own headers, and clang counts no lines there. What is compiled many
# times, for targets and tiles, counts as run if any copy of it was.
#
# Environment: COVERAGE_BUILD, build-coverage by default; JOBS, 1 by default.
set -eu
cd "$(dirname "$0")/.."

mkdir -p "${COVERAGE_BUILD:-build-coverage}"
build=$(realpath "${COVERAGE_BUILD:-build-coverage}")
least=97.0
log=$build/log
# Both builds name a source alike, so that it has one line in the table.
coverage="-fprofile-instr-generate -fcoverage-mapping"
coverage+=" -fcoverage-compilation-dir=$build/baseline"

# The tools of the same LLVM as clang.
version=$(clang++ --version | sed -n 's/.*version \([0-9]*\).*/\1/p' | head -n 1)
tool() {
  command -v "$1-$version" || command -v "$1" ||
    { echo "run_coverage: no $1 (Debian: llvm)" >&2; exit 1; }
}
profdata=$(tool llvm-profdata)
cov=$(tool llvm-cov)

# run NAME FLAGS...: builds and runs all tests.
run() {
  local directory=$build/$1
  shift
  [ -f "$directory/build.ninja" ] || CC=clang CXX=clang++ meson setup \
    "$directory" -Doptimization=1 -Dbench=disabled -Dcli=disabled \
    -Dexamples=disabled \
    -Dcpp_args="$coverage -DHWY_COMPILE_ONLY_STATIC $*" \
    -Dcpp_link_args="$coverage" -Dc_link_args="$coverage" || return 1
  ninja -j"${JOBS:-1}" -C "$directory" &&
    LLVM_PROFILE_FILE=$build/profiles/%p.profraw meson test -C "$directory" \
      --no-rebuild --num-processes "${JOBS:-1}" --timeout-multiplier 10
}

rm -rf "$build/profiles"
variants=(baseline)
if grep -qw avx2 /proc/cpuinfo; then
  variants+=(AVX2)
fi
objects=()
for variant in "${variants[@]}"; do
  flags=""
  if [ "$variant" = AVX2 ]; then
    flags="-mavx2 -mfma -mf16c -mbmi -mbmi2 -mpclmul -maes"
  fi
  # shellcheck disable=SC2086  # the flags are words
  if ! run "$variant" $flags >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "run_coverage: the tests failed ($variant)" >&2
    exit 1
  fi
  for program in ffnorm_test c_api_test process_test; do
    objects+=(-object "$build/$variant/tests/$program")
  done
done
"$profdata" merge -sparse "$build"/profiles/*.profraw -o "$build/all.profdata"

llvm_cov() {
  "$cov" "$@" -instr-profile="$build/all.profdata" "${objects[@]:1}" \
    -ignore-filename-regex='/(tests|examples|include)/'
}

if [ "${1-}" = --lines ]; then
  llvm_cov show -show-instantiations=false |
    awk '/^\/.*:$/ { file = $0; sub(/.*\//, "", file) }
         /^ *[0-9]+\| +0\|/ { print file $0 }'
fi

llvm_cov report -show-region-summary=false >"$build/report"
awk -v least="$least" '
  function row(name) {
    printf "%-22s%8s%8s%9s%10s%8s%9s\n", name, $5, $6, $7, $8, $9, $10
  }
  /^Filename/ {
    printf "%-22s%8s%8s%9s%10s%8s%9s\n", "kernels/", "lines", "missed", "",
      "branches", "missed", ""
  }
  # Name; functions, missed, %; lines, missed, %; branches, missed, %.
  /^[^ ]+\.(cc|h) / {
    name = $1
    sub(/.*\//, "", name)
    row(name)
  }
  /^TOTAL / {
    row("TOTAL")
    total = $7 + 0
  }
  END {
    printf "lines: %s%%, at least %s%% wanted\n", total, least
    exit total < least
  }' "$build/report"
