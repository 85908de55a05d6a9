# For the check.sh of each example, which run_all.sh starts with these set:
#
#     SOURCE     the source tree of ffnorm
#     EXAMPLES   this folder
#     PREFIX     where ffnorm is installed; pkg-config looks there too
#     WORK       an empty folder of the check's own, removed afterwards
#     SCRATCH    a folder for all checks together
#
# A check ends with status 0 when all is right, kSkipped when something that it
# needs is missing, and anything else when it failed. The last line that it
# prints is shown next to its name.
# shellcheck shell=bash

# shellcheck disable=SC2034  # run_all.sh reads it
kSkipped=77

skip() {
  echo "$*"
  exit $kSkipped
}

fail() {
  echo "$*"
  exit 1
}

# apt_install PACKAGE...: false where there is no apt, or no right to use it.
apt_install() {
  command -v apt-get >/dev/null || return 1
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null || return 1
    sudo=(sudo -n)
  fi
  export DEBIAN_FRONTEND=noninteractive
  if [ ! -f "$SCRATCH/apt-updated" ]; then
    "${sudo[@]}" apt-get update -qq || return 1
    touch "$SCRATCH/apt-updated"
  fi
  "${sudo[@]}" apt-get install -y -qq --no-install-recommends "$@"
}

# need_command COMMAND PACKAGE
need_command() {
  command -v "$1" >/dev/null || apt_install "$2" ||
    skip "needs $1 (Debian: apt install $2)"
}

# need_header HEADER PACKAGE
need_header() {
  has_header "$1" && return
  apt_install "$2" || true
  has_header "$1" || skip "needs the header $1 (Debian: apt install $2)"
}

has_header() {
  echo "#include <$1>" |
    "${CXX:-c++}" -std=c++17 -fsyntax-only -x c++ - 2>/dev/null
}

# What is installed into the prefix when that worked.
need_prefix() {
  [ -f "$PREFIX/include/ffnorm/ffnorm.h" ] ||
    skip "needs ffnorm installed, which failed"
}

# need_python MODULE...: sets PYTHON to an interpreter that has these packages,
# in an environment that all checks share; pip fetches those that are missing.
need_python() {
  need_command python3 python3
  local venv=$SCRATCH/python
  PYTHON=$venv/bin/python
  if [ ! -x "$PYTHON" ]; then
    python3 -c 'import ensurepip, venv' 2>/dev/null ||
      apt_install python3-venv || skip "needs python3 -m venv"
    python3 -m venv "$venv" || skip "python3 -m venv failed"
  fi
  [ $# = 0 ] || "$PYTHON" -m pip install --quiet "$@" ||
    skip "needs Python packages that pip could not install: $*"
}
