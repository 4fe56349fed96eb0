"""Cross-entropy, its focal form and LDAM's: values of the rows in one pass over the scores, gradients in another.

With d the log-odds of the other classes together against the true one,

    d = log Σ_{j ≠ y} exp(scale · scores_j) - scale · (scores_y - margin_y),

the cross-entropy is softplus(d) and the focal loss σ(d)^gamma · softplus(d), both to full relative precision, however small.
The gradient is that of d, the softmax over the other classes and -1 at the true one, times the derivative in d.
"""

import triton
import triton.language as tl

from shortlist.kernels.device.functions import log1p, sigmoid
from shortlist.kernels.device.rows import reduce_values, row_factor

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
LARGEST = tl.constexpr(3.4028234663852886e38)


@triton.jit
def _others(row, label, classes, scale, BLOCK: tl.constexpr):
    """The largest score but the label's, and the sum of exp(scale · (score - largest)) over the same classes."""
    most = tl.full((BLOCK,), -LARGEST, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(row + columns, mask=columns < classes, other=float("-inf")).to(tl.float32)
        x = tl.where(columns == label, float("-inf"), x)
        raised = tl.where(x > most, x, most)
        total = total * tl.exp2((most - raised) * (scale * LOG2_E)) + tl.exp2((x - raised) * (scale * LOG2_E))
        most = raised
    largest = tl.max(most)
    return largest, tl.sum(total * tl.exp2((most - largest) * (scale * LOG2_E)))


@triton.jit
def loss_rows(
    scores, target, margins, weight, values, kept, arrived, result, divisor,
    rows, classes, stride, scale, gamma, ignored,
    MARGINS: tl.constexpr, FOCAL: tl.constexpr, WEIGHTED: tl.constexpr, MEAN: tl.constexpr, EACH: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The loss of each row; into ``kept``, (3, N), the largest other score, the inverse of the sum and the derivative.

    The program that ends last reduces the losses of all rows to one number; with EACH they are weighted instead.
    """
    index = tl.program_id(0).to(tl.int64)
    row = scores + index * stride
    label = tl.load(target + index)
    counted = label != ignored
    known = (label >= 0) & (label < classes)
    largest, total = _others(row, label, classes, scale, BLOCK)
    own = tl.load(row + label, mask=known, other=float("nan")).to(tl.float32)
    gap = largest - own
    if MARGINS:
        gap += tl.load(margins + label, mask=known, other=0.0).to(tl.float32)
    odds = LN_2 * tl.log2(total) + scale * gap
    odds = tl.where(own == float("inf"), float("nan"), odds)
    rest = log1p(tl.exp(-tl.abs(odds)))
    value = tl.maximum(odds, 0.0) + rest
    slope = sigmoid(odds)
    if FOCAL:
        # σ^gamma = exp(-gamma · softplus(-d)); its part in the derivative, gamma (1 - σ) softplus(d), ends as 0 · inf.
        doubt = tl.exp(-gamma * (tl.maximum(-odds, 0.0) + rest))
        growth = tl.where(value < float("inf"), gamma * sigmoid(-odds) * value, 0.0)
        value, slope = doubt * value, doubt * (growth + slope)
    lost = odds != odds
    value, slope = tl.where(lost, float("nan"), value), tl.where(lost, float("nan"), slope)
    if EACH & WEIGHTED:
        value = value * tl.load(weight + label, mask=known & counted, other=0.0).to(tl.float32)
    tl.store(values + index, tl.where(counted, value, 0.0))
    tl.store(kept + index, largest)
    tl.store(kept + rows + index, 1.0 / total)
    tl.store(kept + 2 * rows + index, tl.where(counted, scale * slope, 0.0))
    if not EACH:
        tl.debug_barrier()
        if tl.atomic_add(arrived, 1, sem="acq_rel") == rows - 1:
            reduce_values(values, target, weight, result, divisor, rows, ignored, MEAN, WEIGHTED, 1024)


@triton.jit
def loss_gradient(
    upstream, scores, target, weight, divisor, kept, out, rows, classes, step, stride, scale,
    WEIGHTED: tl.constexpr, DIVIDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of the losses in the scores: a program for each row and block of columns."""
    index = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < classes
    slope = tl.load(kept + 2 * rows + index)
    places = out + index * classes + columns
    if slope == 0.0:
        tl.store(places, tl.zeros((BLOCK,), tl.float32).to(out.dtype.element_ty), mask=inside)
    else:
        label = tl.load(target + index)
        indexed = tl.where((label >= 0) & (label < classes), label, 0)
        factor = slope * row_factor(upstream, weight, divisor, index, indexed, step, WEIGHTED, DIVIDED)
        x = tl.load(scores + index * stride + columns, mask=inside, other=float("-inf")).to(tl.float32)
        shares = tl.exp2((x - tl.load(kept + index)) * (scale * LOG2_E)) * tl.load(kept + rows + index)
        parts = tl.where(columns == label, -1.0, shares)
        tl.store(places, (factor * parts).to(out.dtype.element_ty), mask=inside)
