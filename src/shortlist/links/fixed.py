"""Links without anything to fit: identity, softmax, sigmoid, assume-negative."""

import math

import torch
from torch import Tensor

from shortlist.checks import check_values
from shortlist.links.link import Link
from shortlist.tensors import Probs, Scores


class Identity(Link):
    """Scores that are probabilities already; other numbers are refused.

    >>> Identity().probs(torch.tensor([[0.25, 0.75]]))
    tensor([[0.2500, 0.7500]])
    """

    kind = "identity"

    def _checked(self, scores: Scores) -> Scores:
        return check_values(super()._checked(scores), "probabilities", "scores with the link identity")

    def _probs(self, scores: Scores) -> Probs:
        return scores

    def _scores(self, probs: Probs) -> Scores:
        return probs


class Sigmoid(Link):
    """``probs = 1 / (1 + exp(-scores))``, the link of binary cross-entropy.

    >>> Sigmoid().probs(torch.tensor([[0.0, 100.0]]))
    tensor([[0.5000, 1.0000]])
    """

    kind = "sigmoid"

    def _log_odds(self, scores: Scores) -> Tensor:
        return scores

    def _scores(self, probs: Probs) -> Scores:
        return torch.logit(probs)


class AssumeNegative(Link):
    """``probs = σ(scores - log(C - 1))``, the link of the assume-negative loss, whose absent labels together weigh as one.

    >>> AssumeNegative().probs(torch.tensor([[math.log(2), 0.0, 0.0]]))
    tensor([[0.5000, 0.3333, 0.3333]])
    """

    kind = "assume-negative"

    def _log_odds(self, scores: Scores) -> Tensor:
        return scores - math.log(max(1, scores.shape[1] - 1))

    def _scores(self, probs: Probs) -> Scores:
        return torch.logit(probs) + math.log(max(1, probs.shape[1] - 1))


class Softmax(Link):
    """``probs = exp(scores) / Σ_j exp(scores_j)``, the link of cross-entropy; its inverse is defined up to a constant per row.

    >>> Softmax().probs(torch.tensor([[0.0, 0.0]]))
    tensor([[0.5000, 0.5000]])
    """

    kind = "softmax"

    @property
    def exclusive(self) -> bool:
        """True: the probabilities of a row sum to one."""
        return True

    def _probs(self, scores: Scores) -> Probs:
        return torch.softmax(scores, dim=1)

    def _log_odds(self, scores: Scores) -> Tensor:
        return softmax_log_odds(scores)

    def _scores(self, probs: Probs) -> Scores:
        return probs.log()


def softmax_log_odds(scores: Scores) -> Tensor:
    """``s_j - log Σ_{i≠j} exp(s_i)`` for every j, (N, C), accurate even if class j is near certain; infinite if C = 1."""
    # Each side is computed relative to a score of its own size: a large common number would cost the differences.
    top = scores.argmax(dim=1, keepdim=True)
    best = scores.gather(1, top)
    rest = scores.scatter(1, top, -torch.inf)
    second = rest.detach().amax(dim=1, keepdim=True)
    second = torch.where(second.isinf(), best.detach(), second)
    # At the maximum the others are summed separately; elsewhere p ≤ 1/2, so log(1 - p) is accurate.
    at_best = (best - second) - (rest - second).logsumexp(dim=1, keepdim=True)
    centred = scores - best.detach()
    everything = centred.logsumexp(dim=1, keepdim=True)
    share = (centred - everything).exp().scatter(1, top, 0.0)
    return (centred - (everything + torch.log1p(-share))).scatter(1, top, at_best)
