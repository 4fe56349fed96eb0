"""The two-head loss for average-k sets: statistics of the rows, three rounds of the cut, value and gradients.

A probability is ``exp(q - largest) / total`` of its row, computed by the same expression in every kernel, so that it has the
same bits in each. Probabilities lie in [0, 1]: their bits, of which the leading two are 0, are in their order, and need no key.
The digits have 8, 11 and 11 bits. Ties at the cut are taken row by row: ``quotas`` holds how many of each row.
"""

import triton
import triton.language as tl

from shortlist.kernels.device.functions import sigmoid, softplus
from shortlist.kernels.device.select import add_digits, locate, refined

LOWEST = tl.constexpr(-3.4028234663852886e38)


@triton.jit
def probabilities(scores, largest, total):
    """The probabilities of a row's scores; NaN if the row has none."""
    return tl.exp(scores - largest) / total


@triton.jit
def digits_of(probs):
    """The bits of probabilities, at most 30; those of NaN are cut to that."""
    return probs.to(tl.int32, bitcast=True) & ((1 << 30) - 1)


@triton.jit
def load_row(pointer, row, stride, columns, classes):
    """Columns of a row in float32, -inf beyond the last class."""
    places = pointer + row.to(tl.int64) * stride + columns
    return tl.load(places, mask=columns < classes, other=-float("inf")).to(tl.float32)


@triton.jit
def number_wanted(rows, numerator, denominator):
    """``numerator / denominator · rows``, rounded half up."""
    return (2 * numerator * rows + denominator) // (2 * denominator)


@triton.jit
def _largest_and_total(proposals, row, stride, classes, BLOCK: tl.constexpr):
    """The largest score of a row and the sum of exp(score - largest); each column of a block keeps its own until the end."""
    most = tl.full([BLOCK], LOWEST, tl.float32)
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, classes, BLOCK):
        scores = load_row(proposals, row, stride, start + tl.arange(0, BLOCK), classes)
        higher = tl.where(scores > most, scores, most)
        sums = sums * tl.exp(most - higher) + tl.exp(scores - higher)
        most = higher
    largest = tl.max(most, 0)
    return largest, tl.sum(sums * tl.exp(most - largest), 0)


@triton.jit
def count_first(
    proposals,
    target,
    statistics,
    terms,
    counted,
    counts,
    rows,
    classes,
    stride,
    ignore_index,
    rows_each,
    BLOCK: tl.constexpr,
):
    """Largest score and total of each row, its cross-entropy, the number of rows that count, and the first digits."""
    numbers = tl.full([], 0, tl.int32)
    totals = tl.zeros([256], tl.int32)
    for step in range(rows_each):
        row = tl.program_id(0) * rows_each + step
        label = tl.load(target + row, mask=row < rows, other=0)
        if (row < rows) & (label != ignore_index):
            largest, total = _largest_and_total(proposals, row, stride, classes, BLOCK)
            tl.store(statistics + 2 * row, largest)
            tl.store(statistics + 2 * row + 1, total)
            inside = (label >= 0) & (label < classes)
            own = tl.load(proposals + row.to(tl.int64) * stride + label, mask=inside, other=float("nan")).to(tl.float32)
            tl.store(terms + 6 * row, largest - own + tl.log(total))
            for start in range(0, classes, BLOCK):
                columns = start + tl.arange(0, BLOCK)
                scores = load_row(proposals, row, stride, columns, classes)
                digits = digits_of(probabilities(scores, largest, total))
                totals += tl.histogram(digits >> 22, 256, mask=(columns < classes) & (columns != label))
            numbers += 1
    bins = tl.arange(0, 256)
    tl.atomic_add(counts + bins, totals.to(tl.int64), mask=totals > 0, sem="relaxed")
    tl.atomic_add(counted, numbers.to(tl.int64), sem="relaxed")


