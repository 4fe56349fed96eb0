"""Distance to the optimum: accuracy beside the best possible, if the true posterior of the labels is known."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from shortlist.checks import check_labels, whole
from shortlist.errors import InputError
from shortlist.evaluation import Evaluation
from shortlist.report.display import Display
from shortlist.report.displays import Panels, append, distinct, same_curve, whole_ticks
from shortlist.report.legend import NAMED, finish
from shortlist.report.style import DASHES, MUTED, SERIES
from shortlist.report.table import Table
from shortlist.tensors import Array, as_target, as_tensor, check_target, is_single_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = 10
# Probability with which labels that were drawn from the posterior are rejected by mistake.
FALSE_ALARM = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Optimum:
    r"""The best accuracies that any sets can be expected to reach on given rows.

    .. math::

        top\_k_k = \frac1N \sum_i \max_{|S| = k} \sum_{y \in S} P(y|x_i), \qquad
        average\_k_k = \max_{\sum_i |S_i| = kN} \frac1N \sum_i \sum_{y \in S_i} P(y|x_i)

    Args:
        k: set sizes, increasing, int64 (K,).
        top_k: accuracy of the best sets of exactly k labels, float64 (K,).
        average_k: accuracy of the best sets of k labels on average, float64 (K,).
        rows: number of rows.

    >>> Optimum.of([[0.9, 0.1], [0.6, 0.4]])
    Optimum(2 rows, top-k and average-k accuracy, k=1: 0.7500, 0.7500; k=2: 1.0000, 1.0000)

    Garcin, "Set-valued classification with applications to citizen science", thesis, 2.27: the best sets of k labels on average
    hold all labels above one threshold.
    """

    k: Array
    top_k: Array
    average_k: Array
    rows: int

    def __post_init__(self) -> None:
        sizes = _sizes(self.k)
        if (np.diff(sizes) <= 0).any():
            raise InputError(f"optimum, k: expected increasing sizes, got {sizes[:8].tolist()}")
        object.__setattr__(self, "k", sizes)
        object.__setattr__(self, "top_k", _shares(self.top_k, "top_k", len(sizes)))
        object.__setattr__(self, "average_k", _shares(self.average_k, "average_k", len(sizes)))
        object.__setattr__(self, "rows", whole(1)("optimum, rows", self.rows))

    def __repr__(self) -> str:
        values = zip(self.k, self.top_k, self.average_k, strict=True)
        shown = "; ".join(f"k={k}: {top:.4f}, {average:.4f}" for k, top, average in values)
        return f"Optimum({self.rows:,} rows, top-k and average-k accuracy, {shown})"

    @classmethod
    def of(cls, posterior: Array | Tensor | Any, target: Any = None, ks: Sequence[int] | None = None) -> "Optimum":
        """The optimum on rows with this posterior.

        Args:
            posterior: true probabilities of the labels of each row, (N, C).
            target: the labels, int64 (N,), checked only: labels that cannot have been drawn from the posterior, such as those
                of other rows or in another order, are rejected.
            ks: set sizes from 1 to C; by default 1 to 10, or to C if that is less.

        >>> Optimum.of([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]], ks=[2]).average_k
        array([1.])
        """
        from shortlist.data.flora.limits import best_accuracies  # imports scipy

        probs = as_tensor(posterior, "posterior").detach().cpu().double()
        _check_posterior(probs)
        probs = probs / probs.sum(1, keepdim=True)  # rounded probabilities do not sum to exactly 1
        if target is not None:
            _check_drawn(probs, as_target(target).cpu())
        classes = probs.shape[1]
        sizes = np.unique(_sizes(range(1, min(SIZES, classes) + 1) if ks is None else ks))
        # The prior only matters for means over classes, which are not used; a uniform one allows classes that no row can have.
        found = best_accuracies(probs, np.full(classes, 1 / classes), sizes.tolist())
        # Sums of many probabilities are rounded.
        return cls(found.k, found.top_k.clip(0, 1), found.average_k.clip(0, 1), len(probs))

    def margins(self) -> dict[str, Array]:
        r"""Half-width of the 95 % interval of the accuracy that the best sets reach on labels drawn for these rows.

        .. math:: 1.96 \sqrt{best\,(1 - best) / rows}

        This is an upper bound: given the rows, the variance is :math:`\sum_i p_i (1 - p_i) / rows^2`, which is at most that.

        >>> Optimum.of([[0.5, 0.5]] * 100, ks=[1]).margins()["top_k"]
        array([0.098])
        """
        curves = {"top_k": self.top_k, "average_k": self.average_k}
        return {name: 1.96 * np.sqrt(best * (1 - best) / self.rows) for name, best in curves.items()}

    def record(self) -> dict[str, Any]:
        """Plain numbers, for JSON.

        >>> Optimum.of([[0.75, 0.25]]).record()
        {'k': [1, 2], 'top_k': [0.75, 1.0], 'average_k': [0.75, 1.0], 'rows': 1}
        """
        return {"k": self.k.tolist(), "top_k": self.top_k.tolist(), "average_k": self.average_k.tolist(), "rows": self.rows}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Optimum":
        """The optimum from :meth:`record`.

        >>> Optimum.from_record({"k": [1], "top_k": [0.75], "average_k": [0.8], "rows": 20})
        Optimum(20 rows, top-k and average-k accuracy, k=1: 0.7500, 0.8000)
        """
        names = ("k", "top_k", "average_k", "rows")
        if not isinstance(record, Mapping) or any(name not in record for name in names):
            got = ", ".join(map(str, record)) if isinstance(record, Mapping) else type(record).__name__
            raise InputError(f"optimum: expected a record of {', '.join(names)}, got {got or 'nothing'}")
        return cls(*(record[name] for name in names))


def _sizes(values: Any) -> Array:
    try:
        found = [whole(1)("optimum, k", value) for value in values]
    except TypeError as error:
        raise InputError(f"optimum, k: expected a sequence of sizes, got {type(values).__name__}") from error
    if not found:
        raise InputError("optimum, k: expected at least one size, got none")
    return np.asarray(found, dtype=np.int64)


def _shares(values: Any, name: str, length: int) -> Array:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"optimum, {name}: expected numbers from 0 to 1, got {str(values)[:40]}") from error
    if found.shape != (length,) or not ((found >= 0) & (found <= 1)).all():
        raise InputError(f"optimum, {name}: expected a number from 0 to 1 for each of {length} sizes, got {str(values)[:40]}")
    return found


def _check_posterior(probs: Tensor) -> None:
    if probs.ndim != 2 or not probs.numel():
        raise InputError(f"posterior: expected (N, C), N and C at least 1, got {tuple(probs.shape)}")
    sums = probs.sum(1)
    wrong = ~((sums - 1).abs() <= 1e-3) | (probs < 0).any(1)  # so written, NaN is wrong too
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise InputError(
            f"posterior: expected probabilities that sum to 1 in every row, got a least of {float(probs[row].min()):.4g} "
            f"and a sum of {float(sums[row]):.4g} in row {row}"
        )


def _check_drawn(probs: Tensor, target: Tensor) -> None:
    """Reject labels that are far more, or far less, likely than labels drawn from these probabilities.

    The sum of the probabilities of the labels deviates from its expectation by an amount that Bernstein's inequality bounds.
    """
    check_target(probs, target, "posterior")
    if not is_single_label(target):
        raise InputError("target: expected one label a row, int64 (N,), got several labels")
    check_labels(target, probs.shape[1])
    got = float(probs.gather(1, target[:, None]).sum())
    means = (probs**2).sum(1)
    variance = float(((probs**3).sum(1) - means**2).sum())
    off = abs(got - float(means.sum()))
    if off and off**2 / (2 * (variance + off / 3)) > math.log(2 / FALSE_ALARM):
        raise InputError(
            "posterior: expected the distribution that the labels were drawn from, which gives them a mean probability of "
            f"about {float(means.mean()):.3f}, got {got / len(target):.3f}: give both of the same rows in the same order"
        )


class _Distance(Display):
    """Accuracy beside the best possible, for one kind of sets."""

    field: ClassVar[str]
    xlabel: ClassVar[str]

    def __init__(self, whole: "DistanceToOptimum"):
        self.whole = whole

    def points(self) -> dict[str, list[object]]:
        """name, k, accuracy, best, gap."""
        points = self.whole.points()
        names = ("name", "k", self.field, f"best_{self.field}", f"{self.field}_gap")
        return dict(zip(("name", "k", "accuracy", "best", "gap"), (points[name] for name in names), strict=True))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """A line for each evaluation, the best possible dashed, with its 95 % band."""
        ax = self._axes(ax, self.xlabel, "accuracy")
        optimum, whole = self.whole.optimum, self.whole
        sizes, best, margin = optimum.k, getattr(optimum, self.field), optimum.margins()[self.field]
        ax.fill_between(sizes, best - margin, (best + margin).clip(max=1), color=MUTED, alpha=0.18, linewidth=0)
        ax.plot(sizes, best, color=MUTED, linestyle=DASHES[1], label=f"{NAMED}best possible")
        for n, evaluation in enumerate(whole.evaluations):
            reached = whole.reached(evaluation)[self.field]
            label = "reached" if len(whole.evaluations) == 1 else evaluation.source
            ax.plot(sizes, reached, color=SERIES[n % len(SERIES)], marker="o", markersize=4, label=NAMED + label)
        ax.set_ylim(*whole.heights())
        whole_ticks(ax)
        return finish(ax, legend=True)


class TopKDistance(_Distance):
    """Top-k accuracy beside the best possible."""

    title: ClassVar[str] = "Exactly k labels"
    caption: ClassVar[str] = (
        "Top-k accuracy (line), beside the best that sets of k labels can be expected to reach (dashed, with its 95 % band)."
    )
    field: ClassVar[str] = "top_k"
    xlabel: ClassVar[str] = "labels in each set, k"


class AverageKDistance(_Distance):
    """Average-k accuracy beside the best possible."""

    title: ClassVar[str] = "k labels on average"
    caption: ClassVar[str] = (
        "Average-k accuracy (line), beside the best that sets of k labels on average can be expected to reach (dashed, with "
        "its 95 % band)."
    )
    field: ClassVar[str] = "average_k"
    xlabel: ClassVar[str] = "mean labels in a set, k"


class DistanceToOptimum(Panels):
    """Top-k and average-k accuracy beside the best possible on the same rows.

    Args:
        evaluations: one or several, with one label a row; evaluations of the same scores are drawn once.
        optimum: of the rows that were evaluated.

    >>> from shortlist import Predictions
    >>> from shortlist.report import evaluate
    >>> from shortlist.sets import top_k
    >>> predictions = Predictions([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4]], target=[0, 2], link="identity")
    >>> optimum = Optimum.of([[0.75, 0.25, 0.0], [0.0, 0.25, 0.75]], target=[0, 2], ks=[1, 2])
    >>> DistanceToOptimum(evaluate(predictions, top_k(1)), optimum).frame()[["k", "top_k", "best_top_k", "top_k_gap"]]
       k  top_k  best_top_k  top_k_gap
    0  1    0.5        0.75       0.25
    1  2    1.0        1.00       0.00
    """

    title: ClassVar[str] = "Distance to the optimum"
    caption: ClassVar[str] = (
        "Top-k accuracy (left) and average-k accuracy (right), beside the best possible (dashed, with its 95 % band)."
    )

    def __init__(self, evaluations: Evaluation | Sequence[Evaluation], optimum: Optimum):
        found = [evaluations] if isinstance(evaluations, Evaluation) else list(evaluations)
        if not found:
            raise InputError("evaluations: expected at least one, got none")
        for evaluation in found:
            _check_fits(evaluation, optimum)
        self.optimum = optimum
        self.evaluations = distinct(
            found,
            lambda one, other: same_curve(one.rank_curve, other.rank_curve) and same_curve(one.size_curve, other.size_curve),
        )

    def reached(self, evaluation: Evaluation) -> dict[str, list[float]]:
        """Accuracies at the sizes of the optimum, linear between thresholds; NaN without probabilities."""
        curves = {"top_k": evaluation.rank_curve, "average_k": evaluation.size_curve}
        sizes = self.optimum.k.tolist()
        return {name: [math.nan if curve is None else curve.at(k) for k in sizes] for name, curve in curves.items()}

    def sentence(self, k: float) -> str:
        """The distance of the first evaluation at the size closest to k, in one sentence."""
        place = min(range(len(self.optimum.k)), key=lambda row: abs(float(self.optimum.k[row]) - k))
        reached = self.reached(self.evaluations[0])["average_k"][place]
        best = float(self.optimum.average_k[place])
        return (
            f"with {self.optimum.k[place]:g} labels on average, the best possible classifier covers {best:.1%} of these rows "
            f"and this one {reached:.1%}: {100 * (best - reached):.1f} points away"
        )

    def panels(self) -> list[Display]:
        """Top-k, and average-k if probabilities are known."""
        known = any(evaluation.size_curve is not None for evaluation in self.evaluations)
        return [TopKDistance(self), *([AverageKDistance(self)] if known else [])]

    def points(self) -> dict[str, list[object]]:
        """name, k, and for both kinds of sets the accuracy, the best possible and the gap."""
        kinds = ("top_k", "average_k")
        columns: dict[str, list[object]] = {"name": [], "k": []}
        columns |= {name: [] for kind in kinds for name in (kind, f"best_{kind}", f"{kind}_gap")}
        for evaluation in self.evaluations:
            reached = self.reached(evaluation)
            for place, k in enumerate(self.optimum.k.tolist()):
                pairs = [(reached[kind][place], float(getattr(self.optimum, kind)[place])) for kind in kinds]
                append(columns, evaluation.source, k, *(value for got, best in pairs for value in (got, best, best - got)))
        return columns

    def table(self) -> Table:
        """The same as a table, by size."""
        titles = {"name": "scores", "k": "k"} if len(self.evaluations) > 1 else {"k": "k"}
        for kind, word in (("top_k", "top-k"), ("average_k", "average-k")):
            titles |= {kind: word, f"best_{kind}": f"best {word}", f"{kind}_gap": f"{word} gap"}
        points = self.points()
        rows = [list(row) for row in zip(*(points[name] for name in titles), strict=True)]
        rows.sort(key=lambda row: row[list(titles).index("k")])  # stable: at each size the evaluations in their order
        formats = {"name": "", "k": "d"}
        return Table(list(titles.values()), rows, [formats.get(name, "z.1%") for name in titles])  # z: no gap of -0.0%

    def heights(self) -> tuple[float, float]:
        """Common limits of the y axes of both panels."""
        curves = [values for evaluation in self.evaluations for values in self.reached(evaluation).values()]
        lowest = min(np.nanmin([self.optimum.top_k, self.optimum.average_k, *curves]), 1 - 1e-3)
        return max(0.0, float(lowest - 0.12 * (1 - lowest))), float(1 + 0.03 * (1 - lowest))


def _check_fits(evaluation: Evaluation, optimum: Optimum) -> None:
    if not evaluation.labelled or not evaluation.single_label:
        got = "several" if evaluation.labelled else "none"
        raise InputError(f"{evaluation.name}: expected one label a row to compare with the optimum, got {got}")
    if evaluation.rows != optimum.rows:
        raise InputError(
            f"{evaluation.name}: expected the {optimum.rows:,} rows of the optimum, got {evaluation.rows:,}: "
            "compute the optimum from the posterior of the evaluated rows"
        )
    if optimum.k[-1] > len(evaluation.classes):
        raise InputError(
            f"{evaluation.name}: expected at least {optimum.k[-1]} classes, as many as the largest k of the optimum, "
            f"got {len(evaluation.classes)}"
        )
