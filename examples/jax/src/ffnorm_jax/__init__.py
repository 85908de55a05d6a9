"""The residual feed-forward block of a transformer, on the CPU, by ffnorm.

    pre_ln(x, params)     y = x + FFN(LN(x))
    post_ln(x, params)    y = LN(x + FFN(x))

`params` is what Flax Linen's init returned. Both work under jit, vmap and grad,
and give the bits of ffnorm's C library. `ffnorm_jax.columns` shares a block
among devices, `ffnorm_jax.stages` has its stages alone.
"""
from ffnorm_jax._block import Packed, pack, post_ln, pre_ln
from ffnorm_jax._linen import NAMES

__all__ = ["NAMES", "Packed", "pack", "post_ln", "pre_ln"]