@triton.jit
def count_further(
    proposals,
    target,
    statistics,
    counted,
    state,
    earlier,
    counts,
    rows,
    classes,
    stride,
    ignore_index,
    numerator,
    denominator,
    rows_each,
    ROUND: tl.constexpr,
    EARLIER_DIGIT: tl.constexpr,
    EARLIER_COPIES: tl.constexpr,
    COPIES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The second or third digit of the probabilities that share the earlier ones of the probability that is sought."""
    SHIFT: tl.constexpr = 11 * (2 - ROUND)
    if ROUND == 1:
        rank = number_wanted(tl.load(counted), numerator, denominator)
        prefix, above, _ = locate(earlier, rank, 256, 1)
        if tl.program_id(0) == 0:
            tl.store(state + 2, prefix.to(tl.int64))
            tl.store(state + 3, rank - above)
    else:
        found, _ = refined(state, earlier, ROUND, EARLIER_DIGIT, EARLIER_COPIES)
        prefix = found.to(tl.int32)
    for step in range(rows_each):
        row = tl.program_id(0) * rows_each + step
        label = tl.load(target + row, mask=row < rows, other=0)
        if (row < rows) & (label != ignore_index):
            largest = tl.load(statistics + 2 * row)
            total = tl.load(statistics + 2 * row + 1)
            for start in range(0, classes, BLOCK):
                columns = start + tl.arange(0, BLOCK)
                scores = load_row(proposals, row, stride, columns, classes)
                digits = digits_of(probabilities(scores, largest, total))
                matching = (columns < classes) & (columns != label) & ((digits >> (SHIFT + 11)) == prefix)
                add_digits(counts, (digits >> SHIFT) & 2047, matching, 2048, COPIES)


@triton.jit
def row_terms(
    scores_pointer,
    proposals,
    target,
    statistics,
    terms,
    ties,
    state,
    counts,
    rows,
    classes,
    scores_stride,
    stride,
    ignore_index,
    rows_each,
    COPIES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The sums of each row over the entries above the cut, below it, and at it; how many are at it; the term of its label.

    Terms of a row: cross-entropy (from the first kernel); the label's; above, as positives; below, as negatives; at the cut, as
    positives and as negatives.
    """
    found, _ = refined(state, counts, 3, 11, COPIES)
    cut = found.to(tl.int32)
    for step in range(rows_each):
        row = tl.program_id(0) * rows_each + step
        label = tl.load(target + row, mask=row < rows, other=0)
        kept = label != ignore_index
        if row < rows:
            positive = tl.zeros([BLOCK], tl.float32)
            negative = tl.zeros([BLOCK], tl.float32)
            positive_ties = tl.full([], 0.0, tl.float32)
            negative_ties = tl.full([], 0.0, tl.float32)
            tied = tl.full([], 0, tl.int32)
            observed = tl.full([], 0.0, tl.float32)
            if kept:
                largest = tl.load(statistics + 2 * row)
                total = tl.load(statistics + 2 * row + 1)
                inside = (label >= 0) & (label < classes)
                own = tl.load(scores_pointer + row.to(tl.int64) * scores_stride + label, mask=inside, other=float("nan"))
                _own_as_negative, observed = softplus(own.to(tl.float32))
                for start in range(0, classes, BLOCK):
                    columns = start + tl.arange(0, BLOCK)
                    digits = digits_of(probabilities(load_row(proposals, row, stride, columns, classes), largest, total))
                    as_negative, as_positive = softplus(load_row(scores_pointer, row, scores_stride, columns, classes))
                    open_to = (columns < classes) & (columns != label)
                    positive += tl.where(open_to & (digits > cut), as_positive, 0.0)
                    negative += tl.where(open_to & (digits < cut), as_negative, 0.0)
                    at = open_to & (digits == cut)
                    number = tl.sum(at.to(tl.int32), 0)
                    if number > 0:
                        positive_ties += tl.sum(tl.where(at, as_positive, 0.0), 0)
                        negative_ties += tl.sum(tl.where(at, as_negative, 0.0), 0)
                        tied += number
            else:
                tl.store(terms + 6 * row, 0.0)
            tl.store(terms + 6 * row + 1, observed)
            tl.store(terms + 6 * row + 2, tl.sum(positive, 0))
            tl.store(terms + 6 * row + 3, tl.sum(negative, 0))
            tl.store(terms + 6 * row + 4, positive_ties)
            tl.store(terms + 6 * row + 5, negative_ties)
            tl.store(ties + row, tied)


@triton.jit
def total_loss(
    scores_pointer,
    proposals,
    target,
    statistics,
    terms,
    ties,
    quotas,
    counted,
    state,
    loss,
    shares,
    rows,
    classes,
    scores_stride,
    stride,
    numerator,
    denominator,
    alpha,
    SUM: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The loss, how many of the ties of each row are chosen, and what each kind of entry counts: one program.

    Shares: of a row, of a positive, of a negative.
    """
    cut = tl.load(state + 6).to(tl.int32)
    number = tl.load(counted)
    wanted = number_wanted(number, numerator, denominator)
    free = tl.load(state + 7)
    cross_entropy = tl.zeros([ROWS], tl.float32)
    observed = tl.zeros([ROWS], tl.float32)
    positive = tl.zeros([ROWS], tl.float32)
    negative = tl.zeros([ROWS], tl.float32)
    earlier = tl.full([], 0, tl.int64)
    divided = tl.full([], -1, tl.int32)  # the row of whose ties some are chosen
    its_quota = tl.full([], 0, tl.int32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = row < rows
        tied = tl.load(ties + row, mask=inside, other=0).to(tl.int64)
        before = earlier + tl.cumsum(tied, 0) - tied
        quota = tl.minimum(tl.maximum(free - before, 0), tied)
        tl.store(quotas + row, quota.to(tl.int32), mask=inside)
        earlier += tl.sum(tied, 0)
        part = (quota > 0) & (quota < tied)
        divided = tl.maximum(divided, tl.max(tl.where(part, row, -1), 0))
        its_quota = tl.maximum(its_quota, tl.max(tl.where(part, quota, 0), 0).to(tl.int32))
        cross_entropy += tl.load(terms + 6 * row, mask=inside, other=0.0)
        observed += tl.load(terms + 6 * row + 1, mask=inside, other=0.0)
        positive += tl.load(terms + 6 * row + 2, mask=inside, other=0.0)
        negative += tl.load(terms + 6 * row + 3, mask=inside, other=0.0)
        positive += tl.load(terms + 6 * row + 4, mask=inside & (quota > 0) & (quota == tied), other=0.0)
        negative += tl.load(terms + 6 * row + 5, mask=inside & (quota == 0), other=0.0)
    of_positives = tl.sum(positive, 0)
    of_negatives = tl.sum(negative, 0)
    if divided >= 0:
        label = tl.load(target + divided)
        largest = tl.load(statistics + 2 * divided)
        total = tl.load(statistics + 2 * divided + 1)
        taken = tl.full([], 0, tl.int32)
        for start in range(0, classes, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            digits = digits_of(probabilities(load_row(proposals, divided, stride, columns, classes), largest, total))
            as_negative, as_positive = softplus(load_row(scores_pointer, divided, scores_stride, columns, classes))
            at = (columns < classes) & (columns != label) & (digits == cut)
            chosen = at & (taken + tl.cumsum(at.to(tl.int32), 0) <= its_quota)
            of_positives += tl.sum(tl.where(chosen, as_positive, 0.0), 0)
            of_negatives += tl.sum(tl.where(at & ~chosen, as_negative, 0.0), 0)
            taken += tl.sum(at.to(tl.int32), 0)
    others = number * (classes - 1) - wanted
    scale = tl.maximum(number.to(tl.float32), 0.5)
    whole = scale if SUM else 1.0
    per_row = whole / scale
    per_positive = alpha * whole / tl.maximum(wanted, 1).to(tl.float32)
    per_negative = alpha * whole / tl.maximum(others, 1).to(tl.float32)
    value = per_row * (tl.sum(cross_entropy, 0) + tl.sum(observed, 0))
    tl.store(loss, value + per_positive * of_positives + per_negative * of_negatives)
    tl.store(shares, per_row)
    tl.store(shares + 1, per_positive)
    tl.store(shares + 2, per_negative)


@triton.jit
def gradients(
    scores_pointer,
    proposals,
    target,
    statistics,
    ties,
    quotas,
    state,
    shares,
    upstream,
    scores_gradient,
    proposals_gradient,
    classes,
    scores_stride,
    stride,
    ignore_index,
    BLOCK: tl.constexpr,
):
    """The gradients of both heads; one program for each row."""
    row = tl.program_id(0)
    label = tl.load(target + row)
    place = row.to(tl.int64) * classes
    if label != ignore_index:
        largest = tl.load(statistics + 2 * row)
        total = tl.load(statistics + 2 * row + 1)
        cut = tl.load(state + 6).to(tl.int32)
        quota = tl.load(quotas + row)
        tied = tl.load(ties + row)
        factor = tl.load(upstream).to(tl.float32)
        per_row = factor * tl.load(shares)
        per_positive = factor * tl.load(shares + 1)
        per_negative = factor * tl.load(shares + 2)
        taken = tl.full([], 0, tl.int32)
        for start in range(0, classes, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            inside = columns < classes
            own = columns == label
            probs = probabilities(load_row(proposals, row, stride, columns, classes), largest, total)
            tl.store(proposals_gradient + place + columns, (probs - own.to(tl.float32)) * per_row, mask=inside)
            digits = digits_of(probs)
            chosen = digits > cut
            at = inside & (digits == cut) & (columns != label)
            if (quota > 0) & (quota < tied):
                chosen = chosen | (at & (taken + tl.cumsum(at.to(tl.int32), 0) <= quota))
                taken += tl.sum(at.to(tl.int32), 0)
            else:
                chosen = chosen | (at & (quota > 0))
            scores = load_row(scores_pointer, row, scores_stride, columns, classes)
            rate = tl.where(own, per_row, per_positive)
            signed = tl.where(own | chosen, -scores, scores)
            rate = tl.where(own | chosen, -rate, per_negative)
            tl.store(scores_gradient + place + columns, rate * sigmoid(signed), mask=inside)
    else:
        for start in range(0, classes, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            nothing = tl.zeros([BLOCK], tl.float32)
            tl.store(proposals_gradient + place + columns, nothing, mask=columns < classes)
            tl.store(scores_gradient + place + columns, nothing, mask=columns < classes)
