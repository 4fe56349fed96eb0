"""What the kernels of all losses share about rows: how they are reduced to one number, and the gradient of that."""

import triton
import triton.language as tl


@triton.jit
def reduce_values(
    values, target, weight, result, divisor, rows, ignored,
    MEAN: tl.constexpr, WEIGHTED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The sum or the mean of the values of all rows, always in the same order, and what it was divided by.

    Values are read past the first cache: other programs of the same kernel may have written them.
    """
    total = tl.zeros([BLOCK], tl.float32)
    whole = tl.zeros([BLOCK], tl.float32)
    for start in range(0, rows, BLOCK):
        row = start + tl.arange(0, BLOCK)
        label = tl.load(target + row, mask=row < rows, other=ignored)
        counted = (row < rows) & (label != ignored)
        value = tl.load(values + row, mask=counted, other=0.0, cache_modifier=".cg")
        share = tl.where(counted, 1.0, 0.0)
        if WEIGHTED:
            # The value is NaN where the label is no class, and has no weight.
            share = tl.load(weight + label, mask=counted & (value == value), other=0.0).to(tl.float32)
        total += tl.where(counted, share * value, 0.0)
        whole += share
    found, number = tl.sum(total, 0), tl.sum(whole, 0)
    number = tl.where((number > 0) & MEAN, number, 1.0)
    tl.store(result, found / number)
    tl.store(divisor, number)


@triton.jit
def row_factor(upstream, weight, divisor, row, label, step, WEIGHTED: tl.constexpr, DIVIDED: tl.constexpr):
    """What the gradient of a row is multiplied by: the gradient from above, the weight of its class, its part in a mean."""
    factor = tl.load(upstream + row * step).to(tl.float32)
    if WEIGHTED:
        factor *= tl.load(weight + label).to(tl.float32)
    if DIVIDED:
        factor /= tl.load(divisor)
    return factor
