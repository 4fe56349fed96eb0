"""The smooth top-k hinge: value and gradient of each row, from the distribution of a number of independent events.

With ``z_j = scores_j / (k τ) - ρ`` for the classes other than the true one, ``p_j = σ(z_j)`` and P(n) the probability that n of
the events p_j happen, for any level ρ

    log e_k - log e_{k-1} = ρ + log P(k) - log P(k - 1),
    its derivative in z_j = p_j (1 - p_j) (P_j(k - 1)² - P_j(k - 2) P_j(k)) / (P(k) P(k - 1)),

where P_j leaves event j out. ρ is such that about k - ½ events are expected (within ¼), so that P(k), P(k - 1) and P_j(k - 1)
are not small: absolute errors of probabilities are relative errors of the result.

Forward: P(n), n below L = 2 POINTS, is the Fourier transform of ``Π (1 - p_j + p_j ω)`` at L points of the unit circle.
The logarithm of the factors with odds up to 1/16 is a power series in sums of powers of the odds, of which 6 terms leave an
error below 1e-8 k; the others, at most 17 k, are multiplied. Both are evaluated in float64, so that the points agree: rounding
of the sums only changes the polynomial as small changes of the scores would. L is so large that P(L - 1) is below 3e-8, so what
is folded back onto smaller n is lost in rounding.

Backward: each class divides the polynomial by its own factor. From below, ``P_j(n) = (P(n) - p P_j(n - 1)) / (1 - p)``
multiplies the error of the term before by p / (1 - p), which is at most 1 for p up to ½: after n steps the error is at most
2 (n + 1) units of rounding, and hardly more than one for small p. For p above ½ the same holds from above, starting with
P_j(L - 1) = 0. In the numerator of the derivative at most the share 1 - 1/k of the square cancels (Newton's inequality), so its
relative error is at most 4k times that of the probabilities.
"""

import triton
import triton.language as tl

from shortlist.kernels.device.functions import log1p, sigmoid
from shortlist.kernels.device.rows import reduce_values, row_factor

LOG2_E = tl.constexpr(1.4426950408889634)
PI = tl.constexpr(3.141592653589793)
LARGEST = tl.constexpr(3.4028234663852886e38)
SMALL = tl.constexpr(-2.772588722239781)  # log of the odds up to which the power series is used
TOLERANCE = tl.constexpr(0.25)  # of the expected number of events


@triton.jit
def _survey(row, label, classes, inverse, BLOCK: tl.constexpr):
    """Of the finite scores but the label's: the largest, the smallest, the sum of exp((score - largest) · inverse), their
    number; the number of the others at +inf; the number of NaN, the label's included."""
    most = tl.full((BLOCK,), -LARGEST, tl.float32)
    least = tl.full((BLOCK,), LARGEST, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    finite = tl.zeros((BLOCK,), tl.float32)
    endless = tl.zeros((BLOCK,), tl.float32)
    missing = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(row + columns, mask=columns < classes, other=float("-inf")).to(tl.float32)
        known = (tl.abs(x) < float("inf")) & (columns != label)
        raised = tl.where(known & (x > most), x, most)
        total = total * tl.exp2((most - raised) * inverse * LOG2_E)
        total += tl.where(known, tl.exp2((x - raised) * inverse * LOG2_E), 0.0)
        most = raised
        least = tl.where(known & (x < least), x, least)
        finite += tl.where(known, 1.0, 0.0)
        endless += tl.where((x == float("inf")) & (columns != label), 1.0, 0.0)
        missing += tl.where(x != x, 1.0, 0.0)
    top = tl.max(most)
    whole = tl.sum(total * tl.exp2((most - top) * inverse * LOG2_E))
    return top, tl.min(least), whole, tl.sum(finite), tl.sum(endless), tl.sum(missing)


@triton.jit
def _centred(row, label, classes, columns, pivot, rest, inverse):
    """z of the columns, -inf for the label and beyond the last class."""
    x = tl.load(row + columns, mask=columns < classes, other=float("-inf")).to(tl.float32)
    return (tl.where(columns == label, float("-inf"), x) - pivot) * inverse - rest


@triton.jit
def _sums(row, label, classes, pivot, rest, inverse, BLOCK: tl.constexpr):
    """Expected number of events, its first two derivatives, the largest z, and the sums of powers of the small odds."""
    count = tl.zeros((BLOCK,), tl.float32)
    slope = tl.zeros((BLOCK,), tl.float32)
    bend = tl.zeros((BLOCK,), tl.float32)
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    one = tl.zeros((BLOCK,), tl.float32)
    two = tl.zeros((BLOCK,), tl.float32)
    three = tl.zeros((BLOCK,), tl.float32)
    four = tl.zeros((BLOCK,), tl.float32)
    five = tl.zeros((BLOCK,), tl.float32)
    six = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, classes, BLOCK):
        z = _centred(row, label, classes, start + tl.arange(0, BLOCK), pivot, rest, inverse)
        decay = tl.exp2(-tl.abs(z) * LOG2_E)
        r = 1.0 / (1.0 + decay)
        share = tl.where(z < 0.0, decay * r, r)
        first = decay * r * r
        count += share
        slope += first
        bend += share * first
        most = tl.maximum(most, z)
        odds = tl.where(z <= SMALL, decay, 0.0)
        square = odds * odds
        one += odds
        two += square
        three += square * odds
        four += square * square
        five += square * square * odds
        six += square * square * square
    steepness = tl.sum(slope)
    return (
        tl.sum(count), steepness, steepness - 2.0 * tl.sum(bend), tl.max(most),
        tl.sum(one), tl.sum(two), tl.sum(three), tl.sum(four), tl.sum(five), tl.sum(six),
    )  # fmt: skip


