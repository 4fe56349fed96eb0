"""Probabilities on another scale: percentages and log-probabilities, told from their rows."""

from torch import Tensor

LOOKED_AT = 100  # rows
CLOSE = 1e-2  # by which a row that sums to a whole may miss it


def other_scale(probs: Tensor) -> str | None:
    """What the values look like if they are probabilities on another scale, in a sentence; None if they do not.

    >>> import torch
    >>> other_scale(torch.tensor([[25.0, 75.0], [0.0, 100.0]]))
    'the values look like percentages, as rows add up to 100: divide by 100 to get probabilities'
    >>> other_scale(torch.tensor([[0.25, 0.75], [0.0, 1.0]])) is None
    True
    """
    some = probs[:LOOKED_AT].double()
    if probs.device.type != "cpu" or not len(some) or some.shape[1] < 2:  # elsewhere a look would wait for the device
        return None
    if (some >= 0).all() and ((some.sum(1) - 100).abs() < 100 * CLOSE).all():
        return "the values look like percentages, as rows add up to 100: divide by 100 to get probabilities"
    if (some <= 0).all() and ((some.exp().sum(1) - 1).abs() < CLOSE).all():
        return "the values look like log-probabilities, as their exponentials add up to 1: apply exp to get probabilities"
    return None
