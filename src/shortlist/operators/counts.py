"""The distribution of the number of independent events that happen (Poisson-binomial), by products of short polynomials.

The number of events with probabilities p_j has the generating polynomial ``Π (1 - p_j + p_j u)``. Its first coefficients are
computed by multiplying factors pairwise, level by level, without the powers that are not needed: O(C · most) in total. Every
term is positive, so nothing cancels.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from shortlist.kernels.derivatives import differentiates_again


def count_probs(happens: Tensor, fails: Tensor, most: int) -> Tensor:
    """``P(number of events = n)`` for n from 0 to ``most``, (most + 1, N).

    Args:
        happens: probability of each event, (N, C).
        fails: one minus that, given separately because the subtraction would lose small numbers.
        most: the largest number of events; beyond C the probability is 0.
    """
    found: Tensor = _CountProbs.apply(torch.stack([fails, happens]), most)  # type: ignore[no-untyped-call]
    return found


class _CountProbs(torch.autograd.Function):
    """Products of fewer and longer polynomials at each level, (powers, N, factors); backward reverses the levels."""

    @staticmethod
    def forward(ctx: Any, factors: Tensor, most: int) -> Tensor:
        levels = [factors]  # powers first: each is one contiguous matrix
        while levels[-1].shape[2] > 1:
            levels.append(_multiplied(levels[-1], most))
        ctx.save_for_backward(*levels)
        ctx.most = most
        return _as_long_as(most + 1, levels[-1])[:, :, 0]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        *levels, last = ctx.saved_tensors
        if differentiates_again():
            factors = ctx.saved_tensors[0]
            return torch.autograd.grad(_products(factors, ctx.most), factors, gradient, create_graph=True)[0], None
        slope = torch.zeros_like(last)
        known = min(len(last), len(gradient))
        slope[:known, :, 0] = gradient[:known]
        for level in reversed(levels):
            slope = _slope_below(level, slope)
        return slope, None


def _products(factors: Tensor, most: int) -> Tensor:
    """What the function above computes, by operations that torch differentiates: for second derivatives."""
    while factors.shape[2] > 1:
        degree, _, number = factors.shape
        left, right, odd = factors.split([number // 2, number // 2, number % 2], dim=2)
        powers = min(2 * degree - 1, most + 1)
        terms = [_as_long_as(powers, left[power] * right, power) for power in range(min(degree, powers))]
        factors = torch.cat([torch.stack(terms).sum(0), _as_long_as(powers, odd)], dim=2)
    return _as_long_as(most + 1, factors)[:, :, 0]


def _as_long_as(powers: int, values: Tensor, above: int = 0) -> Tensor:
    """Polynomials with this many coefficients, times the power ``above`` of u: higher ones are left out, missing ones are 0."""
    values = values[: powers - above]
    return pad(values, (0, 0, 0, 0, above, powers - above - len(values)))


def _multiplied(factors: Tensor, most: int) -> Tensor:
    """Each factor of the first half times one of the second, without powers above ``most``; an odd one is kept."""
    degree, rows, number = factors.shape
    pairs, odd = divmod(number, 2)
    powers = min(2 * degree - 1, most + 1)
    products = factors.new_empty(powers, rows, pairs + odd)
    left, right, out = factors[:, :, :pairs], factors[:, :, pairs : 2 * pairs], products[:, :, :pairs]
    reach = min(degree, powers)
    torch.mul(left[0], right[:reach], out=out[:reach])
    out[reach:].zero_()
    for power in range(1, reach):
        length = min(degree, powers - power)
        out[power : power + length].addcmul_(left[power], right[:length])
    if odd:
        products[:reach, :, pairs:] = factors[:reach, :, 2 * pairs :]
        products[reach:, :, pairs:].zero_()
    return products


def _slope_below(factors: Tensor, slope: Tensor) -> Tensor:
    """The gradient with respect to the factors, given that with respect to their products."""
    pairs, odd = divmod(factors.shape[2], 2)
    left, right = slice(0, pairs), slice(pairs, 2 * pairs)
    below = torch.empty_like(factors)
    for own, other in ((left, right), (right, left)):
        _correlate(slope[:, :, :pairs], factors[:, :, other], below[:, :, own])
    if odd:
        known = min(len(slope), len(below))
        below[:known, :, 2 * pairs :] = slope[:known, :, pairs:]
        below[known:, :, 2 * pairs :].zero_()
    return below


def _correlate(slope: Tensor, other: Tensor, out: Tensor) -> None:
    """``out[i] = Σ_j slope[i + j] other[j]``."""
    reach = min(len(out), len(slope))
    torch.mul(slope[:reach], other[0], out=out[:reach])
    out[reach:].zero_()
    for shift in range(1, min(len(other), len(slope))):
        length = min(len(out), len(slope) - shift)
        out[:length].addcmul_(slope[shift : shift + length], other[shift])
