"""The level that a given number of noised scores are expected to exceed, and the hinge above it: one program per row.

Halley's method on the logarithm of the number of exceedances, inside a bracket, from a guess that is exact for normal scores.
Scores are measured from the level in the unit in which the distribution function is cheapest: ``z = (s - τ) · inverse``.
"""

import triton
import triton.language as tl

from shortlist.kernels.device.functions import quantile

LOG2_E = tl.constexpr(1.4426950408889634)
# Beyond these many units from the level, F is 0 or 1 and F' is 0 in float32.
NORMAL_REACH = tl.constexpr(14.0)
LOGISTIC_REACH = tl.constexpr(100.0)


@triton.jit
def _survey(row, classes, BLOCK: tl.constexpr):
    """Of the finite scores: the largest in each column of blocks, the smallest of all, mean, variance, number; and the
    numbers of +inf and NaN."""
    # Relative to one score, so that a large number common to all costs the variance no digits.
    origin = tl.load(row).to(tl.float32)
    origin = tl.where(tl.abs(origin) < 1e30, origin, 0.0)
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    least = tl.full((BLOCK,), float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    finite = tl.zeros((BLOCK,), tl.float32)
    endless = tl.zeros((BLOCK,), tl.float32)
    missing = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(row + columns, mask=columns < classes, other=float("-inf")).to(tl.float32)
        known = tl.abs(x) < float("inf")
        apart = tl.where(known, x - origin, 0.0)
        most = tl.where(known & (x > most), x, most)
        least = tl.where(known & (x < least), x, least)
        total += apart
        squares += apart * apart
        finite += tl.where(known, 1.0, 0.0)
        endless += tl.where(x == float("inf"), 1.0, 0.0)
        missing += tl.where(x != x, 1.0, 0.0)
    number = tl.sum(finite)
    mean = tl.sum(total) / number
    variance = tl.maximum(tl.sum(squares) / number - mean * mean, 0.0)
    return most, tl.min(least), origin + mean, variance, number, tl.sum(endless), tl.sum(missing)


@triton.jit
def _terms(x, level, inverse, NORMAL: tl.constexpr):
    """F, and what the sums of its first three derivatives are built from."""
    z = (x - level) * inverse
    if NORMAL:
        size = tl.minimum(tl.abs(z), NORMAL_REACH)
        squared = size * size
        first = tl.exp2(squared * -LOG2_E)
        # erfc(a) = t P(t) exp(-a²) with t = 1 / (1 + 0.44 a): relative error below 5e-7 (own fit); halved.
        t = 1.0 / (1.0 + 0.44 * size)
        p = 0.03574883060 * t - 0.1395719610
        p = p * t + 0.1494260015
        p = p * t - 0.01114010185
        p = p * t + 0.1084930020
        p = p * t + 0.1084685265
        p = p * t + 0.1244675155
        p = p * t + 0.1241082790
        tail = p * t * first
        share = tl.where(z < 0.0, tail, 1.0 - tail)
        second = tl.where(z < 0.0, -size, size) * first
        third = squared * first
    else:
        size = tl.minimum(tl.abs(z), LOGISTIC_REACH)
        decay = tl.exp2(size * -LOG2_E)
        r = 1.0 / (1.0 + decay)
        share = tl.where(z < 0.0, decay * r, r)
        first = decay * r * r
        second = share * first
        third = first * first
    return share, first, second, third


@triton.jit
def _summed(share, first, second, third, NORMAL: tl.constexpr):
    """The sums of F and of its first three derivatives; for the normal law the last three are multiplied by √π."""
    exceeding, slope = tl.sum(share), tl.sum(first)
    if NORMAL:
        bend = -2.0 * tl.sum(second)
        bow = 4.0 * tl.sum(third) - 2.0 * slope
    else:
        bend = slope - 2.0 * tl.sum(second)
        bow = slope - 6.0 * tl.sum(third)
    return exceeding, slope, bend, bow


@triton.jit
def _sums(row, classes, level, inverse, NORMAL: tl.constexpr, BLOCK: tl.constexpr):
    share = tl.zeros((BLOCK,), tl.float32)
    first = tl.zeros((BLOCK,), tl.float32)
    second = tl.zeros((BLOCK,), tl.float32)
    third = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(row + columns, mask=columns < classes, other=float("-inf")).to(tl.float32)
        more, more_first, more_second, more_third = _terms(x, level, inverse, NORMAL)
        share += more
        first += more_first
        second += more_second
        third += more_third
    return _summed(share, first, second, third, NORMAL)


@triton.jit
def _weights(z, offset, NORMAL: tl.constexpr):
    """F' of the noise, times ``exp(offset)`` in the unit of its exponent."""
    if NORMAL:
        found = tl.exp2((tl.minimum(z * z, 3e38) - offset) * -LOG2_E)
    else:
        size = tl.minimum(tl.abs(z), 3e38)
        r = 1.0 / (1.0 + tl.exp2(size * -LOG2_E))
        found = tl.exp2((size - offset) * -LOG2_E) * r * r
    return found


@triton.jit
def _shares_far_away(row, classes, level, inverse, NORMAL: tl.constexpr, BLOCK: tl.constexpr):
    """The offset at which the largest weight is about 1, and the sum of the weights there, even if all underflow."""
    nearest = tl.full((BLOCK,), 3e38, tl.float32)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(row + columns, mask=columns < classes, other=float("-inf")).to(tl.float32)
        size = tl.abs(x - level) * inverse
        if NORMAL:
            size = size * size
        nearest = tl.minimum(nearest, size)
    offset = tl.min(nearest)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(row + columns, mask=columns < classes, other=float("-inf")).to(tl.float32)
        found = _weights((x - level) * inverse, offset, NORMAL)
        total += tl.where(columns < classes, found, 0.0)
    return offset, tl.sum(total)


@triton.jit
def _step(exceeding, slope, bend, total, classes, NORMAL: tl.constexpr):
    """Halley's step on the logarithm of the number of exceedances, and Newton's, in units."""
    # With h = log(count / wanted), h' = -slope / count and h'' = bend / count - h'² along the level.
    fewer = 2.0 * total > classes
    sign = tl.where(fewer, -1.0, 1.0)
    count, wanted = tl.where(fewer, classes - exceeding, exceeding), tl.where(fewer, classes - total, total)
    gap = 0.6931471805599453 * tl.log2(count / wanted)
    rate = sign * slope / count
    if NORMAL:
        rate = 0.5641895835477563 * rate
    return 2.0 * gap / ((2.0 + gap) * rate - gap * (bend / slope)), gap / rate


@triton.jit
def _level_of_few(values, total, low, high, unit, inverse, NORMAL: tl.constexpr):
    """The level among the values of one block alone, to a tenth of a unit; every second step halves the bracket."""
    level = high
    steps = 0
    searching = high > low
    while searching & (steps < 400):
        share, first, second, third = _terms(values, level, inverse, NORMAL)
        exceeding, slope, bend, _ = _summed(share, first, second, third, NORMAL)
        above = exceeding > total
        low, high = tl.where(above, level, low), tl.where(above, high, level)
        step, newton = _step(exceeding, slope, bend, total, 1e9, NORMAL)
        ahead, middle = level + step * unit, 0.5 * low + 0.5 * high
        inside = (ahead >= low) & (ahead <= high)
        near = inside & (tl.abs(newton) <= 0.1)
        searching = (near == 0) & (middle > low) & (middle < high)
        level = tl.where(near | (inside & (steps % 2 == 0)), ahead, middle)
        steps += 1
    return level


@triton.jit
def _solve(row, classes, total, unit, inverse, reach, deviation, NORMAL: tl.constexpr, BLOCK: tl.constexpr):
    """The level, as a pivot and a rest in units, the offset and the inverse of the sum of its weights (0 if it has no
    gradient), and the number of NaN.

    The weights are summed where the level is not rounded, pivot + rest · unit; those of the gradient must be taken there too.
    """
    largest, least, mean, variance, finite, endless, missing = _survey(row, classes, BLOCK)
    solvable = (missing == 0.0) & (finite > 0.0) & (endless < total) & (endless + finite > total)
    top = tl.max(largest) + reach * unit
    low, high = least - reach * unit, top
    wanted = total / (finite + endless)
    guess = mean + quantile(1.0 - wanted, wanted) * tl.sqrt(variance + deviation * deviation * unit * unit)
    level = tl.where(guess > low, tl.where(guess < high, guess, high), low)
    level = tl.where(guess == guess, level, high)
    pivot, rest = level, 0.0
    slope, stride, last = 0.0, unit, float("inf")
    searching = solvable
    steps = 0
    while searching & (steps < 400):
        exceeding, slope, bend, bow = _sums(row, classes, level, inverse, NORMAL, BLOCK)
        above = exceeding > total
        low, high = tl.where(above, level, low), tl.where(above, high, level)
        step, newton = _step(exceeding, slope, bend, total, classes, NORMAL)
        ahead, middle = level + step * unit, 0.5 * low + 0.5 * high
        inside = (ahead >= low) & (ahead <= high)
        near = inside & (tl.abs(newton) <= 5e-3)
        # A step that leaves the bracket, does not halve, is NaN or is lost beside the level is replaced: by growing strides,
        # then by bisection.
        good = inside & ((steps < 4) | (2.0 * tl.abs(step) * unit <= last)) & (ahead != level)
        aside = tl.where(above, level + stride, level - stride)
        aside = tl.where((aside > low) & (aside < high), aside, middle)
        stride = tl.where(good, stride, 2.0 * stride)
        following = tl.where(good | near, ahead, aside)
        if (steps == 0) & ((tl.abs(newton) <= 1.0) == 0):
            # The scores are far from normal. The largest of each column of blocks give a lower bound, often the level itself.
            few = tl.sum(tl.where(largest > float("-inf"), 1.0, 0.0))
            if few > total - endless + 1.0:
                bound = _level_of_few(largest, total - endless, least - reach * unit, top, unit, inverse, NORMAL)
                following = tl.where((bound > low) & (bound < high), bound, following)
        slope = tl.where(near, slope - step * bend + 0.5 * step * step * bow, 0.0)
        searching = (near == 0) & (middle > low) & (middle < high)
        last = tl.where(steps == 0, float("inf"), tl.abs(following - level))
        pivot, rest = tl.where(near, level, following), tl.where(near, step, 0.0)
        level = following
        steps += 1
    offset = 0.0
    lost = solvable & (slope < 1e-20)
    pivot, rest = tl.where(lost, level, pivot), tl.where(lost, 0.0, rest)
    if lost:
        offset, slope = _shares_far_away(row, classes, level, inverse, NORMAL, BLOCK)
    level = tl.where(solvable, level, tl.where(endless > total, float("inf"), float("-inf")))
    level = tl.where(missing > 0.0, float("nan"), level)
    pivot, rest = tl.where(solvable, pivot, level), tl.where(solvable, rest, 0.0)
    return level, pivot, rest, offset, tl.where(solvable, 1.0 / tl.where(solvable, slope, 1.0), 0.0), missing


@triton.jit
def rows_forward(
    scores,
    target,
    margins,
    weight,
    rows,
    number,
    classes,
    stride,
    total,
    unit,
    inverse,
    reach,
    deviation,
    margin,
    scale,
    ignore_index,
    HINGE: tl.constexpr,
    MARGINS: tl.constexpr,
    WEIGHTED: tl.constexpr,
    NORMAL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Into ``rows``, (7, N): value, weight, pivot, offset and inverse sum of the noise's weights, factor of the gradient, rest
    of the level."""
    index = tl.program_id(0).to(tl.int64)
    row = scores + index * stride
    level, pivot, rest, offset, share, missing = _solve(row, classes, total, unit, inverse, reach, deviation, NORMAL, BLOCK)
    if HINGE:
        label = tl.load(target + index)
        counted = label != ignore_index
        known = (label >= 0) & (label < classes)
        label = tl.where(known, label, 0)
        own = tl.load(row + label).to(tl.float32)
        if MARGINS:
            margin = tl.load(margins + label)
        # A true class that is ruled out costs infinitely much, even if its rivals are ruled out too.
        rival = tl.where((level == float("-inf")) & (own == float("-inf")), 0.0, level)
        value = scale * (margin + rival - own)
        worth = tl.where(counted, 1.0, 0.0)
        if WEIGHTED:
            worth = worth * tl.load(weight + label)
        factor = tl.where(counted & (value > 0.0), worth * scale, 0.0)
        value = tl.where(value > 0.0, value, 0.0 * tl.where(value == value, 0.0, value)) * worth
        value = tl.where((missing > 0.0) | (known == 0), float("nan"), value)
        factor = tl.where(missing > 0.0, float("nan"), factor)
        tl.store(rows + index, tl.where(counted, value, 0.0))
        tl.store(rows + number + index, worth)
        tl.store(rows + 5 * number + index, tl.where(counted, factor, 0.0))
    else:
        tl.store(rows + index, level)
    tl.store(rows + 2 * number + index, pivot)
    tl.store(rows + 3 * number + index, offset)
    tl.store(rows + 4 * number + index, share)
    tl.store(rows + 6 * number + index, rest)


@triton.jit
def rows_backward(
    gradient,
    scores,
    target,
    rows,
    out,
    number,
    classes,
    gradient_stride,
    stride,
    inverse,
    HINGE: tl.constexpr,
    NORMAL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """``F' / Σ F'``, less 1 at the target, times the factor of the row and the gradient of its value."""
    index = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < classes
    factor = 1.0
    if HINGE:
        factor = tl.load(rows + 5 * number + index)
    if factor == 0.0:
        tl.store(out + index * classes + columns, tl.zeros((BLOCK,), tl.float32), mask=inside)
    else:
        pivot, rest = tl.load(rows + 2 * number + index), tl.load(rows + 6 * number + index)
        offset, share = tl.load(rows + 3 * number + index), tl.load(rows + 4 * number + index)
        slope = tl.load(gradient + index * gradient_stride) * factor
        x = tl.load(scores + index * stride + columns, mask=inside, other=0.0).to(tl.float32)
        parts = tl.where(share == 0.0, 0.0, share * _weights((x - pivot) * inverse - rest, offset, NORMAL))
        if HINGE:
            parts = tl.where(columns == tl.load(target + index), parts - 1.0, parts)
        parts = tl.where(pivot == pivot, parts, pivot)
        tl.store(out + index * classes + columns, slope * parts, mask=inside)
