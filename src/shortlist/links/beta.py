"""Beta calibration: Platt scaling whose two ends bend separately."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from shortlist.errors import InputError
from shortlist.links.based import Base
from shortlist.links.logistic import fit_logistic, logistic_loss, smoothed
from shortlist.links.per_label import PerLabelLink, column_blocks
from shortlist.tensors import Probs, Scores


class Beta(PerLabelLink):
    r"""``sigmoid(a · log p - b · log(1 - p) + c)`` of the base's probabilities p, with a, b ≥ 0 and c fitted for each label.

    The family that is right where the scores of positives and of negatives are beta distributed. It contains the identity
    (a = b = 1, c = 0), so that it cannot harm calibrated probabilities but by the noise of the fit, and for a = b it is Platt
    scaling. Its likelihood is maximised with the targets of :class:`Platt`, so that an optimum always exists. With
    a, b ≥ 0 the map does not decrease.

    >>> scores = torch.tensor([[-1.0], [0.0], [1.0], [2.0]])
    >>> link = Beta().fit(scores, torch.tensor([[False], [True], [False], [True]]))
    >>> link.probs(scores).flatten()
    tensor([0.3394, 0.4602, 0.5613, 0.6390])

    Kull, Silva Filho, Flach, "Beta calibration: a well-founded and easily implemented improvement on logistic calibration for
    binary classifiers", 2017.
    """

    kind = "beta"
    a: Tensor | None
    b: Tensor | None
    c: Tensor | None

    def __init__(self, base: Base = None, single: bool | None = None):
        super().__init__(base, single)
        for name in ("a", "b", "c"):
            self.register_buffer(name, None)

    def check_buffers(self) -> None:
        """As declared by :class:`Link`."""
        super().check_buffers()
        self._check_shapes()
        for name in ("a", "b", "c"):
            self._check_buffer(name, "(C,)")
        for name in ("a", "b"):
            values = self._buffers[name]
            if values is not None and (values < 0).any():
                raise InputError(f"{name}: expected numbers from 0, got {values.min().item():g}")

    def _fit_labels(self, odds: Tensor, marks: Tensor, shown: Tensor) -> None:
        found = torch.ones(3, odds.shape[1], dtype=torch.float64, device=odds.device)
        found[2] = 0  # the identity
        for columns in column_blocks(shown, len(odds)):
            found[:, columns] = _fit_beta(odds[:, columns].double(), marks[:, columns])
        self.a, self.b, self.c = found

    def _each(self, odds: Tensor) -> Probs:
        return torch.sigmoid(self._bent(odds))

    def _bent(self, odds: Tensor) -> Tensor:
        a, b, c = (self.fitted_buffer(name).to(odds.dtype) for name in ("a", "b", "c"))
        return a * logsigmoid(odds) - b * logsigmoid(-odds) + c

    def _log_each(self, odds: Tensor) -> Tensor:
        return logsigmoid(self._bent(odds))

    def _log_odds(self, scores: Scores) -> Tensor:
        return super()._log_odds(scores) if self.single else self._bent(self._odds_of_base(scores))


def _fit_beta(odds: Tensor, marks: Tensor) -> Tensor:
    """a, b and c of each column, (3, L), by maximum likelihood with a, b ≥ 0."""
    features, outcome = torch.stack([logsigmoid(odds), -logsigmoid(-odds)]), smoothed(marks)
    best = fit_logistic(features, outcome, "beta")
    wrong = (best[:2] < 0).any(0)
    if wrong.any():  # the likelihood is concave, so the optimum is on the edge a = 0, on b = 0, or on both
        best[:, wrong] = _on_an_edge(features[:, :, wrong], outcome[:, wrong])
    return best


def _on_an_edge(features: Tensor, outcome: Tensor) -> Tensor:
    """The best with a = 0 or b = 0."""
    found = []
    for kept in range(2):
        alone = torch.zeros_like(features)
        alone[kept] = features[kept]
        edge = fit_logistic(alone, outcome, "beta")
        constant = torch.zeros_like(edge)
        constant[2] = torch.logit(outcome.mean(0))
        found.append(torch.where(edge[kept] < 0, constant, edge))
    with_intercept = torch.cat([features, torch.ones_like(features[:1])])
    losses = [logistic_loss(with_intercept, weights, outcome) for weights in found]
    return torch.where(losses[0] <= losses[1], found[0], found[1])
