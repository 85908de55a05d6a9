#!/bin/bash
set -eu
# shellcheck source=examples/check_lib.sh
. "$EXAMPLES/check_lib.sh"
need_command cmake cmake
need_command meson meson
need_command ninja ninja-build
need_header hwy/highway.h libhwy-dev

cd "$(dirname "$0")"
cmake -S . -B "$WORK" -DFFNORM_SOURCE="$SOURCE"
cmake --build "$WORK"
"$WORK/consumer"
