"""How large sets are, how many are empty, and how many of their labels are right."""

from typing import Any

import torch
from torch import Tensor

from shortlist.metrics.totals import ratio
from shortlist.tensors import as_target, as_tensor, check_sets, is_single_label, pick


def set_size(sets: Any, target: Any = None) -> Tensor:
    """The mean number of labels of a set.

    >>> set_size(torch.tensor([[True, True], [False, False]]))
    tensor(1., dtype=torch.float64)
    """
    return ratio(size_sums(as_tensor(sets, "sets")))


def empty_rate(sets: Any, target: Any = None) -> Tensor:
    """The share of rows whose set is empty.

    >>> empty_rate(torch.tensor([[True, True], [False, False]]))
    tensor(0.5000, dtype=torch.float64)
    """
    return ratio(empty_sums(as_tensor(sets, "sets")))


def set_precision(sets: Any, target: Any) -> Tensor:
    """The share of returned labels that are right; NaN where nothing is returned.

    >>> set_precision(torch.tensor([[True, True], [False, True]]), torch.tensor([[True, False], [False, True]]))
    tensor(0.6667, dtype=torch.float64)
    """
    return ratio(right_sums(as_tensor(sets, "sets"), as_target(target)))


def size_sums(sets: Tensor) -> Tensor:
    """Labels returned, and rows."""
    check_sets(sets)
    return torch.stack([sets.sum(), torch.tensor(len(sets), device=sets.device)]).double()


def empty_sums(sets: Tensor) -> Tensor:
    """Empty sets, and rows."""
    check_sets(sets)
    return torch.stack([(~sets.any(1)).sum(), torch.tensor(len(sets), device=sets.device)]).double()


def right_sums(sets: Tensor, target: Tensor) -> Tensor:
    """Right labels returned, and labels returned."""
    check_sets(sets, target)
    right = pick(sets, target) if is_single_label(target) else sets & target
    return torch.stack([right.sum(), sets.sum()]).double()
