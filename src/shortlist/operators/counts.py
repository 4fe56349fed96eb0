"""How many of independent events happen: the Poisson-binomial distribution, by products of short polynomials.

The number of events with probabilities p_j has the generating polynomial ``Π (1 - p_j + p_j u)``. Its first coefficients are
found by multiplying neighbours pairwise, level by level, keeping no power above the one that is asked for: O(C · most) in
all. Every term is positive, so nothing cancels.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def count_probs(happens: Tensor, fails: Tensor, most: int) -> Tensor:
    """``P(number of events = n)`` for n from 0 to ``most``, (most + 1, N).

    Args:
        happens: probability of each event, (N, C).
        fails: one minus that, given apart because the subtraction would lose small numbers.
        most: the largest number asked for; beyond C the probability is 0.
    """
    factors = torch.stack([fails, happens])  # powers first: each is one contiguous matrix
    while factors.shape[2] > 1:
        pairs = factors.shape[2] // 2
        left, right = factors[:, :, : 2 * pairs : 2], factors[:, :, 1 : 2 * pairs : 2]
        product: Tensor = _Product.apply(left, right, most)  # type: ignore[no-untyped-call]
        odd = factors[:, :, 2 * pairs :]
        if odd.shape[2]:
            odd = torch.nn.functional.pad(odd, (0, 0, 0, 0, 0, len(product) - len(odd)))
            product = torch.cat([product, odd], dim=2)
        factors = product
    found = factors[: most + 1, :, 0]
    return torch.nn.functional.pad(found, (0, 0, 0, most + 1 - len(found)))


class _Product(torch.autograd.Function):
    """Products of polynomials (powers, N, n) without the powers above ``most``."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, most: int) -> Tensor:
        left, right = left.contiguous(), right.contiguous()
        ctx.save_for_backward(left, right)
        powers = min(len(left) + len(right) - 1, most + 1)
        product = left.new_zeros(powers, *left.shape[1:])
        for power in range(min(len(left), powers)):
            reach = min(len(right), powers - power)
            product[power : power + reach].addcmul_(left[power], right[:reach])
        return product

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        left, right = ctx.saved_tensors
        return _correlated(gradient, right, len(left)), _correlated(gradient, left, len(right)), None


def _correlated(gradient: Tensor, other: Tensor, powers: int) -> Tensor:
    """``out[i] = Σ_j gradient[i + j] other[j]``."""
    out = torch.zeros_like(other[:1]).repeat(powers, 1, 1)
    for shift in range(min(len(other), len(gradient))):
        reach = min(powers, len(gradient) - shift)
        out[:reach].addcmul_(gradient[shift : shift + reach], other[shift])
    return out
