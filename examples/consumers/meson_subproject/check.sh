#!/bin/bash
set -eu
# shellcheck source=examples/check_lib.sh
. "$EXAMPLES/check_lib.sh"
need_command meson meson
need_command ninja ninja-build
need_command pkg-config pkg-config
need_header hwy/highway.h libhwy-dev
need_prefix

# A copy, as the subproject's link must not go into the source tree.
cp -r "$(dirname "$0")/.." "$WORK/consumers"
cd "$WORK/consumers/meson_subproject"
ln -s "$SOURCE" subprojects/ffnorm

# From source: no installed one is in sight.
PKG_CONFIG_PATH='' PKG_CONFIG_LIBDIR="$WORK/empty" \
  meson setup --wrap-mode=forcefallback "$WORK/source"
ninja -C "$WORK/source"
[ -f "$WORK/source/subprojects/ffnorm/libffnorm.a" ] ||
  fail "the subproject built no archive"

# From the prefix: the wrap must not be used.
meson setup --wrap-mode=nofallback "$WORK/installed"
ninja -C "$WORK/installed"

"$WORK/source/consumer"
"$WORK/installed/consumer"
