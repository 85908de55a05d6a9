"""The shared object, and one thin function for each of its handlers.

Nothing here checks its arguments; the handlers check sizes.
"""
import ctypes
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

_library = ctypes.CDLL(str(pathlib.Path(__file__).with_name("_ffnorm.so")))
_library.ffnorm_jax_packed_bytes.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_library.ffnorm_jax_packed_bytes.restype = ctypes.c_size_t

for _name in ("forward", "dense", "layer_norm", "residual_add", "pack"):
    jax.ffi.register_ffi_target(
        f"ffnorm_jax_{_name}",
        jax.ffi.pycapsule(getattr(_library, f"ffnorm_jax_{_name}")),
        platform="cpu")


def _call(name, shape, dtype=jnp.float32, *, vmap_method):
    return jax.ffi.ffi_call(f"ffnorm_jax_{name}",
                            jax.ShapeDtypeStruct(shape, dtype),
                            vmap_method=vmap_method)


def _present(array):
    """An array of no elements stands for a parameter that a model lacks."""
    return jnp.zeros((0,), jnp.float32) if array is None else array


def forward(order, x, packed, *, threads):
    """order 0: Pre-LN, 1: Post-LN."""
    return _call("forward", x.shape, vmap_method="expand_dims")(
        x, packed, order=np.int32(order), tasks=np.int64(threads or 0))


def dense(x, packed, features, *, relu, threads):
    return _call("dense", (*x.shape[:-1], features), vmap_method="expand_dims")(
        x, packed, activation=np.int32(relu), tasks=np.int64(threads or 0))


def layer_norm(x, scale, bias, *, epsilon):
    return _call("layer_norm", x.shape, vmap_method="sequential")(
        x, _present(scale), _present(bias), epsilon=np.float32(epsilon))


def residual_add(x, v):
    return _call("residual_add", x.shape, vmap_method="broadcast_all")(x, v)


def pack(weights, *, epsilon):
    """`weights`: a Weights of _linen.py."""
    d_model, d_ff = weights.kernel_1.shape
    size = _library.ffnorm_jax_packed_bytes(d_model, d_ff)
    if size == 0:
        raise ValueError(f"no block of d_model {d_model}, d_ff {d_ff} exists")
    return _call("pack", (size,), jnp.uint8, vmap_method="sequential")(
        *map(_present, weights), epsilon=np.float32(epsilon))
