"""What is taken as parameters, what is refused and how, and what is kept."""
import gc
import os
import subprocess
import sys
import weakref

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blocks import ORDERS, initialised, same_bits
import ffnorm_jax
from ffnorm_jax import _block


@pytest.fixture
def run(order):
    return ORDERS[order]


@pytest.fixture
def tree(order):
    """Its own arrays each time."""
    return jax.tree.map(jnp.copy, initialised(order, 16, 24)[1]["params"])


X = np.ones((2, 16), np.float32)

# ---- Names ------------------------------------------------------------------


def test_with_and_without_params(run, tree):
    assert same_bits(run(X, {"params": tree}), run(X, tree))


def test_other_names(run, tree):
    nested = {"ln": tree["LayerNorm_0"],
              "ffn": {"dense1": tree["Dense_0"], "dense2": tree["Dense_1"]}}
    names = ("ln", "ffn/dense1", "ffn/dense2")
    assert same_bits(run(X, nested, names=names), run(X, tree))
    with pytest.raises(ValueError, match="Dense_0/kernel, Dense_1/kernel missing"):
        run(X, nested)


def test_dense_layers_made_in_the_other_order(run):
    """Python makes the outer one of nested calls first."""
    class Nested(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.LayerNorm()(x + nn.Dense(16)(nn.relu(nn.Dense(24)(x))))

    tree = Nested().init(jax.random.key(1), X)["params"]
    assert tree["Dense_0"]["kernel"].shape == (24, 16)
    with pytest.raises(ValueError, match="in the order in which the layers run"):
        run(X, tree)
    renamed = {**tree, "Dense_0": tree["Dense_1"], "Dense_1": tree["Dense_0"]}
    names = ("LayerNorm_0", "Dense_1", "Dense_0")
    assert same_bits(run(X, tree, names=names), run(X, renamed))


def test_numpy_arrays(run, tree):
    """These may change: they are looked at anew in each call."""
    copies = jax.tree.map(np.array, tree)
    assert same_bits(run(X, copies), run(X, tree))
    copies["Dense_1"]["bias"] += 1
    assert not same_bits(run(X, copies), run(X, tree))


# ---- Errors -----------------------------------------------------------------


def changed(tree, layer, name, value):
    return {**tree, layer: {**tree[layer], name: value}}


@pytest.mark.parametrize("error, said, change", [
    (ValueError, r"Dense_1/kernel missing", lambda t: {
        k: v for k, v in t.items() if k != "Dense_1"}),
    (ValueError, r"Dense_2/kernel not expected", lambda t: {
        **t, "Dense_2": {"kernel": np.ones((16, 16), np.float32)}}),
    (ValueError, r"Dense_1/kernel is \(16, 24\), expected \(24, 16\)",
     lambda t: changed(t, "Dense_1", "kernel", t["Dense_0"]["kernel"])),
    (ValueError, r"Dense_0/kernel is \(24,\), expected \(d_model, d_ff\)",
     lambda t: changed(t, "Dense_0", "kernel", t["Dense_0"]["bias"])),
    (ValueError, r"LayerNorm_0/scale is \(1,\), expected \(16,\)",
     lambda t: changed(t, "LayerNorm_0", "scale", np.ones(1, np.float32))),
    (TypeError, r"Dense_0/bias is bfloat16; ffnorm computes in float32",
     lambda t: changed(t, "Dense_0", "bias", jnp.ones(24, jnp.bfloat16))),
    (TypeError, r"Dense_0/bias is float64",
     lambda t: changed(t, "Dense_0", "bias", np.ones(24))),
    (TypeError, r"Dense_0/bias is a list", lambda t: changed(
        t, "Dense_0", "bias", [1.0] * 24)),
    (TypeError, r"not list", lambda t: [t]),
])
def test_bad_params(run, tree, error, said, change):
    with pytest.raises(error, match=said):
        run(X, change(tree))


def test_bad_params_under_jit(run, tree):
    with pytest.raises(ValueError, match=r"Dense_1/kernel is \(16, 24\)"):
        jax.jit(run)(X, changed(tree, "Dense_1", "kernel",
                                tree["Dense_0"]["kernel"]))


@pytest.mark.parametrize("error, said, x", [
    (ValueError, r"x is \(2, 17\), expected \(\.\.\., 16\)",
     np.ones((2, 17), np.float32)),
    (ValueError, r"x is \(\), expected", np.float32(1)),
    (TypeError, r"x is float16", np.ones((2, 16), np.float16)),
    (TypeError, r"x is int32", np.ones((2, 16), np.int32)),
    (TypeError, r"x is a list", [[1.0] * 16]),
])
def test_bad_x(run, tree, error, said, x):
    with pytest.raises(error, match=said):
        run(x, tree)
    with pytest.raises(error, match=said):
        run(x, ffnorm_jax.pack(tree))


@pytest.mark.parametrize("epsilon", [-1e-6, np.nan, np.inf, 1e39])
def test_bad_epsilon(run, tree, epsilon):
    for call in (lambda: run(X, tree, epsilon=epsilon),
                 lambda: ffnorm_jax.pack(tree, epsilon=epsilon)):
        with pytest.raises(ValueError, match="epsilon is"):
            call()


def test_other_epsilon_than_packed(run, tree):
    packed = ffnorm_jax.pack(tree, epsilon=1e-5)
    assert same_bits(run(X, packed), run(X, tree, epsilon=1e-5))
    assert same_bits(run(X, packed, epsilon=1e-5), run(X, packed))
    with pytest.raises(ValueError, match="epsilon is 1e-06, but was 1e-05"):
        run(X, packed, epsilon=1e-6)


def test_bad_threads(run, tree):
    with pytest.raises(ValueError, match="threads is 0"):
        run(X, tree, threads=0)


def test_a_status_becomes_an_error(run, tree):
    """Bytes that are no packed block, or a damaged one."""
    packed = ffnorm_jax.pack(tree)
    for data, said in (
            (jnp.zeros_like(packed.data), "ffnorm: "),
            (packed.data.at[40].add(1), "ffnorm: "),
            (packed.data[:-128], "ffnorm: ")):
        damaged = ffnorm_jax.Packed(data, 16, 24, packed.epsilon)
        with pytest.raises(jax.errors.JaxRuntimeError, match=said):
            jax.block_until_ready(run(X, damaged))


def test_sizes_are_checked_natively(run, tree):
    packed = ffnorm_jax.pack(tree)
    lie = ffnorm_jax.Packed(packed.data, 17, 24, packed.epsilon)
    with pytest.raises(jax.errors.JaxRuntimeError, match="ffnorm: "):
        jax.block_until_ready(run(np.ones((2, 17), np.float32), lie))


def test_unknown_target():
    """In a process of its own, as the target is looked up once."""
    code = ("import numpy as np, jax, ffnorm_jax; from ffnorm_jax import stages;"
            "stages.residual_add(*np.ones((2, 3, 4), 'f'))")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True,
                            text=True, env={**os.environ,
                                            "FFNORM_TARGET": "PENTIUM"})
    assert result.returncode != 0 and "ffnorm: " in result.stderr


