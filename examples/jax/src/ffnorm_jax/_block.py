"""pre_ln and post_ln: packing, calling and differentiating a block."""
import dataclasses
import functools
from typing import Any, NamedTuple, Optional
import weakref

import jax
import jax.numpy as jnp
import numpy as np

from ffnorm_jax import _linen, _native

_PRE_LN = 0
_POST_LN = 1
_EPSILON = 1e-6  # nn.LayerNorm's


@functools.partial(jax.tree_util.register_dataclass, data_fields=["data"],
                   meta_fields=["d_model", "d_ff", "epsilon"])
@dataclasses.dataclass(frozen=True)
class Packed:
    """A block's weights as ffnorm reads them: a pytree of one uint8 array.

    Goes through jit, vmap (over a stack of them) and shard_map like any array,
    and holds copies of the weights, which are constants to grad.
    """
    data: jax.Array
    d_model: int
    d_ff: int
    epsilon: float


def pack(params, *, epsilon=_EPSILON, names=_linen.NAMES):
    """Packs `params` once, for many calls of pre_ln and post_ln.

    Meant to be passed as an argument to jitted functions, which then do not
    pack again. May be called under jit itself, say on sharded parameters.
    """
    return _pack(_linen.find_weights(params, names), _checked_epsilon(epsilon))


def pre_ln(x, params, *, epsilon=None, names=_linen.NAMES, threads=None):
    """y = x + FFN(LN(x)) with FFN(z) = relu(z W1 + b1) W2 + b2.

    Args:
      x: (..., d_model), float32.
      params: the tree of a Linen module with one nn.LayerNorm and two nn.Dense,
        with or without the outer "params"; or what `pack` returned. Layers
        that have no bias or scale are fine, anything else in the tree is not.
      epsilon: added to the variance. None: 1e-6, or what was packed.
      names: of the LayerNorm, and of the Dense layers in the order in which
        they run, with "/" between module and submodule. (Linen numbers them as
        they are made: in Dense(a)(relu(Dense(b)(z))) Dense_1 runs first.)
      threads: how many tasks to cut the work into. None: one for each thread
        that XLA has. The result does not depend on it.

    Returns:
      y, like x.

    The gradient is JAX's own of the same formula, by x and by params.
    """
    return _block(_PRE_LN, x, params, epsilon, names, threads)


def post_ln(x, params, *, epsilon=None, names=_linen.NAMES, threads=None):
    """y = LN(x + FFN(x)); see pre_ln."""
    return _block(_POST_LN, x, params, epsilon, names, threads)


def _block(order, x, params, epsilon, names, threads):
    _linen.check_float32("x", x)
    if isinstance(params, Packed):
        if epsilon is not None and np.float32(epsilon) != params.epsilon:
            raise ValueError(f"epsilon is {epsilon:g}, but was "
                             f"{params.epsilon:g} when the weights were packed")
        d_model, epsilon = params.d_model, params.epsilon
        weights, data = None, params.data
    else:
        weights = _linen.find_weights(params, names)
        d_model = weights.kernel_2.shape[1]
        epsilon = _checked_epsilon(_EPSILON if epsilon is None else epsilon)
        data = _cache.get(weights, epsilon)
    if len(x.shape) < 1 or x.shape[-1] != d_model:
        raise ValueError(f"x is {x.shape}, expected (..., {d_model}) as the "
                         f"weights have d_model {d_model}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads is {threads}, expected 1 or more")
    d_ff = params.d_ff if weights is None else weights.kernel_1.shape[1]
    return _run_compiled(_Call(order, epsilon, threads, d_ff), x, weights, data)


def _checked_epsilon(epsilon):
    if not 0 <= epsilon <= float(np.finfo(np.float32).max):
        raise ValueError(f"epsilon is {epsilon}, expected a finite number >= 0")
    return float(np.float32(epsilon))


# ---- Packing ----------------------------------------------------------------


@functools.partial(jax.jit, static_argnames="epsilon")
def _pack_data(weights, epsilon):
    return _native.pack(weights, epsilon=epsilon)


