#!/bin/sh
# Builds everything into build/: the library, tests, benchmarks, examples and the
# command line program. On Debian, packages that are missing are installed first
# (as root or with sudo).
set -eu
cd "$(dirname "$0")"

packages="g++ meson ninja-build pkg-config python3 libhwy-dev doctest-dev
  libbenchmark-dev libcli11-dev nlohmann-json3-dev"

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  missing=""
  for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null |
      grep -q 'ok installed' || missing="$missing $package"
  done
  if [ -n "$missing" ]; then
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -qq
    # shellcheck disable=SC2086  # a list of words
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq \
      --no-install-recommends $missing
  fi
fi

[ -f build/build.ninja ] || meson setup build
ninja -C build
