"""A link whose probabilities are those of another, for other shares of the classes."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from shortlist.checks import check_row_sums
from shortlist.class_names import by_class
from shortlist.errors import InputError, NotFittedError
from shortlist.links.based import Base, BasedLink
from shortlist.links.fixed import Identity, Softmax, softmax_log_odds
from shortlist.links.link import Link
from shortlist.tensors import Probs, Scores, as_tensor, shape_of


class Reweighted(BasedLink):
    r"""The probabilities of the base, each times the weight of its class, divided by the sum of the row.

    .. math:: p_j = \frac{w_j q_j}{\sum_i w_i q_i}

    With new over old share of each class as weights, and q right for the old shares, p is right for the new ones. What has
    probability 0 keeps it.

    >>> Reweighted(Softmax(), [1.0, 3.0]).probs(torch.tensor([[0.0, 0.0], [3.0, 0.0]]))
    tensor([[0.2500, 0.7500],
            [0.8700, 0.1300]])

    Args:
        base: a link whose probabilities of a row sum to 1, such as softmax, or one that was fitted on rows with one label;
            softmax by default.
        weights: one number above 0 for each class; only their ratios matter.

    Saerens, Latinne, Decaestecker, "Adjusting the outputs of a classifier to new a priori probabilities", 2002.
    """

    kind = "reweighted"
    weights: Tensor | None

    def __init__(self, base: Base = None, weights: Any = None):
        super().__init__(Softmax() if base is None else base)
        if not (self._base.exclusive or isinstance(self._base, Identity)):
            raise InputError(
                "base: expected a link whose probabilities of a row sum to 1, such as softmax, or one fitted on rows with one "
                f"label, got {self._base!r}"
            )
        self.register_buffer("weights", None if weights is None else _checked_weights(weights))

    @property
    def exclusive(self) -> bool:
        """True: the probabilities of a row sum to one."""
        return True

    @property
    def reaches_zero(self) -> bool:
        """As declared by :class:`Link`, for the base."""
        return self._base.reaches_zero

    @property
    def records_fit(self) -> bool:
        """True: without its weights it would be another link."""
        return True

    def for_rows(self, *, single: bool) -> Link | None:
        """As declared by :class:`Link`: only for rows with one label."""
        return self if single else None

    def check_buffers(self) -> None:
        """As declared by :class:`Link`: a finite weight above 0 for each class."""
        super().check_buffers()
        self._check_buffer("weights", "(C,)", above=0)

    def check_classes(self, classes: int) -> None:
        """Raise unless there is a weight for each class."""
        weights = self._buffers["weights"]
        if weights is None:
            raise NotFittedError(f"{self} has no weights: use Reweighted(base, weights), or link(base) of class shares")
        if weights.shape != (classes,):
            raise InputError(f"{self}: expected scores of {len(weights)} classes, one for each weight, got {classes}")
        self._base.check_classes(classes)

    @property
    def _base(self) -> Link:
        return self._fitted_base()

    def _checked(self, scores: Scores) -> Scores:
        scores = super()._checked(scores)
        if isinstance(self._base, Identity):
            check_row_sums(scores, "scores with the link identity")
        return scores

    def _logs(self, scores: Scores) -> Tensor:
        """The logarithms of the base's probabilities, up to a constant of the row."""
        base = self._base
        if isinstance(base, Softmax):
            # Beside a large common number the digits of a weight would be lost.
            return scores - scores.detach().amax(1, keepdim=True)
        if not base.reaches_zero:
            return logsigmoid(base._log_odds(scores))
        probs = base._probs(scores)
        none = probs == 0  # 1 in its place keeps the gradient 0 instead of NaN
        return torch.where(none, -torch.inf, torch.where(none, 1.0, probs).log())

    def _linear(self, scores: Scores) -> Tensor:
        logs = self._logs(scores)
        return logs + self.fitted_buffer("weights").log().to(logs)

    def _probs(self, scores: Scores) -> Probs:
        return torch.softmax(self._linear(scores), dim=1)

    def _log_odds(self, scores: Scores) -> Tensor:
        return softmax_log_odds(self._linear(scores))

    def _scores(self, probs: Probs) -> Scores:
        before = torch.softmax(probs.log() - self._weights_for(probs).log().to(probs), dim=1)
        return self._base._scores(before)

    def _weights_for(self, probs: Probs) -> Tensor:
        self.check_classes(probs.shape[1])
        return self.fitted_buffer("weights")


def _checked_weights(weights: Any) -> Tensor:
    given = by_class("weights", weights)
    values = as_tensor(given, "weights").detach()
    if values.ndim != 1 or values.is_complex():
        raise InputError(f"weights: expected a number for each class, (C,), got {shape_of(values)}")
    # A list is read again, as torch takes its numbers for float32.
    values = values.double() if hasattr(given, "dtype") else torch.tensor(given, dtype=torch.float64)
    wrong = ~values.isfinite() | (values <= 0)
    if wrong.any():
        raise InputError(f"weights: expected finite numbers above 0, got {values[wrong][0].item():g}")
    return values.clone()
