"""Functions shared by the kernels of losses that take any number of labels per row."""

import triton
import triton.language as tl


@triton.jit
def marked(target, row, stride, columns, inside, SINGLE: tl.constexpr):
    """Which of the columns are labels of the row; the target holds one label per row (SINGLE) or a byte per class."""
    if SINGLE:
        marks = (columns == tl.load(target + row * stride)) & inside
    else:
        marks = tl.load(target + row * stride + columns, mask=inside, other=0) != 0
    return marks


@triton.jit
def nan_if_unknown(value, target, row, stride, classes, SINGLE: tl.constexpr):
    """The value of the row, NaN if its one label is not a class: a kernel cannot raise an error."""
    if SINGLE:
        label = tl.load(target + row * stride)
        value = tl.where((label >= 0) & (label < classes), value, float("nan"))
    return value
