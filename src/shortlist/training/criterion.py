"""The training criterion: the share of one micro-batch on one process in the loss of a step."""

import torch
from torch import Tensor, nn

from shortlist.data.randomness import Purpose
from shortlist.links import Link
from shortlist.losses import Loss, loss_of_linear
from shortlist.losses.loss import LossState
from shortlist.models.heads import PendingScores
from shortlist.processes import processes
from shortlist.tensors import Scores, Target, TwoHeadScores
from shortlist.training.recipe import Recipe
from shortlist.training.sampler import derived_seed


class Criterion(nn.Module):
    """(network output, target, row numbers) → the share of a micro-batch in the loss of a step.

    The loss of a step is the mean over its rows. A loss that couples rows is computed on the micro-batch of all processes
    together; for the others each process computes the mean over its own rows, weighted so that the average over processes is
    the mean over all rows. Whatever the loss keeps between steps is in :attr:`state`.
    """

    def __init__(self, recipe: Recipe, counts: Tensor, rows: int):
        super().__init__()
        self.loss: Loss = recipe.chosen_method.loss(counts)
        seed = derived_seed(recipe.seed, Purpose.LOSS_STATE, 0) % 2**63
        self.state = self.loss.training_state(rows, len(counts), seed)

    @property
    def link(self) -> Link | None:
        """The link that turns scores into probabilities; some losses update it during training."""
        return self.state.link

    @property
    def recordable(self) -> bool:
        """Whether a CUDA graph may hold the loss: it keeps nothing between steps, neither on the device nor in Python."""
        return type(self.state) is LossState

    def forward(
        self, output: Scores | TwoHeadScores | PendingScores, target: Target, rows: Tensor, total: int, batch: int
    ) -> Tensor:
        """The share of these rows in the loss of the step.

        Args:
            output: the network's output; scores that are pending only if ``fused_head.py`` finds nothing against it.
            target: the labels.
            rows: the row numbers in the training set.
            total: number of rows of this micro-batch on all processes.
            batch: number of rows of the whole step.
        """
        weight = total / batch if self.loss.couples else len(target) * processes() / batch
        value: Tensor = (
            _fused(self.loss, output, target) if isinstance(output, PendingScores) else self.state(output, target, rows)
        )
        return value * weight

    def stepped(self, rate: float) -> None:
        """Tell the loss that the optimiser has taken a step with this learning rate."""
        self.state.stepped(rate)

    def skipped(self) -> None:
        """Tell the loss that the step was dropped."""
        self.state.skipped()

    def link_tensors(self) -> dict[str, Tensor]:
        """The buffers of the link."""
        return {} if self.link is None else dict(self.link.state_dict())

    def restore_link(self, tensors: dict[str, Tensor]) -> None:
        """Restore the buffers of the link."""
        if self.link is not None and tensors:
            self.link.load_state_dict(tensors)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that a checkpoint keeps."""
        return self.state.tensors()

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue from the tensors of a checkpoint."""
        self.state.restore(tensors)


def _fused(loss: Loss, output: PendingScores, target: Target) -> Tensor:
    """The loss of scores that are computed some rows at a time, in the dtype of their inputs."""
    inputs, weight, bias = output
    with torch.autocast(inputs.device.type, inputs.dtype, enabled=inputs.dtype in (torch.bfloat16, torch.float16)):
        return loss_of_linear(loss, inputs, weight, bias, target)
