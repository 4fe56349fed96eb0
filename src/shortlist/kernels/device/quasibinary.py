"""The quasibinary loss: sums of a batch, its cost under one normaliser, and the gradient."""

import triton
import triton.language as tl

from shortlist.kernels.device.labels import marked, nan_if_unknown

LOWEST = tl.constexpr(-3.4028234663852886e38)  # finite, so that -inf - LOWEST is -inf and not NaN


@triton.jit
def _with(level, total, x, weight):
    """``total · exp(level) + weight · exp(x)``, as a new level and a new total, with one exponential."""
    gap = x - level
    small = tl.exp(-tl.abs(gap))
    total = tl.where(gap > 0, total * small + weight, total + weight * small)
    return tl.maximum(level, x), total


@triton.jit
def _together(level, total):
    """One level and one total of all lanes."""
    highest = tl.max(level, axis=0)
    return highest, tl.sum(total * tl.exp(level - highest), axis=0)


@triton.jit
def row_sums(scores, target, sums, rows, stride, target_stride, classes, BLOCK: tl.constexpr, SINGLE: tl.constexpr):
    """For each row: largest score, sum of exp(score - largest), and number of labels, in three rows of ``sums``."""
    row = tl.program_id(0).to(tl.int64)
    level = tl.full([BLOCK], LOWEST, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    labels = tl.zeros([BLOCK], tl.float32)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < classes
        x = tl.load(scores + row * stride + columns, mask=inside, other=float("-inf")).to(tl.float32)
        level, total = _with(level, total, x, 1.0)
        labels += marked(target, row, target_stride, columns, inside, SINGLE).to(tl.float32)
    highest, whole = _together(level, total)
    tl.store(sums + row, highest)
    tl.store(sums + rows + row, whole)
    number = nan_if_unknown(tl.sum(labels, axis=0), target, row, target_stride, classes, SINGLE)
    tl.store(sums + 2 * rows + row, number)


@triton.jit
def batch_sums(sums, out, rows, BLOCK: tl.constexpr):
    """The sums of all rows: log of the sum of exp, number of labels, largest score, sum of exp(score - largest)."""
    level = tl.full([BLOCK], LOWEST, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    labels = tl.zeros([BLOCK], tl.float32)
    for start in range(0, rows, BLOCK):
        row = start + tl.arange(0, BLOCK)
        inside = row < rows
        x = tl.load(sums + row, mask=inside, other=LOWEST)
        weight = tl.load(sums + rows + row, mask=inside, other=0.0)
        level, total = _with(level, total, x, weight)
        labels += tl.load(sums + 2 * rows + row, mask=inside, other=0.0)
    highest, whole = _together(level, total)
    empty = whole == 0
    tl.store(out, tl.where(empty, float("-inf"), highest + tl.log(tl.where(empty, 1.0, whole))))
    tl.store(out + 1, tl.sum(labels, axis=0))
    tl.store(out + 2, highest)
    tl.store(out + 3, whole)


@triton.jit
def _log_normalizer(sums, constant, OWN: tl.constexpr, HAS_CONSTANT: tl.constexpr):
    """That of the batch if it has labels; otherwise the constant, or inf if there is none."""
    value = float("inf")
    if HAS_CONSTANT:
        value = tl.load(constant)
    if OWN:
        labels = tl.load(sums + 1)
        # NaN labels stand for unknown ones, and must show.
        value = tl.where(labels == 0, value, tl.load(sums) - tl.log(tl.where(labels == 0, 1.0, labels)))
    return value


@triton.jit
def row_costs(
    scores,
    target,
    sums,
    constant,
    costs,
    rows,
    stride,
    target_stride,
    classes,
    BLOCK: tl.constexpr,
    SINGLE: tl.constexpr,
    OWN: tl.constexpr,
    HAS_CONSTANT: tl.constexpr,
):
    """For each row: its cost, and how many of its scores are above the log normaliser, in two rows of ``costs``."""
    row = tl.program_id(0).to(tl.int64)
    log_normalizer = _log_normalizer(sums, constant, OWN, HAS_CONSTANT)
    cost = tl.zeros([BLOCK], tl.float32)
    above = tl.zeros([BLOCK], tl.float32)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < classes
        x = tl.load(scores + row * stride + columns, mask=inside, other=float("-inf")).to(tl.float32)
        marks = marked(target, row, target_stride, columns, inside, SINGLE)
        log_q = x - log_normalizer
        excess = log_q > 0
        own = tl.where(marks, -log_q, 0.0) + tl.where(excess, log_q, 0.0)
        cost += tl.where(inside, tl.where(log_q == log_q, own, log_q), 0.0)
        above += (excess & inside).to(tl.float32)
    whole = nan_if_unknown(tl.sum(cost, axis=0), target, row, target_stride, classes, SINGLE)
    tl.store(costs + row, whole)
    tl.store(costs + rows + row, tl.sum(above, axis=0))


@triton.jit
def gradient_of_cost(
    scores,
    target,
    sums,
    constant,
    above,
    gradient,
    out,
    stride,
    target_stride,
    classes,
    BLOCK: tl.constexpr,
    SINGLE: tl.constexpr,
    OWN: tl.constexpr,
    HAS_CONSTANT: tl.constexpr,
):
    """The gradient of the cost: -target + [score > log normaliser] + (labels - above) · softmax of the whole batch."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < classes
    x = tl.load(scores + row * stride + columns, mask=inside, other=0.0).to(tl.float32)
    marks = marked(target, row, target_stride, columns, inside, SINGLE)
    log_normalizer = _log_normalizer(sums, constant, OWN, HAS_CONSTANT)
    slope = (x > log_normalizer).to(tl.float32) - marks.to(tl.float32)
    if OWN:
        labels = tl.load(sums + 1)
        coupled = tl.where(labels == 0, 0.0, labels - tl.load(above))
        share = coupled / tl.load(sums + 3)
        # Without labels the normaliser is a constant, even if the sum is 0 or infinite.
        slope += tl.where(coupled == 0, 0.0, share * tl.exp(x - tl.load(sums + 2)))
    slope = tl.load(gradient) * slope
    tl.store(out + row * classes + columns, slope.to(out.dtype.element_ty), mask=inside)
