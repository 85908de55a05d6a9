#!/bin/bash
# Runs the whole test suite under sanitizers, a line for each.
#
#     tests/run_sanitizers.sh [asan|ubsan|msan|tsan|valgrind]... [--targets=LIST]
#
# All five by default. Each sanitizer has builds of its own (clang, -O1) with a
# single target, since all of them in one file take long to compile: AVX2 and
# SSE4 by default (--targets=AVX2,SSE4), one of each class of rounding; those
# that this CPU lacks are skipped. Valgrind runs the first of them.
#
# MSan reports whatever libstdc++.so, which is compiled without it, has written,
# and doctest depends on that. So it runs what needs no doctest, with nothing
# suppressed: the tests c_api, process and result_hashes, and a number of random
# problems of the differential fuzz target, whose workspace, y and pack
# destination count as not initialized.
#
# Valgrind knows neither FTZ and DAZ nor seccomp, and brings its own malloc: the
# tests state and process are left out. Debian 12's does not read clang's DWARF 5.
#
# Environment:
#   SANITIZE_BUILD   where builds go, build-sanitizers by default
#   JOBS             how many processes compile and test at once, 1 by default
set -u
cd "$(dirname "$0")/.." || exit 1

targets=AVX2,SSE4
checks=()
for argument in "$@"; do
  case $argument in
    --targets=*) targets=${argument#--targets=} ;;
    asan | ubsan | msan | tsan | valgrind) checks+=("$argument") ;;
    *)
      sed -n 's/^# \{0,1\}//;2,6p' "$0" >&2
      exit 2
      ;;
  esac
done
[ ${#checks[@]} -gt 0 ] || checks=(asan ubsan msan tsan valgrind)
builds=${SANITIZE_BUILD:-build-sanitizers}
jobs=${JOBS:-1}

passed=0
failed=0
skipped=0
sum_of() {
  awk -v name="$1:" '$1 == name { n += $2 } END { print n + 0 }' "$log"
}

# finish NAME STATUS: counts and prints what the log of `meson test` says.
finish() {
  local ok bad skip
  ok=$(sum_of Ok)
  bad=$(($(sum_of Fail) + $(sum_of Timeout)))
  skip=$(sum_of Skipped)
  # A run that failed before it tested, or tested nothing, is a failure too.
  [ "$bad" = 0 ] && { [ "$2" != 0 ] || [ "$ok" = 0 ]; } && bad=1
  passed=$((passed + ok))
  failed=$((failed + bad))
  skipped=$((skipped + skip))
  if [ "$bad" = 0 ]; then
    echo "ok      $1: $ok tests ($((SECONDS - start)) s)"
  else
    echo "FAILED  $1: $ok passed, $bad failed ($((SECONDS - start)) s)"
    tail -n 60 "$log"
  fi
}

skip() {
  skipped=$((skipped + 1))
  echo "skipped $1: $2"
}

# The compiler's name for what a target needs, and the CPU's.
flags_of() {
  case $1 in
    AVX2) echo "-mavx2 -mfma -mf16c -mbmi -mbmi2 -mpclmul -maes" ;;
    SSE4) echo "-msse4.2 -mpopcnt -mpclmul -maes" ;;
    AVX3) echo "$(flags_of AVX2) -mavx512f -mavx512vl -mavx512dq -mavx512bw -mavx512cd" ;;
    *) return 1 ;;
  esac
}
cpu_has() {
  local flag
  for flag in $(case $1 in
    AVX2) echo avx2 fma ;;
    SSE4) echo sse4_2 aes ;;
    AVX3) echo avx512f avx512vl avx512dq avx512bw ;;
  esac); do
    grep -qw "$flag" /proc/cpuinfo || return 1
  done
}

# configure DIRECTORY SANITIZER FLAGS...
# (A sanitizer's own operator new may not keep a test from bringing one.)
configure() {
  local directory=$1 sanitizer=$2
  shift 2
  [ -d "$directory" ] || CC=clang CXX=clang++ meson setup "$directory" \
    -Doptimization=1 -Ddebug=true -Db_lundef=false -Dbench=disabled \
    -Dcli=disabled -Dexamples=disabled -Db_sanitize="$sanitizer" -Dcpp_args="$*" \
    -Dcpp_link_args=-Wl,--allow-multiple-definition
}

