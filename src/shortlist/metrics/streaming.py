"""The streaming form of a metric: batches go in one by one, in any order, on any number of processes."""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from shortlist.tensors import as_target, as_tensor


class Streaming(Metric):
    """A metric that is a function of a total to which each batch adds a tensor of constant size.

    A subclass gives ``_accumulate`` (what a batch adds, float64) and ``_finish`` (the answer); the function of the same name
    is one after the other. Where exactness needs every score, it is constructed with ``gathers=True``, keeps the batches,
    and gives ``_whole`` instead.
    """

    full_state_update = False
    total: Tensor
    values: list[Tensor]
    targets: list[Tensor]

    def __init__(self, *, gathers: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        self.gathers = gathers
        if gathers:
            self.add_state("values", [], dist_reduce_fx="cat")
            self.add_state("targets", [], dist_reduce_fx="cat")
        else:
            # A scalar: the first batch gives it its shape, which may depend on the number of classes.
            self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, values: Any, target: Any = None) -> None:
        """Add a batch of sets or probabilities and, where the metric needs it, its target."""
        values, target = as_tensor(values), None if target is None else as_target(target)
        if self.gathers:
            self.values.append(values)
            self.targets.append(target)
        else:
            self.total = self.total + self._accumulate(values, target)

    def compute(self) -> Any:
        """The metric over all batches so far."""
        if self.gathers:
            return self._whole(_joined(self.values), _joined(self.targets))
        return self._finish(self.total)

    def _accumulate(self, values: Tensor, target: Any) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not say what a batch adds")

    def _finish(self, total: Tensor) -> Any:
        raise TypeError(f"{type(self).__name__} does not say what its total means")

    def _whole(self, values: Tensor, target: Tensor) -> Any:
        raise TypeError(f"{type(self).__name__} does not say what it computes")


def ratio(total: Tensor) -> Tensor:
    """A total of two numbers as one over the other; NaN where there is nothing."""
    total = total if total.ndim else total.new_zeros(2)
    return total[0] / total[1]


def _joined(parts: list[Tensor] | Tensor) -> Tensor:
    return parts if isinstance(parts, Tensor) else torch.cat(parts)
