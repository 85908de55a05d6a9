#!/bin/bash
# Builds the documentation as static HTML, from the texts in this folder, the
# headers, and what they include; then checks every link.
#
#     docs/build.sh [OUT]       default: build-docs
#
# Installs what it needs: Doxygen by apt (as root or with sudo) where that is
# missing, Sphinx by pip into OUT/venv. Any warning ends it. The pages are in
# OUT/html and need neither a server nor a network.
set -eu
DOCS=$(cd "$(dirname "$0")" && pwd)
SOURCE=$(dirname "$DOCS")
OUT=${1:-$SOURCE/build-docs}
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
export PYTHONDONTWRITEBYTECODE=1

# need COMMAND PACKAGE...: installs the Debian packages where it fails.
need() {
  local command=$1 sudo=()
  shift
  if eval "$command" >/dev/null 2>&1; then return; fi
  if ! command -v apt-get >/dev/null; then
    echo "docs/build.sh: needs $* ($command failed)" >&2
    exit 1
  fi
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq \
    --no-install-recommends "$@" >/dev/null
}

need "doxygen --version" doxygen
need "python3 -c 'import ensurepip, venv'" python3-venv
if ! cmp -s "$DOCS/requirements.txt" "$OUT/venv/requirements.txt"; then
  rm -rf "$OUT/venv"
  python3 -m venv "$OUT/venv"
  "$OUT/venv/bin/pip" install --quiet --disable-pip-version-check \
    -r "$DOCS/requirements.txt"
  cp "$DOCS/requirements.txt" "$OUT/venv/"
fi
python=$OUT/venv/bin/python

rm -rf "$OUT/doxygen" "$OUT/html"
mkdir "$OUT/doxygen"
{
  cat "$DOCS/Doxyfile"
  echo "OUTPUT_DIRECTORY = \"$OUT/doxygen\""
  echo "INPUT = \"$SOURCE/include/ffnorm\""
  echo "STRIP_FROM_PATH = \"$SOURCE/include\""
} | doxygen -

for name in ffnorm.h ffnorm.hpp; do
  "$python" "$DOCS/tools/reference.py" "$SOURCE/include/ffnorm/$name" \
    "$OUT/doxygen/xml" "$OUT/reference/$name.md"
done
"$python" "$DOCS/tools/pages.py" "$SOURCE" "$OUT"

"$python" -m sphinx -b html -n -W --keep-going -q -c "$DOCS" \
  -D breathe_projects.ffnorm="$OUT/doxygen/xml" -d "$OUT/doctrees" \
  "$OUT/pages" "$OUT/html"
"$python" "$DOCS/tools/check_html.py" "$OUT/html"
echo "The documentation is in $OUT/html/index.html"
