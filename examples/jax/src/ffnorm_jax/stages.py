"""The stages of a block alone, for those who put one together themselves.

They have the bits of the same stage inside a block. Forward only: none has a
gradient.
"""
import dataclasses
import functools

import jax
import jax.numpy as jnp

from ffnorm_jax import _native
from ffnorm_jax._linen import Weights, check_float32


@functools.partial(jax.tree_util.register_dataclass, data_fields=["data"],
                   meta_fields=["inputs", "features"])
@dataclasses.dataclass(frozen=True)
class PackedDense:
    """One Dense layer as ffnorm reads it: a pytree of one uint8 array."""
    data: jax.Array
    inputs: int
    features: int


def pack_dense(kernel, bias=None):
    """Packs a kernel (inputs, features) and its bias (features,) or None.

    ffnorm packs whole blocks only: the other layer of this one is zeros, so
    the array has twice the size of the kernel.
    """
    check_float32("kernel", kernel)
    if bias is not None:
        check_float32("bias", bias)
    if len(kernel.shape) != 2 or 0 in kernel.shape:
        raise ValueError(f"kernel is {kernel.shape}, expected (inputs, features)")
    inputs, features = kernel.shape
    if bias is not None and bias.shape != (features,):
        raise ValueError(f"bias is {bias.shape}, expected {(features,)}")
    zeros = jnp.zeros((features, inputs), jnp.float32)
    data = _native.pack(Weights(kernel, bias, zeros, None, None, None),
                        epsilon=0.0)
    return PackedDense(data, inputs, features)


def dense(x, packed, *, relu=False, threads=None):
    """x (..., inputs) times the kernel, plus the bias, and then ReLU or not."""
    _check_rows("x", x, packed.inputs)
    return _native.dense(x, packed.data, packed.features, relu=relu,
                         threads=threads)


def layer_norm(x, scale=None, bias=None, *, epsilon=1e-6):
    """LN over the last axis."""
    check_float32("x", x)
    for name, array in (("scale", scale), ("bias", bias)):
        if array is not None:
            _check_rows(name, array, x.shape[-1])
    return _native.layer_norm(x, scale, bias, epsilon=epsilon)


def residual_add(x, v):
    """x + v, of the same shape."""
    check_float32("x", x)
    check_float32("v", v)
    if x.shape != v.shape:
        raise ValueError(f"x is {x.shape}, but v is {v.shape}")
    return _native.residual_add(x, v)


def _check_rows(name, array, width):
    check_float32(name, array)
    if not array.shape or array.shape[-1] != width:
        raise ValueError(f"{name} is {array.shape}, expected (..., {width})")
