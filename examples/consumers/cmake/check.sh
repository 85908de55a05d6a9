#!/bin/bash
set -eu
# shellcheck source=examples/check_lib.sh
. "$EXAMPLES/check_lib.sh"
need_command cmake cmake
need_prefix

cd "$(dirname "$0")"
cmake -S . -B "$WORK/build" -DCMAKE_PREFIX_PATH="$PREFIX"
cmake --build "$WORK/build"

# Another minor version before 1.0, and another major one, must not be found.
for wanted in 0.0 0.2 1.0; do
  if cmake -S . -B "$WORK/refused-$wanted" -DCMAKE_PREFIX_PATH="$PREFIX" \
    -DWANTED=$wanted >"$WORK/log" 2>&1; then
    fail "find_package(ffnorm $wanted) was accepted"
  fi
  tr -s '\n ' ' ' <"$WORK/log" |
    grep -q "compatible with requested version \"$wanted\"" ||
    fail "find_package(ffnorm $wanted): $(tail -n 20 "$WORK/log")"
done

"$WORK/build/consumer"
