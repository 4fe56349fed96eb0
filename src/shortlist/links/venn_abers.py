"""Venn–Abers prediction: for each label an interval of probabilities with a guarantee, and one probability in it."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.links.based import Base
from shortlist.links.per_label import PerLabelLink, padded
from shortlist.links.ties import knots_of
from shortlist.tensors import Array, Probs, Scores, shape_of


class VennAbers(PerLabelLink):
    """Inductive Venn–Abers: isotonic regression on the calibration rows and the row itself, with either outcome.

    For each label the map is fitted twice, with the row as one more calibration row: once without the label and once with it.
    That gives probabilities p₀ ≤ p₁ (:meth:`interval`), of which the one for the true outcome is perfectly calibrated if rows
    are exchangeable. The probability is ``p₁ / (1 - p₀ + p₁)``, which has the smallest largest regret in logarithmic
    loss; it is never 0 or 1. For one label per row the probabilities of a row are divided by their sum.

    Rows with the same probability of a label have the same interval: log-odds that differ by rounding are one knot
    (:mod:`shortlist.links.ties`). Of given probabilities this holds whatever the rows sum to; only those that are 1, or as good
    as that, are told apart by what is left for the other labels.

    A fit takes O(n log n) for a label, and a row a search in its table.

    >>> scores = torch.tensor([[-1.0], [0.0], [1.0], [2.0]])
    >>> link = VennAbers().fit(scores, torch.tensor([[False], [True], [False], [True]]))
    >>> link.probs(torch.tensor([[-5.0], [0.5], [5.0]])).flatten()
    tensor([0.3333, 0.5000, 0.6667])
    >>> lower, upper = link.interval(torch.tensor([[0.5]]))
    >>> lower, upper
    (tensor([[0.3333]]), tensor([[0.6667]]))

    Vovk, Petej, "Venn–Abers predictors", 2014; Vovk, Petej, Fedorova, "Large-scale probabilistic predictors with and without
    guarantees of validity", 2015.
    """

    kind = "venn-abers"
    by_steps = True
    steps: Tensor | None
    lower: Tensor | None
    upper: Tensor | None

    def __init__(self, base: Base = None, single: bool | None = None):
        super().__init__(base, single)
        # All (C, K). Between two steps, the upper one included, both probabilities are constant; NaN for labels without a map.
        self.register_buffer("steps", None)
        self.register_buffer("lower", None)
        self.register_buffer("upper", None)

    def interval(self, scores: Scores) -> tuple[Probs, Probs]:
        """p₀ and p₁ of each label by itself, (N, C) each; a label without a map has the base's probability twice."""
        scores = self._checked(scores)
        lower, upper = self._bounds(self._odds_of_base(scores))
        return lower.to(scores.dtype), upper.to(scores.dtype)

    def check_buffers(self) -> None:
        """As declared by :class:`Link`: nothing decreases along a row, and ``0 ≤ lower ≤ upper ≤ 1``."""
        super().check_buffers()
        self._check_shapes()
        if any(value is None for value in self._buffers.values()):
            return
        steps, lower, upper = (self.fitted_buffer(name) for name in ("steps", "lower", "upper"))
        for name, values in (("steps", steps), ("lower", lower), ("upper", upper)):
            if values.ndim != 2 or not values.is_floating_point() or not values.shape[1]:
                raise InputError(f"{name}: expected floating point (C, K), got {shape_of(values)}")
            without = values.isnan()
            if values.isinf().any() or (without.any(1) != without.all(1)).any() or (without != steps.isnan()).any():
                raise InputError(f"{name}: expected finite numbers, or NaN in all for a label without a map, got others")
            if (values.diff(dim=1) < 0).any():
                raise InputError(f"{name}: expected numbers that do not decrease along a row, got some that do")
        if ((lower < 0) | (upper > 1) | (lower > upper) | (lower == 1) | (upper == 0)).any():
            raise InputError("lower, upper: expected 0 ≤ lower ≤ upper ≤ 1, lower below 1 and upper above 0, got others")

    def _fit_labels(self, odds: Tensor, marks: Tensor, shown: Tensor) -> None:
        maps = [
            _fit_steps(odds[:, label].double().cpu().numpy(), marks[:, label].cpu().numpy(), self._tolerance) if known else None
            for label, known in enumerate(shown.tolist())
        ]
        self.steps, self.lower, self.upper = padded(maps, 3).to(odds.device)

    def _odds_of_base(self, scores: Scores) -> Tensor:
        return super()._odds_of_base(scores.double())  # rounded log-odds could be on the other side of a step

    def _bounds(self, odds: Tensor) -> tuple[Tensor, Tensor]:
        steps = self.fitted_buffer("steps")
        points = odds.t().double().contiguous()
        place = (torch.searchsorted(steps, points) - 1).clamp(min=0)  # steps below the point, of which the first is there twice
        bare = torch.sigmoid(points)
        mapless = steps[:, :1].isnan() | points.isnan()
        lower, upper = (
            torch.where(mapless, bare, self.fitted_buffer(name).gather(1, place)).t() for name in ("lower", "upper")
        )
        return lower, upper

    def _each(self, odds: Tensor) -> Probs:
        lower, upper = self._bounds(odds)
        mapless = self.fitted_buffer("steps")[:, 0].isnan()
        return torch.where(mapless, lower, upper / (1 - lower + upper)).to(odds.dtype)


