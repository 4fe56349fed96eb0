"""Projection of each row onto the top-k simplex, and the loss that belongs to it: one program per row.

``Σ clip(s - λ, 0, 1)`` is decreasing and piecewise linear in λ. λ is first bracketed to within 1, then found by Newton's steps,
which are exact on the right piece. It is kept as a pivot, one of the numbers near it, plus a shift: a large number common
to all scores would cost its digits.
"""

import triton
import triton.language as tl

from shortlist.kernels.device.functions import quantile


@triton.jit
def _extremes(row, classes, BLOCK: tl.constexpr):
    """The largest score, the smallest finite one, the sums of the finite ones and of their squares, and the numbers of finite
    scores and of NaN."""
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    least = tl.full((BLOCK,), float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    finite = tl.zeros((BLOCK,), tl.float32)
    missing = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(row + columns, mask=columns < classes, other=float("-inf")).to(tl.float32)
        missing += tl.where(x != x, 1.0, 0.0)
        known = x > float("-inf")
        most = tl.where(known & (x > most), x, most)
        least = tl.where(known & (x < least), x, least)
        total += tl.where(known, x, 0.0)
        squares += tl.where(known, x * x, 0.0)
        finite += tl.where(known, 1.0, 0.0)
    return tl.max(most), tl.min(least), tl.sum(total), tl.sum(squares), tl.sum(finite), tl.sum(missing)


@triton.jit
def _pieces(row, classes, pivot, shift, BLOCK: tl.constexpr):
    """How many entries are clipped to 1, and the sum and the number of those between 0 and 1."""
    full = tl.zeros((BLOCK,), tl.float32)
    part = tl.zeros((BLOCK,), tl.float32)
    free = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(row + columns, mask=columns < classes, other=float("-inf")).to(tl.float32)
        x = x - pivot - shift
        inside = (x >= 0.0) & (x < 1.0)
        full += tl.where(x >= 1.0, 1.0, 0.0)
        part += tl.where(inside, x, 0.0)
        free += tl.where(inside, 1.0, 0.0)
    return tl.sum(full), tl.sum(part), tl.sum(free)


@triton.jit
def _sums_at_both(row, classes, low, high, BLOCK: tl.constexpr):
    """``Σ clip(s - λ, 0, 1)`` at two levels."""
    over = tl.zeros((BLOCK,), tl.float32)
    under = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(row + columns, mask=columns < classes, other=float("-inf")).to(tl.float32)
        over += tl.minimum(tl.maximum(x - low, 0.0), 1.0)
        under += tl.minimum(tl.maximum(x - high, 0.0), 1.0)
    return tl.sum(over), tl.sum(under)


@triton.jit
def _bracket(row, classes, total, most, least, sum_, squares, finite, BLOCK: tl.constexpr):
    """Lower and upper bounds of λ, at most 1 apart or neighbouring floats."""
    # At least the next float below: the sum at the lower bound has to exceed the total.
    low, high = tl.maximum(least - tl.maximum(1.0, 2.4e-7 * tl.abs(least)), -3.4028234e38), most
    mean = sum_ / finite
    deviation = tl.sqrt(tl.maximum(squares / finite - mean * mean, 0.0))
    share = total / finite
    centre = mean + deviation * quantile(1.0 - share, share) - 0.5  # exact for normal scores
    middle = 0.5 * low + 0.5 * high
    centre = tl.where((centre > low) & (centre < high), centre, middle)
    stride = 1.0
    steps = 0
    searching = (high - low > 1.0) & (middle > low) & (middle < high)
    while searching & (steps < 500):
        below, above = tl.maximum(centre - 0.5, low), tl.minimum(centre + 0.5, high)
        over, under = _sums_at_both(row, classes, below, above, BLOCK)
        down, up = over <= total, under > total
        low = tl.where(up, above, tl.where(down, low, below))
        high = tl.where(down, below, tl.where(up, high, above))
        # Larger and larger strides in the direction of λ, then bisection.
        middle = 0.5 * low + 0.5 * high
        centre = tl.where(down, high - stride, low + stride)
        centre = tl.where((centre > low) & (centre < high), centre, middle)
        stride = stride * 2.0
        steps += 1
        searching = (high - low > 1.0) & (middle > low) & (middle < high)
    return low, high


@triton.jit
def _level(row, classes, total, BLOCK: tl.constexpr):
    """λ as pivot + shift; NaN if a score is NaN or infinite, or if fewer than ``total`` scores are finite."""
    most, least, sum_, squares, finite, missing = _extremes(row, classes, BLOCK)
    sound = (missing == 0.0) & (most < float("inf")) & (finite >= total) & (total > 0.0)
    # λ is at most 1 below the largest score where the total is at most 1.
    high = most
    low = -1.0
    if sound & (total > 1.0):
        bottom, top = _bracket(row, classes, total, most, least, sum_, squares, finite, BLOCK)
        high = top
        low = tl.minimum(bottom - top, -1.0)
    pivot, upper = high, 0.0
    # Towards neighbouring floats far from each other the middle is no place to start.
    shift = tl.where(low < -1.5, 0.0, tl.where(total > 1.0, 0.5 * low, low))
    steps = 0
    while sound & (steps < 200):
        full, part, free = _pieces(row, classes, pivot, shift, BLOCK)
        excess = (full - total) + part  # in this order: both numbers in the brackets may be large
        low, upper = tl.where(excess > 0.0, shift, low), tl.where(excess > 0.0, upper, shift)
        middle = 0.5 * low + 0.5 * upper
        newton = shift + excess / tl.maximum(free, 1.0)
        # Near the solution the step that follows is the last: it needs no check of where it leads.
        near = tl.abs(excess) <= 4.8e-7 * (total + tl.abs(shift))
        inside = (free > 0.0) & (newton >= low) & (newton <= upper)
        following = tl.where(inside & (near | (steps % 4 != 3)), newton, tl.where(near, shift, middle))
        sound = sound & ~near & (following != shift)
        shift = following
        steps += 1
    valid = (missing == 0.0) & (most < float("inf")) & (finite >= total) & (total > 0.0)
    return tl.where(valid, pivot, float("nan")), shift, missing


@triton.jit
def project(scores, totals, out, classes, stride, total, OWN: tl.constexpr, BLOCK: tl.constexpr):
    """The projection of each row onto its own total, or all onto one."""
    index = tl.program_id(0).to(tl.int64)
    row = scores + index * stride
    own = total
    if OWN:
        own = tl.load(totals + index)
    pivot, shift, _ = _level(row, classes, tl.where(own >= classes, 0.0, own), BLOCK)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(row + columns, mask=columns < classes, other=0.0).to(tl.float32) - pivot - shift
        q = tl.where(x != x, x, tl.minimum(tl.maximum(x, 0.0), 1.0))
        q = tl.where(own == 0.0, 0.0, tl.where(own == classes, 1.0, q))
        tl.store(out + index * classes + columns, q, mask=columns < classes)


@triton.jit
def project_backward(gradient, projected, out, classes, row_stride, column_stride, BLOCK: tl.constexpr):
    """The gradient of the entries between 0 and 1, less its mean over them."""
    index = tl.program_id(0).to(tl.int64)
    own = projected + index * classes
    slope = gradient + index * row_stride
    total = tl.zeros((BLOCK,), tl.float32)
    number = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        q = tl.load(own + columns, mask=columns < classes, other=0.0)
        moving = (q > 0.0) & (q < 1.0)
        total += tl.load(slope + columns.to(tl.int64) * column_stride, mask=moving, other=0.0)
        number += tl.where(moving, 1.0, 0.0)
    share = tl.sum(total) / tl.maximum(tl.sum(number), 1.0)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        q = tl.load(own + columns, mask=columns < classes, other=0.0)
        moving = (q > 0.0) & (q < 1.0)
        g = tl.load(slope + columns.to(tl.int64) * column_stride, mask=moving, other=0.0)
        tl.store(out + index * classes + columns, tl.where(moving, g - share, 0.0), mask=columns < classes)


@triton.jit
def _marks(target, index, columns, label, mark_stride, classes, MARKED: tl.constexpr):
    if MARKED:
        found = tl.load(target + index * mark_stride + columns, mask=columns < classes, other=0) != 0
    else:
        found = columns == label
    return found


@triton.jit
def loss_rows(
    scores,
    target,
    weight,
    rows,
    classes,
    stride,
    mark_stride,
    ignore_index,
    count,
    MARKED: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Per row: its weighted loss, its weight, λ as pivot and shift, into ``rows``, (4, N)."""
    index = tl.program_id(0).to(tl.int64)
    row = scores + index * stride
    label = 0
    share = 1.0
    total = 1.0
    known = True
    if MARKED:
        labels = tl.zeros((BLOCK,), tl.int32)
        for start in range(0, classes, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            labels += _marks(target, index, columns, label, mark_stride, classes, MARKED).to(tl.int32)
        total = tl.sum(labels).to(tl.float32)
    else:
        own = tl.load(target + index * mark_stride)
        share = tl.where(own == ignore_index, 0.0, 1.0)
        known = ((own >= 0) & (own < classes)) | (own == ignore_index)
        label = tl.where((own >= 0) & (own < classes), own, 0).to(tl.int32)
        if WEIGHTED:
            share = share * tl.load(weight + label)
        counted = own != ignore_index
        total = tl.where(counted, total, 0.0)
    solved = tl.where(total < classes, total, 0.0)  # without labels, or with all, the loss is 0
    pivot, shift, missing = _level(row, classes, solved, BLOCK)
    value = 0.0
    if solved > 0.0:
        terms = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, classes, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            x = tl.load(row + columns, mask=columns < classes, other=float("-inf")).to(tl.float32) - pivot - shift
            q = tl.minimum(tl.maximum(x, 0.0), 1.0)
            # Each term is at least 0, so nothing cancels; without a gap it is 0 however low the score, even at -inf.
            other = tl.where(x > 0.0, q * (x - 0.5 * q), 0.0)
            true = tl.where(x < 1.0, (1.0 - q) * (0.5 * (1.0 + q) - x), 0.0)
            terms += tl.where(_marks(target, index, columns, label, mark_stride, classes, MARKED), true, other)
        value = share * tl.sum(terms)
        value = tl.where(pivot != pivot, pivot, value)
    if MARKED:
        value = tl.where(missing > 0.0, float("nan"), value)
    else:
        value = tl.where(counted & (missing > 0.0), float("nan"), value)
        value = tl.where(counted, value, 0.0)
    tl.store(rows + index, tl.where(known, value, float("nan")))
    tl.store(rows + count + index, share)
    # A row without a gradient has weight 0 there.
    tl.store(rows + 2 * count + index, pivot)
    tl.store(rows + 3 * count + index, shift)
    tl.store(rows + 4 * count + index, tl.where(solved > 0.0, share, 0.0))


@triton.jit
def loss_backward(
    gradient,
    scores,
    target,
    rows,
    out,
    classes,
    gradient_stride,
    stride,
    mark_stride,
    count,
    MARKED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """``q - target``, times the weight of the row and the gradient of its value."""
    index = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < classes
    share = tl.load(rows + 4 * count + index)
    if share == 0.0:
        tl.store(out + index * classes + columns, tl.zeros((BLOCK,), tl.float32), mask=inside)
    else:
        pivot, shift = tl.load(rows + 2 * count + index), tl.load(rows + 3 * count + index)
        slope = tl.load(gradient + index * gradient_stride) * share
        label = 0
        if not MARKED:
            label = tl.load(target + index * mark_stride).to(tl.int32)
        x = tl.load(scores + index * stride + columns, mask=inside, other=0.0).to(tl.float32) - pivot - shift
        q = tl.where(x != x, x, tl.minimum(tl.maximum(x, 0.0), 1.0))
        marks = _marks(target, index, columns, label, mark_stride, classes, MARKED)
        tl.store(out + index * classes + columns, slope * tl.where(marks, q - 1.0, q), mask=inside)
