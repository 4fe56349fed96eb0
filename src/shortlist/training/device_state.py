"""State on the device besides the weights: a loss on its way to the CPU, random generators, running statistics."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class PendingNumber:
    """A number being copied from the device; :meth:`value` waits for it, and the device keeps working meanwhile."""

    def __init__(self, number: Tensor):
        self._event = None
        if number.device.type == "cuda":
            self._number = torch.empty((), dtype=number.dtype, pin_memory=True).copy_(number, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()
        else:
            self._number = number

    def value(self) -> float:
        """Wait for the number and return it."""
        if self._event is not None:
            self._event.synchronize()
        return float(self._number)


def seed_step(seed: int, device: torch.device) -> None:
    """Seed the generators that a step can draw from; faster than ``torch.manual_seed``, which handles all kinds of devices."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)


class BufferSnapshot:
    """A copy of the buffers of some modules, to undo what a forward pass does to them.

    >>> norm = nn.BatchNorm1d(2)
    >>> before = BufferSnapshot([norm])
    >>> _ = norm(torch.full((3, 2), torch.nan))
    >>> before.restore()
    >>> norm.running_mean
    tensor([0., 0.])
    """

    def __init__(self, modules: Iterable[nn.Module]):
        self._kept = [
            (module, name, None if buffer is None else buffer.clone())
            for whole in modules
            for module in whole.modules()
            for name, buffer in module._buffers.items()
        ]

    @torch.no_grad()
    def restore(self) -> None:
        """Restore the buffers."""
        for module, name, value in self._kept:
            held = module._buffers[name]
            if value is None or held is None:
                module._buffers[name] = value
            else:
                held.copy_(value)  # in place: a compiled graph refers to this memory
