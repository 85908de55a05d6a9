#!/bin/bash
# Builds the documentation, checks its links, and compiles and runs the code of
# its guide.
#
#     docs/check.sh [--prefix DIR] [OUT]
#
# --prefix DIR takes an ffnorm that is installed there; otherwise the guide's
# first command installs one. OUT is where build.sh builds (default: build-docs).
# One line for each check; the last line is "N passed, N failed".
set -u
DOCS=$(cd "$(dirname "$0")" && pwd)
SOURCE=$(dirname "$DOCS")
PREFIX=
if [ "${1-}" = --prefix ]; then
  PREFIX=$(cd "${2-}" && pwd) || exit 2
  shift 2
fi
OUT=${1:-$SOURCE/build-docs}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

passed=0
failed=0

# check NAME COMMAND...: one line with the last one of the command's output, or
# the end of the output if it fails.
check() {
  local name=$1 start=$SECONDS
  shift
  if "$@" >"$WORK/log" 2>&1 </dev/null; then
    passed=$((passed + 1))
    echo "ok      $name ($((SECONDS - start)) s) $(tail -n 1 "$WORK/log")"
  else
    failed=$((failed + 1))
    echo "FAILED  $name ($((SECONDS - start)) s)"
    tail -n 60 "$WORK/log"
  fi
}

# Code blocks of the pages come from files that something runs: this script, or
# the check.sh of an example. (The kernels are the library.)
code_from_files() {
  local page file
  for page in "$DOCS"/*.md; do
    if grep -nE '^ *(```|~~~) *[a-z]' "$page" ||
      [ "$(grep -c '^```$' "$page")" != "$(grep -c '^```{' "$page")" ]; then
      echo "$page: a code block that stands in the page itself"
      return 1
    fi
  done
  sed -nE 's|^```\{literalinclude\} ||p' "$DOCS"/*.md | sort -u >"$WORK/used"
  while read -r file; do
    case $file in
      snippets/*) grep -q "${file#*/}" "$0" "$DOCS/snippets/link.sh" ;;
      ../examples/*) [ -f "$DOCS/${file%/subprojects/*}/check.sh" ] ||
        [ -f "$DOCS/${file%/*}/check.sh" ] ;;
      ../kernels/*) [ -f "$DOCS/$file" ] ;;
      *) false ;;
    esac || {
      echo "$file: nothing runs it"
      return 1
    }
  done <"$WORK/used"
  echo "$(wc -l <"$WORK/used") files"
}

# The guide's own commands, one after another in one folder.
install_ffnorm() {
  PREFIX=$WORK/prefix BUILD=$WORK/build bash -euc "
    cd '$SOURCE'
    . '$DOCS/snippets/install.sh'
    pkg-config --modversion ffnorm"
}

in_snippets() {
  (cd "$WORK/snippets" && bash -euc "$1")
}

check "pages and their links" "$DOCS/build.sh" "$OUT"
check "code comes from files" code_from_files
if [ -z "$PREFIX" ]; then
  check "guide: install" install_ffnorm
  PREFIX=$WORK/prefix
fi
config=$(find "$PREFIX" -name ffnorm.pc 2>/dev/null | head -n 1)
export PKG_CONFIG_PATH=${config%/*}
cp -r "$DOCS/snippets" "$WORK/snippets"
check "guide: link and run, C99" in_snippets ". ./link.sh"
# shellcheck disable=SC2016  # for the shell that compiles
flags='$(pkg-config --cflags --libs --static ffnorm)'
warnings="-Wall -Wextra -Werror"
check "guide: packed weights in a file" in_snippets \
  "\${CC:-cc} -std=c99 $warnings store.c -o store $flags && ./store"
check "guide: threads" in_snippets \
  "\${CC:-cc} -std=c99 $warnings -fopenmp threads.c -o threads $flags &&
   ./threads"
check "guide: statuses" in_snippets \
  "\${CC:-cc} -std=c99 $warnings statuses.c -o statuses $flags && ./statuses"
check "guide: C++17" in_snippets \
  "\${CXX:-c++} -std=c++17 $warnings engine.cc -o engine_cc $flags -pthread &&
   ./engine_cc"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
