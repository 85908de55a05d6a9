#!/bin/bash
set -eu
# shellcheck source=examples/check_lib.sh
. "$EXAMPLES/check_lib.sh"
need_command pkg-config pkg-config
need_prefix

cd "$(dirname "$0")"
plugin=$WORK/plugin.so
# Nothing left open but libc (-z defs), and no code patched at load (-z text).
# shellcheck disable=SC2046  # words for the compiler
"${CC:-cc}" -std=gnu99 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -shared \
  -Wl,-z,defs -Wl,-z,text plugin.c -o "$plugin" \
  $(pkg-config --cflags --libs --static ffnorm)
"${CC:-cc}" -std=gnu99 -Wall -Wextra -Werror main.c -o "$WORK/main" -ldl

exported=$(nm -D --defined-only "$plugin" | awk '{ print $3 }')
[ "$exported" = plugin_compare ] || fail "the shared object exports: $exported"
"$WORK/main" "$plugin"
