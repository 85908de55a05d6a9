"""How far a right float32 result may be from the true one.

A float64 run that carries with each value the error that rounding may have
made. Each rounding is within u = 2^-24 of its result. n of them in a row are
taken as independent, so that they add up like sqrt(n); in a sum of terms of one
sign, the worst, their standard deviation is then u sqrt(n) / 3 times the sum of
the sizes, and six of these are allowed. What inputs bring along adds up as the
square root of squares. How many roundings lie on the way is fixed by ffnorm's
kernels/CONTRACT.md: min(K, 256) + ceil(K / 256) + 2 in a Dense sum of K terms,
ceil(D / 64) + 6 in a LayerNorm sum of D.
"""
import numpy as np


def _rounding(n):
    return 2 * 2.0**-24 * np.sqrt(n)


def _dense(v, error, kernel, bias, relu):
    K = kernel.shape[0]
    value = v @ kernel + bias
    size = np.abs(v) @ np.abs(kernel) + np.abs(bias)
    error = np.hypot(_rounding(min(K, 256) + -(-K // 256) + 2) * size,
                     np.sqrt(error**2 @ kernel**2))
    if relu:
        error = np.where(value < -error, 0, error)  # off for certain
        value = np.maximum(value, 0)
    return value, error


def _add(a, a_error, b, b_error):
    return a + b, np.hypot(a_error, b_error) + _rounding(1) * np.abs(a + b)


def _layer_norm(x, error, scale, offset, epsilon):
    D = x.shape[-1]

    def mean(v):
        return v.mean(-1, keepdims=True)

    n = -(-D // 64) + 6
    z = x - mean(x)
    first_mean = _rounding(n) * mean(np.abs(x))  # a second one takes it out
    z_error = (np.hypot(error, np.sqrt(mean(error**2) / D))
               + _rounding(2) * (np.abs(z) + first_mean)
               + _rounding(n) * (mean(np.abs(z)) + first_mean))
    variance = mean(z**2)
    moved = (2 * np.abs(z) + z_error) * z_error
    variance_error = np.sqrt(mean(moved**2) / D) + _rounding(n + 1) * variance
    rstd = 1 / np.sqrt(variance + epsilon)
    rstd_error = variance_error / (2 * (variance + epsilon)) + _rounding(3)
    normal = z * rstd * scale
    return normal + offset, (np.abs(scale) * rstd * z_error
                             + np.abs(normal) * rstd_error
                             + _rounding(3) * (np.abs(normal) + np.abs(offset)))


def true_value_and_bound(order, x, weights, epsilon=1e-6):
    """In float64: y, and how far each element may be off."""
    w1, b1, w2, b2, scale, offset = (
        np.float64(default if a is None else a)
        for a, default in zip(weights, (0, 0, 0, 0, 1, 0)))
    x = np.asarray(x, np.float64), np.zeros(np.shape(x))

    def ffn(z):
        return _dense(*_dense(*z, w1, b1, True), w2, b2, False)

    def layer_norm(v):
        return _layer_norm(*v, scale, offset, epsilon)

    if order == "pre_ln":
        return _add(*x, *ffn(layer_norm(x)))
    return layer_norm(_add(*x, *ffn(x)))
