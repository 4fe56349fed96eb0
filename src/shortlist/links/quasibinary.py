"""The quasibinary link: one running normaliser for all labels (Liao)."""

import math
from typing import ClassVar

import torch
from torch import Tensor

from shortlist.checks import check_labels_now, number
from shortlist.errors import InputError
from shortlist.links.link import Link
from shortlist.processes import total, total_logsumexp
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
        batch, labels = batch_log_normalizer(working(scores), target)
        if not batch.isfinite():
            return
        if labels == 0:
            if self.log_normalizer is None:
                raise InputError("target: expected at least one label in the first batch of a quasibinary link, got none")
            return
        batch = batch - labels.log()
        if self.log_normalizer is None or self.momentum == 0:
            self.log_normalizer = batch
        else:
            old = self.log_normalizer + math.log(self.momentum)
            self.log_normalizer = torch.logaddexp(old, batch + math.log1p(-self.momentum))

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


def batch_log_normalizer(scores: Scores, target: Target) -> tuple[Tensor, Tensor]:
    """``logsumexp`` of all scores and the number of labels, over all processes; the first has a gradient."""
    labels = torch.tensor(len(target), device=scores.device) if is_single_label(target) else target.sum()
    return total_logsumexp(scores.flatten()), total(labels.to(scores.dtype))
