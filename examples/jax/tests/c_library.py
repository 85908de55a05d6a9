"""The C library through ctypes, without any of ffnorm_jax."""
import ctypes
import functools
import pathlib
import subprocess
import tempfile

import numpy as np

_FLOATS = ctypes.POINTER(ctypes.c_float)


class _Params(ctypes.Structure):
    """ffnorm_params"""
    _fields_ = [
        ("d_model", ctypes.c_size_t), ("d_ff", ctypes.c_size_t),
        ("layout", ctypes.c_uint), ("epsilon", ctypes.c_float),
        ("w1", _FLOATS), ("w1_stride", ctypes.c_size_t), ("b1", _FLOATS),
        ("w2", _FLOATS), ("w2_stride", ctypes.c_size_t), ("b2", _FLOATS),
        ("scale", _FLOATS), ("offset", _FLOATS)]


@functools.cache
def _library():
    source = pathlib.Path(__file__).with_name("c_library.c")
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "--static", "ffnorm"], check=True,
        stdout=subprocess.PIPE, text=True).stdout.split()
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/c_library.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library,
                        *flags], check=True)
        return ctypes.CDLL(library)


def run(which, order, x, weights, epsilon=1e-6):
    """y. which: "library" or "reference"; order: "pre_ln" or "post_ln";
    weights: (w1, b1, w2, b2, scale, offset), None where there is none."""
    arrays = [None if a is None else np.ascontiguousarray(a, np.float32)
              for a in weights]
    w1, b1, w2, b2, scale, offset = (
        None if a is None else a.ctypes.data_as(_FLOATS) for a in arrays)
    params = _Params(*arrays[0].shape, 0, epsilon, w1, 0, b1, w2, 0, b2, scale,
                     offset)
    x = np.ascontiguousarray(x, np.float32)
    y = np.full_like(x, np.nan)
    rows = x.size // x.shape[-1]
    status = getattr(_library(), f"run_{which}")(
        ctypes.byref(params), int(order == "post_ln"), ctypes.c_size_t(rows),
        x.ctypes.data_as(_FLOATS), y.ctypes.data_as(_FLOATS))
    assert status == 0, f"ffnorm status {status}"
    return y
