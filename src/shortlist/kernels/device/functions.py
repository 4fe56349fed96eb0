"""Functions of numbers that several kernels share, to the precision of float32."""

import triton
import triton.language as tl


@triton.jit
def log1p(x):
    """``log(1 + x)`` to full precision for x from 0: what rounding 1 + x loses is put back by the factor."""
    rounded = 1.0 + x
    lost = rounded == 1.0
    return tl.where(lost, x, tl.log(rounded) * (x / tl.where(lost, 1.0, rounded - 1.0)))


@triton.jit
def sigmoid(x):
    """``1 / (1 + exp(-x))`` without overflow."""
    small = tl.exp(-tl.abs(x))
    return tl.where(x >= 0, 1.0, small) / (1.0 + small)


@triton.jit
def softplus_of_minus(magnitude):
    """``log(1 + exp(-magnitude))`` for magnitudes from 0, without losing the digits of small results.

    log(1 + e) = 2 artanh(z) with z = e / (2 + e) up to 1/3, by its series.
    """
    e = tl.exp(-magnitude)
    z = e / (2.0 + e)
    w = z * z
    series = 1.0 / 11.0 + w * (1.0 / 13.0 + w * (1.0 / 15.0))
    series = 1.0 + w * (1.0 / 3.0 + w * (0.2 + w * (1.0 / 7.0 + w * (1.0 / 9.0 + w * series))))
    return 2.0 * z * series


@triton.jit
def softplus(x):
    """``log(1 + exp(x))``, and the same of -x."""
    small = softplus_of_minus(tl.abs(x))
    return tl.maximum(x, 0.0) + small, tl.maximum(-x, 0.0) + small


@triton.jit
def quantile(below, above):
    """The normal quantile from the probabilities on both sides, with an error of 1e-6.

    Polynomials of Giles ("Approximating the erfinv function", 2012) in the middle, of Acklam (2003) in the tails.
    """
    tail = tl.maximum(tl.minimum(below, above), 1e-37)
    w = -tl.log(tail * (1.0 - tail) * 4.0) - 2.5
    near = w * 2.81022636e-08 + 3.43273939e-07
    near = near * w - 3.5233877e-06
    near = near * w - 4.39150654e-06
    near = near * w + 0.00021858087
    near = near * w - 0.00125372503
    near = near * w - 0.00417768164
    near = near * w + 0.246640727
    near = near * w + 1.50140941
    near = near * (1.0 - tail * 2.0) * 1.4142135623730951
    q = tl.sqrt(tl.log(tail) * -2.0)
    top = q * -7.784894002430293e-03 - 3.223964580411365e-01
    top = top * q - 2.400758277161838
    top = top * q - 2.549732539343734
    top = top * q + 4.374664141464968
    top = top * q + 2.938163982698783
    bottom = q * 7.784695709041462e-03 + 3.224671290700398e-01
    bottom = bottom * q + 2.445134137142996
    bottom = bottom * q + 3.754408661907416
    bottom = bottom * q + 1.0
    size = tl.where(tail < 0.0017, -top / bottom, near)
    return tl.where(below < above, -size, size)
