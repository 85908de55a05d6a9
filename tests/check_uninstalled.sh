#!/bin/sh
# Builds and runs a program against a build directory by pkg-config:
#
#     check_uninstalled.sh BUILD_DIR PROGRAM.c COMPILER...
set -eu
build=$1
program=$2
shift 2
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

PKG_CONFIG_PATH=$build/meson-uninstalled
export PKG_CONFIG_PATH
# shellcheck disable=SC2046  # flags are words
"$@" -std=c99 "$program" $(pkg-config --cflags --libs --static ffnorm) -lm \
  -o "$directory/program"
"$directory/program"
