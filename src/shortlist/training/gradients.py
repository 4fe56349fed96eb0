"""A look at the gradient of every step, which may be infinite or NaN although the loss is finite."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shortlist.training.device_state import PendingNumber
from shortlist.training.row_sources import Batch


@dataclass(frozen=True)
class FailedStep:
    """A step whose gradient is not finite.

    Args:
        step: its number, from 0.
        loss: its loss.
        gradient: the largest absolute entry of its gradient.
        batches: its batches.
    """

    step: int
    loss: float
    gradient: float
    batches: Sequence[Batch]


class GradientWatch:
    """Finds steps whose gradient is not finite, without waiting for the device.

    The largest absolute entry is copied from the device while it works on; :meth:`failed` reads it, at the latest when the next
    step has computed its loss, which waits for the device anyway.
    """

    def __init__(self) -> None:
        self._pending: tuple[PendingNumber, int, float, Sequence[Batch]] | None = None

    def start(self, modules: Iterable[nn.Module], step: int, loss: float, batches: Sequence[Batch]) -> None:
        """Look at the gradients of a step, after its backward pass."""
        largest = largest_gradient(modules)
        if largest is not None:
            self._pending = (PendingNumber(largest), step, loss, batches)

    def failed(self) -> FailedStep | None:
        """The step that was looked at last, if its gradient is not finite; each step is reported once."""
        if self._pending is None:
            return None
        (number, step, loss, batches), self._pending = self._pending, None
        value = number.value()
        return None if math.isfinite(value) else FailedStep(step, loss, value, batches)


@torch.no_grad()
def largest_gradient(modules: Iterable[nn.Module]) -> Tensor | None:
    """The largest absolute entry of the gradients, NaN if one is NaN; None without gradients.

    The largest entry rather than the norm, which overflows for gradients that are large but finite.

    >>> layer = nn.Linear(2, 1)
    >>> layer(torch.tensor([[3.0, -4.0]])).sum().backward()
    >>> largest_gradient([layer])
    tensor(4.)
    """
    found = [parameter.grad for module in modules for parameter in module.parameters() if parameter.grad is not None]
    dense = [grad._values() if grad.is_sparse else grad for grad in found]
    filled = [grad for grad in dense if grad.numel()]
    if not filled:
        return None
    device = filled[0].device
    return torch.stack([norm.to(device) for norm in torch._foreach_norm(filled, torch.inf)]).float().amax()
