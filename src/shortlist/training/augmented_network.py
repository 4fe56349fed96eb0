"""What a step computes before its backward pass, as one module: augmentation, standardisation, network, loss."""

from typing import Any

import torch
from torch import Tensor, nn

from shortlist.models.heads import PendingScores, TwoHeadScores, pending_scores
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.training.augmentation import Augmenter
from shortlist.training.criterion import Criterion


class AugmentedNetwork(nn.Module):
    """A network with the augmentation and standardisation of its inputs: raw inputs and random draws → scores.

    With ``headless``, → features: the head is then computed together with the loss.
    """

    def __init__(self, network: Network, inputs: InputSpec, augmenter: Augmenter | None, *, headless: bool = False):
        super().__init__()
        self.network, self.inputs, self.augmenter, self.headless = network, inputs, augmenter, headless
        # Moves the statistics to the device now, so that the copy does not become part of a compiled graph.
        inputs.on(next(network.parameters()).device)

    def forward(self, raw: Tensor, *draws: Tensor) -> Tensor | TwoHeadScores:
        """Augment, standardise and score, or stop at the features."""
        with torch.no_grad():
            prepared = self.inputs.prepare(raw if self.augmenter is None else self.augmenter.apply(raw, *draws))
        if self.headless:
            return self.network.features(prepared)
        scores: Tensor | TwoHeadScores = self.network(prepared)
        return scores


class MicroBatchLoss(nn.Module):
    """Raw inputs and labels of a micro-batch → its share in the loss of the step, always computed in float32.

    Args:
        model: the augmented network, as it is or prepared for several processes.
        criterion: the loss.
        head: the head, if the model ends with the features; default None, it ends with the scores.
    """

    def __init__(self, model: nn.Module, criterion: Criterion, head: "FusedHead | None" = None):
        super().__init__()
        self.model, self.criterion, self.head = model, criterion, head

    def forward(self, raw: Tensor, target: Tensor, rows: Tensor, total: int, batch: int, *draws: Tensor) -> Tensor:
        """See :meth:`Criterion.forward` for the arguments."""
        output = self.model(raw, *draws)
        with torch.autocast(raw.device.type, enabled=False):
            scores = _float32(output) if self.head is None else self.head(output)
            value: Tensor = self.criterion(scores, target, rows, total, batch)
        return value


class FusedHead(nn.Module):
    """Features → scores that the loss computes itself, some rows at a time.

    Args:
        head: one that :func:`~shortlist.models.heads.has_pending_scores`.
        dtype: the dtype in which the network is computed; None for that of its weights.
    """

    def __init__(self, head: nn.Module, dtype: torch.dtype | None):
        super().__init__()
        self.head, self.dtype = head, dtype

    def forward(self, features: Tensor) -> PendingScores:
        """What the scores are computed from."""
        return pending_scores(self.head, features, self.dtype)


def _float32(output: Tensor | TwoHeadScores) -> Tensor | TwoHeadScores:
    if isinstance(output, TwoHeadScores):
        return TwoHeadScores(output.scores.float(), output.proposal_scores.float())
    return output.float()


def compiled(model: nn.Module, *, replay: bool) -> Any:
    """Compile the model; with ``replay``, kernels are recorded in a CUDA graph and replayed, so that the CPU is no bottleneck.

    Replayed kernels write to the same memory every time: gradients must be consumed before the next micro-batch, and no other
    process may wait for them in between.

    What was compiled for earlier models is forgotten first: torch compiles a function for at most eight different models in one
    process, and would train the ninth of a search without its kernels and without a word.
    """
    torch.compiler.reset()
    return torch.compile(model, mode="reduce-overhead" if replay else "default")
