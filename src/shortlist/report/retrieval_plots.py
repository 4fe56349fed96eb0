"""Plots of retrieval by combined queries: metrics by query length, and reliability of the stated probabilities."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from shortlist.errors import InputError
from shortlist.metrics import QueryScores, RetrievalScores
from shortlist.report.display import Display
from shortlist.report.displays import Panels, append, whole_ticks
from shortlist.report.legend import NAMED, finish
from shortlist.report.style import DASHES, GRID, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Scored = RetrievalScores | Mapping[str, RetrievalScores]

ALONE = "retrieval"
ROOM = 0.05  # margin above and below the values, as a share of their range


class RetrievalDisplay(Display):
    """A plot of retrieval metrics for one method or several."""

    def __init__(self, scores: Scored):
        named = {ALONE: scores} if isinstance(scores, RetrievalScores) else dict(scores)
        for name, found in named.items():
            if not isinstance(found, RetrievalScores):
                raise InputError(f"scores of {name}: expected RetrievalScores, got {type(found).__name__}")
        self.scores = {str(name): found for name, found in named.items()}

    @property
    def alone(self) -> bool:
        """Whether there is only one method, which needs no name."""
        return len(self.scores) == 1

    def _series(self) -> list[tuple[str, RetrievalScores, str, Any]]:
        """Name, scores, colour and line style; colours repeat with dashes."""
        return [
            (name, found, SERIES[n % len(SERIES)], DASHES[n // len(SERIES) % len(DASHES)])
            for n, (name, found) in enumerate(self.scores.items())
        ]


class ByLength(RetrievalDisplay):
    """One metric against query length, with its interval, as a line for each method."""

    quantity: ClassVar[str]
    fields: ClassVar[tuple[str, str, str]]  # value, low and high of QueryScores

    def __init__(self, scores: Scored, *, legend: bool = True):
        super().__init__(scores)
        self.legend = legend

    def points(self) -> dict[str, list[object]]:
        """Columns name, length, the metric with the ends of its 95 % interval, queries, exact."""
        value, low, high = self.fields
        columns: dict[str, list[object]] = {key: [] for key in ("name", "length", value, low, high, "queries", "exact")}
        for name, found in self.scores.items():
            for one in _filled(found):
                append(columns, name, one.length, *(getattr(one, field) for field in self.fields), one.queries, one.exact)
        return columns

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Filled points if every query was asked; open points with a band if queries were sampled."""
        ax = self._axes(ax, "labels in the query", self.quantity)
        lowest, highest = 1.0, 0.0
        for name, found, colour, dash in self._series():
            drawn = _filled(found)
            x = [one.length for one in drawn if one.length is not None]
            y, low, high = ([getattr(one, field) for one in drawn] for field in self.fields)
            if not x:
                continue
            lowest, highest = min([lowest, *low]), max([highest, *high])
            label = None if self.alone else NAMED + name
            ax.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
            ax.plot(x, y, color=colour, linestyle=dash, label=label)
            faces = [colour if one.exact else "white" for one in drawn]
            ax.scatter(x, y, s=26, c=faces, edgecolors=colour, linewidths=1.5, zorder=3)
        if highest >= lowest:
            room = ROOM * max(0.02, highest - lowest)
            ax.set_ylim(max(-0.02, lowest - room), min(1.02, highest + room))
        whole_ticks(ax)
        return finish(ax, legend=self.legend, below=True)


class MapByLength(ByLength):
    """Mean average precision against the length of the query."""

    title: ClassVar[str] = "Mean average precision by query length"
    caption: ClassVar[str] = (
        "Over all queries that some row satisfies, with at least one label present and any others absent. Filled points: all "
        "queries; open points: a sample, with its 95 % interval."
    )
    quantity = "mean average precision"
    fields = ("map", "low", "high")


class PrecisionByLength(ByLength):
    """Precision at 10 against the length of the query."""

    title: ClassVar[str] = "Precision at 10 by query length"
    caption: ClassVar[str] = "Share of right rows among the top 10, over the same queries."
    quantity = "precision at 10"
    fields = ("precision_at_10", "precision_low", "precision_high")


