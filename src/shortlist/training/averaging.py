"""An exponential moving average of the weights, which often generalises better than the last weights."""

import copy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

N = TypeVar("N", bound=nn.Module)


class AveragedWeights(Generic[N]):
    """A second network whose weights follow those of the first: ``average ← decay · average + (1 - decay) · weights``.

    The first steps use the smaller of ``decay`` and (1 + step) / (10 + step), so that the initial weights fade
    quickly. Integer buffers (such as the batch counter of batch norm) and buffers with infinities (such as the mask of an
    attention layer) are copied; a weight that layers share is updated once.

    >>> follower = AveragedWeights(torch.nn.Linear(2, 1, bias=False), decay=0.99)
    >>> follower.network.weight.requires_grad
    False

    Polyak, Juditsky, "Acceleration of stochastic approximation by averaging", 1992; Tarvainen, Valpola, "Mean teachers", 2017.
    """

    def __init__(self, network: N, decay: float):
        self.decay = decay
        self.network = copy.deepcopy(network)
        self.network.requires_grad_(False).eval()
        averaged = [tensor.is_floating_point() and bool(tensor.isfinite().all()) for tensor in self.network.buffers()]
        self._copied = [place for place, fine in enumerate(averaged) if not fine]

    @torch.no_grad()
    def update(self, network: nn.Module, step: int) -> None:
        """Update the average after step ``step``, counted from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        ours, theirs = _floats(self.network), _floats(network)
        torch._foreach_lerp_(ours, theirs, 1 - decay)
        if self._copied:
            mine, others = list(self.network.buffers()), list(network.buffers())
            for place in self._copied:
                mine[place].copy_(others[place])


def _floats(network: nn.Module) -> list[Tensor]:
    """The floating-point tensors of the state, each once however many names it has."""
    each = {id(tensor): tensor for tensor in network.state_dict(keep_vars=True).values()}
    return [tensor for tensor in each.values() if tensor.is_floating_point()]
