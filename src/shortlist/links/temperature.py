"""Temperature scaling: one number that makes all probabilities more or less confident."""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import check_rows
from shortlist.errors import NotConvergedError
from shortlist.links.based import Base
from shortlist.links.fitted import FittedLink
from shortlist.links.fixed import Sigmoid, Softmax
from shortlist.tensors import Probs, Scores, Target, is_single_label, pick, row_blocks

Slope: TypeAlias = tuple[float, float]  # the first and the second derivative
Pair: TypeAlias = tuple[Tensor, Tensor]
CLOSE = 1e-8  # a relative step of Newton's method that leaves an error of about its square


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
        scale = best_scale(lambda rows: self._scores_of_base(scores[rows]).double(), target, scores.shape, self.exclusive)
        self.temperature = torch.tensor(1 / scale, dtype=torch.float64, device=scores.device)

    def fit_from(self, slopes: "Callable[[Temperature, float], Iterable[Slope]]", single: bool) -> Self:
        """Fit to rows that are elsewhere, as :meth:`fit` does where they are here; if that fails, it stays as it was.

        Args:
            slopes: gives :meth:`slope` of each block of the rows, in their order, for this link and a scale. Blocks are those
                of :func:`~shortlist.tensors.row_blocks`.
            single: whether each row has one label.
        """
        with self.whole_or_not():
            self._begin(single)

            def slope(scale: float) -> Slope:
                return _sum(slopes(self, scale))

            self.temperature = torch.tensor(1 / _root(slope), dtype=torch.float64)
        return self

    def slope(self, scores: Scores, target: Target, scale: float) -> Slope:
        """What a block of rows adds to the first and second derivative of the negative log-likelihood in the scale 1/T.

        Args:
            scores: finite numbers (n, C).
            target: int64 (n,) or bool (n, C), as in the fit that began.
            scale: 1/T.
        """
        check_rows(scores, target, kind="finite", name="scores")
        prepared, slopes = _ways(self.exclusive)
        with torch.no_grad():
            values = self._scores_of_base(self._fitted_base()._checked(scores)).double()
            return _block_slope(slopes(*prepared(values, target), scale))

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


def best_scale(values: Callable[[slice], Tensor], target: Target, shape: torch.Size, exclusive: bool) -> float:
    """The scale 1/T at which the likelihood of the labels is largest.

    Args:
        values: the scores of a block of rows, in float64.
        target: the labels of all rows.
        shape: of the scores of all rows.
        exclusive: whether the probabilities of a row are one softmax, rather than a sigmoid each.
    """
    prepared, slopes = _ways(exclusive)
    blocks = list(row_blocks(*shape))

    def block(rows: slice) -> Pair:
        return prepared(values(rows), target[rows])

    kept = [block(rows) for rows in blocks] if len(blocks) == 1 else None  # what is little is not prepared again

    def slope(scale: float) -> Slope:
        given = (block(rows) if kept is None else kept[i] for i, rows in enumerate(blocks))
        return _sum(_block_slope(slopes(*one, scale)) for one in given)

    return _root(slope)


def _ways(exclusive: bool) -> tuple[Callable[[Tensor, Target], Pair], Callable[[Tensor, Tensor, float], Pair]]:
    """What a block of rows is made into once, and the slopes of its rows, looked up when they are used."""
    return (_below_best, _softmax_slopes) if exclusive else (_wrong_side, _sigmoid_slopes)


def _block_slope(rows: Pair) -> Slope:
    """The sums over the rows of a block, by one thread: the same number wherever and by however many threads it is computed."""
    first, second = (float(np.sum(part.cpu().numpy())) for part in rows)
    return first, second


def _sum(blocks: Iterable[Slope]) -> Slope:
    first = second = 0.0
    for one in blocks:
        first, second = first + one[0], second + one[1]
    return first, second


def _below_best(scores: Scores, target: Target) -> Pair:
    """How far each score is below the best of its row, and the same of the labels, their mean if they are several."""
    scores = scores - scores.amax(1, keepdim=True)
    if is_single_label(target):
        return scores, pick(scores, target)
    labels = target.sum(1)
    known = labels > 0  # the others say nothing
    return scores[known], torch.where(target, scores, 0.0).sum(1)[known] / labels[known]


def _softmax_slopes(scores: Scores, own: Tensor, scale: float) -> Pair:
    """First and second derivative of the cross-entropy of softmax in the scale 1/T, of each row."""
    weights = (scores * scale).exp_() if scale < math.inf else (scores == 0).to(scores)
    total = weights.sum(1)
    weighted = weights.mul_(scores)
    mean, square = weighted.sum(1) / total, torch.einsum("nc,nc->n", weighted, scores) / total
    return mean - own, square - mean**2


def _wrong_side(scores: Scores, target: Target) -> Pair:
    """How far each score is on the wrong side of 0, and its square."""
    wrong = torch.where(target, -scores, scores)
    return wrong, wrong**2


def _sigmoid_slopes(wrong: Tensor, square: Tensor, scale: float) -> Pair:
    """The same for independent sigmoids, summed over the labels of each row."""
    missed = torch.sigmoid(wrong * scale) if scale < math.inf else (wrong > 0).to(wrong)
    return (missed * wrong).sum(1), (missed * (1 - missed) * square).sum(1)


def _root(slope: Callable[[float], Slope]) -> float:
    """The scale above 0 where an increasing slope crosses zero.

    The search begins at 0, where the scores of a row count alike, so that it takes the same steps in whatever unit they are.
    """
    here = Point(0.0, *slope(0.0))
    if here.slope >= 0:
        raise NotConvergedError(
            "temperature: the likelihood has no maximum, because the scores are no better than chance: check that scores and "
            "labels belong to the same rows, or fit platt, which can also shift"
        )
    if slope(math.inf)[0] <= 0:
        raise NotConvergedError("temperature: the likelihood has no maximum: every label ranks first, so fit on more rows")
    low, high, before = 0.0, math.inf, None
    for _ in range(200):
        newton = here.newton()
        # Asked before the bracket: at the root, a rounded step may be just outside.
        if here.scale > 0 and abs(newton - here.scale) <= CLOSE * here.scale:
            return newton
        if high == math.inf and low > 0:
            newton = min(newton, 8 * low)  # where the slope is all but flat it would go much too far
        tries = [newton] if before is None else [here.with_another(before), newton]
        fallback = math.sqrt(low * high) if low > 0 else high / 4
        scale = next((tried for tried in tries if low < tried < high), fallback)
        before, here = here, Point(scale, *slope(scale))
        low, high = (low, scale) if here.slope > 0 else (scale, high)
    raise NotConvergedError("temperature: Newton's method did not converge in 200 steps")


class Point(NamedTuple):
    """A scale, with the slope there and its derivative."""

    scale: float
    slope: float
    curvature: float

    def newton(self) -> float:
        """Where the tangent is 0."""
        return self.scale - self.slope / self.curvature if self.curvature > 0 else math.inf

    def with_another(self, other: "Point") -> float:
        """Where the cubic through both, with their derivatives, is 0: the scale as a function of the slope, at 0."""
        width = other.slope - self.slope
        if not (self.curvature > 0 and other.curvature > 0 and width):
            return math.inf
        at = -self.slope / width
        return (
            (1 + 2 * at) * (1 - at) ** 2 * self.scale
            + at**2 * (3 - 2 * at) * other.scale
            + width * at * (1 - at) * ((1 - at) / self.curvature - at / other.curvature)
        )
