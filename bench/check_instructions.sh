#!/bin/bash
#
# Compares the instructions that key calls take with bench/instructions.txt.
#
# Usage: check_instructions.sh [--update] BUILD_DIR
#
# Speed is not asserted anywhere, because times are noisy. Instructions are
# exact: callgrind counts those of one call, whatever else the machine does. More
# of them by over 2% fail the check, fewer ask for an update of the table; both
# are usually the effect of a change of code, or of another compiler than the
# table's (its first line). --update writes the table anew.
#
# Needs valgrind, and a CPU with AVX2: valgrind knows no AVX-512.

set -euo pipefail

update=false
if [ "${1:-}" = --update ]; then
  update=true
  shift
fi
readonly PROGRAM="${1:?usage: check_instructions.sh [--update] BUILD_DIR}/bench/ffnorm_instructions"
TABLE="$(dirname "$0")/instructions.txt"
readonly TABLE
readonly MARGIN_PERCENT=2

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Instructions for 1000 FLOPs of the call that the arguments name.
count() {
  local flops instructions
  # All symbols are bound beforehand, or the first calls would count that too.
  flops=$(LD_BIND_NOW=1 valgrind --tool=callgrind --callgrind-out-file=/dev/null \
    --toggle-collect=ffnorm_bench_counted "$PROGRAM" "$@" 2>"$log") || {
    cat "$log" >&2
    return 1
  }
  instructions=$(awk '/Collected/ { print $NF }' "$log")
  awk -v i="$instructions" -v f="$flops" \
    'BEGIN { if (i + 0 == 0) exit 1; printf "%.2f\n", 1000 * i / f }'
}

passed=0
failed=0
lines=()
while read -r stage target rows d_model d_ff active expected; do
  case $stage in
    '' | '#'*)
      lines+=("$stage $target $rows $d_model $d_ff $active $expected")
      continue
      ;;
  esac
  got=$(count "$stage" "$target" "$rows" "$d_model" "$d_ff" "$active")
  lines+=("$(printf '%-10s %-4s %5s %5s %5s %4s %8s' \
    "$stage" "$target" "$rows" "$d_model" "$d_ff" "$active" "$got")")
  verdict=$(awk -v g="$got" -v e="$expected" -v m="$MARGIN_PERCENT" 'BEGIN {
    print((g > e * (1 + m / 100)) ? "FAILED" : (g < e * (1 - m / 100)) ? "fewer" : "ok") }')
  printf '%-7s %-10s %s rows of (%s,%s), %s%% active: %s instructions for 1000 FLOPs, table %s\n' \
    "$verdict" "$stage $target" "$rows" "$d_model" "$d_ff" "$active" "$got" "$expected"
  if [ "$verdict" = FAILED ]; then failed=$((failed + 1)); else passed=$((passed + 1)); fi
done <"$TABLE"

if $update; then
  printf '%s\n' "${lines[@]}" | sed 's/ *$//' >"$TABLE"
  echo "$TABLE: written"
  exit 0
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
