"""What batches add up to."""

from torch import Tensor


def ratio(total: Tensor) -> Tensor:
    """A total of two numbers as one over the other; NaN where there is nothing."""
    return total[0] / total[1]
