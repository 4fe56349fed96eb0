"""What a step reads from and leaves on its device beside weights: a number on its way, random states, running statistics."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class PendingNumber:
    """A number on its way from the device, waited for only when it is asked for: the device meanwhile goes on."""

    def __init__(self, number: Tensor):
        self._event = None
        if number.device.type == "cuda":
            self._number = torch.empty((), dtype=number.dtype, pin_memory=True).copy_(number, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()
        else:
            self._number = number

    def value(self) -> float:
        """The number."""
        if self._event is not None:
            self._event.synchronize()
        return float(self._number)


def seed_step(seed: int, device: torch.device) -> None:
    """The generators that a step can draw from; ``torch.manual_seed`` also keeps a list for devices that are not there."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)


class BufferSnapshot:
    """Buffers of some modules as they are now, to be put back: those that a forward pass would change or make.

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
        """Put them back."""
        for module, name, value in self._kept:
            held = module._buffers[name]
            if value is None or held is None:
                module._buffers[name] = value
            else:
                held.copy_(value)  # in place: a compiled graph knows where they lie
