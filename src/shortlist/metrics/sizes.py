"""Size of sets, share of empty sets, and share of their labels that are right."""

from typing import Any

import torch
from torch import Tensor

from shortlist.metrics.answers import Answer, like_input
from shortlist.metrics.inputs import checked
from shortlist.metrics.totals import ratio
from shortlist.tensors import is_single_label, pick


@like_input
def set_size(sets: Any, target: Any = None) -> Answer:
    """Mean number of labels in a set. The target is not needed; it is checked if it is given.

    >>> set_size(torch.tensor([[True, True], [False, False]]))
    tensor(1., dtype=torch.float64)
    """
    return ratio(size_sums(checked(sets, target, "sets")[0]))


@like_input
def empty_rate(sets: Any, target: Any = None) -> Answer:
    """Share of rows whose set is empty. The target is not needed; it is checked if it is given.

    >>> empty_rate(torch.tensor([[True, True], [False, False]]))
    tensor(0.5000, dtype=torch.float64)
    """
    return ratio(empty_sums(checked(sets, target, "sets")[0]))


@like_input
def set_precision(sets: Any, target: Any) -> Answer:
    """Share of the returned labels that are right; NaN if nothing is returned.

    >>> set_precision(torch.tensor([[True, True], [False, True]]), torch.tensor([[True, False], [False, True]]))
    tensor(0.6667, dtype=torch.float64)
    """
    return ratio(right_sums(*checked(sets, target, "sets")))


def size_sums(sets: Tensor) -> Tensor:
    """Labels returned, and rows."""
    return torch.stack([sets.sum(), torch.tensor(len(sets), device=sets.device)]).double()


def empty_sums(sets: Tensor) -> Tensor:
    """Empty sets, and rows."""
    return torch.stack([(~sets.any(1)).sum(), torch.tensor(len(sets), device=sets.device)]).double()


def right_sums(sets: Tensor, target: Tensor) -> Tensor:
    """Right labels returned, and labels returned."""
    right = pick(sets, target) if is_single_label(target) else sets & target
    return torch.stack([right.sum(), sets.sum()]).double()
