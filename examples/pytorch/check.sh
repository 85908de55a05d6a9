#!/bin/bash
# TORCH_PYTHON=python names an interpreter that has PyTorch; otherwise one that
# is found, and on Debian the distribution's is installed. (PyPI's would bring
# some gigabytes of CUDA along.)
set -eu
# shellcheck source=examples/check_lib.sh
. "$EXAMPLES/check_lib.sh"
need_command meson meson
need_command ninja ninja-build
need_command pkg-config pkg-config
need_prefix

has_torch() { "$1" -c 'import torch' 2>/dev/null; }

find_torch() {
  local python
  for python in "${TORCH_PYTHON:-python3}" /usr/bin/python3; do
    if has_torch "$python"; then
      base=$python
      return
    fi
  done
  return 1
}

# With the reference BLAS, which may be there instead, eager would be slow.
install_torch() {
  apt_install python3-torch libtorch-dev libopenblas0-pthread
}

find_torch || { install_torch && find_torch; } ||
  skip "needs PyTorch (Debian: apt install python3-torch libtorch-dev)"
site=$("$base" -c 'import os, torch; print(os.path.dirname(torch.__path__[0]))')
[ -f "$site/torch/include/torch/library.h" ] ||
  need_header torch/library.h libtorch-dev

# An environment of its own that sees torch, so that nothing is installed next
# to it.
"$base" -c 'import ensurepip, venv' 2>/dev/null ||
  apt_install python3-venv || skip "needs python3 -m venv"
"$base" -m venv "$WORK/venv" || skip "python3 -m venv failed"
python=$WORK/venv/bin/python
echo "$site" >"$("$python" -c \
  'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
"$python" -m pip install --quiet meson-python ||
  skip "needs meson-python, which pip could not install"
"$python" -m pip install --quiet --no-deps ruaccent-predictor==1.2.0 ||
  skip "needs ruaccent-predictor, which pip could not install"

cp -r "$(dirname "$0")" "$WORK/source"
cd "$WORK/source"
"$python" -m pip install --no-build-isolation --no-deps \
  --config-settings=setup-args=-Dwerror=true .
cd tests
"$python" -m unittest -v
"$python" figures.py
