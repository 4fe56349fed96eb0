"""Links with a separate map for each label: Platt and isotonic.

For one label per row each label is fitted against the rest, and the probabilities of a row are then divided by their sum. A
label that occurs in none or in all of the calibration rows keeps the probabilities of the base link.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from shortlist.checks import number
from shortlist.class_names import misplaced_column
from shortlist.errors import InputError
from shortlist.links.based import Base
from shortlist.links.fitted import FittedLink
from shortlist.links.fixed import AssumeNegative, Identity, Sigmoid, softmax_log_odds
from shortlist.links.logistic import fit_logistic, smoothed
from shortlist.links.ties import knots_of
from shortlist.tensors import BLOCK_ENTRIES, Array, Probs, Scores, Target, one_hot, shape_of

# By how much log-odds may differ and be the same. Those of given probabilities are what float32 leaves of the rest of the row,
# also if float64 is given: a row then has the same probabilities in either precision. Others are as good as they are computed.
TIED_PROBABILITIES, TIED_SCORES = 1e-6, 1e-12


class PerLabelLink(FittedLink):
    """A map for each label, on the log-odds of the base link."""

    def check_classes(self, classes: int) -> None:
        """Raise unless there are as many classes as it was fitted on."""
        self._check_shapes()
        fitted = next((len(buffer) for buffer in self._buffers.values() if buffer is not None), classes)
        if classes != fitted:
            raise InputError(f"scores: the link {self} was fitted on {fitted} classes, got {classes}")

    def check_names(self, names: Sequence[str] | None) -> None:
        """Raise if the columns that it was fitted on had these names in another order."""
        super().check_names(names)
        known = self.fitted_names
        place = None if known is None else misplaced_column(known, names)
        if place is not None and known is not None and names is not None:
            raise InputError(
                f"scores: the link {self} was fitted on columns in another order: column {place} was {known[place]!r} and is "
                f"{names[place]!r} here; select the columns by name, or fit it again"
            )

    def _check_shapes(self) -> None:
        shapes = {name: tuple(buffer.shape) for name, buffer in self._buffers.items() if buffer is not None}
        if len(set(shapes.values())) > 1 or () in shapes.values():  # a damaged file
            told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise InputError(f"{self}: expected fitted tensors of one shape, one row per class, got {told}: fit it again")

    def _fit(self, scores: Scores, target: Target) -> None:
        odds = self._odds_of_base(scores)
        marks = one_hot(target, scores.shape[1])
        shown = marks.any(0) & ~marks.all(0)
        self._fit_labels(odds, marks, shown)

    def _fit_labels(self, odds: Tensor, marks: Tensor, shown: Tensor) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not implement _fit_labels")

    @property
    def _tolerance(self) -> float:
        """By how much the log-odds of rows with the same probability of a label may differ, relative to those beyond 1."""
        if isinstance(self.base, Sigmoid | AssumeNegative):  # of which no other column is part, and nothing is rounded
            return 0.0
        return TIED_PROBABILITIES if self.single and isinstance(self.base, Identity) else TIED_SCORES

    def _each(self, odds: Tensor) -> Probs:
        raise NotImplementedError(f"{type(self).__name__} does not implement _each")

    def _probs(self, scores: Scores) -> Probs:
        odds = self._odds_of_base(scores)
        probs = self._each(odds)
        if not self.single:
            return probs.to(scores.dtype)
        total = probs.sum(1, keepdim=True)
        shares = torch.where(total == 0, torch.softmax(self._log_each(odds), 1), probs / total)  # NaN stays NaN
        return shares.to(scores.dtype)

    def _log_odds(self, scores: Scores) -> Tensor:
        # From the logarithms, because those of probabilities that round to 0 or 1 are lost.
        if not self.single:
            return super()._log_odds(scores)
        return softmax_log_odds(self._log_each(self._odds_of_base(scores))).to(scores.dtype)

    def _log_each(self, odds: Tensor) -> Tensor:
        """The logarithms of :meth:`_each`; a row without any probability has 0, the same for all labels."""
        logs = self._each(odds).log()
        return torch.where((logs == -torch.inf).all(1, keepdim=True), 0.0, logs)


class Platt(PerLabelLink):
    r"""``sigmoid(slope · log_odds + intercept)``, with both fitted for each label by maximum likelihood.

    The targets are Platt's, ``(n₊ + 1) / (n₊ + 2)`` and ``1 / (n₋ + 2)`` instead of 1 and 0, so that an optimum exists even if
    a threshold separates all positives from all negatives.

    >>> scores = torch.tensor([[-1.0], [0.0], [1.0], [2.0]])
    >>> link = Platt().fit(scores, torch.tensor([[False], [True], [False], [True]]))
    >>> link.slope, link.intercept
    (tensor([0.4115], dtype=torch.float64), tensor([-0.2057], dtype=torch.float64))

    Platt, "Probabilistic outputs for support vector machines", 1999.
    """

    kind = "platt"
    slope: Tensor | None
    intercept: Tensor | None

    def __init__(self, base: Base = None, single: bool | None = None):
        super().__init__(base, single)
        self.register_buffer("slope", None)
        self.register_buffer("intercept", None)

    def check_buffers(self) -> None:
        """As declared by :class:`Link`."""
        super().check_buffers()
        self._check_shapes()
        self._check_buffer("slope", "(C,)")
        self._check_buffer("intercept", "(C,)")

    def _fit_labels(self, odds: Tensor, marks: Tensor, shown: Tensor) -> None:
        classes = odds.shape[1]
        slope = torch.ones(classes, dtype=torch.float64, device=odds.device)
        intercept = torch.zeros_like(slope)
        for columns in column_blocks(shown, len(odds)):
            slope[columns], intercept[columns] = _fit_platt(odds[:, columns].double(), marks[:, columns])
        self.slope, self.intercept = slope, intercept

    def _each(self, odds: Tensor) -> Probs:
        return torch.sigmoid(self._line(odds))

    def _line(self, odds: Tensor) -> Tensor:
        slope, intercept = self.fitted_buffer("slope"), self.fitted_buffer("intercept")
        return odds * slope.to(odds.dtype) + intercept.to(odds.dtype)

    def _log_each(self, odds: Tensor) -> Tensor:
        return logsigmoid(self._line(odds))

    def _log_odds(self, scores: Scores) -> Tensor:
        return super()._log_odds(scores) if self.single else self._line(self._odds_of_base(scores))


class Isotonic(PerLabelLink):
    """A non-decreasing map of the log-odds for each label, fitted by least squares; linear between knots, constant outside.

    A row without the label is added at the highest log-odds and one with it at the lowest, so that no probability is exactly
    0 or 1: plain isotonic regression says so where it saw no exception, and is infinitely wrong at the first. Without these
    rows (``pseudo_counts=0``) it is the map of Zadrozny and Elkan, as in scikit-learn.

    Rows with the same probability of a label have the same value: log-odds that differ by rounding are one knot
    (:mod:`shortlist.links.ties`). Of given probabilities this holds whatever the rows sum to; only those that are 1, or as good
    as that, are told apart by what is left for the other labels.

    Args:
        pseudo_counts: how many rows, or which share of one, are added at each end.

    >>> scores, labels = torch.arange(6.0)[:, None], torch.tensor([0, 0, 1, 0, 1, 1], dtype=torch.bool)[:, None]
    >>> Isotonic().fit(scores, labels).probs(scores).flatten()
    tensor([0.3333, 0.3333, 0.5000, 0.5000, 0.6667, 0.6667])

    Zadrozny, Elkan, "Transforming classifier scores into accurate multiclass probability estimates", 2002.
    """

    kind = "isotonic"
    by_steps = True
    domains: ClassVar = {"pseudo_counts": number(least=0)}
    reaches_zero = True
    pseudo_counts: float
    knots: Tensor | None
    levels: Tensor | None

    def __init__(self, base: Base = None, single: bool | None = None, pseudo_counts: float = 1.0):
        super().__init__(base, single)
        self._set(pseudo_counts=pseudo_counts)
        self.register_buffer("knots", None)  # (C, K), padded by repeating the last knot; NaN for labels without a map
        self.register_buffer("levels", None)

    def config(self) -> dict[str, Any]:
        """As declared by :class:`FittedLink`, with the number of rows that were added."""
        return {**super().config(), "pseudo_counts": self.pseudo_counts}

    def check_buffers(self) -> None:
        """As declared by :class:`Link`: neither knots nor levels decrease, and levels are probabilities."""
        super().check_buffers()
        self._check_shapes()
        knots, levels = self._buffers["knots"], self._buffers["levels"]
        for name, values in (("knots", knots), ("levels", levels)):
            if values is None:
                return
            if values.ndim != 2 or not values.is_floating_point() or not values.shape[1]:
                raise InputError(f"{name}: expected floating point (C, K), got {shape_of(values)}")
            without = values.isnan()
            if values.isinf().any() or (without.any(1) != without.all(1)).any():
                raise InputError(f"{name}: expected finite numbers, or NaN for a label without a map, got others")
            if (values.diff(dim=1) < 0).any():
                raise InputError(f"{name}: expected numbers that do not decrease along a row, got some that do")
        assert knots is not None
        assert levels is not None
        if (knots.isnan() != levels.isnan()).any():
            raise InputError("levels: expected NaN for the labels whose knots are NaN, got others")
        if ((levels < 0) | (levels > 1)).any():
            wrong = levels[(levels < 0) | (levels > 1)][0].item()
            raise InputError(f"levels: expected probabilities from 0 to 1, got {wrong:g}")

    def _fit_labels(self, odds: Tensor, marks: Tensor, shown: Tensor) -> None:
        maps = [
            _fit_isotonic(
                odds[:, label].double().cpu().numpy(), marks[:, label].cpu().numpy(), self.pseudo_counts, self._tolerance
            )
            if known
            else None
            for label, known in enumerate(shown.tolist())
        ]
        self.knots, self.levels = padded(maps, 2).to(odds.device)

    def _odds_of_base(self, scores: Scores) -> Tensor:
        # In float64: between knots that are close, rounding the log-odds would be a step.
        return super()._odds_of_base(scores.double())

    def _each(self, odds: Tensor) -> Probs:
        knots, levels = self.fitted_buffer("knots"), self.fitted_buffer("levels")
        points = odds.t().double().contiguous()
        right = torch.searchsorted(knots, points).clamp(1, max(1, knots.shape[1] - 1))
        left = right - 1
        right = right.clamp(max=knots.shape[1] - 1)
        x0, x1, y0, y1 = knots.gather(1, left), knots.gather(1, right), levels.gather(1, left), levels.gather(1, right)
        along = torch.where(x1 > x0, (points - x0) / (x1 - x0), 1.0).clamp(0, 1)
        probs = torch.where(knots[:, :1].isnan(), torch.sigmoid(points), y0 + along * (y1 - y0))
        return torch.where(points.isnan(), points, probs).t().to(odds.dtype)


def padded(maps: Sequence[tuple[Array, ...] | None], parts: int) -> Tensor:
    """The arrays of each label as rows of tensors (parts, C, K): the last value is repeated, and NaN stands for no map."""
    width = max([len(found[0]) for found in maps if found is not None], default=1)
    table = np.full((parts, len(maps), width), np.nan)
    for label, found in enumerate(maps):
        if found is not None:
            for row, values in zip(table[:, label], found, strict=True):
                row[: len(values)], row[len(values) :] = values, values[-1]
    return torch.from_numpy(table)


def column_blocks(shown: Tensor, rows: int) -> Iterator[Tensor]:
    """The labels that have a map, in groups that are fitted together."""
    labels = shown.nonzero().squeeze(1)
    if len(labels):  # split of an empty tensor gives one empty piece
        yield from labels.split(max(1, BLOCK_ENTRIES // max(1, rows)))


def _fit_platt(odds: Tensor, marks: Tensor) -> tuple[Tensor, Tensor]:
    """Slope and intercept of each column; odds are float64 (n, L)."""
    slope, intercept = fit_logistic(odds[None], smoothed(marks), "platt")
    return slope, intercept


def _fit_isotonic(odds: Array, marks: Array, pseudo_counts: float, tolerance: float) -> tuple[Array, Array]:
    """Knots and levels: the ends of every constant piece of the least-squares non-decreasing map."""
    from scipy.optimize import isotonic_regression  # takes a third of a second to import

    low, high, place, counts = knots_of(odds, tolerance)
    weights, positives = counts.astype(float), np.bincount(place, weights=marks)
    positives[0] += pseudo_counts
    weights[0] += pseudo_counts
    weights[-1] += pseudo_counts
    levels = isotonic_regression(positives / weights, weights=weights).x
    rises = np.diff(levels) != 0
    begins, ends = np.r_[True, rises], np.r_[rises, True]
    ends &= ~begins | (low < high)  # of a knot that is one number, one end is enough
    kept = np.stack([begins, ends], 1).ravel()
    return np.stack([low, high], 1).ravel()[kept], np.repeat(levels, 2)[kept]
