"""How large sets are, how many are empty, and how many of their labels are right."""

from typing import Any

import torch
from torch import Tensor

from shortlist.metrics.streaming import Streaming, ratio
from shortlist.tensors import as_target, as_tensor, check_sets, one_hot


def set_size(sets: Any, target: Any = None) -> Tensor:
    """The mean number of labels of a set.

    >>> set_size(torch.tensor([[True, True], [False, False]]))
    tensor(1., dtype=torch.float64)
    """
    return ratio(_sizes(as_tensor(sets, "sets")))


class SetSize(Streaming):
    """Streaming form of :func:`set_size`."""

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return _sizes(values)

    def _finish(self, total: Tensor) -> Tensor:
        return ratio(total)


def empty_rate(sets: Any, target: Any = None) -> Tensor:
    """The share of rows whose set is empty.

    >>> empty_rate(torch.tensor([[True, True], [False, False]]))
    tensor(0.5000, dtype=torch.float64)
    """
    return ratio(_empties(as_tensor(sets, "sets")))


class EmptyRate(Streaming):
    """Streaming form of :func:`empty_rate`."""

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return _empties(values)

    def _finish(self, total: Tensor) -> Tensor:
        return ratio(total)


def set_precision(sets: Any, target: Any) -> Tensor:
    """The share of returned labels that are right; NaN where nothing is returned.

    >>> set_precision(torch.tensor([[True, True], [False, True]]), torch.tensor([[True, False], [False, True]]))
    tensor(0.6667, dtype=torch.float64)
    """
    return ratio(_right(as_tensor(sets, "sets"), as_target(target)))


class SetPrecision(Streaming):
    """Streaming form of :func:`set_precision`."""

    higher_is_better = True

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        return _right(values, target)

    def _finish(self, total: Tensor) -> Tensor:
        return ratio(total)


def _sizes(sets: Tensor) -> Tensor:
    check_sets(sets)
    return torch.stack([sets.sum(), torch.tensor(len(sets), device=sets.device)]).double()


def _empties(sets: Tensor) -> Tensor:
    check_sets(sets)
    return torch.stack([(~sets.any(1)).sum(), torch.tensor(len(sets), device=sets.device)]).double()


def _right(sets: Tensor, target: Tensor) -> Tensor:
    check_sets(sets, target)
    return torch.stack([(sets & one_hot(target, sets.shape[1])).sum(), sets.sum()]).double()
