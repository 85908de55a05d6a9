#!/bin/bash
set -eu
# shellcheck source=examples/check_lib.sh
. "$EXAMPLES/check_lib.sh"
need_command cc gcc
need_command c++ g++
need_command pkg-config pkg-config
need_header hwy/highway.h libhwy-dev
need_prefix
need_python jax flax pytest meson-python meson ninja
PATH=${PYTHON%/*}:$PATH

# A copy of the tree, as building links and compiles in it.
tree=$WORK/tree
mkdir -p "$tree/examples" "$tree/tests"
cp -r "$(dirname "$0")" "$tree/examples/jax"
for part in meson.build meson_options.txt cmake include kernels; do
  ln -s "$SOURCE/$part" "$tree/$part"
done
ln -s "$SOURCE/tests/data" "$tree/tests/data"
cd "$tree/examples/jax"

# install BUILD: what a user's `pip install .` does, but with the tools that are
# here; the folder BUILD keeps pip's two steps from compiling twice.
install() {
  "$PYTHON" -m pip install --quiet --no-build-isolation --no-deps \
    --force-reinstall --config-settings=build-dir="$WORK/$1" .
}

# From source: no installed ffnorm is in sight.
PKG_CONFIG_PATH='' PKG_CONFIG_LIBDIR=$WORK/empty install from_source
[ -e subprojects/ffnorm ] || fail "the source tree was not used"
"$PYTHON" -m pytest tests/test_readme.py
rm subprojects/ffnorm

# With the installed one, and all tests.
install with_prefix
[ ! -e subprojects/ffnorm ] || fail "the installed ffnorm was not used"
"$PYTHON" -m pytest | tee "$WORK/tests"
"$PYTHON" two_processes.py --rows 64 | tee "$WORK/table"

tests=$(grep -oE '^[0-9]+ passed' "$WORK/tests")
awk -v tests="$tests" '
  $1 == "post_ln" { figure[$3] = $6 " ms"; if ($5 > 0) moved = $5 }
  END {
    printf "%s, bits of the C library; 64 rows of (512,2048): one process %s, " \
      "2 by rows %s, by columns %s (%s KiB moved)\n",
      tests, figure["no"], figure["rows"], figure["columns"], moved
  }' "$WORK/table"
