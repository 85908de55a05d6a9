"""Flax's blocks, and parameters and rows to try them on."""
import functools
import pathlib

import flax.linen as nn
import jax
import numpy as np

import ffnorm_jax

ORDERS = {"pre_ln": ffnorm_jax.pre_ln, "post_ln": ffnorm_jax.post_ln}
TRAINED = (pathlib.Path(__file__).resolve().parents[3]
           / "tests" / "data" / "golden" / "trained")


class Block(nn.Module):
    """An ordinary Linen module, which names its layers by itself."""
    order: str
    d_ff: int
    use_bias: bool = True
    epsilon: float = 1e-6

    @nn.compact
    def __call__(self, x):
        def layer_norm(v):
            return nn.LayerNorm(epsilon=self.epsilon, use_bias=self.use_bias,
                                use_scale=self.use_bias)(v)

        def ffn(z):
            options = dict(use_bias=self.use_bias, precision="highest")
            hidden = nn.relu(nn.Dense(self.d_ff, **options)(z))
            return nn.Dense(x.shape[-1], **options)(hidden)

        if self.order == "pre_ln":
            return x + ffn(layer_norm(x))
        return layer_norm(x + ffn(x))


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@functools.cache
def initialised(order, d_model, d_ff, **options):
    """As Flax begins: (module, variables, x)."""
    module = Block(order, d_ff, **options)
    x = normal(d_model, 2, 9, d_model)
    return module, jax.jit(module.init)(jax.random.key(d_ff), x), x


def trained(order, layer):
    """A block of the trained language models, and its own 64 rows."""
    folder = TRAINED / order.removesuffix("_ln") / f"ffn{layer}"
    array = {name: np.load(folder / f"{name}.npy")
             for name in ("x", "w1", "b1", "w2", "b2", "gamma", "beta")}
    tree = {"LayerNorm_0": {"scale": array["gamma"], "bias": array["beta"]},
            "Dense_0": {"kernel": array["w1"], "bias": array["b1"]},
            "Dense_1": {"kernel": array["w2"], "bias": array["b2"]}}
    variables = {"params": jax.tree.map(jax.numpy.asarray, tree)}
    return Block(order, array["b1"].size), variables, array["x"]


CASES = {
    "default": lambda order: initialised(order, 64, 256),
    "default, odd sizes": lambda order: initialised(order, 37, 101),
    "no biases": lambda order: initialised(order, 48, 80, use_bias=False),
    "epsilon": lambda order: initialised(order, 40, 33, epsilon=0.25),
    "trained 0": lambda order: trained(order, 0),
    "trained 1": lambda order: trained(order, 1),
    "trained 2": lambda order: trained(order, 2),
}


def flat(variables):
    """(w1, b1, w2, b2, scale, offset), None where there is none."""
    tree = variables["params"]
    layer_norm = tree.get("LayerNorm_0", {})
    return (tree["Dense_0"]["kernel"], tree["Dense_0"].get("bias"),
            tree["Dense_1"]["kernel"], tree["Dense_1"].get("bias"),
            layer_norm.get("scale"), layer_norm.get("bias"))


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return (a.dtype == b.dtype == np.float32 and a.shape == b.shape
            and np.array_equal(a.view(np.uint32), b.view(np.uint32)))
