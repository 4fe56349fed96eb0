"""The k-th largest noised score of each row, without the noise of classes that cannot be it.

Three kernels:

- ``collect_rows`` chooses for each row a level that rather more than k noised scores are expected to exceed. One word of random
  bits for each class shows for almost all of them that no draw of theirs exceeds the level; the others are written down;
- ``select_draws`` computes one draw of those. If at least k exceed the level, the k-th largest of all is the k-th largest of
  them;
- ``finish_rows`` rescues the rows in which fewer did in some draw, or for which too many were written down: it tries other
  levels with more room (the noise stays what it is), and finally computes the noise of every class. Then it computes the hinge.
"""

import triton
import triton.language as tl

from shortlist.kernels.device.functions import quantile
from shortlist.kernels.device.noise import FIRST_WORD, GROUP, normal, words
from shortlist.kernels.device.rows import reduce_values, row_factor

# P(Z > y) ≤ exp(-(SLOPE y + BEND y²)) / 2 for all y ≥ 0, and at most 9 % below it up to y = 5.5.
SLOPE = tl.constexpr(0.6165420)
BEND = tl.constexpr(0.45)
MINUS_LOG2_E = tl.constexpr(-1.4426950408889634)
RUNS = tl.constexpr(32)  # mean and spread are guessed from so many stretches of a row
TRIES = tl.constexpr(4)
MASKED = tl.constexpr(float("-inf"))
# Instead of the number of classes written down:
SPOILT = tl.constexpr(-1)  # a score is NaN
IGNORED = tl.constexpr(-2)


@triton.jit
def collect_rows(
    scores, seeds, target, notes, arrived, columns, stride, epsilon, inverse, wanted, ignored, first_row,
    SAMPLES: tl.constexpr, ROOM: tl.constexpr, MORE: tl.constexpr, BLOCK: tl.constexpr, HINGE: tl.constexpr,
):  # fmt: skip
    """The classes of a row that may exceed its level in some draw, their number, and the level.

    The rows are those of a batch from ``first_row`` on, of which the noise is a function.
    """
    row = tl.program_id(0)
    line = scores + row.to(tl.int64) * stride
    slots, counter, level_note, _ = _notes(notes, row, SAMPLES, MORE)
    width = columns
    if HINGE:
        tl.store(arrived, 0, mask=row == 0)
        width = tl.where(tl.load(target + row) == ignored, 0, columns)
    level, spoilt = _level(line, width, epsilon, inverse, wanted, BLOCK)
    tl.store(level_note, level)
    if spoilt | (width == 0):
        tl.store(counter, tl.where(width == 0, IGNORED, SPOILT))
    else:
        _collect(line, width, tl.load(seeds), row + first_row, level, inverse, slots, counter, SAMPLES, ROOM)


@triton.jit
def select_draws(
    scores, seeds, places, notes, stride, rank, epsilon, first_row,
    SAMPLES: tl.constexpr, ROOM: tl.constexpr, MORE: tl.constexpr,
):  # fmt: skip
    """The place of the k-th largest in one draw of one row. If too few classes exceed the level, the count becomes ROOM + 1."""
    row = tl.program_id(0)
    slots, counter, level_note, shifts = _notes(notes, row, SAMPLES, MORE)
    found = tl.load(counter)
    if (found >= 0) & (found <= ROOM):
        line = scores + row.to(tl.int64) * stride
        level = tl.load(level_note)
        good = _select(
            line, tl.load(seeds), row + first_row, level, epsilon, rank, slots, found, tl.program_id(1),
            places - first_row * SAMPLES, shifts, SAMPLES, ROOM,
        )  # fmt: skip
        if not good:
            tl.store(counter, ROOM + 1)


