"""Confidence on rows without a label."""

from typing import Any

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.metrics.answers import Answer, like_input
from shortlist.metrics.inputs import checked
from shortlist.metrics.totals import ratio
from shortlist.tensors import is_single_label, summed


@like_input
def mean_max_confidence(probs: Any, target: Any = None) -> Answer:
    """Mean of the highest probability over the rows without a label; over all rows if no target is given.

    Args:
        probs: (N, C).
        target: bool (N, C), some rows of which have no label; None for rows that all have none.

    >>> mean_max_confidence(torch.tensor([[0.9, 0.2], [0.3, 0.1]]), torch.tensor([[True, False], [False, False]]))
    tensor(0.3000, dtype=torch.float64)

    Hein, Andriushchenko, Bitterwolf, 2019; Liao, Table II.
    """
    return ratio(confidence_sums(*checked(probs, target, "probabilities")))


def confidence_sums(probs: Tensor, target: Tensor | None) -> Tensor:
    """Summed confidence of the rows without a label, and their number."""
    if target is not None:
        if is_single_label(target):
            raise InputError("target: expected bool (N, C), some rows of which have no label; got one label a row")
        probs = probs[~target.any(1)]
    top = probs.amax(1).double()
    return torch.stack([summed(top), torch.tensor(float(len(top)), dtype=torch.float64, device=top.device)])
