"""The quasibinary link: one running normaliser for all labels (Liao)."""

import math
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from shortlist.checks import check_labels_now, number
from shortlist.errors import InputError
from shortlist.kernels.choice import fused
from shortlist.kernels.quasibinary import quasibinary_sums
from shortlist.links.link import Link
from shortlist.processes import gathered, processes, total, total_logsumexp
from shortlist.tensors import (
    Probs,
    Scores,
    Target,
    as_target,
    as_tensor,
    check_target,
    is_single_label,
    working,
)


class Quasibinary(Link):
    r"""``probs = min(exp(scores) / C, 1)`` with one normaliser C for all rows and labels.

    C is a running mean over the batches of training, ``C ← 0.9 C + 0.1 C_t`` with
    ``log C_t = logsumexp(all scores) - log(number of labels)``, kept in log space and initialised by the first batch.
    The training loop calls :meth:`update`; on several processes C_t is that of the global batch.

    >>> link = Quasibinary()
    >>> link.update(torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([1, 0]))
    >>> link.log_normalizer
    tensor(1.8007)
    >>> link.probs(torch.tensor([[0.0, 3.0]]))
    tensor([[0.1652, 1.0000]])

    Liao, eq. 13 (as printed it drops the factor 0.1).
    """

    kind = "quasibinary"
    domains: ClassVar = {"momentum": number(least=0, below=1)}
    parameter_names = tuple(domains)
    running = True
    momentum: float
    log_normalizer: Tensor | None

    def __init__(self, momentum: float = 0.9):
        super().__init__()
        self._set(momentum=momentum)
        self.register_buffer("log_normalizer", None)

    def check_buffers(self) -> None:
        """As declared by :class:`Link`."""
        self._check_buffer("log_normalizer", "()")

    @torch.no_grad()
    def update(self, scores: Scores, target: Target) -> None:
        """Update the normaliser with this batch; a batch without labels, or with scores that are not finite, changes nothing.

        Training drops the step of such a batch, and goes on.
        """
        scores, target = as_tensor(scores, "scores"), as_target(target)
        check_target(scores, target)
        check_labels_now(target, scores.shape[1])
        batch = batch_log_normalizer(scores, target)
        if self.log_normalizer is None and batch.log_sum.isfinite() and batch.labels == 0:
            raise InputError("target: expected at least one label in the first batch of a quasibinary link, got none")
        self.follow(batch)

    @torch.no_grad()
    def follow(self, batch: "BatchSums") -> None:
        """Update the normaliser with the sums of a batch, from :func:`batch_log_normalizer`.

        After the first batch this never waits for the device, and the tensor is changed in place, so that a recorded CUDA
        graph goes on from what its last replay left.
        """
        counts = batch.log_sum.isfinite() & (batch.labels > 0)
        old = self.log_normalizer
        if old is None:
            if counts:
                self.log_normalizer = batch.log_normalizer()
            return
        if old.is_inference() and not torch.is_inference_mode_enabled():
            old = old.clone()  # an inference tensor cannot be changed in place outside that mode
        old = old.to(counts.device, torch.promote_types(old.dtype, batch.log_sum.dtype))
        new = batch.log_normalizer() + math.log1p(-self.momentum)
        if self.momentum > 0:
            new = torch.logaddexp(old + math.log(self.momentum), new)
        self.log_normalizer = old.copy_(torch.where(counts, new, old))

    def twin(self) -> Self:
        """As declared by :class:`~shortlist.fitting.Fitted`; with a normaliser of its own, since updates change it in place."""
        other = super().twin()
        if self.log_normalizer is not None:
            other.log_normalizer = self.log_normalizer.clone()
        return other

    def exceeds_one(self, scores: Scores) -> Tensor:
        """bool (N, C): where ``q = exp(scores) / C`` is above 1, so that the probability is cut to 1.

        >>> link = Quasibinary()
        >>> link.update(torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([1, 0]))
        >>> link.exceeds_one(torch.tensor([[0.0, 3.0]]))
        tensor([[False,  True]])
        """
        return self._checked(scores) > self.fitted_buffer("log_normalizer", "update")

    def _log_probs(self, scores: Scores) -> Tensor:
        return (scores - self.fitted_buffer("log_normalizer", "update")).clamp(max=0)

    def _probs(self, scores: Scores) -> Probs:
        return self._log_probs(scores).exp()

    def _log_odds(self, scores: Scores) -> Tensor:
        log_probs = self._log_probs(scores)
        # log(1 - exp(x)) is accurate through expm1 near 0 and through log1p elsewhere (Mächler 2012).
        rest = torch.where(log_probs > -math.log(2), (-torch.expm1(log_probs)).log(), torch.log1p(-log_probs.exp()))
        return log_probs - rest

    def _scores(self, probs: Probs) -> Scores:
        return probs.log() + self.fitted_buffer("log_normalizer", "update")


class BatchSums(NamedTuple):
    """What the normaliser of a batch consists of, over all processes.

    Args:
        log_sum: ``logsumexp`` of all scores, with a gradient unless a kernel computed it.
        labels: the number of labels.
        kernel: what the kernels of the loss read instead: (log_sum, labels, largest score, Σ exp(score - largest)).
    """

    log_sum: Tensor
    labels: Tensor
    kernel: Tensor | None = None

    def log_normalizer(self, without_labels: Tensor | float = math.inf) -> Tensor:
        """``log_sum - log(labels)``; for a batch without labels the given value."""
        return torch.where(self.labels == 0, without_labels, self.log_sum - self.labels.clamp(min=1).log())


def batch_log_normalizer(scores: Scores, target: Target) -> BatchSums:
    """The sums that make the normaliser of a batch, over all processes."""
    if fused("quasibinary", scores):
        sums = _over_processes(quasibinary_sums(scores.detach(), target))
        return BatchSums(sums[0], sums[1], sums)
    scores = working(scores)
    labels = scores.new_full((), len(target)) if is_single_label(target) else target.sum().to(scores.dtype)
    return BatchSums(total_logsumexp(scores.flatten()), total(labels))


def _over_processes(sums: Tensor) -> Tensor:
    """The sums of the global batch from those of each process."""
    if processes() == 1:
        return sums
    _, labels, largest, summed = sums
    highest = gathered(largest).amax(0)
    summed = total(summed * (largest - highest).exp())
    return torch.stack([highest + summed.log(), total(labels), highest, summed])
