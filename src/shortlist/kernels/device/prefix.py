"""The first labels of each row by decreasing probability, ties by lower index, found by counting and adding instead of sorting.

``fmt: skip`` keeps the arguments of a kernel together. Nothing may be fused into one rounding here (``enable_fp_fusion``):
both kernels have to round alike.
"""

import triton
import triton.language as tl

# A probability is split into two whole numbers, of 30 and 45 bits after the binary point.
LOW_BITS = tl.constexpr(45)
LOW_MASK = tl.constexpr(2**45 - 1)
HIGH_SCALE = tl.constexpr(2.0**30)
LOW_SCALE = tl.constexpr(2.0**45)
HIGH_UNIT = tl.constexpr(2.0**-30)
LOW_UNIT = tl.constexpr(2.0**-75)


@triton.jit
def values_of_labels(
    probs, rows, labels, numbers, values, columns, stride, free,
    ROWS: tl.constexpr, INCLUSIVE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The value of one label of one row."""
    place = tl.program_id(0).to(tl.int64)
    row = place
    if ROWS:
        row = tl.load(rows + place)
    line = probs + row * stride
    label = tl.load(labels + place)
    own = _load(line, label, label >= 0)
    own_high, own_low = _parts(own)
    high = tl.zeros([BLOCK], tl.int64)
    low = tl.zeros([BLOCK], tl.int64)
    all_high = tl.zeros([BLOCK], tl.int64)
    all_low = tl.zeros([BLOCK], tl.int64)
    before = tl.zeros([BLOCK], tl.int32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        p = _load(line, column, column < columns)
        part_high, part_low = _parts(p)
        earlier = (column < columns) & ((p > own) | ((p == own) & (column < label)))
        before += earlier.to(tl.int32)
        high += tl.where(earlier, part_high, 0)
        low += tl.where(earlier, part_low, 0)
        all_high += part_high
        all_low += part_low
    divisor = _divisor(tl.sum(all_high, 0), tl.sum(all_low, 0), tl.load(numbers + 1), INCLUSIVE)
    rank = tl.sum(before, 0) + 1
    high_sum, low_sum = tl.sum(high, 0) + own_high, tl.sum(low, 0) + own_low
    value = _value(high_sum, low_sum, own_high, own_low, rank, divisor, tl.load(numbers), free, INCLUSIVE)
    tl.store(values + place, value)


@triton.jit
def sets_of_rows(
    probs, draws, numbers, sets, columns, stride, free,
    DRAWN: tl.constexpr, INCLUSIVE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The set of one row, by bisection of the key of its least probable label."""
    row = tl.program_id(0).to(tl.int64)
    line = probs + row * stride
    penalty, threshold = tl.load(numbers), tl.load(numbers + 2)
    draw = tl.full((), 0.0, tl.float64)
    if DRAWN:
        draw = tl.load(draws + row)
    bottom, top = _ends(line, columns, BLOCK)
    number, high, low, least = _from(line, columns, bottom, BLOCK)
    divisor = _divisor(high, low, tl.load(numbers + 1), INCLUSIVE)
    # All labels with a key from `upper` are within the threshold, not all with one from `lower`; unless every label is.
    upper, inside, inside_high, inside_low = top + 1, number * 0, high * 0, low * 0
    lower, outer, edge = bottom, number, least
    if _within(high, low, least, number, divisor, penalty, free, draw, threshold, DRAWN, INCLUSIVE):
        upper, inside = bottom, number
    while (upper - lower > 1) & (outer - inside > 1):
        middle = lower + (upper - lower) // 2
        number, high, low, least = _from(line, columns, middle, BLOCK)
        good = _within(high, low, least, number, divisor, penalty, free, draw, threshold, DRAWN, INCLUSIVE)
        upper = tl.where(good, middle, upper)
        inside = tl.where(good, number, inside)
        inside_high = tl.where(good, high, inside_high)
        inside_low = tl.where(good, low, inside_low)
        lower = tl.where(good, lower, middle)
        outer = tl.where(good, outer, number)
        edge = tl.where(good, edge, least)
    # Labels that share the key `lower`: the first `ties` of them are within.
    ties, failing = number * 0, tl.maximum(outer - inside, 1)
    edge_high, edge_low = _parts(edge)
    while failing - ties > 1:
        some = (ties + failing) // 2
        good = _within(
            inside_high + some * edge_high, inside_low + some * edge_low, edge, inside + some,
            divisor, penalty, free, draw, threshold, DRAWN, INCLUSIVE,
        )  # fmt: skip
        ties = tl.where(good, some, ties)
        failing = tl.where(good, failing, some)
    _mark(line, sets + row * columns, columns, upper, lower, ties, BLOCK)


@triton.jit
def _load(line, column, mask):
    """Probabilities in float32; 0 has one key, whatever its sign."""
    p = tl.load(line + column, mask=mask, other=0.0).to(tl.float32)
    return tl.where(p == 0.0, 0.0, p)


@triton.jit
def _keys(p):
    """Whole numbers in the order of the probabilities."""
    bits = p.to(tl.uint32, bitcast=True)
    return tl.where(bits >= 2147483648, bits ^ 4294967295, bits | 2147483648).to(tl.int64)


@triton.jit
def _parts(p):
    scaled = p.to(tl.float64) * HIGH_SCALE
    high = tl.floor(scaled)
    return high.to(tl.int64), ((scaled - high) * LOW_SCALE).to(tl.int64)


@triton.jit
def _mass(high, low):
    carried = high + (low >> LOW_BITS)
    return carried.to(tl.float64) * HIGH_UNIT + (low & LOW_MASK).to(tl.float64) * LOW_UNIT


@triton.jit
def _divisor(high, low, slack, INCLUSIVE: tl.constexpr):
    whole = _mass(high, low)
    close = tl.abs(whole - 1.0) <= slack
    if not INCLUSIVE:
        close = whole != whole
    return tl.where(close, whole, 1.0)


@triton.jit
def _value(high, low, own_high, own_low, rank, divisor, penalty, free, INCLUSIVE: tl.constexpr):
    """The value of the last label of a prefix with this mass."""
    value = _mass(high, low) / divisor if INCLUSIVE else _mass(high - own_high, low - own_low)
    return value + penalty * tl.maximum(rank - free, 0).to(tl.float64)


@triton.jit
def _within(
    high, low, least, number, divisor, penalty, free, draw, threshold, DRAWN: tl.constexpr, INCLUSIVE: tl.constexpr
):  # fmt: skip
    """Whether the last of the first ``number`` labels, whose probability is ``least``, is within the threshold."""
    own_high, own_low = _parts(least)
    value = _value(high, low, own_high, own_low, number, divisor, penalty, free, INCLUSIVE)
    if DRAWN:
        value -= draw * least.to(tl.float64)
    return (number == 0) | (value <= threshold)


@triton.jit
def _ends(line, columns, BLOCK: tl.constexpr):
    """The smallest and the largest key of a row."""
    least = tl.full([BLOCK], 4294967295, tl.int64)
    most = tl.zeros([BLOCK], tl.int64)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        key = _keys(_load(line, column, column < columns))
        least = tl.minimum(least, tl.where(column < columns, key, 4294967295))
        most = tl.maximum(most, tl.where(column < columns, key, 0))
    return tl.min(least, 0), tl.max(most, 0)


@triton.jit
def _from(line, columns, lowest, BLOCK: tl.constexpr):
    """Number and mass of the labels with at least this key, and the least of their probabilities."""
    number = tl.zeros([BLOCK], tl.int32)
    high = tl.zeros([BLOCK], tl.int64)
    low = tl.zeros([BLOCK], tl.int64)
    least = tl.full([BLOCK], float("inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        p = _load(line, column, column < columns)
        taken = (column < columns) & (_keys(p) >= lowest)
        part_high, part_low = _parts(p)
        number += taken.to(tl.int32)
        high += tl.where(taken, part_high, 0)
        low += tl.where(taken, part_low, 0)
        least = tl.minimum(least, tl.where(taken, p, float("inf")))
    found = tl.sum(number, 0)
    smallest = tl.min(least, 0)
    return found, tl.sum(high, 0), tl.sum(low, 0), tl.where(found > 0, smallest, 0.0)


@triton.jit
def _mark(line, marks, columns, upper, edge, ties, BLOCK: tl.constexpr):
    """Mark the labels with a key from ``upper``, and the first ``ties`` with the key ``edge``."""
    met = ties * 0
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        key = _keys(_load(line, column, column < columns))
        kept = key >= upper
        if ties > 0:
            tied = ((key == edge) & (column < columns)).to(tl.int32)
            kept = kept | ((tied > 0) & (met + tl.cumsum(tied, 0) <= ties))
            met += tl.sum(tied, 0)
        tl.store(marks + column, kept.to(tl.uint8), mask=column < columns)
