"""Losses that are means of two partial losses: values of the rows, and gradients."""

import triton
import triton.language as tl

from shortlist.kernels.device.functions import log1p, sigmoid
from shortlist.kernels.device.labels import marked, nan_if_unknown

LARGEST = tl.constexpr(3.4028234663852886e38)


@triton.jit
def _spa_argument(x, marks, k_pos, b_pos, k_neg, b_neg):
    """What the softplus of the label is taken of."""
    return tl.where(marks, -k_pos * (x - b_pos), k_neg * (x - b_neg))


@triton.jit
def spa_rows(
    scores,
    target,
    values,
    stride,
    target_stride,
    classes,
    w_pos,
    k_pos,
    b_pos,
    w_neg,
    k_neg,
    b_neg,
    BLOCK: tl.constexpr,
    SINGLE: tl.constexpr,
):
    """Means over labels of w · softplus(z).

    With softplus(z) = z+ + log(1 + e^-|z|), the logarithm is taken once of a product P of brackets, kept as P - 1 so that
    small terms keep their digits. With blocks of 2048 columns a product has at most 49 factors between 1 and 2.
    """
    row = tl.program_id(0).to(tl.int64)
    linear = tl.zeros([BLOCK], tl.float32)
    present = tl.zeros([BLOCK], tl.float32)
    absent = tl.zeros([BLOCK], tl.float32)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < classes
        x = tl.load(scores + row * stride + columns, mask=inside, other=0.0).to(tl.float32)
        marks = marked(target, row, target_stride, columns, inside, SINGLE)
        z = tl.where(inside, _spa_argument(x, marks, k_pos, b_pos, k_neg, b_neg), float("-inf"))
        small = tl.exp(-tl.abs(z))
        linear += tl.maximum(z, 0.0) * tl.where(marks, w_pos, w_neg)
        present += tl.where(marks, small, 0.0) * (1.0 + present)
        absent += tl.where(marks, 0.0, small) * (1.0 + absent)
    total = tl.sum(linear + w_pos * log1p(present) + w_neg * log1p(absent), axis=0)
    tl.store(values + row, nan_if_unknown(total / classes, target, row, target_stride, classes, SINGLE))


@triton.jit
def spa_gradient(
    scores,
    target,
    gradient,
    out,
    stride,
    target_stride,
    gradient_stride,
    classes,
    w_pos,
    k_pos,
    b_pos,
    w_neg,
    k_neg,
    b_neg,
    BLOCK: tl.constexpr,
    SINGLE: tl.constexpr,
):
    """The gradient of those means, times the gradient of each row."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < classes
    x = tl.load(scores + row * stride + columns, mask=inside, other=0.0).to(tl.float32)
    marks = marked(target, row, target_stride, columns, inside, SINGLE)
    share = tl.load(gradient + row * gradient_stride) / classes
    slope = sigmoid(_spa_argument(x, marks, k_pos, b_pos, k_neg, b_neg)) * tl.where(marks, -k_pos * w_pos, k_neg * w_neg)
    tl.store(out + row * classes + columns, (share * slope).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _clamped(x):
    """Infinite scores become the largest ones, so that no product is 0 · inf; NaN stays."""
    return tl.where(x > LARGEST, LARGEST, tl.where(x < -LARGEST, -LARGEST, x))


@triton.jit
def focal_rows(
    scores,
    target,
    values,
    stride,
    target_stride,
    classes,
    gamma_pos,
    gamma_neg,
    shift,
    BLOCK: tl.constexpr,
    SINGLE: tl.constexpr,
    SHIFTED: tl.constexpr,
):
    """Means over labels of σ(y)^gamma · softplus(y), where y is -score if present and score if absent; or with a shift."""
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < classes
        x = _clamped(tl.load(scores + row * stride + columns, mask=inside, other=0.0).to(tl.float32))
        marks = marked(target, row, target_stride, columns, inside, SINGLE)
        y = tl.where(marks, -x, x)
        small = tl.exp(-tl.abs(y))
        rest = log1p(small)
        cost = tl.maximum(y, 0.0) + rest
        loss = tl.exp(-tl.where(marks, gamma_pos, gamma_neg) * (tl.maximum(-y, 0.0) + rest)) * cost
        if SHIFTED:
            excess = tl.where(x >= 0, 1.0, small) / (1.0 + small) - shift
            above = excess > 0
            kept = tl.where(above, tl.where(x >= 0, small, 1.0) / (1.0 + small) + shift, 1.0)
            shifted = -tl.exp(gamma_neg * tl.log(tl.where(above, excess, 1.0))) * tl.log(kept)
            loss = tl.where(marks, loss, tl.where(above, shifted, 0.0))
        total += tl.where(inside, tl.where(x == x, loss, x), 0.0)
    value = tl.sum(total, axis=0) / classes
    tl.store(values + row, nan_if_unknown(value, target, row, target_stride, classes, SINGLE))


@triton.jit
def focal_gradient(
    scores,
    target,
    gradient,
    out,
    stride,
    target_stride,
    gradient_stride,
    classes,
    gamma_pos,
    gamma_neg,
    shift,
    BLOCK: tl.constexpr,
    SINGLE: tl.constexpr,
    SHIFTED: tl.constexpr,
    DETACH: tl.constexpr,
):
    """The gradient of those means, times the gradient of each row; with DETACH the powers count as constants."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < classes
    given = tl.load(scores + row * stride + columns, mask=inside, other=0.0).to(tl.float32)
    x = _clamped(given)
    marks = marked(target, row, target_stride, columns, inside, SINGLE)
    y = tl.where(marks, -x, x)
    small = tl.exp(-tl.abs(y))
    rest = log1p(small)
    larger = 1.0 / (1.0 + small)
    smaller = small / (1.0 + small)
    gamma = tl.where(marks, gamma_pos, gamma_neg)
    weight = tl.exp(-gamma * (tl.maximum(-y, 0.0) + rest))
    slope = weight * tl.where(y >= 0, larger, smaller)
    if not DETACH:
        slope += weight * gamma * tl.where(y >= 0, smaller, larger) * (tl.maximum(y, 0.0) + rest)
    if SHIFTED:
        excess = tl.where(x >= 0, larger, smaller) - shift
        above = excess > 0
        excess = tl.where(above, excess, 1.0)
        kept = tl.where(above, tl.where(x >= 0, smaller, larger) + shift, 1.0)
        shifted = 1.0 / kept
        if not DETACH:
            shifted -= gamma_neg * tl.log(kept) / excess
        shifted = tl.exp(gamma_neg * tl.log(excess)) * larger * smaller * shifted
        slope = tl.where(marks, slope, tl.where(above, shifted, 0.0))
    share = tl.load(gradient + row * gradient_stride) / classes
    # An infinite score has been clamped, so it has no gradient; NaN has.
    slope = tl.where(tl.abs(given) == float("inf"), 0.0, tl.where(marks, -slope, slope))
    tl.store(out + row * classes + columns, (share * slope).to(out.dtype.element_ty), mask=inside)
