#!/bin/bash
# Builds and checks every example, from an installed prefix and from source.
#
#     examples/run_all.sh [--prefix DIR] [NAME...]
#
# --prefix DIR takes an ffnorm that is installed already; NAMEs (such as
# consumers/cmake) pick examples. On Debian, packages that an example needs are
# installed (as root or with sudo); where that cannot be, it is skipped. One
# line each, and then "N passed, N failed, N skipped"; status 0 when none
# failed.
#
# An example takes part by having a check.sh (see check_lib.sh).
set -u
EXAMPLES=$(cd "$(dirname "$0")" && pwd)
SOURCE=$(dirname "$EXAMPLES")
SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT
PREFIX=
if [ "${1-}" = --prefix ]; then
  PREFIX=$(cd "${2-}" && pwd) || exit 2
  shift 2
fi
export EXAMPLES SOURCE SCRATCH

# shellcheck source=examples/check_lib.sh
. "$EXAMPLES/check_lib.sh"

passed=0
failed=0
skipped=0

# check NAME COMMAND...: one line, and the end of the output if it fails.
check() {
  local name=$1 log=$SCRATCH/log start=$SECONDS status=0
  shift
  mkdir "$SCRATCH/work"
  WORK=$SCRATCH/work "$@" >"$log" 2>&1 </dev/null || status=$?
  rm -rf "$SCRATCH/work"
  local said time="$((SECONDS - start)) s"
  said=$(tail -n 1 "$log")
  case $status in
    0)
      passed=$((passed + 1))
      echo "ok       $name ($time) $said"
      ;;
    "$kSkipped")
      skipped=$((skipped + 1))
      echo "skipped  $name ($said)"
      ;;
    *)
      failed=$((failed + 1))
      echo "FAILED   $name ($time)"
      tail -n 60 "$log" | sed 's/^/    /'
      ;;
  esac
}

# From source into a prefix of its own, as a package would be built.
install_prefix() {
  need_command meson meson
  need_command ninja ninja-build
  need_command pkg-config pkg-config
  need_header hwy/highway.h libhwy-dev
  meson setup "$WORK/build" "$SOURCE" --prefix "$PREFIX" --libdir lib \
    -Dtests=disabled -Dbench=disabled -Dcli=disabled -Dexamples=disabled &&
    ninja -C "$WORK/build" &&
    meson install -C "$WORK/build" --no-rebuild --quiet &&
    pkg-config --modversion ffnorm
}

if [ -n "$PREFIX" ]; then
  config=$(find "$PREFIX" -name ffnorm.pc | head -n 1)
  [ -n "$config" ] || {
    echo "run_all.sh: no ffnorm is installed in $PREFIX" >&2
    exit 2
  }
  export PREFIX PKG_CONFIG_PATH=${config%/*}
else
  export PREFIX=$SCRATCH/prefix PKG_CONFIG_PATH=$SCRATCH/prefix/lib/pkgconfig
  # In a subshell, as skip and fail end the shell that they run in.
  run_install() { (install_prefix); }
  check "install into a prefix" run_install
fi

if [ $# = 0 ]; then
  mapfile -t names < <(cd "$EXAMPLES" && find . -name check.sh -printf '%P\n' |
    sed 's|/check.sh$||' | LC_ALL=C sort)
else
  names=("${@%/}")
fi
for name in "${names[@]}"; do
  check "$name" bash "$EXAMPLES/$name/check.sh"
done

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