# ---- The cache --------------------------------------------------------------


@pytest.fixture
def packings(monkeypatch):
    """The calls that pack outside of any program."""
    calls = []
    pack = _block._pack_data
    monkeypatch.setattr(_block, "_pack_data",
                        lambda *a: calls.append(1) or pack(*a))
    return calls


def test_packs_once(run, tree, packings):
    before = len(_block._cache)
    for _ in range(3):
        run(X, tree)
        jax.grad(lambda x: run(x, tree).sum())(X)
        jax.vmap(lambda x: run(x, tree))(X)
        jax.jit(lambda x: run(x, tree))(X)
    # Another tree around the same arrays.
    run(X, {"params": jax.tree.map(lambda a: a, tree)})
    assert len(packings) == 1
    run(X, tree, epsilon=0.5)
    assert len(packings) == 2 and len(_block._cache) == before + 2


def test_other_arrays_are_packed_anew(run, tree, packings):
    y = run(X, tree)
    other = changed(tree, "Dense_1", "bias", tree["Dense_1"]["bias"] + 1)
    assert not same_bits(run(X, other), y)
    assert same_bits(run(X, tree), y)
    assert len(packings) == 2


def test_nothing_is_kept(run, tree):
    """An entry goes with the first of its arrays, though others live on."""
    gc.collect()
    before = len(_block._cache)
    bias = tree["Dense_1"]["bias"]
    for _ in range(20):
        run(X, jax.tree.map(lambda a: a if a is bias else a + 1, tree))
    gc.collect()
    assert len(_block._cache) == before
    assert weakref.getweakrefcount(bias) == 0


def test_packed_arguments_are_not_packed_again(run, tree):
    packed = ffnorm_jax.pack(tree)
    with_packed = jax.jit(run).lower(X, packed).as_text()
    with_params = jax.jit(run).lower(X, tree).as_text()
    assert "ffnorm_jax_pack" not in with_packed
    assert "ffnorm_jax_pack" in with_params
