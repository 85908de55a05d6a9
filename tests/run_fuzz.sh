#!/bin/bash
# Fuzzes the library with libFuzzer (clang), and prints a line for each target.
#
#     tests/run_fuzz.sh [SECONDS] [arguments|packed|differential]...
#
# SECONDS (60) is for each of the targets, all three by default:
#
#   arguments     sizes, strides, pointers and enums of every function against a
#                 plain model of what is allowed
#   packed        any bytes as a packed block
#   differential  random shapes and values: each target of this CPU, as it is in
#                 the archive, against its reference
#
# The first two are built with ASan and UBSan, kernels included; to keep the
# compile time low with one target, AVX2 where the CPU has it. The corpus in
# tests/fuzz/corpus is where each run starts; what it finds goes to the build
# directory.
#
# Environment:
#   FUZZ_BUILD     build directory, build-fuzz by default
#   FUZZ_ARCHIVE   the archive that differential tests, build/libffnorm.a by
#                  default; built if it is not there
#   CLANG          clang++ by default
set -u
cd "$(dirname "$0")/.." || exit 1

seconds=60
if [ $# -gt 0 ] && [[ $1 =~ ^[0-9]+$ ]]; then
  seconds=$1
  shift
fi
[ $# -gt 0 ] || set -- arguments packed differential
build=${FUZZ_BUILD:-build-fuzz}
archive=${FUZZ_ARCHIVE:-build/libffnorm.a}
clang=${CLANG:-clang++}

passed=0
failed=0
skipped=0

report() {
  case $1 in
    ok) passed=$((passed + 1)) ;;
    skipped) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
  esac
  printf '%-8s%s\n' "$1" "$2"
}

common=(-std=c++17 -I. -Iinclude -ffp-contract=off -g1)
static=(-DHWY_COMPILE_ONLY_STATIC)
if grep -qw avx2 /proc/cpuinfo; then
  static+=(-mavx2 -mfma -mf16c -mbmi -mbmi2 -mpclmul -maes)
fi
checked=(-O1 -fsanitize=address -fsanitize=undefined
         -fno-sanitize-recover=undefined -fsanitize=fuzzer-no-link)
traced=(-O2 -fsanitize=fuzzer-no-link)

compile() {  # compile OUTPUT SOURCE FLAGS...
  local output=$build/$1 source=$2
  shift 2
  "$clang" "${common[@]}" "$@" -c "$source" -o "$output"
}

build_checked() {  # build_checked TARGET
  local file objects=()
  for file in api pack reference targets; do
    objects+=("$build/checked_$file.o")
    [ "$build/checked_$file.o" -nt "kernels/$file.cc" ] && continue
    compile "checked_$file.o" "kernels/$file.cc" "${checked[@]}" "${static[@]}" \
      -fno-exceptions -fno-rtti -fno-math-errno || return 1
  done
  compile "$1.o" "tests/fuzz/$1_fuzz.cc" "${checked[@]}" &&
    "$clang" -fsanitize=address,undefined,fuzzer "$build/$1.o" \
      "${objects[@]}" -o "$build/$1_fuzz"
}

build_differential() {
  if [ ! -f "$archive" ]; then
    archive=$build/native/libffnorm.a
    meson setup "$build/native" -Dtests=disabled -Dbench=disabled \
      -Dcli=disabled -Dexamples=disabled && ninja -C "$build/native" || return 1
  fi
  # The reference is traced, for the fuzzer to see by what its branches differ.
  compile traced_reference.o kernels/reference.cc "${traced[@]}" \
    -fno-math-errno &&
    compile differential.o tests/fuzz/differential_fuzz.cc "${traced[@]}" &&
    "$clang" -fsanitize=fuzzer "$build/differential.o" \
      "$build/traced_reference.o" "$archive" -o "$build/differential_fuzz"
}

run() {
  local target=$1
  local log=$build/$target.log found=$build/corpus/$target
  mkdir -p "$found"
  if [ "$target" = differential ]; then
    build_differential >"$log" 2>&1
  else
    build_checked "$target" >"$log" 2>&1
  fi || {
    tail -n 30 "$log"
    report FAILED "fuzz $target: does not build"
    return
  }
  # An input that takes 10 seconds is a finding as well.
  if ! "$build/${target}_fuzz" -max_total_time="$seconds" -timeout=10 \
      -max_len=4096 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="$build/$target-" "$found" \
      "tests/fuzz/corpus/$target" >"$log" 2>&1; then
    tail -n 40 "$log"
    report FAILED "fuzz $target (the input is in $build)"
    return
  fi
  local executions coverage
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(grep -oE 'cov: [0-9]+ ft: [0-9]+ corp: [0-9]+' "$log" | tail -n 1)
  if [ "${executions:-0}" -lt 100 ]; then
    report FAILED "fuzz $target: only ${executions:-0} executions"
    return
  fi
  report ok "fuzz $target: $executions executions in $seconds s, $coverage"
}

mkdir -p "$build"
for target in "$@"; do
  if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }' |
      "$clang" -x c++ -fsanitize=fuzzer - -o "$build/probe" 2>"$build/probe.log"; then
    report skipped "fuzz $target: $clang cannot link libFuzzer"
  elif [ ! -f "tests/fuzz/${target}_fuzz.cc" ]; then
    report FAILED "fuzz $target: no such target"
  else
    run "$target"
  fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
