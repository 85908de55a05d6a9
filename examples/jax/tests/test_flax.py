"""Values and gradients against Flax, which runs here and now."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blocks import ORDERS, flat, initialised
from error_bound import true_value_and_bound
import ffnorm_jax


def in_float64(function, *arguments):
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda a: jnp.asarray(np.float64(a)), arguments)
        return jax.tree.map(np.asarray, jax.jit(function)(*wide))


def test_value(order, case):
    module, variables, x = case
    y = ORDERS[order](x, variables, epsilon=module.epsilon)
    truth = in_float64(module.apply, variables, x)
    value, bound = true_value_and_bound(order, x, flat(variables),
                                        module.epsilon)
    # The bound is one for Flax's function: float64 against float64.
    np.testing.assert_allclose(value, truth, rtol=1e-10, atol=1e-10)
    assert y.dtype == jnp.float32 and y.shape == x.shape
    assert np.all(np.abs(y - truth) <= bound)
    # Nor would the other order pass for it.
    other = ORDERS["post_ln" if order == "pre_ln" else "pre_ln"]
    wrong = other(x, variables, epsilon=module.epsilon)
    assert np.max(np.abs(wrong - truth)) > 0.1 * np.max(np.abs(truth))


def test_gradients(order, case):
    """No further from Flax's float64 gradients than 4 times Flax's own float32
    ones are, in the largest element of each array."""
    module, variables, x = case
    weight = np.cos(np.arange(x.size, dtype=np.float32)).reshape(x.shape)

    def flax_loss(variables, x):
        return (module.apply(variables, x) * weight).sum()

    def loss(variables, x):
        y = ORDERS[order](x, variables, epsilon=module.epsilon)
        return (y * weight).sum()

    def gradients(loss):
        return jax.jit(jax.grad(loss, argnums=(0, 1)))

    truth = in_float64(gradients(flax_loss), variables, x)
    x = jnp.asarray(x)
    flax = gradients(flax_loss)(variables, x)
    ours = gradients(loss)(variables, x)
    assert jax.tree.structure(ours) == jax.tree.structure(truth)

    def check(ours, flax, truth):
        error, allowed = (np.max(np.abs(g - truth)) for g in (ours, flax))
        assert error <= 4 * allowed
        assert np.max(np.abs(truth)) > 0

    jax.tree.map(check, ours, flax, truth)


def test_gradient_with_packed_weights(order, case):
    """By x alone: the weights are constants, read from the packed array."""
    module, variables, x = case
    packed = ffnorm_jax.pack(variables, epsilon=module.epsilon)

    def gradient(params):
        return jax.grad(lambda x: (ORDERS[order](x, params,
                                   epsilon=module.epsilon) ** 2).sum())(x)

    np.testing.assert_allclose(gradient(packed), gradient(variables), rtol=1e-5,
                               atol=1e-6 * np.max(np.abs(gradient(variables))))


def test_per_example_gradients(order):
    """vmap of grad is grad of each."""
    _, variables, x = initialised(order, 37, 101)

    def loss(params, x):
        return (ORDERS[order](x, params) ** 2).sum()

    together = jax.vmap(jax.grad(loss), in_axes=(None, 0))(variables, x)
    for i, row in enumerate(x):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(
            a[i], b, rtol=1e-4, atol=1e-4), together,
            jax.grad(loss)(variables, jnp.asarray(row)))


def test_no_forward_mode(order):
    """As with every custom_vjp, jvp says so."""
    _, variables, x = initialised(order, 37, 101)
    with pytest.raises(TypeError, match="forward-mode|jvp"):
        jax.jvp(lambda x: ORDERS[order](x, variables), (x,), (x,))
