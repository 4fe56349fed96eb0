"""Everything a step computes before its loss, in one graph: augmentation, standardisation, network."""

from typing import Any

import torch
from torch import Tensor, nn

from shortlist.models.heads import TwoHeadScores
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.training.augmentation import Augmenter


class AugmentedNetwork(nn.Module):
    """A network with the augmentation and standardisation of its inputs: raw inputs and random draws → scores."""

    def __init__(self, network: Network, inputs: InputSpec, augmenter: Augmenter | None):
        super().__init__()
        self.network, self.inputs, self.augmenter = network, inputs, augmenter
        # Moves the statistics to the device now, so that the copy does not become part of a compiled graph.
        inputs.on(next(network.parameters()).device)

    def forward(self, raw: Tensor, *draws: Tensor) -> Tensor | TwoHeadScores:
        """Augment, standardise and score."""
        with torch.no_grad():
            prepared = self.inputs.prepare(raw if self.augmenter is None else self.augmenter.apply(raw, *draws))
        scores: Tensor | TwoHeadScores = self.network(prepared)
        return scores


def compiled(model: AugmentedNetwork, *, replay: bool) -> Any:
    """Compile the model; with ``replay``, kernels are recorded in a CUDA graph and replayed, so that the CPU is no bottleneck.

    Replayed kernels write to the same memory every time: gradients must be consumed before the next micro-batch, and no other
    process may wait for them in between.
    """
    return torch.compile(model, mode="reduce-overhead" if replay else "default")
