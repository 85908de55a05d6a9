"""A block whose weights are cut by columns among the devices of a mesh.

    packed = columns.pack(params, mesh, "devices")     # once
    y = columns.pre_ln(x, packed)                      # under jit or not

Each device has some columns of d_ff and of d_model. It makes its own hidden
units and gathers those of the others, makes its own columns of the result, and
gathers these. No sum is ever split, so the bits are those of one device.

(To share rows nothing of this is needed: call ffnorm_jax.pre_ln in a shard_map
whose x is cut by rows.) Forward only, as the stages are.
"""
import dataclasses
import functools
from typing import Optional

import jax
from jax.sharding import Mesh, PartitionSpec as P

from ffnorm_jax import _linen, stages


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["dense_1", "dense_2", "scale", "bias"],
    meta_fields=["mesh", "axis", "d_model", "d_ff", "epsilon"])
@dataclasses.dataclass(frozen=True)
class Columns:
    """The packed columns of each device, and LayerNorm whole on each."""
    dense_1: jax.Array  # PackedDense.data of each device, one after another
    dense_2: jax.Array
    scale: Optional[jax.Array]
    bias: Optional[jax.Array]
    mesh: Mesh
    axis: str
    d_model: int
    d_ff: int
    epsilon: float


def pack(params, mesh, axis, *, epsilon=1e-6, names=_linen.NAMES):
    """Packs the columns of `params` on the devices along an axis of `mesh`.

    Kernels that are sharded already, as P(None, axis), stay where they are.
    """
    weights = _linen.find_weights(params, names)
    d_model, d_ff = weights.kernel_1.shape
    for name, size in (("d_model", d_model), ("d_ff", d_ff)):
        if size % mesh.shape[axis] != 0:
            raise ValueError(f"{name} {size} is not divisible by the "
                             f"{mesh.shape[axis]} devices of {axis!r}")

    @jax.jit
    @functools.partial(jax.shard_map, mesh=mesh,
                       in_specs=(P(None, axis), P(axis)), out_specs=P(axis))
    def pack_dense(kernel, bias):
        return stages.pack_dense(kernel, bias).data

    return Columns(pack_dense(weights.kernel_1, weights.bias_1),
                   pack_dense(weights.kernel_2, weights.bias_2),
                   weights.scale, weights.bias, mesh, axis, d_model, d_ff,
                   epsilon)


def pre_ln(x, packed, *, threads=None):
    """y = x + FFN(LN(x)), x (..., d_model) and y whole on each device."""
    return _block(True, x, packed, threads)


def post_ln(x, packed, *, threads=None):
    """y = LN(x + FFN(x)); see pre_ln."""
    return _block(False, x, packed, threads)


@functools.partial(jax.jit, static_argnames=("norm_first", "threads"))
def _block(norm_first, x, packed, threads):
    axis, d_model, d_ff = packed.axis, packed.d_model, packed.d_ff
    devices = packed.mesh.shape[axis]
    own_columns = d_model // devices

    # all_gather makes y whole on each device; shard_map cannot tell by itself.
    @functools.partial(
        jax.shard_map, mesh=packed.mesh, out_specs=P(), check_vma=False,
        in_specs=(P(), P(axis), P(axis), P(), P()))
    def on_each_device(x, dense_1, dense_2, scale, bias):
        dense_1 = stages.PackedDense(dense_1, d_model, d_ff // devices)
        dense_2 = stages.PackedDense(dense_2, d_ff, own_columns)

        def layer_norm(v):
            return stages.layer_norm(v, scale, bias, epsilon=packed.epsilon)

        def gather(v):
            return jax.lax.all_gather(v, axis, axis=v.ndim - 1, tiled=True)

        z = layer_norm(x) if norm_first else x
        hidden = gather(stages.dense(z, dense_1, relu=True, threads=threads))
        v = stages.dense(hidden, dense_2, threads=threads)
        own_x = jax.lax.dynamic_slice_in_dim(
            x, jax.lax.axis_index(axis) * own_columns, own_columns, axis=-1)
        y = gather(stages.residual_add(own_x, v))
        return y if norm_first else layer_norm(y)

    return on_each_device(x, packed.dense_1, packed.dense_2, packed.scale,
                          packed.bias)
