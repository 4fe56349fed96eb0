"""Label pairs: sums over (present, absent) of softplus(odds of absent - odds of present), and their gradient.

The present labels of a row are found one after the other in its marks, which costs a minimum over a block for each, so that
any number of them needs neither a list nor a count.
"""

import triton
import triton.language as tl

from shortlist.kernels.device.functions import log1p, sigmoid
from shortlist.kernels.device.labels import marked, nan_if_unknown


@triton.jit
def _next_label(marks, columns, after, classes):
    """The first marked column after this one; ``classes`` if there is none."""
    return tl.min(tl.where(marks & (columns > after), columns, classes), axis=0)


@triton.jit
def pair_rows(odds, target, values, stride, target_stride, classes, scale, BLOCK: tl.constexpr, SINGLE: tl.constexpr):
    """The sum of each row, times the scale. Of the logarithms log(1 + e^-|gap|) one is taken per label, of their product."""
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, classes, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < classes
        here = tl.load(odds + row * stride + columns, mask=inside, other=0.0).to(tl.float32)
        total += tl.where(here == here, 0.0, here)
        marks = marked(target, row, target_stride, columns, inside, SINGLE)
        label = _next_label(marks, columns, -1, classes)
        while label < classes:
            own = tl.load(odds + row * stride + label).to(tl.float32)
            product = tl.zeros([BLOCK], tl.float32)
            for first in range(0, classes, BLOCK):
                others = first + tl.arange(0, BLOCK)
                known = others < classes
                rival = tl.load(odds + row * stride + others, mask=known, other=0.0).to(tl.float32)
                absent = known & (marked(target, row, target_stride, others, known, SINGLE) == 0)
                # A rival that is ruled out costs nothing, even beside a present label that is ruled out too.
                gap = tl.where(absent & (rival != float("-inf")), rival - own, float("-inf"))
                total += tl.maximum(gap, 0.0)
                product += tl.exp(-tl.abs(gap)) * (1.0 + product)
            total += log1p(product)
            label = _next_label(marks, columns, label, classes)
    value = scale * tl.sum(total, axis=0)
    tl.store(values + row, nan_if_unknown(value, target, row, target_stride, classes, SINGLE))


@triton.jit
def pair_gradient(
    odds,
    target,
    gradient,
    out,
    stride,
    target_stride,
    gradient_stride,
    classes,
    scale,
    BLOCK: tl.constexpr,
    SINGLE: tl.constexpr,
):
    """The gradient of those sums, times the gradient of each row, for one block of columns.

    An absent label has the sum of σ(gap) over the present labels, which are looked for in the whole row; a present label of
    this block has minus that over the absent ones.
    """
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < classes
    here = tl.load(odds + row * stride + columns, mask=inside, other=0.0).to(tl.float32)
    marks = marked(target, row, target_stride, columns, inside, SINGLE)
    slope = tl.zeros([BLOCK], tl.float32)
    for first in range(0, classes, BLOCK):
        others = first + tl.arange(0, BLOCK)
        known = others < classes
        rivals = tl.load(odds + row * stride + others, mask=known, other=0.0).to(tl.float32)
        other_marks = marked(target, row, target_stride, others, known, SINGLE)
        label = _next_label(other_marks, others, -1, classes)
        while label < classes:
            own = tl.load(odds + row * stride + label).to(tl.float32)
            slope += tl.where(marks | (here == float("-inf")), 0.0, sigmoid(here - own))
            label = _next_label(other_marks, others, label, classes)
        absent = known & (other_marks == 0) & (rivals != float("-inf"))
        label = _next_label(marks, columns, -1, classes)
        while label < classes:
            own = tl.load(odds + row * stride + label).to(tl.float32)
            push = tl.sum(tl.where(absent, sigmoid(rivals - own), 0.0), axis=0)
            slope -= tl.where(columns == label, push, 0.0)
            label = _next_label(marks, columns, label, classes)
    share = scale * tl.load(gradient + row * gradient_stride)
    tl.store(out + row * classes + columns, (share * slope).to(out.dtype.element_ty), mask=inside)
