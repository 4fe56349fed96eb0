"""Temperature scaling: one number that makes all probabilities more or less confident."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from shortlist.errors import NotConvergedError
from shortlist.links.fitted import Base, FittedLink
from shortlist.links.fixed import Sigmoid, Softmax
from shortlist.tensors import Probs, Scores, Target, is_single_label, pick, row_blocks


class Temperature(FittedLink):
    r"""``softmax(scores / T)``, or ``sigmoid(scores / T)`` for several labels, where T minimises the negative log-likelihood.

    With a base, its log-odds are divided by T. With softmax as the base the scores are, also for several labels: the softmax is
    then fitted to the shares of the labels of each row, by the cross-entropy that such scores are trained with (Liao's rival,
    Table III). For independent labels the base is the sigmoid, which is the default for several labels.

    The log-likelihood is concave in 1/T, so the optimum is unique; it is found by Newton's method inside a bracket. There is
    no optimum if every label ranks first (T would tend to 0) or if the scores are no better than chance (T would tend to
    infinity); both raise an error.

    >>> scores, target = torch.tensor([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [4.0, 0.0]]), torch.tensor([0, 0, 0, 1])
    >>> Temperature().fit(scores, target).probs(scores[:1])  # 3 of 4 are correct
    tensor([[0.7500, 0.2500]])

    Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks", 2017.
    """

    kind = "temperature"
    temperature: Tensor | None

    def __init__(self, base: Base = None, single: bool | None = None):
        super().__init__(base, single)
        self.register_buffer("temperature", None)

    def check_buffers(self) -> None:
        """As declared by :class:`Link`."""
        super().check_buffers()
        self._check_buffer("temperature", "()", above=0)

    def _fit(self, scores: Scores, target: Target) -> None:
        def slope(scale: float) -> tuple[float, float]:
            first = second = 0.0
            for rows in row_blocks(*scores.shape):
                values = self._scores_of_base(scores[rows]).double()
                part = (_softmax_slopes if self.exclusive else _sigmoid_slopes)(values, target[rows], scale)
                first, second = first + float(part[0]), second + float(part[1])
            return first, second

        self.temperature = torch.tensor(1 / _root(slope), dtype=torch.float64, device=scores.device)

    @property
    def exclusive(self) -> bool:
        """Whether the probabilities of a row are one softmax, rather than a sigmoid each."""
        return bool(self.single) or isinstance(self.base, Softmax)

    def _scaled(self, scores: Scores) -> Tensor:
        temperature = self.fitted_buffer("temperature")
        scores = self._scores_of_base(scores)
        if self.exclusive:  # a constant of a row changes nothing, and division by a small temperature could overflow
            scores = scores - scores.detach().amax(1, keepdim=True)
        return scores / temperature

    def _probs(self, scores: Scores) -> Probs:
        scaled = self._scaled(scores)
        return torch.softmax(scaled, dim=1) if self.exclusive else torch.sigmoid(scaled)

    def _log_odds(self, scores: Scores) -> Tensor:
        scaled = self._scaled(scores)
        return Softmax().log_odds(scaled) if self.exclusive else scaled

    def _scores(self, probs: Probs) -> Scores:
        base = self._fitted_base()
        if not isinstance(base, Softmax | Sigmoid):
            return super()._scores(probs)
        return base.scores(probs) * self.fitted_buffer("temperature")


def _softmax_slopes(scores: Scores, target: Target, scale: float) -> tuple[Tensor, Tensor]:
    """First and second derivative of the cross-entropy of softmax in the scale 1/T, summed over rows with labels."""
    probs = torch.softmax(scores * scale, dim=1)
    mean = (probs * scores).sum(1)
    spread = (probs * (scores - mean[:, None]) ** 2).sum(1)
    if is_single_label(target):
        return (mean - pick(scores, target)).sum(), spread.sum()
    labels = target.sum(1)
    own = torch.where(target, scores, 0.0).sum(1) / labels.clamp(min=1)
    return torch.where(labels > 0, mean - own, 0.0).sum(), torch.where(labels > 0, spread, 0.0).sum()


def _sigmoid_slopes(scores: Scores, target: Target, scale: float) -> tuple[Tensor, Tensor]:
    """The same for independent sigmoids, summed over rows and labels."""
    probs = torch.sigmoid(scores * scale)
    rest = logsigmoid(-scores * scale).exp()
    return (torch.where(target, -rest, probs) * scores).sum(), (probs * rest * scores**2).sum()


def _root(slope: Callable[[float], tuple[float, float]]) -> float:
    """The scale above 0 where an increasing slope crosses zero."""
    if slope(0.0)[0] >= 0:
        raise NotConvergedError(
            "temperature: the likelihood has no maximum, because the scores are no better than chance: check that scores and "
            "labels belong to the same rows, or fit platt, which can also shift"
        )
    low, high = 0.0, 1.0
    while slope(high)[0] <= 0:
        low, high = high, high * 2
        if high > 2.0**40:
            raise NotConvergedError("temperature: the likelihood has no maximum: every label ranks first, so fit on more rows")
    scale = (low + high) / 2
    for _ in range(200):
        first, second = slope(scale)
        low, high = (low, scale) if first > 0 else (scale, high)
        step = scale - first / second if second > 0 else math.inf
        step = step if low < step < high else (low + high) / 2
        if abs(step - scale) <= 1e-12 * scale:
            return step
        scale = step
    raise NotConvergedError("temperature: Newton's method did not converge in 200 steps")