def _fit_steps(odds: Array, marks: Array, tolerance: float) -> tuple[Array, Array, Array]:
    """Where the two probabilities change, and what they are from there on; the first step is there twice, for what is below."""
    low, high, place, counts = knots_of(odds, tolerance)
    positives = np.bincount(place, weights=marks).astype(int)
    # A row between two knots with the label goes with the upper one, without it with the lower one.
    present = _with_one_more_positive(counts, positives)
    absent = 1 - _with_one_more_positive(counts[::-1], (counts - positives)[::-1])[::-1]
    steps = np.stack([np.nextafter(low, -np.inf), high], 1).ravel()  # a knot is reached, then passed
    lower = np.concatenate([[0.0], np.repeat(absent, 2)])
    upper = np.concatenate([np.repeat(present, 2), [1.0]])
    changes = (np.diff(lower) != 0) | (np.diff(upper) != 0)
    kept = np.concatenate([[True], changes])
    steps = steps[changes]
    return np.concatenate([steps[:1], steps]), lower[kept], upper[kept]


class Corner(NamedTuple):
    """A point of the cumulative diagram: the number of rows up to here, and of those with the label."""

    rows: int
    positives: int

    def is_steeper(self, middle: "Corner", last: "Corner") -> bool:
        """Whether the way from here to the middle is at least as steep as the way from there to the last."""
        return (middle.positives - self.positives) * (last.rows - middle.rows) >= (last.positives - middle.positives) * (
            middle.rows - self.rows
        )


def _with_one_more_positive(counts: Array, positives: Array) -> Array:
    """For each knot, the isotonic map at this knot after one more row with the label was put there.

    The map is the slope of the lower convex hull of the cumulative diagram. The new row parts it: what comes before is moved by
    (-1, -1), and the value is the slope of the edge that joins the hulls of both parts. Its ends move only to the right as the
    knot does, because the value does not decrease.
    """
    rows = np.concatenate([[0], np.cumsum(counts)]).tolist()
    found = np.concatenate([[0], np.cumsum(positives)]).tolist()
    points = [Corner(*point) for point in zip(rows, found, strict=True)]
    following = _hulls_of_ends(points)
    before: list[Corner] = []
    left, right = 0, 1
    values = np.empty(len(counts))
    for knot in range(1, len(points)):
        added = Corner(points[knot - 1].rows - 1, points[knot - 1].positives - 1)
        while len(before) > 1 and before[-2].is_steeper(before[-1], added):
            before.pop()
        before.append(added)
        left, right = min(left, len(before) - 1), max(right, knot)
        while True:
            start = before[left]
            while (after := following[right]) is not None and start.is_steeper(points[right], points[after]):
                right = after
            if left + 1 == len(before) or not _turns(start, before[left + 1], points[right]):
                break
            left += 1
        end = points[right]
        values[knot - 1] = (end.positives - start.positives) / (end.rows - start.rows)
    return values


def _turns(start: Corner, following: Corner, end: Corner) -> bool:
    """Whether the edge to the following corner is less steep than the way to the end, so that it belongs to the hull."""
    return not start.is_steeper(following, end)


def _hulls_of_ends(points: list[Corner]) -> list[int | None]:
    """For each point, the next corner of the lower hull of the points from there on."""
    following: list[int | None] = [None] * len(points)
    for place in range(len(points) - 2, -1, -1):
        after = place + 1
        while (beyond := following[after]) is not None and points[place].is_steeper(points[after], points[beyond]):
            after = beyond
        following[place] = after
    return following
