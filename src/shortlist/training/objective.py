"""The loss of a micro-batch, with whatever the method keeps beside the network: label estimates, a running normaliser."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from shortlist.data.randomness import Purpose
from shortlist.links import Link, Quasibinary
from shortlist.losses import RoleEstimates, RoleLoss
from shortlist.methods.menu import Objective
from shortlist.models.heads import TwoHeadScores
from shortlist.processes import processes, total
from shortlist.tensors import Target, is_single_label
from shortlist.training.checkpoint import below, under
from shortlist.training.plan import derived_seed
from shortlist.training.recipe import Recipe

ESTIMATES_FASTER = 1.0  # than the network's rate; the choice of Garcin 2023 on CIFAR-100 (Cole: 10)


@dataclass(frozen=True)
class _Estimated:
    """Estimates that a micro-batch has read, as a leaf whose gradient is theirs."""

    rows: Tensor
    target: Target
    values: Tensor
    together: int


class TrainingObjective(nn.Module):
    """(network's output, target, row numbers) → the share of one process in the loss of a step.

    A step's loss is the mean over its rows. Losses that couple rows are the global micro-batch's; of the others each process
    gives the mean over its own rows, weighted so that the average over processes is that over all rows.

    The running normaliser of quasibinary moves with every micro-batch, so that with ``accumulate`` it moves several times a
    step, each time by fewer rows. Label estimates move once a step, by the gradients of all its micro-batches.
    """

    def __init__(self, recipe: Recipe, counts: Tensor, rows: int):
        super().__init__()
        self.loss: Objective = recipe.chosen_method.loss(counts)
        self.link: Link | None = recipe.chosen_method.link(counts)
        self.estimates: RoleEstimates | None = None
        if isinstance(self.loss, RoleLoss):
            seed = derived_seed(recipe.seed, Purpose.ROLE_ESTIMATES, 0) % 2**63
            self.estimates = RoleEstimates(rows, len(counts), seed=seed)
        self._read: list[_Estimated] = []  # by the micro-batches of the step in progress

    def forward(self, output: Tensor | TwoHeadScores, target: Target, rows: Tensor, together: int, batch: int) -> Tensor:
        """The loss of these rows.

        Args:
            output: what the network put out for them.
            target: their labels.
            rows: their numbers.
            together: rows that all processes have in this micro-batch.
            batch: rows of the whole step.
        """
        scores, extra = output, {}
        if isinstance(output, TwoHeadScores):
            scores, extra = output.scores, {"proposal_scores": output.proposal_scores}
        if self.estimates is not None:
            extra = {"estimates": self._estimated(self.estimates, rows, target, together, batch)}
        assert isinstance(scores, Tensor)
        if isinstance(self.link, Quasibinary):
            extra |= self._follow(self.link, scores, target)
        weight = together / batch if self.loss.couples else len(target) * processes() / batch
        value: Tensor = self.loss(scores, target, **extra) * weight
        return value

    def stepped(self, rate: float) -> None:
        """The network has made its step; so do the estimates. A rate of 0 moves nothing."""
        read, self._read = self._read, []
        if self.estimates is None or rate == 0:
            return
        self.estimates.step(rate * ESTIMATES_FASTER)
        for part in read[:-1]:
            # The store moves the rows that it gave out last; those of earlier micro-batches are read again for that.
            self.estimates(part.rows, part.target).grad = part.values.grad
            self.estimates.step(rate * ESTIMATES_FASTER)

    def _estimated(self, store: RoleEstimates, rows: Tensor, target: Target, together: int, batch: int) -> Tensor:
        """The estimates of these rows, remembered until the step is made."""
        if sum(part.together for part in self._read) >= batch:  # of a step that was left out
            self._read = []
        rows = rows.to(target.device)
        values: Tensor = store(rows, target)
        self._read.append(_Estimated(rows, target, values, together))
        return values

    def link_tensors(self) -> dict[str, Tensor]:
        """The numbers of a link, where it has any."""
        return {} if self.link is None else dict(self.link.state_dict())

    def restore_link(self, tensors: dict[str, Tensor]) -> None:
        """Put them back."""
        if self.link is not None and tensors:
            self.link.load_state_dict(tensors)

    def own_tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps: a running normaliser and label estimates, where the method has them."""
        found: dict[str, Tensor] = {}
        if self.link is not None:
            found |= under("link", self.link.state_dict())
        if self.estimates is not None:
            found["estimates.logits"] = self.estimates.logits
            found["estimates.random"] = self.estimates.get_extra_state()
        return found

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Put them back."""
        if self.link is not None:
            self.link.load_state_dict(below("link", tensors))
        if self.estimates is not None:
            self.estimates.logits.copy_(tensors["estimates.logits"])
            self.estimates.set_extra_state(tensors["estimates.random"])

    @staticmethod
    def _follow(link: Quasibinary, scores: Tensor, target: Target) -> dict[str, Any]:
        """Move the running normaliser; a batch without a label uses it as it stands."""
        labels = total(torch.as_tensor(float(len(target))) if is_single_label(target) else target.sum().float())
        if labels > 0:
            link.update(scores.detach(), target)
            return {}
        return {} if link.log_normalizer is None else {"log_normalizer": link.log_normalizer}