@triton.jit
def _solve(row, label, classes, total, guess, low, high, unit, inverse, reach, solvable, BLOCK: tl.constexpr):
    """The level in units of the scores, as pivot + rest · unit, with what :func:`_sums` finds there.

    Halley's method on the logarithm of the expected number, inside a bracket. The rest is 0 unless the floats near the level
    are further apart than its unit.
    """
    pivot = tl.where(guess > low, tl.where(guess < high, guess, high), low)
    rest = 0.0
    most, one, two, three, four, five, six = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    stride = unit
    near = solvable == 0
    searching = solvable
    steps = 0
    while searching & (steps < 600):
        count, slope, bend, most, one, two, three, four, five, six = _sums(row, label, classes, pivot, 0.0, inverse, BLOCK)
        above = count > total
        low, high = tl.where(above, pivot, low), tl.where(above, high, pivot)
        # With h = log(count / total), h' = -slope / count and h'' = bend / count - h'² along the level.
        gap = 0.6931471805599453 * tl.log2(count / total)
        step = 2.0 * gap / ((2.0 + gap) * (slope / count) - gap * (bend / slope))
        ahead, middle = pivot + step * unit, 0.5 * low + 0.5 * high
        # A step that leaves the bracket or is NaN is replaced: by growing strides, then by bisection.
        good = (ahead > low) & (ahead < high) & ((steps < 6) | (steps % 2 == 0))
        aside = tl.where(above, pivot + stride, pivot - stride)
        aside = tl.where((aside > low) & (aside < high), aside, middle)
        stride = tl.where(good, stride, 8.0 * stride)
        near = tl.abs(count - total) <= TOLERANCE
        searching = (near == 0) & (middle > low) & (middle < high)
        pivot = tl.where(near, pivot, tl.where(good, ahead, aside))
        steps += 1
    if near == 0:
        # The level lies between two neighbouring floats, near one of them.
        count, slope, bend, most, one, two, three, four, five, six = _sums(row, label, classes, low, reach, inverse, BLOCK)
        pivot = tl.where(count > total, high, low)
        left, right = 0.0 - reach, 0.0 + reach
        steps = 0
        while (near == 0) & (steps < 40):
            rest = 0.5 * (left + right)
            count, slope, bend, most, one, two, three, four, five, six = _sums(row, label, classes, pivot, rest, inverse, BLOCK)
            above = count > total
            left, right = tl.where(above, rest, left), tl.where(above, right, rest)
            near = tl.abs(count - total) <= TOLERANCE
            steps += 1
    return pivot, rest, most, one, two, three, four, five, six


@triton.jit
def _times(a, b, c, d):
    """``(a + ib) (c + id)``."""
    return a * c - b * d, a * d + b * c


