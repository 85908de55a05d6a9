"""The stages alone, and a block put together of them."""
import jax
import numpy as np
import pytest

from blocks import flat, same_bits
import c_library
from ffnorm_jax import stages


def test_a_block_of_stages(order, case):
    module, variables, x = case
    w1, b1, w2, b2, scale, offset = flat(variables)

    def layer_norm(v):
        return stages.layer_norm(v, scale, offset, epsilon=module.epsilon)

    def ffn(z):
        hidden = stages.dense(z, stages.pack_dense(w1, b1), relu=True)
        return stages.dense(hidden, stages.pack_dense(w2, b2))

    def block(x):
        if order == "pre_ln":
            return stages.residual_add(x, ffn(layer_norm(x)))
        return layer_norm(stages.residual_add(x, ffn(x)))

    expected = c_library.run("library", order, x, flat(variables),
                             module.epsilon)
    for run in (block, jax.jit(block), jax.vmap(block)):
        assert same_bits(run(x), expected)


def test_bad_arguments():
    ones = np.ones((2, 3), np.float32)
    for said, call in (
            ("kernel is", lambda: stages.pack_dense(ones[0])),
            ("bias is", lambda: stages.pack_dense(ones, ones[0, :2])),
            ("x is", lambda: stages.dense(ones, stages.pack_dense(ones))),
            ("scale is", lambda: stages.layer_norm(ones, ones[0, :2])),
            ("v is", lambda: stages.residual_add(ones, ones[0]))):
        with pytest.raises(ValueError, match=said):
            call()
    with pytest.raises(TypeError, match="x is float64"):
        stages.layer_norm(np.ones((2, 3)))
