"""Links with nothing to fit: identity, softmax, sigmoid."""

import torch
from torch import Tensor

from shortlist.links.link import Link
from shortlist.tensors import Probs, Scores


class Identity(Link):
    """The scores are probabilities already.

    >>> Identity().probs(torch.tensor([[0.25, 0.75]]))
    tensor([[0.2500, 0.7500]])
    """

    kind = "identity"

    def _probs(self, scores: Scores) -> Probs:
        return scores.clamp(0, 1)  # float32 rounding leaves some a hair outside

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


class Softmax(Link):
    """``probs = exp(scores) / Σ_j exp(scores_j)``, the link of cross-entropy; its inverse is up to a constant a row.

    >>> Softmax().probs(torch.tensor([[0.0, 0.0]]))
    tensor([[0.5000, 0.5000]])
    """

    kind = "softmax"

    def _probs(self, scores: Scores) -> Probs:
        return torch.softmax(scores, dim=1)

    def _log_odds(self, scores: Scores) -> Tensor:
        return scores - log_sum_of_others(scores)

    def _scores(self, probs: Probs) -> Scores:
        return probs.log()


def log_sum_of_others(scores: Scores) -> Tensor:
    """``log Σ_{i≠j} exp(s_i)`` for every j, (N, C), exact where class j is all but certain."""
    # Off the maximum p ≤ 1/2, so log(1 - p) loses nothing; at the maximum the others are summed by themselves.
    top = scores.argmax(dim=1, keepdim=True)
    others = scores.scatter(1, top, -torch.inf).logsumexp(dim=1, keepdim=True)
    everything = scores.logsumexp(dim=1, keepdim=True)
    share = (scores - everything).exp().scatter(1, top, 0.0)
    return (everything + torch.log1p(-share)).scatter(1, top, others)
