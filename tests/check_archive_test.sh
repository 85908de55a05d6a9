#!/bin/sh
# Shows that check_archive.sh finds each fault: it adds one to a copy of an
# archive, and expects the sentence that names it.
#
#     check_archive_test.sh ARCHIVE
set -eu
archive=$1
tests=$(dirname "$0")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# finds SENTENCE CODE [FLAG]: what the check says of an archive with this code.
finds() {
  cp "$archive" "$scratch/faulty.a"
  echo "$2" >"$scratch/fault.c"
  # shellcheck disable=SC2086  # there may be no flag
  gcc -O2 -fPIC ${3-} -c "$scratch/fault.c" -o "$scratch/fault.o"
  ar rs "$scratch/faulty.a" "$scratch/fault.o" 2>"$scratch/ar.log"
  if "$tests/check_archive.sh" "$scratch/faulty.a" >"$scratch/log" 2>&1; then
    echo "check_archive_test: not found: $2" >&2
    exit 1
  fi
  grep -q "$1" "$scratch/log" || {
    cat "$scratch/log" >&2
    echo "check_archive_test: found, but not as \"$1\": $2" >&2
    exit 1
  }
}

"$tests/check_archive.sh" "$archive"
finds 'without the prefix' 'int other(void) { return 1; }'
finds 'merges or replaces' \
  '__attribute__((weak)) int ffnorm_weak(void) { return 1; }'
finds 'merges or replaces' 'int ffnorm_common;' -fcommon
finds 'open symbols' 'void abort(void); void ffnorm_end(void) { abort(); }'
finds 'before main' \
  '__attribute__((constructor)) static void Run(void) { __asm__(""); }'
case $(uname -m) in
  x86_64)
    finds 'their target lacks' \
      'float ffnorm_twice(float x) { return x + x; }' -mavx2
    ;;
esac
echo "check_archive_test: each fault was found"
