"""Finds a block's parameters in the tree that Flax Linen keeps them in."""
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

import jax
import jax.numpy as jnp

# What Linen calls the layers of a compact module with one nn.LayerNorm and two
# nn.Dense that were given no names.
NAMES = ("LayerNorm_0", "Dense_0", "Dense_1")


class Weights(NamedTuple):
    """In the order in which the pack handler takes them; None: there is none."""
    kernel_1: Any
    bias_1: Optional[Any]
    kernel_2: Any
    bias_2: Optional[Any]
    scale: Optional[Any]
    bias: Optional[Any]


def find_weights(params, names=NAMES):
    """The Weights in `params`, checked. See pre_ln for what is accepted."""
    if not isinstance(params, Mapping):
        raise TypeError("params must be a Linen parameter tree or what "
                        f"ffnorm_jax.pack returned, not {type(params).__name__}")
    if set(params) == {"params"}:
        params = params["params"]
    layer_norm, dense_1, dense_2 = names
    leaves = _leaves(params)
    found = [leaves.pop(path, None)
             for path in (f"{dense_1}/kernel", f"{dense_1}/bias",
                          f"{dense_2}/kernel", f"{dense_2}/bias",
                          f"{layer_norm}/scale", f"{layer_norm}/bias")]
    weights = Weights(*found)
    missing = [f"{dense}/kernel" for dense, kernel in
               ((dense_1, weights.kernel_1), (dense_2, weights.kernel_2))
               if kernel is None]
    if missing or leaves:
        raise ValueError(
            f"params are not those of one block with names={names}:"
            + (f" {', '.join(missing)} missing;" if missing else "")
            + (f" {', '.join(sorted(leaves))} not expected;" if leaves else ""))
    return _checked(weights, names)


def _leaves(tree, path=""):
    """{"Dense_0/kernel": array, ...}"""
    if not isinstance(tree, Mapping):
        return {path: tree}
    leaves = {}
    for name, value in tree.items():
        leaves |= _leaves(value, f"{path}/{name}" if path else str(name))
    return leaves


def _checked(weights, names):
    layer_norm, dense_1, dense_2 = names
    check_float32(f"{dense_1}/kernel", weights.kernel_1)
    if len(weights.kernel_1.shape) != 2 or 0 in weights.kernel_1.shape:
        raise ValueError(f"{dense_1}/kernel is {weights.kernel_1.shape}, "
                         "expected (d_model, d_ff)")
    d_model, d_ff = weights.kernel_1.shape
    for name, array, shape in (
            (f"{dense_1}/bias", weights.bias_1, (d_ff,)),
            (f"{dense_2}/kernel", weights.kernel_2, (d_ff, d_model)),
            (f"{dense_2}/bias", weights.bias_2, (d_model,)),
            (f"{layer_norm}/scale", weights.scale, (d_model,)),
            (f"{layer_norm}/bias", weights.bias, (d_model,))):
        if array is None:
            continue
        check_float32(name, array)
        if array.shape != shape:
            raise ValueError(
                f"{name} is {array.shape}, expected {shape} as {dense_1}/kernel "
                f"is {(d_model, d_ff)}; names={names} are in the order in which "
                "the layers run")
    # NumPy's arrays may change later: copies.
    return Weights(*(array if array is None or isinstance(array, jax.Array)
                     else jnp.array(array) for array in weights))


def check_float32(name, array):
    """Raises TypeError unless `array` is an array of float32."""
    dtype = getattr(array, "dtype", None)
    if dtype is None:
        raise TypeError(f"{name} is a {type(array).__name__}, not an array")
    if dtype != jnp.float32:
        raise TypeError(f"{name} is {dtype}; ffnorm computes in float32: cast "
                        "with astype(jnp.float32)")
