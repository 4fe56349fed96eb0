"""Sums over batches."""

from torch import Tensor


def ratio(total: Tensor) -> Tensor:
    """The first number of a total divided by the second; NaN for 0/0."""
    return total[0] / total[1]