def _pack(weights, epsilon):
    d_model, d_ff = weights.kernel_1.shape
    return Packed(_pack_data(weights, epsilon), d_model, d_ff, epsilon)


class _Cache:
    """Packed weights of arrays that are still alive.

    An entry is found by the identity of its arrays, which JAX never changes,
    and goes when the first of them does: it refers to them weakly, and the
    callbacks belong to the entry, so nothing is left behind either way.
    """

    def __init__(self):
        self._entries = {}

    def __len__(self):
        return len(self._entries)

    def get(self, weights, epsilon):
        """None where values are not known (under jit, grad or vmap)."""
        arrays = [array for array in weights if array is not None]
        if any(isinstance(array, jax.core.Tracer) for array in arrays):
            return None
        key = (epsilon, *map(id, weights))
        entry = self._entries.get(key)
        if entry is None:
            # A jit around the caller must not make this part of its program.
            with jax.ensure_compile_time_eval():
                data = _pack_data(weights, epsilon)
            drop = functools.partial(self._drop, key)
            entry = (data, [weakref.ref(array, drop) for array in arrays])
            self._entries[key] = entry
        return entry[0]

    def _drop(self, key, _):
        self._entries.pop(key, None)


_cache = _Cache()


def _unpack(call, data, d_model):
    """The Weights in packed data, as kernels/CONTRACT.md lays them out."""
    width = 32
    values = jax.lax.bitcast_convert_type(data[128:].reshape(-1, 4),
                                          jnp.float32)

    def take(count):
        nonlocal values
        taken, values = values[:count], values[count:]
        return taken

    def dense(inputs, outputs):
        panels = -(-outputs // width)
        rows = take(panels * (inputs + 1) * width)
        rows = rows.reshape(panels, inputs + 1, width).swapaxes(0, 1)
        rows = rows.reshape(inputs + 1, panels * width)[:, :outputs]
        return rows[1:], rows[0]

    padded = -(-d_model // width) * width
    scale, bias = take(padded)[:d_model], take(padded)[:d_model]
    return _linen.Weights(*dense(d_model, call.d_ff), *dense(call.d_ff, d_model),
                          scale, bias)


# ---- Calling and differentiating --------------------------------------------


class _Call(NamedTuple):
    """What is fixed when a call is traced."""
    order: int
    epsilon: float
    threads: Optional[int]
    d_ff: int


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _run(call, x, weights, data):
    """One of weights and data may be None: the other one has all."""
    if data is None:
        data = _native.pack(weights, epsilon=call.epsilon)
    return _native.forward(call.order, x, data, threads=call.threads)


def _run_forward(call, x, weights, data):
    return _run(call, x, weights, data), (x, weights, data)


def _run_backward(call, saved, dy):
    x, weights, data = saved
    if weights is None:
        weights = _unpack(call, data, x.shape[-1])
        _, vjp = jax.vjp(lambda x: _formula(call, x, weights), x)
        return *vjp(dy), None, None
    _, vjp = jax.vjp(functools.partial(_formula, call), x, weights)
    return *vjp(dy), None


_run.defvjp(_run_forward, _run_backward)
_run_compiled = jax.jit(_run, static_argnums=0)


def _formula(call, x, weights: _linen.Weights) -> Any:
    """The block in plain JAX: its gradient is the gradient of _run."""

    def layer_norm(v):
        v = v - v.mean(-1, keepdims=True)
        v = v * jax.lax.rsqrt((v * v).mean(-1, keepdims=True) + call.epsilon)
        v = v if weights.scale is None else v * weights.scale
        return v if weights.bias is None else v + weights.bias

    def dense(v, kernel, bias):
        v = jnp.dot(v, kernel, precision=jax.lax.Precision.HIGHEST)
        return v if bias is None else v + bias

    def ffn(z):
        hidden = jax.nn.relu(dense(z, weights.kernel_1, weights.bias_1))
        return dense(hidden, weights.kernel_2, weights.bias_2)

    if call.order == _PRE_LN:
        return x + ffn(layer_norm(x))
    return layer_norm(x + ffn(x))