@triton.jit
def _product(
    row, label, classes, pivot, rest, inverse, cosine, sine,
    POINTS: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """``Π (1 - p + p ω)`` over the classes whose odds are not small, at every point, in float64.

    Points are in the last dimension, along which threads are laid out: each holds few of the numbers that belong to points.
    """
    real = tl.full((TILE, POINTS), 1.0, tl.float64)
    imaginary = tl.zeros((TILE, POINTS), tl.float64)
    for start in range(0, classes, BLOCK):
        block = _centred(row, label, classes, start + tl.arange(0, BLOCK), pivot, rest, inverse)
        if tl.max(block) > SMALL:
            for offset in range(0, BLOCK, TILE):
                z = _centred(row, label, classes, start + offset + tl.arange(0, TILE), pivot, rest, inverse)
                decay = tl.exp2(-tl.abs(z) * LOG2_E)
                r = 1.0 / (1.0 + decay)
                happens = tl.where(z > SMALL, tl.where(z < 0.0, decay * r, r), 0.0).to(tl.float64)
                fails = tl.where(z > SMALL, tl.where(z < 0.0, r, decay * r), 1.0).to(tl.float64)
                factor = fails[:, None] + happens[:, None] * cosine[None, :]
                turn = happens[:, None] * sine[None, :]
                product = real * factor - imaginary * turn
                imaginary = real * turn + imaginary * factor
                real = product
    return tl.reduce((real, imaginary), 0, _times)


@triton.jit
def _small_factors(cosine, sine, one, two, three, four, five, six):
    """``Π (1 - p + p ω)`` over the classes whose odds are small, at every point, from sums of powers of the odds."""
    re, im = cosine, sine
    size, angle = one * (re - 1.0), one * im
    re, im = _times(re, im, cosine, sine)
    size, angle = size - two * (re - 1.0) / 2.0, angle - two * im / 2.0
    re, im = _times(re, im, cosine, sine)
    size, angle = size + three * (re - 1.0) / 3.0, angle + three * im / 3.0
    re, im = _times(re, im, cosine, sine)
    size, angle = size - four * (re - 1.0) / 4.0, angle - four * im / 4.0
    re, im = _times(re, im, cosine, sine)
    size, angle = size + five * (re - 1.0) / 5.0, angle + five * im / 5.0
    re, im = _times(re, im, cosine, sine)
    size, angle = size - six * (re - 1.0) / 6.0, angle - six * im / 6.0
    modulus = tl.exp(size)
    return modulus * tl.cos(angle), modulus * tl.sin(angle)


@triton.jit
def _count_probs(place, real, imaginary, K: tl.constexpr, POINTS: tl.constexpr, AT_ONCE: tl.constexpr):
    """Write P(n) for n below 2 POINTS, from the polynomial at the points of the upper half circle; return P(k), P(k - 1)."""
    odd = 2 * tl.arange(0, POINTS) + 1
    more = tl.full([], 0.0, tl.float64)
    fewer = tl.full([], 0.0, tl.float64)
    for start in range(0, 2 * POINTS, AT_ONCE):
        number = start + tl.arange(0, AT_ONCE)
        # exp(iπ r / 2 POINTS) has period 4 POINTS in r.
        angles = ((number[:, None] * odd[None, :]) % (4 * POINTS)).to(tl.float64) * (PI / (2 * POINTS))
        terms = real[None, :] * tl.cos(angles) + imaginary[None, :] * tl.sin(angles)
        found = tl.maximum(tl.sum(terms, 1) / POINTS, 0.0)
        tl.store(place + number, found.to(tl.float32))
        more += tl.sum(tl.where(number == K, found, 0.0))
        fewer += tl.sum(tl.where(number == K - 1, found, 0.0))
    return more, fewer


@triton.jit
def hinge_rows(
    scores, target, weight, values, kept, probs, arrived, result, divisor,
    rows, classes, stride, temperature, sharpness, unit, inverse, share, reach, ignored,
    K: tl.constexpr, WEIGHTED: tl.constexpr, MEAN: tl.constexpr, EACH: tl.constexpr,
    POINTS: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """The hinge of each row, and what its gradient needs: into ``kept``, (4, N), the pivot and the rest of the level,
    ``1 / (P(k) P(k - 1))`` and the derivative of the hinge; into ``probs``, (N, 2 POINTS), the P(n).

    The program that ends last reduces the hinges of all rows to one number; with EACH they are weighted instead.
    """
    index = tl.program_id(0).to(tl.int64)
    row = scores + index * stride
    label = tl.load(target + index)
    counted = label != ignored
    known = (label >= 0) & (label < classes)
    top, least, whole, finite, endless, missing = _survey(row, label, classes, inverse, BLOCK)
    total = K - 0.5
    solvable = counted & (missing == 0.0) & (endless < K) & (endless + finite >= K)
    # An upper bound of the level, near it if all odds are small; and bounds that hold anyway.
    guess = top + unit * 0.6931471805599453 * tl.log2(whole / tl.maximum(total - endless, 0.5))
    low, high = tl.maximum(least - reach * unit, -LARGEST), tl.minimum(top + reach * unit, LARGEST)
    pivot, rest, most, one, two, three, four, five, six = _solve(
        row, label, classes, total, guess, low, high, unit, inverse, reach, solvable, BLOCK
    )
    ratio, norm = 0.0, 0.0
    if solvable:
        angle = (2 * tl.arange(0, POINTS) + 1).to(tl.float64) * (PI / (2 * POINTS))
        cosine, sine = tl.cos(angle), tl.sin(angle)
        real, imaginary = _small_factors(
            cosine, sine, one.to(tl.float64), two.to(tl.float64), three.to(tl.float64),
            four.to(tl.float64), five.to(tl.float64), six.to(tl.float64),
        )  # fmt: skip
        if most > SMALL:
            large, larger = _product(row, label, classes, pivot, rest, inverse, cosine, sine, POINTS, BLOCK, TILE)
            real, imaginary = _times(real, imaginary, large, larger)
        more, fewer = _count_probs(probs + index * (2 * POINTS), real, imaginary, K, POINTS, AT_ONCE)
        ratio, norm = tl.log(more / fewer).to(tl.float32), (1.0 / (more * fewer)).to(tl.float32)
    own = tl.load(row + label, mask=known, other=float("nan")).to(tl.float32)
    rival = tl.where(solvable, pivot, tl.where(endless >= K, float("inf"), float("-inf")))
    # A true class that is ruled out costs infinitely much, even if its rivals are ruled out too.
    rival = tl.where((rival == float("-inf")) & (own == float("-inf")), 0.0, rival)
    apart = rival - own
    apart = tl.where(tl.abs(apart) < float("inf"), apart * share, rival * share - own * share)
    argument = 1.0 + apart + temperature * (rest + ratio)
    value = tl.maximum(argument, 0.0) + temperature * log1p(tl.exp(-tl.abs(argument) * sharpness))
    slope = share * sigmoid(argument * sharpness)
    lost = (missing > 0.0) | (argument != argument)
    value, slope = tl.where(lost, float("nan"), value), tl.where(lost, float("nan"), slope)
    if EACH & WEIGHTED:
        value = value * tl.load(weight + label, mask=known & counted, other=0.0).to(tl.float32)
    tl.store(values + index, tl.where(counted, value, 0.0))
    tl.store(kept + index, pivot)
    tl.store(kept + rows + index, rest)
    tl.store(kept + 2 * rows + index, norm)
    tl.store(kept + 3 * rows + index, tl.where(counted, slope, 0.0))
    if not EACH:
        tl.debug_barrier()
        if tl.atomic_add(arrived, 1, sem="acq_rel") == rows - 1:
            reduce_values(values, target, weight, result, divisor, rows, ignored, MEAN, WEIGHTED, 1024)


@triton.jit
def hinge_gradient(
    upstream, scores, target, weight, divisor, kept, probs, out, rows, classes, step, stride, inverse, length,
    K: tl.constexpr, WEIGHTED: tl.constexpr, DIVIDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of the hinges in the scores: a program for each row and block of columns.

    The length of ``probs``, L, is no constant of the compiler: the loop from above, which few programs enter, would be unrolled
    and take the registers of all.
    """
    index = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < classes
    slope = tl.load(kept + 3 * rows + index)
    places = out + index * classes + columns
    if slope == 0.0:
        tl.store(places, tl.zeros((BLOCK,), tl.float32).to(out.dtype.element_ty), mask=inside)
    else:
        label = tl.load(target + index)
        indexed = tl.where((label >= 0) & (label < classes), label, 0)
        factor = slope * row_factor(upstream, weight, divisor, index, indexed, step, WEIGHTED, DIVIDED)
        pivot, rest, norm = tl.load(kept + index), tl.load(kept + rows + index), tl.load(kept + 2 * rows + index)
        z = _centred(scores + index * stride, label, classes, columns, pivot, rest, inverse)
        decay = tl.exp2(-tl.abs(z) * LOG2_E)
        r = 1.0 / (1.0 + decay)
        minor = decay * r  # the smaller of p and 1 - p; the other is r
        line = probs + index * length
        at, before = tl.load(line + K), tl.load(line + K - 1)
        # Where p is at most ½: from P_j(0) up to P_j(k - 2), P_j(k - 1), P_j(k).
        lowest = tl.zeros((BLOCK,), tl.float32)
        for number in range(0, K - 1):
            lowest = (tl.load(line + number) - minor * lowest) * (1.0 + decay)
        middle = (before - minor * lowest) * (1.0 + decay)
        highest = (at - minor * middle) * (1.0 + decay)
        if tl.max(z) > 0.0:
            # Above ½: from P_j(L - 1) = 0 down to the same three.
            down = tl.zeros((BLOCK,), tl.float32)
            for number in range(1, length - K):
                down = (tl.load(line + length - number) - minor * down) * (1.0 + decay)
            central = (at - minor * down) * (1.0 + decay)
            lowest = tl.where(z > 0.0, (before - minor * central) * (1.0 + decay), lowest)
            middle, highest = tl.where(z > 0.0, central, middle), tl.where(z > 0.0, down, highest)
        parts = minor * r * (middle * middle - lowest * highest) * norm
        parts = tl.where(columns == label, -1.0, tl.where(norm == 0.0, 0.0, parts))
        tl.store(places, (factor * parts).to(out.dtype.element_ty), mask=inside)
