# shellcheck shell=bash
# Installs compilers and emulators, and gets the headers of Highway. For
# run_matrix.sh.

readonly CACHE="${MATRIX_CACHE:-${XDG_CACHE_HOME:-${HOME}/.cache}/run_matrix}"

as_root() {
  if [[ "$(id -u)" == 0 ]]; then "$@"; else sudo "$@"; fi
}

# What cannot be installed is found missing later, by the check that needs it.
install_packages() {
  local package
  local -a wanted=()
  command -v apt-get > /dev/null || return 0
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2> /dev/null |
      grep -q 'ok installed' || wanted+=("$package")
  done
  ((${#wanted[@]} > 0)) || return 0
  echo "installing ${wanted[*]}"
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get update -qq > /dev/null || true
  if as_root apt-get install -y -qq --no-install-recommends "${wanted[@]}" \
    > "$work/install.log" 2>&1; then
    return 0
  fi
  for package in "${wanted[@]}"; do
    as_root apt-get install -y -qq --no-install-recommends "$package" \
      > "$work/install.log" 2>&1 || echo "cannot install $package"
  done
}

# The version of the headers in a directory.
highway_version() {
  sed -n 's/^#define HWY_\(MAJOR\|MINOR\|PATCH\) //p' "$1/hwy/base.h" \
    "$1/hwy/highway.h" | head -n 3 | paste -sd.
}

# A directory with nothing but the installed headers, since a cross compiler
# must not see the rest of /usr/include. Its name is the version.
installed_highway() {
  local directory
  [[ -e /usr/include/hwy/highway.h ]] || return 1
  directory="$work/highway/$(highway_version /usr/include)"
  mkdir -p "$directory"
  ln -sfn /usr/include/hwy "$directory/hwy"
  echo "$directory"
}

# apt on a state of its own, in the current directory: the system's packages
# and sources stay as they are.
private_apt() {
  local command="$1"
  shift
  "$command" -qq \
    -o Dir::State="$PWD/state" \
    -o Dir::State::status="$PWD/status" \
    -o Dir::Cache="$PWD/cache" \
    -o Dir::Etc::sourcelist=/dev/null \
    -o Dir::Etc::sourceparts="$PWD/sources" \
    -o Dir::Etc::preferences=/dev/null \
    -o Dir::Etc::preferencesparts=/dev/null \
    -o Acquire::Languages=none \
    -o APT::Sandbox::User="$(id -un)" \
    "$@"
}

# Downloads the headers of Debian testing into the cache, from the same mirror
# as this machine's own packages. Runs in a subshell.
download_highway() (
  set -e
  mkdir -p "$work/apt"
  cd "$work/apt"
  mkdir -p sources state/lists/partial cache/archives/partial
  : > status
  codename="$(. /etc/os-release && echo "${VERSION_CODENAME}")"
  repository="$(apt-get indextargets --format '$(REPO_URI)' \
    "Release: $codename" 'Component: main' 'Created-By: Packages' |
    tail -n 1)"
  [[ -n "$repository" ]]
  {
    printf 'Types: deb\nURIs: %s\nSuites: testing\nComponents: main\n' \
      "$repository"
    for keyring in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
      [[ ! -e "$keyring" ]] || { echo "Signed-By: $keyring"; break; }
    done
  } > sources/testing.sources
  private_apt apt-get update
  private_apt apt-get download libhwy-dev
  dpkg-deb --extract libhwy-dev_*.deb tree
  version="$(highway_version tree/usr/include)"
  mkdir -p "$CACHE/highway"
  rm -rf "$CACHE/highway/$version"
  mkdir "$CACHE/highway/$version"
  mv tree/usr/include/hwy "$CACHE/highway/$version/hwy"
)

# The newest headers that Debian has; kept for a week.
newest_highway() {
  local directory
  if [[ -z "$(find "$CACHE/highway" -maxdepth 1 -name '[0-9]*' -mtime -7 \
    2> /dev/null)" ]]; then
    download_highway > "$work/highway.log" 2>&1 || return 1
  fi
  directory="$(printf '%s\n' "$CACHE"/highway/[0-9]* | sort -V | tail -n 1)"
  echo "$directory"
}