build() {  # as configure
  configure "$@" && ninja -j"$jobs" -C "$1"
}

run_tests() {  # run_tests DIRECTORY MESON_TEST_ARGUMENTS...
  local directory=$1
  shift
  meson test -C "$directory" --no-rebuild --print-errorlogs \
    --num-processes "$jobs" --timeout-multiplier 10 "$@"
}

# tests_but DIRECTORY NAME...: all of its tests but those. None of the checks runs
# pkg_config_uninstalled, which links the archive as a user would.
tests_but() {
  local directory=$1
  shift
  meson test -C "$directory" --list | sed 's/.* //' |
    grep -vxF -e pkg_config_uninstalled "${@/#/-e}"
}

sanitize() {  # sanitize NAME TARGET
  local name=$1 target=$2 sanitizer extra=()
  local directory=$builds/$name-$target
  case $name in
    asan) sanitizer=address ;;
    tsan) sanitizer=thread ;;
    ubsan)
      sanitizer=undefined
      extra=(-fno-sanitize-recover=undefined)
      ;;
  esac
  # shellcheck disable=SC2046  # the flags are words
  {
    build "$directory" "$sanitizer" -DHWY_COMPILE_ONLY_STATIC \
      $(flags_of "$target") "${extra[@]}" &&
      run_tests "$directory" $(tests_but "$directory")
  } >"$log" 2>&1
  finish "$name, $target" $?
}

msan() {  # msan TARGET
  local directory=$builds/msan-$1
  local tests=(c_api process result_hashes)
  # shellcheck disable=SC2046
  {
    configure "$directory" memory -DHWY_COMPILE_ONLY_STATIC \
      $(flags_of "$1") &&
      ninja -j"$jobs" -C "$directory" libffnorm.a tests/c_api_test \
        tests/process_test tests/result_hashes &&
      run_tests "$directory" "${tests[@]}"
  } >"$log" 2>&1
  finish "msan, $1" $?

  start=$SECONDS
  if {
    clang++ -std=c++17 -O1 -g1 -ffp-contract=off -I. -Iinclude \
      -fsanitize=memory,fuzzer tests/fuzz/differential_fuzz.cc \
      "$directory/libffnorm.a" -o "$directory/differential_fuzz" &&
      mkdir -p "$directory/corpus" &&
      "$directory/differential_fuzz" -runs=20000 -max_len=4096 -seed=1 \
        -artifact_prefix="$directory/" "$directory/corpus" \
        tests/fuzz/corpus/differential
  } >"$log" 2>&1; then
    passed=$((passed + 1))
    echo "ok      msan, $1: 20000 random problems ($((SECONDS - start)) s)"
  else
    failed=$((failed + 1))
    echo "FAILED  msan, $1: random problems ($((SECONDS - start)) s)"
    tail -n 60 "$log"
  fi
}

memcheck() {  # memcheck TARGET
  local directory=$builds/valgrind-$1
  # shellcheck disable=SC2046
  {
    CFLAGS=-gdwarf-4 build "$directory" none -gdwarf-4 \
      -DFFNORM_TESTS_VALGRIND -DHWY_COMPILE_ONLY_STATIC $(flags_of "$1") &&
      run_tests "$directory" --wrapper \
        "valgrind -q --error-exitcode=9 --leak-check=full" \
        $(tests_but "$directory" state process)
  } >"$log" 2>&1
  finish "valgrind, $1" $?
}

mkdir -p "$builds"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for check in "${checks[@]}"; do
  for target in ${targets//,/ }; do
    start=$SECONDS
    if ! flags_of "$target" >"$log"; then
      skip "$check, $target" "no such target"
    elif ! cpu_has "$target"; then
      skip "$check, $target" "not on this CPU"
    elif ! command -v clang++ >"$log"; then
      skip "$check, $target" "no clang++"
    elif [ "$check" = msan ]; then
      msan "$target"
    elif [ "$check" != valgrind ]; then
      sanitize "$check" "$target"
    elif ! command -v valgrind >"$log"; then
      skip "$check, $target" "no valgrind"
    else
      memcheck "$target"
      break
    fi
  done
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
