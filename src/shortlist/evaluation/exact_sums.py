"""Sums that come out the same in any order: what is added is split into whole numbers of a few units, which add up exactly."""

from dataclasses import dataclass

import torch
from torch import Tensor

LIMBS = 4  # units of 1, 2⁻³¹, 2⁻⁶² and 2⁻⁹³
BITS = 31


@dataclass(frozen=True)
class ExactSum:
    """A sum of tensors of one shape.

    Each tensor is rounded once, towards 0 to a multiple of 2⁻⁹³; from there on nothing is, so sums can be merged in any order.

    Args:
        limbs: how many of each unit, int64 (4, …); up to 2³² tensors can be added before one overflows.
        rest: the sum of what is not finite, and 0 elsewhere.
        dtype: of the tensors.
    """

    limbs: Tensor
    rest: Tensor
    dtype: torch.dtype

    @staticmethod
    def of(values: Tensor) -> "ExactSum":
        """The sum of this tensor alone.

        >>> a, b, c = (ExactSum.of(torch.tensor([number])) for number in (0.1, 0.2, 0.3))
        >>> torch.equal(((a + b) + c).value(), (a + (b + c)).value()), (0.1 + 0.2) + 0.3 == 0.1 + (0.2 + 0.3)
        (True, False)
        """
        exact = values.double()
        finite = exact.isfinite()
        left, limbs = exact.where(finite, 0.0), []
        for _ in range(LIMBS):
            whole = left.trunc()  # what is left then has all its bits, also of a negative number
            limbs.append(whole.to(torch.int64))
            left = (left - whole) * 2.0**BITS
        return ExactSum(torch.stack(limbs), exact.where(~finite, 0.0), values.dtype)

    def merge(self, other: "ExactSum") -> "ExactSum":
        """The sum of both."""
        device = self.limbs.device
        return ExactSum(self.limbs + other.limbs.to(device), self.rest + other.rest.to(device), self.dtype)

    __add__ = merge

    def carried(self) -> "ExactSum":
        """The same sum with every limb but the first from 0 to 2³¹ - 1, which leaves one way to write it.

        >>> (ExactSum.of(torch.tensor([-0.5])) + ExactSum.of(torch.tensor([2.0]))).carried().limbs.squeeze(1).tolist()
        [1, 1073741824, 0, 0]
        """
        return ExactSum(torch.stack(_carried(self.limbs)), self.rest, self.dtype)

    def value(self) -> Tensor:
        """The sum, in the dtype of the tensors."""
        negative = _carried(self.limbs)[0] < 0
        # Of the absolute value: parts of different sign would lose in float64 what they have in common.
        limbs = _carried(self.limbs.where(~negative, -self.limbs))
        total = torch.zeros_like(self.rest)
        for place in range(LIMBS - 1, -1, -1):
            total = total + limbs[place].double() * 2.0 ** (-BITS * place)
        return (total.where(~negative, -total) + self.rest).to(self.dtype)


def _carried(limbs: Tensor) -> list[Tensor]:
    """The same number with every limb but the first from 0 to 2³¹ - 1."""
    found = [*limbs]
    for place in range(LIMBS - 1, 0, -1):
        found[place - 1] = found[place - 1] + (found[place] >> BITS)
        found[place] = found[place] & (2**BITS - 1)
    return found
