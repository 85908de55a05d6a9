"""How far a right float32 result may be from the true value, in torch.

The same derivation as in examples/rounding_error.h of ffnorm: a float64 run
that carries with each value the error that its roundings are to be expected to
have made at most. n independent roundings, each within u = 2^-24, are allowed
2 u sqrt(n) of the size of the terms: six standard deviations where all terms
have one sign.

How many roundings lie on the way depends on the order of operations. ffnorm's
is written down; of eager's it is only known that no term passes through more
than all of them.
"""
import math
from typing import NamedTuple

import torch


class Rounded(NamedTuple):
    """A right result lies within `error` of `value`."""
    value: torch.Tensor
    error: torch.Tensor


class Order(NamedTuple):
    """The roundings that a term passes through."""
    dense: callable  # in a Dense sum of K terms, with its bias
    norm: callable   # in a sum over a row of D, divided by D
    # Whether rows are normalized as x * rstd + (-mean * rstd) and not as
    # (x - mean) * rstd, which loses what x and its mean have in common.
    scaled_first: bool


FFNORM = Order(dense=lambda k: min(k, 256) + (k + 255) // 256 + 2,
               norm=lambda d: (d + 63) // 64 + 6, scaled_first=False)
EAGER = Order(dense=lambda k: k + 2, norm=lambda d: d + 6, scaled_first=True)


def half(order, x, w1, b1, w2, b2, scale, offset, epsilon, norm_first):
    """The feed-forward half of a layer. Vectors may be None."""
    w1, b1, w2, b2, scale, offset = (
        t if t is None else t.detach().double()
        for t in (w1, b1, w2, b2, scale, offset))
    x = Rounded(x.double(), torch.zeros_like(x, dtype=torch.float64))

    def norm(row):
        return _layer_norm(order, row, scale, offset, epsilon)

    def feed_forward(row):
        return _dense(order, _relu(_dense(order, row, w1, b1)), w2, b2)

    if norm_first:
        return _add(x, feed_forward(norm(x)))
    return norm(_add(x, feed_forward(x)))


def _rounding(n):
    return 2.0 * 2.0**-24 * math.sqrt(n)


def _dense(order, a, weight, bias):
    value = a.value @ weight.T
    size = a.value.abs() @ weight.abs().T
    if bias is not None:
        value, size = value + bias, size + bias.abs()
    carried = (a.error.square() @ weight.square().T).sqrt()
    rounded = _rounding(order.dense(weight.shape[1])) * size
    return Rounded(value, torch.hypot(rounded, carried))


def _relu(a):
    # A unit that is off for certain is exactly 0.
    return Rounded(a.value.relu(),
                   torch.where(a.value < -a.error, 0.0, a.error))


def _add(x, v):
    value = x.value + v.value
    return Rounded(value,
                   torch.hypot(x.error, v.error) + _rounding(1) * value.abs())


def _layer_norm(order, x, scale, offset, epsilon):
    width = x.value.shape[-1]
    sums = order.norm(width)

    def mean_of(t):
        return t.mean(-1, keepdim=True)

    mean_error_x = mean_of(x.error.square()).sqrt() / math.sqrt(width)
    mean = mean_of(x.value)
    first_mean_error = _rounding(sums) * mean_of(x.value.abs())
    z = x.value - mean
    size_z = mean_of(z.abs())
    variance = mean_of(z.square())

    z_error = (torch.hypot(x.error, mean_error_x)
               + _rounding(2) * (z.abs() + first_mean_error)
               + _rounding(sums) * (size_z + first_mean_error))
    if order.scaled_first:
        z_error = (z_error + first_mean_error
                   + _rounding(3) * (x.value.abs() + mean.abs()))
    moved = (2.0 * z.abs() + z_error) * z_error
    variance_error = (mean_of(moved.square()).sqrt() / math.sqrt(width)
                      + _rounding(sums + 1) * variance)
    rstd = (variance + epsilon).rsqrt()
    rstd_error = 0.5 * variance_error / (variance + epsilon) + _rounding(3)

    one = torch.ones(width, dtype=torch.float64)
    scale = one if scale is None else scale
    offset = 0.0 * one if offset is None else offset
    normal = z * rstd * scale
    return Rounded(normal + offset,
                   scale.abs() * rstd * z_error + normal.abs() * rstd_error
                   + _rounding(3) * (normal.abs() + offset.abs()))
