"""All that a step computes before its loss, in one graph: augmentation, standardising, the network."""

from typing import Any

import torch
from torch import Tensor, nn

from shortlist.models.heads import TwoHeadScores
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.training.augmentation import Augmenter


class RawModel(nn.Module):
    """Raw inputs and the draws of their augmentation → scores."""

    def __init__(self, network: Network, inputs: InputSpec, augmenter: Augmenter | None):
        super().__init__()
        self.network, self.inputs, self.augmenter = network, inputs, augmenter
        # What standardising keeps on the device is brought there now, lest it become part of a compiled graph.
        inputs.on(next(network.parameters()).device)

    def forward(self, raw: Tensor, *draws: Tensor) -> Tensor | TwoHeadScores:
        """Augmented, standardised, scored."""
        with torch.no_grad():
            prepared = self.inputs.prepare(raw if self.augmenter is None else self.augmenter.apply(raw, *draws))
        scores: Tensor | TwoHeadScores = self.network(prepared)
        return scores


def compiled(model: RawModel, *, replay: bool) -> Any:
    """The model, compiled; with ``replay`` a GPU replays recorded kernels, which takes the processor out of the way.

    Recorded kernels write to the same memory every time, so that gradients must be used up before the next micro-batch, and
    nobody else may wait for them in between.
    """
    return torch.compile(model, mode="reduce-overhead" if replay else "default")
