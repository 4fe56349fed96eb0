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


@triton.jit
def log1p(x):
    """``log(1 + x)`` to full precision for x from 0: what rounding 1 + x loses is put back by the factor."""
    rounded = 1.0 + x
    lost = rounded == 1.0
    return tl.where(lost, x, tl.log(rounded) * (x / tl.where(lost, 1.0, rounded - 1.0)))


@triton.jit
def sigmoid(x):
    """``1 / (1 + exp(-x))`` without overflow."""
    small = tl.exp(-tl.abs(x))
    return tl.where(x >= 0, 1.0, small) / (1.0 + small)
