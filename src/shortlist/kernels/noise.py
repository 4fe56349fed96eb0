"""The normal numbers behind noised scores: a function of (seed, row, class, draw), the same on every device.

The bits come from Philox 4×32-7 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), a function of a 64-bit
key, the seed, and a 128-bit counter. The numbers of the M draws of one class are built from the top:

- ``U = (A + B) / 2^32`` with a 32-bit word A and a further fraction B decides the largest of the M, whose distribution function
  is Φ^M: it is ``Φ⁻¹((1 - U)^(1/M))``;
- one word decides which of the draws it is;
- the others are normal numbers below it, ``Φ⁻¹(V · (1 - U)^(1/M))`` with a word V for each.

So the M numbers are independent and normal, and A alone, a quarter of one call of Philox, shows for almost every class that
none of its draws can be among the largest. Counters are ``(group, row, 0, 0)`` for A, where a group is four classes, and
``(class, row, 1, draw // 4)`` and ``(class, row, 2, 0)`` for the rest.
"""

import torch
from torch import Tensor

# Classes j, j + 512, j + 1024 and j + 1536 share a call of Philox, so that neighbours are read together.
GROUP = 512
WORDS = 4
FIRST_WORD, DRAW_WORDS, FURTHER_WORDS = 0, 1, 2  # third place of the counter

ROUNDS = 7
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_INCREMENTS = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def philox(seed: int, counter: tuple[Tensor | int, Tensor | int, Tensor | int, Tensor | int]) -> tuple[Tensor, ...]:
    """Four 32-bit words, as int64 tensors, for each counter.

    >>> [hex(int(word)) for word in philox(0, (torch.tensor(0), 0, 0, 0))]  # test vector of the authors' library
    ['0x5f6fb709', '0xd893f64', '0x4f121f81', '0x4f730a48']
    """
    c0, c1, c2, c3 = torch.broadcast_tensors(*(torch.as_tensor(c, dtype=torch.int64) for c in counter))
    key0, key1 = seed & _LOW, (seed >> 32) & _LOW
    for _ in range(ROUNDS):
        high0, low0 = _product(_MULTIPLIERS[0], c0)
        high1, low1 = _product(_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ key0, low1, high0 ^ c3 ^ key1, low0
        key0, key1 = (key0 + _INCREMENTS[0]) & _LOW, (key1 + _INCREMENTS[1]) & _LOW
    return c0, c1, c2, c3


def _product(factor: int, values: Tensor) -> tuple[Tensor, Tensor]:
    """The high and the low 32 bits of a product of 32-bit words, without overflow of int64."""
    lower = values * (factor & 0xFFFF)
    upper = values * (factor >> 16) + (lower >> 16)
    return (upper >> 16) & _LOW, ((upper & 0xFFFF) << 16) | (lower & 0xFFFF)


def keyed_normal(seed: int, rows: int, classes: int, samples: int) -> Tensor:
    """All normal numbers of a batch, float64 (samples, rows, classes): what the kernels use without computing most of them."""
    row, label = torch.arange(rows)[:, None], torch.arange(classes)[None]
    group = label // (WORDS * GROUP) * GROUP + label % GROUP
    words = torch.stack(philox(seed, (group, row, FIRST_WORD, 0)))
    first = words.gather(0, (label // GROUP % WORDS).expand(rows, classes)[None])[0]
    rest, which, *_ = philox(seed, (label, row, FURTHER_WORDS, 0))
    uniform = (first.double() + (rest.double() + 0.5) / 2**32) / 2**32
    log_below = torch.log1p(-uniform) / samples  # log Φ of the largest
    largest = which * samples >> 32
    draws = []
    for draw in range(samples):
        share = (philox(seed, (label, row, DRAW_WORDS, draw // WORDS))[draw % WORDS].double() + 0.5) / 2**32
        below = log_below.exp() * share
        above = -torch.expm1(log_below) + log_below.exp() * (1 - share)
        other = _quantile(below, above)
        top = _quantile(log_below.exp(), -torch.expm1(log_below))
        draws.append(torch.where(largest == draw, top, other))
    return torch.stack(draws)


def _quantile(below: Tensor, above: Tensor) -> Tensor:
    """The normal quantile from the probabilities on both sides, so that neither tail loses its digits."""
    smaller = torch.minimum(below, above)
    quantile: Tensor = torch.special.ndtri(smaller)
    return torch.where(below < above, quantile, -quantile)