@triton.jit
def finish_rows(
    scores, seeds, target, margins, weight, values, places, notes, arrived, result, divisor,
    columns, stride, rank, epsilon, inverse, margin, scale, wanted, ignored, first_row, rows,
    SAMPLES: tl.constexpr, PADDED: tl.constexpr, ROOM: tl.constexpr, MORE: tl.constexpr, BLOCK: tl.constexpr,
    HINGE: tl.constexpr, MARGINS: tl.constexpr, MEAN: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """Rescue the row if need be, and compute its hinge; the program that ends last reduces the hinges of all rows to one."""
    row = tl.program_id(0)
    line = scores + row.to(tl.int64) * stride
    slots, counter, level_note, shifts = _notes(notes, row, SAMPLES, MORE)
    found = tl.load(counter)
    if found > ROOM:
        _rescue(
            line, columns, tl.load(seeds), row + first_row, tl.load(level_note), epsilon, inverse, rank, wanted,
            slots, counter, places - first_row * SAMPLES, shifts, SAMPLES, MORE, BLOCK,
        )  # fmt: skip
        tl.debug_barrier()
    if found < 0:
        draw = tl.arange(0, PADDED)
        tl.store(places + row * SAMPLES + draw, tl.zeros([PADDED], tl.int32), mask=draw < SAMPLES)
        tl.store(shifts + draw, tl.full([PADDED], float("nan"), tl.float32), mask=draw < SAMPLES)
        tl.debug_barrier()
    if HINGE:
        label = tl.where(found == IGNORED, -1, tl.load(target + row))
        hinge = _hinge(line, row, label, columns, margins, margin, places, shifts, scale, SAMPLES, PADDED, MARGINS)
        tl.store(values + row, tl.where(found == IGNORED, 0.0, hinge))
        tl.debug_barrier()
        if tl.atomic_add(arrived, 1, sem="acq_rel") == rows - 1:
            reduce_values(values, target, weight, result, divisor, rows, ignored, MEAN, WEIGHTED, 1024)


@triton.jit
def hinge_gradient(
    gradient, upstream, weight, divisor, values, places, target, columns, step, scale, ignored,
    SAMPLES: tl.constexpr, BLOCK: tl.constexpr, WEIGHTED: tl.constexpr, DIVIDED: tl.constexpr,
):  # fmt: skip
    """The gradient of the hinge of one row: its share at the place of each draw, minus the whole at the label."""
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(target + row)
    active = (tl.load(values + row) > 0) & (label != ignored)
    whole = row_factor(upstream, weight, divisor, row, tl.where(active, label, 0), step, WEIGHTED, DIVIDED) * scale
    whole = tl.where(active, whole, 0.0)
    share = whole / SAMPLES
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        found = tl.where(column == label, -whole, 0.0)
        for draw in tl.static_range(SAMPLES):
            found += tl.where(column == tl.load(places + row * SAMPLES + draw), share, 0.0)
        tl.store(gradient + row * columns + column, found.to(gradient.dtype.element_ty), mask=column < columns)


@triton.jit
def _notes(notes, row, SAMPLES: tl.constexpr, MORE: tl.constexpr):
    """Where a row keeps the classes written down, their number, its level, and the noise of its draws."""
    slots = notes + row.to(tl.int64) * (MORE + 2 + SAMPLES)
    floats = slots.to(tl.pointer_type(tl.float32), bitcast=True)
    return slots, slots + MORE, floats + (MORE + 1), floats + (MORE + 2)


@triton.jit
def _level(line, width, epsilon, inverse, wanted, BLOCK: tl.constexpr):
    """A level that about the wanted number of noised scores exceed, and whether a score is NaN.

    If scores were normal, mean and spread would give it. Both are taken from a part of the row; then the expected number above
    that guess is counted over the whole row, and the guess corrected as if the scores were normal.
    """
    index = tl.arange(0, BLOCK)
    column = tl.where(width > BLOCK, index // (BLOCK // RUNS) * (width // RUNS) + index % (BLOCK // RUNS), index)
    pivot = tl.load(line).to(tl.float32)  # a large number common to all scores would cost the digits of the spread
    pivot = tl.where(tl.abs(pivot) < float("inf"), pivot, 0.0)
    s = tl.load(line + column, mask=column < width, other=MASKED).to(tl.float32) - pivot
    usual = tl.abs(s) < float("inf")
    number = tl.maximum(tl.sum(usual.to(tl.float32), 0), 1.0)
    mean = tl.sum(tl.where(usual, s, 0.0), 0) / number
    apart = tl.where(usual, s - mean, 0.0)
    spread = tl.sqrt(tl.sum(apart * apart, 0) / number + epsilon * epsilon)
    finite = tl.where(width > BLOCK, number * (width / BLOCK), number)
    share = tl.minimum(wanted / finite, 0.5)
    reach = quantile(1.0 - share, share)
    level = pivot + mean + reach * spread
    count = _expected(line, width, level, inverse, BLOCK)
    # At most so far that one class, or all but one, is above the level.
    share = tl.minimum(tl.maximum(count, 1.0), finite - 1.0) / finite
    level += spread * (reach - quantile(1.0 - share, share))
    return tl.where(wanted < 0.9 * finite, level, MASKED), count != count


@triton.jit
def _expected(line, width, level, inverse, BLOCK: tl.constexpr):
    """About how many noised scores exceed the level; NaN if a score is NaN."""
    count = tl.zeros([BLOCK], tl.float32)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        s = tl.load(line + column, mask=column < width, other=MASKED).to(tl.float32)
        y = tl.minimum(tl.maximum((level - s) * inverse, -60.0), 60.0)
        tail = _tail(tl.abs(y))
        count += tl.where(s == s, tl.where(y > 0, tail, 1.0 - tail), float("nan"))
    # Columns beyond the width were read as -inf and count nothing.
    return tl.sum(count, 0)


@triton.jit
def _next_level(line, width, level, epsilon, inverse, wanted, BLOCK: tl.constexpr):
    """A better level: two Newton steps on the logarithm of the expected number, each of bounded length."""
    for _ in range(2):
        count = tl.zeros([BLOCK], tl.float32)
        slope = tl.zeros([BLOCK], tl.float32)
        finite = tl.zeros([BLOCK], tl.float32)
        for start in range(0, width, BLOCK):
            column = start + tl.arange(0, BLOCK)
            s = tl.load(line + column, mask=column < width, other=MASKED).to(tl.float32)
            y = tl.minimum(tl.maximum((level - s) * inverse, -60.0), 60.0)
            size = tl.abs(y)
            tail = _tail(size)
            count += tl.where(y > 0, tail, 1.0 - tail)
            slope += tail * (size * (2 * BEND) + SLOPE)  # minus the derivative of the tail, in units of epsilon
            finite += (tl.abs(s) < float("inf")).to(tl.float32)
        number = tl.maximum(tl.sum(count, 0), 1e-6)
        step = tl.log(number / wanted) * number / tl.maximum(tl.sum(slope, 0), 1e-6)
        step = epsilon * tl.minimum(tl.maximum(step, -8.0), 8.0)
        level = tl.where(wanted < 0.9 * tl.sum(finite, 0), level + step, MASKED)
    return level


@triton.jit
def _tail(y):
    """An upper bound of P(Z > y) for y ≥ 0."""
    return tl.exp2(y * (y * BEND + SLOPE) * MINUS_LOG2_E) * 0.5


@triton.jit
def _collect(line, width, seed, row, level, inverse, slots, counter, SAMPLES: tl.constexpr, ROOM: tl.constexpr):
    """Write down the classes of which some draw may exceed the level, in any order, and their number."""
    tl.store(counter, 0)
    tl.debug_barrier()
    for start in range(0, width, 4 * GROUP):
        group = tl.arange(0, GROUP)
        w0, w1, w2, w3 = words(seed, group + start // 4, row, FIRST_WORD, 0)
        column = group + start
        _keep(line, width, column, w0, level, inverse, slots, counter, SAMPLES, ROOM)
        _keep(line, width, column + GROUP, w1, level, inverse, slots, counter, SAMPLES, ROOM)
        _keep(line, width, column + 2 * GROUP, w2, level, inverse, slots, counter, SAMPLES, ROOM)
        _keep(line, width, column + 3 * GROUP, w3, level, inverse, slots, counter, SAMPLES, ROOM)
    tl.debug_barrier()


@triton.jit
def _keep(line, width, column, word, level, inverse, slots, counter, SAMPLES: tl.constexpr, ROOM: tl.constexpr):
    s = tl.load(line + column, mask=column < width, other=MASKED).to(tl.float32)
    y = tl.minimum(tl.maximum((level - s) * inverse, 0.0), 60.0)
    # The chance that some draw exceeds the level is at most the sum over the draws; a little more for rounding.
    chance = _tail(y) * (1.0001 * SAMPLES)
    # 1 + U, rounded down, from the leading bits of the word: cheaper than a conversion.
    uniform = ((word >> 9) | 0x3F800000).to(tl.float32, bitcast=True) - 1.0
    kept = (s > MASKED) & ((y == 0.0) | (uniform <= chance))
    slot = tl.atomic_add(counter + column * 0, 1, mask=kept, sem="relaxed", scope="cta")
    tl.store(slots + slot, column, mask=kept & (slot < ROOM))


@triton.jit
def _rescue(
    line, columns, seed, row, level, epsilon, inverse, rank, wanted, slots, counter, places, shifts,
    SAMPLES: tl.constexpr, ROOM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The draws of a row, with other levels, or without."""
    done = row < 0
    tries = 0
    while (not done) & (tries < TRIES):
        level = _next_level(line, columns, level, epsilon, inverse, wanted, BLOCK)
        _collect(line, columns, seed, row, level, inverse, slots, counter, SAMPLES, ROOM)
        found = tl.load(counter)
        if found <= ROOM:
            done = row >= 0
            for draw in range(SAMPLES):
                if done:
                    done = _select(line, seed, row, level, epsilon, rank, slots, found, draw, places, shifts, SAMPLES, ROOM)
        wanted *= tl.where(found <= ROOM, 1.2, 0.8)
        tries += 1
    if not done:
        for draw in range(SAMPLES):
            _search(line, columns, seed, row, epsilon, rank, draw, places, shifts, SAMPLES, BLOCK)


@triton.jit
def _select(
    line, seed, row, level, epsilon, rank, slots, found, draw, places, shifts, SAMPLES: tl.constexpr, ROOM: tl.constexpr
):  # fmt: skip
    """The place of the k-th largest of the classes written down, in one draw; false if fewer exceed the level."""
    slot = tl.arange(0, ROOM)
    here = slot < found
    label = tl.load(slots + slot, mask=here, other=0)
    s = tl.load(line + label, mask=here, other=MASKED).to(tl.float32)
    noise = epsilon * normal(seed, row, label, draw, SAMPLES)
    keys = tl.where(here, _ordered(s + noise), 0)
    # At least `rank` keys are above `low`, fewer are above `high`.
    low = tl.max(_ordered(level + tl.zeros([1], tl.float32)), 0)
    high = tl.maximum(tl.max(keys, 0), low)
    above_low = tl.sum((keys > low).to(tl.int32), 0)
    good = above_low >= rank
    if good:
        while (above_low > rank) & (high - low > 1):
            # Three keys between the two; how many are above each is counted at once, in 21 bits each.
            quarter = tl.maximum((high - low) // 4, 1)
            first = low + quarter
            second = tl.minimum(first + quarter, high)
            third = tl.minimum(second + quarter, high)
            above = (keys > first).to(tl.int64)
            above += (keys > second).to(tl.int64) << 21
            above += (keys > third).to(tl.int64) << 42
            counts = tl.sum(above, 0)
            above_first = (counts & 0x1FFFFF).to(tl.int32)
            above_second = ((counts >> 21) & 0x1FFFFF).to(tl.int32)
            above_third = (counts >> 42).to(tl.int32)
            # The highest of the three that has enough above it is the new low, the next one the new high.
            high = tl.where(above_third >= rank, high, third)
            high = tl.where(above_second >= rank, high, second)
            high = tl.where(above_first >= rank, high, first)
            above_low = tl.where(above_first >= rank, above_first, above_low)
            above_low = tl.where(above_second >= rank, above_second, above_low)
            above_low = tl.where(above_third >= rank, above_third, above_low)
            low = tl.where(above_first >= rank, first, low)
            low = tl.where(above_second >= rank, second, low)
            low = tl.where(above_third >= rank, third, low)
        kth = tl.min(tl.where(keys > low, keys, 4294967295), 0)
        place = tl.min(tl.where(keys == kth, label, 2147483647), 0)  # ties by lower index
        tl.store(places + row * SAMPLES + draw, place)
        tl.store(shifts + draw, tl.sum(tl.where((keys == kth) & (label == place), noise, 0.0), 0))
    return good


@triton.jit
def _search(line, columns, seed, row, epsilon, rank, draw, places, shifts, SAMPLES: tl.constexpr, BLOCK: tl.constexpr):
    """The place of the k-th largest of all classes in one draw, found bit by bit."""
    threshold = tl.zeros([1], tl.uint32)
    for bit in range(32):
        trial = threshold | (tl.full([1], 2147483648, tl.uint32) >> bit)
        above = tl.zeros([BLOCK], tl.int32)
        for start in range(0, columns, BLOCK):
            keys, _, _ = _noised_keys(line, seed, row, start, columns, epsilon, draw, SAMPLES, BLOCK)
            above += (keys >= trial).to(tl.int32)
        threshold = tl.where(tl.sum(above, 0) >= rank, trial, threshold)
    place = columns
    shift = tl.full((), 0.0, tl.float32)
    for start in range(0, columns, BLOCK):
        keys, label, noise = _noised_keys(line, seed, row, start, columns, epsilon, draw, SAMPLES, BLOCK)
        first = tl.min(tl.where(keys == threshold, label, columns), 0)
        better = first < place
        shift = tl.where(better, tl.sum(tl.where(label == first, noise, 0.0), 0), shift)
        place = tl.where(better, first, place)
    tl.store(places + row * SAMPLES + draw, place)
    tl.store(shifts + draw, shift)


@triton.jit
def _noised_keys(line, seed, row, start, columns, epsilon, draw, SAMPLES: tl.constexpr, BLOCK: tl.constexpr):
    """The noised scores of a block of classes as integers in the same order, the classes, and their noise."""
    label = start + tl.arange(0, BLOCK)
    s = tl.load(line + label, mask=label < columns, other=MASKED).to(tl.float32)
    noise = epsilon * normal(seed, row, label, draw, SAMPLES)
    return tl.where(label < columns, _ordered(s + noise), 0), label, noise


@triton.jit
def _ordered(values):
    """Unsigned integers in the order of the values."""
    bits = values.to(tl.uint32, bitcast=True)
    return tl.where(bits >= 2147483648, bits ^ 4294967295, bits | 2147483648)


@triton.jit
def _hinge(
    line, row, label, columns, margins, margin, places, shifts, scale,
    SAMPLES: tl.constexpr, PADDED: tl.constexpr, MARGINS: tl.constexpr,
):  # fmt: skip
    """The hinge of a row from the places and the noise of its draws; NaN if its label is not a class."""
    draw = tl.arange(0, PADDED)
    valid = draw < SAMPLES
    place = tl.load(places + row * SAMPLES + draw, mask=valid, other=0)
    shift = tl.load(shifts + draw, mask=valid, other=0.0)
    rival = tl.sum(tl.where(valid, tl.load(line + place, mask=valid, other=0.0).to(tl.float32) + shift, 0.0), 0) / SAMPLES
    known = (label >= 0) & (label < columns)
    own = tl.load(line + label, mask=known, other=float("nan")).to(tl.float32)
    # A true class that is ruled out (-inf) costs infinitely much, even if its rivals are ruled out too.
    rival = tl.where((rival == MASKED) & (own == MASKED), 0.0, rival)
    if MARGINS:
        margin = tl.load(margins + label, mask=known, other=0.0).to(tl.float32)
    hinge = scale * (margin + rival - own)
    return tl.where(hinge < 0.0, 0.0, hinge)  # keeps NaN
