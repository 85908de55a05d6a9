"""A block shared among the devices of a mesh, here all of one process."""
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P
import pytest

from blocks import ORDERS, flat, initialised, same_bits, trained
import c_library
import ffnorm_jax
from ffnorm_jax import columns


@pytest.mark.parametrize("devices", [1, 2, 4])
@pytest.mark.parametrize("case", ["trained", "no biases"])
def test_shared(order, devices, case):
    _, variables, x = (trained(order, 1) if case == "trained" else
                       initialised(order, 48, 80, use_bias=False))
    x = jnp.asarray(x).reshape(-1, x.shape[-1])[:16]
    expected = c_library.run("library", order, x, flat(variables))
    mesh = Mesh(jax.devices()[:devices], "d")

    by_column = columns.pack(variables, mesh, "d")
    run = {"pre_ln": columns.pre_ln, "post_ln": columns.post_ln}[order]
    assert same_bits(run(x, by_column), expected)
    assert same_bits(jax.jit(run)(x, by_column), expected)

    by_row = jax.jit(jax.shard_map(ORDERS[order], mesh=mesh,
                                   in_specs=(P("d"), P()), out_specs=P("d")))
    assert same_bits(by_row(x, ffnorm_jax.pack(variables)), expected)
    assert same_bits(by_row(x, variables), expected)


def test_columns_that_cannot_be_shared():
    _, variables, _ = initialised("pre_ln", 37, 100)
    with pytest.raises(ValueError, match="d_model 37 is not divisible by the 2"):
        columns.pack(variables, Mesh(jax.devices()[:2], "d"), "d")
