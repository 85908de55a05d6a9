"""The bits of the C library, whatever JAX makes of the call."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blocks import CASES, ORDERS, flat, initialised, normal, same_bits, trained
import c_library
import ffnorm_jax


@pytest.fixture
def run(order):
    return ORDERS[order]


def test_library_and_reference(order, run, case):
    module, variables, x = case
    y = run(x, variables, epsilon=module.epsilon)
    for which in ("library", "reference"):
        assert same_bits(y, c_library.run(which, order, x, flat(variables),
                                          module.epsilon)), which


@pytest.mark.parametrize("name", ["default, odd sizes", "no biases",
                                  "trained 0"])
def test_transformations(order, run, name):
    module, variables, x = CASES[name](order)
    x = jnp.asarray(x)
    expected = c_library.run("library", order, x, flat(variables),
                             module.epsilon)
    packed = ffnorm_jax.pack(variables, epsilon=module.epsilon)
    whole = functools.partial(run, epsilon=module.epsilon)

    def value(params, x):
        y = whole(x, params)
        return y.sum(), y

    def with_gradient(by):
        return jax.value_and_grad(value, argnums=by, has_aux=True)

    results = {
        "jit, weights traced": jax.jit(whole)(x, variables),
        "jit, weights constant": jax.jit(lambda x: whole(x, variables))(x),
        "packed": whole(x, packed),
        "jit, packed": jax.jit(whole)(x, packed),
        "packed under jit": jax.jit(lambda x, v: whole(
            x, ffnorm_jax.pack(v, epsilon=module.epsilon)))(x, variables),
        "vmap": jax.vmap(lambda x: whole(x, variables))(x),
        "vmap, packed": jax.vmap(whole, in_axes=(0, None))(x, packed),
        "vmap along the second axis": jax.vmap(
            whole, in_axes=(x.ndim - 2, None), out_axes=x.ndim - 2)(x, packed),
        "jit of vmap": jax.jit(jax.vmap(whole, in_axes=(0, None)))(
            x, variables),
        "vmap of jit": jax.vmap(jax.jit(whole), in_axes=(0, None))(
            x, variables),
        "value and gradient": with_gradient((0, 1))(variables, x)[0][1],
        "jit of these": jax.jit(with_gradient((0, 1)))(variables, x)[0][1],
        "packed, gradient by x": with_gradient(1)(packed, x)[0][1],
        "remat": jax.jit(jax.checkpoint(whole))(x, variables),
        "scan": jax.lax.scan(lambda c, x: (c, whole(x, packed)), 0, x)[1],
    }
    wrong = [name for name, y in results.items() if not same_bits(y, expected)]
    assert not wrong


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 1, 3), (0,),
                                   (3, 0, 2)])
def test_leading_axes(order, run, shape):
    _, variables, _ = initialised(order, 37, 101)
    x = normal(1, *shape, 37)
    assert same_bits(run(x, variables),
                     c_library.run("library", order, x, flat(variables)))


def test_vmap_over_weights(order, run):
    """A stack of models, on rows of their own and on shared ones."""
    _, variables, _ = initialised(order, 37, 101)
    models = [jax.tree.map(lambda a, i=i: a * (1 + i), variables)
              for i in range(3)]
    stack = jax.tree.map(lambda *a: jnp.stack(a), *models)
    x = normal(2, 3, 4, 37)

    def expected(rows):
        return np.stack([c_library.run("library", order, rows[i], flat(m))
                         for i, m in enumerate(models)])

    packed = jax.vmap(ffnorm_jax.pack)(stack)
    for weights in (stack, packed):
        assert same_bits(jax.vmap(run)(x, weights), expected(x))
        assert same_bits(jax.vmap(run, in_axes=(None, 0))(x[0], weights),
                         expected(x[[0, 0, 0]]))
        # Every model on every row: both axes of a doubly batched call.
        every = jax.vmap(jax.vmap(run, in_axes=(0, None)), in_axes=(None, 0))(
            x, weights)
        other = jax.vmap(jax.vmap(run, in_axes=(None, 0)), in_axes=(0, None))(
            x, weights)
        for i in range(3):
            assert same_bits(every[:, i], expected(x[[i, i, i]]))
            assert same_bits(other[i], expected(x[[i, i, i]]))


@pytest.mark.parametrize("rows", [1, 3, 64, 700])
def test_threads(order, run, rows):
    _, variables, x = trained(order, 1)
    x = np.resize(x, (rows, x.shape[1]))
    expected = c_library.run("library", order, x, flat(variables))
    for threads in (None, 1, 2, 3, 7, 32):
        assert same_bits(run(x, variables, threads=threads), expected)


def test_many_calls_at_once(order):
    """More of them in one program than the pool has threads: none may wait for
    another one's tasks."""
    _, variables, x = trained(order, 0)
    packed = ffnorm_jax.pack(variables)
    expected = c_library.run("library", order, x, flat(variables))

    @jax.jit
    def program(x):
        return [ORDERS[order](jnp.roll(x, i, axis=0), packed, threads=4)
                for i in range(32)]

    for i, y in enumerate(program(x)):
        assert same_bits(y, np.roll(expected, i, axis=0))


def test_a_bad_row_stays_alone(order, run):
    _, variables, x = trained(order, 2)
    clean = np.asarray(run(x, variables))
    x = x.copy()
    x[3, 5] = np.nan
    x[10, 0] = np.inf
    y = np.asarray(run(x, variables))
    bad = np.isin(np.arange(len(x)), (3, 10))
    assert not np.isfinite(y[bad]).all(axis=1).any()
    assert same_bits(y[~bad], clean[~bad])
