import jax
import pytest

# For test_columns.py; the others use the first one.
jax.config.update("jax_num_cpu_devices", 4)

import blocks  # noqa: E402  (it starts jax)


@pytest.fixture(params=blocks.ORDERS)
def order(request):
    return request.param


@pytest.fixture(params=blocks.CASES)
def case(request, order):
    """(module, variables, x)"""
    return blocks.CASES[request.param](order)
