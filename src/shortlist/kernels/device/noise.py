"""Keyed normal numbers on the GPU: the same as ``kernels/noise.py`` defines, in float32."""

import triton
import triton.language as tl

from shortlist.kernels import noise as definition
from shortlist.kernels.device.functions import quantile

GROUP = tl.constexpr(definition.GROUP)
FIRST_WORD = tl.constexpr(definition.FIRST_WORD)
DRAW_WORDS = tl.constexpr(definition.DRAW_WORDS)
FURTHER_WORDS = tl.constexpr(definition.FURTHER_WORDS)
ROUNDS = tl.constexpr(definition.ROUNDS)
TO_UNIT = tl.constexpr(2.0**-32)


@triton.jit
def words(seed, a, b, c: tl.constexpr, d):
    """Four 32-bit words for each counter (a, b, c, d)."""
    zero = (a * 0).to(tl.uint32)
    return tl.philox(seed, zero + a.to(tl.uint32), zero + b.to(tl.uint32), zero + c, zero + d, ROUNDS)


@triton.jit
def first_word(seed, row, label):
    """The word that bounds all draws of a class."""
    w0, w1, w2, w3 = words(seed, label // (4 * GROUP) * GROUP + label % GROUP, row, FIRST_WORD, 0)
    which = label // GROUP % 4
    return tl.where(which == 0, w0, tl.where(which == 1, w1, tl.where(which == 2, w2, w3)))


@triton.jit
def largest_of(seed, row, label, samples):
    """Φ of the largest draw of a class, 1 - Φ of it, and which draw it is."""
    further, which, _, _ = words(seed, label, row, FURTHER_WORDS, 0)
    fraction = (further.to(tl.float32) + 0.5) * TO_UNIT
    word = first_word(seed, row, label)
    uniform = (word.to(tl.float32) + fraction) * TO_UNIT
    rest = ((word ^ 4294967295).to(tl.float32) + (1.0 - fraction)) * TO_UNIT  # 1 - U, with its own digits
    # log(1 - U) and exp(x) - 1 keep the digits of small numbers if the rounded argument corrects the result (Kahan).
    rounded = 1.0 - uniform
    step = tl.where(rounded < 1.0, 1.0 - rounded, 1.0)
    small = tl.where(rounded < 1.0, tl.log(rounded) * (uniform / step), -uniform)
    exponent = tl.where(uniform < 0.5, small, tl.log(rest)) / samples
    below = tl.exp(exponent)
    step = tl.where(below < 1.0, tl.log(below), 1.0)
    above = tl.where(below < 1.0, (1.0 - below) * (exponent / step), -exponent)
    return below, above, ((which.to(tl.uint64) * samples) >> 32).to(tl.int32)


@triton.jit
def normal(seed, row, label, draw, SAMPLES: tl.constexpr):
    """The normal number of one draw of each class, (classes,)."""
    below, above, largest = largest_of(seed, row, label, SAMPLES)
    w0, w1, w2, w3 = words(seed, label, row, DRAW_WORDS, draw // 4)
    which = draw % 4
    word = tl.where(which == 0, w0, tl.where(which == 1, w1, tl.where(which == 2, w2, w3)))
    share = (word.to(tl.float32) + 0.5) * TO_UNIT
    is_largest = largest == draw
    return quantile(tl.where(is_largest, below, below * share), tl.where(is_largest, above, above + below * (1.0 - share)))