class RetrievalByLength(RetrievalDisplay, Panels):
    """Mean average precision and precision at 10 against query length.

    Args:
        scores: of one method, or of several methods by name.

    >>> import numpy as np
    >>> from shortlist.metrics import evaluate_retrieval
    >>> eta = np.array([[0.9, 0.2], [0.6, 0.7], [0.7, 0.1]])
    >>> target = np.array([[True, False], [True, True], [False, False]])
    >>> RetrievalByLength(evaluate_retrieval(np.log(eta), np.log(1 - eta), target)).frame()[["length", "map", "queries"]]
       length       map  queries
    0       1  0.916667      2.0
    1       2  1.000000      2.0

    Cheng, figure 3.
    """

    one_legend: ClassVar[bool] = True
    title: ClassVar[str] = "Retrieval by query length"
    caption: ClassVar[str] = (
        "Mean average precision (left) and precision at 10 (right) over all queries that some row satisfies, with at least one "
        "label present and any others absent. Filled points: all queries; open points: a sample, with its 95 % interval. The "
        "slower the decline, the better the probabilities."
    )

    def panels(self) -> list[Display]:
        """Mean average precision and precision at 10."""
        return [MapByLength(self.scores, legend=False), PrecisionByLength(self.scores, legend=False)]

    def points(self) -> dict[str, list[object]]:
        """The columns of both panels."""
        first, second = (panel.points() for panel in self.panels())
        return {**first, **second}


class QueryReliability(RetrievalDisplay):
    """Reliability diagram of queries: stated probability of the results against the share that is right.

    Args:
        scores: of one method, or of several methods by name.

    >>> import numpy as np
    >>> from shortlist.metrics import evaluate_retrieval
    >>> eta = np.array([[0.9, 0.2], [0.6, 0.7], [0.7, 0.1]])
    >>> target = np.array([[True, False], [True, True], [False, False]])
    >>> shown = QueryReliability(evaluate_retrieval(np.log(eta), np.log(1 - eta), target)).frame()
    >>> shown[["bin", "results", "probability", "frequency"]].tail(2)
       bin  results  probability  frequency
    5   10      3.0     0.706667   0.666667
    6   13      1.0     0.900000   1.000000
    """

    title: ClassVar[str] = "Reliability of queries"
    caption: ClassVar[str] = (
        "Share of the top 10 results of a query that are right, by the stated probability of the whole query, in 15 bins of "
        "equal width; calibrated probabilities lie on the diagonal. The area of a point shows the share of results in the bin."
    )

    def points(self) -> dict[str, list[object]]:
        """Columns name, bin, results, their mean stated probability, and the share that is right."""
        names = ("name", "bin", "results", "probability", "frequency")
        columns: dict[str, list[object]] = {name: [] for name in names}
        for name, found in self.scores.items():
            for place, (results, stated, right) in enumerate(found.overall.bins):
                if results:
                    append(columns, name, place, results, stated / results, right / results)
        return columns

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """A line for each method, with its expected calibration error in the legend."""
        ax = self._axes(ax, "stated probability of the query", "share of results that are right")
        ax.plot([0, 1], [0, 1], color=GRID, linewidth=1.4)
        for name, found, colour, dash in self._series():
            bins = [(results, stated / results, right / results) for results, stated, right in found.overall.bins if results]
            if not bins:
                continue
            results, x, y = zip(*bins, strict=True)
            error = f"ECE {found.calibration_error:.3f}"
            label = NAMED + (error if self.alone else f"{name}, {error}")
            ax.plot(x, y, color=colour, linestyle=dash, label=label)
            ax.scatter(x, y, s=[6 + 140 * count / sum(results) for count in results], color=colour, linewidths=0, zorder=3)
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.02)
        return finish(ax, legend=True, below=True)


def _filled(found: RetrievalScores) -> list[QueryScores]:
    """The lengths for which some query was ranked."""
    return [one for one in found.by_length if one.asked]
