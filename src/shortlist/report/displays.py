"""Displays: plots of evaluations, each with the numbers behind it.

Every display takes one or more evaluations, draws with ``.plot(ax)`` and gives its numbers with ``.frame()``.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from shortlist.data.statistics import LongTail
from shortlist.evaluation import Evaluation
from shortlist.metrics import Curve
from shortlist.report.display import Display
from shortlist.report.group_tables import shot_title
from shortlist.report.legend import NAMED, finish, finish_all
from shortlist.report.people import PersonResult
from shortlist.report.style import DASHES, GRID, INK, MUTED, SERIES, SETTINGS, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Inches of one panel of several, and the share of a panel's width left empty between panels if the figure has no layout engine.
PANEL_WIDTH, PANEL_HEIGHT, GUTTER = 4.8, 3.4, 0.2
BALANCED = 0.1  # Gini coefficient up to which classes are about equally common
PEOPLE = "*PXhd"  # markers of people


class EvaluationDisplay(Display):
    """A plot of one or several evaluations."""

    compares: ClassVar[bool] = False  # whether the report shows it only if several different classifiers are compared

    def __init__(self, evaluations: Evaluation | Sequence[Evaluation]):
        found = [evaluations] if isinstance(evaluations, Evaluation) else list(evaluations)
        self.evaluations = [evaluation for evaluation in found if self.shows(evaluation)]

    @staticmethod
    def shows(evaluation: Evaluation) -> bool:
        """Whether this evaluation has anything to show here."""
        return True

    @property
    def tells(self) -> bool:
        """Whether the report shows it: there is something to show that a reader does not know already."""
        return bool(self.evaluations)

    def _series(self) -> list[tuple[Evaluation, str]]:
        return [(evaluation, SERIES[n % len(SERIES)]) for n, evaluation in enumerate(self.evaluations)]


class Panels(Display):
    """Several plots side by side."""

    one_legend: ClassVar[bool] = False  # whether the panels draw the same series and share one legend

    def panels(self) -> list[Display]:
        """The plots, from left to right; each can be drawn by itself."""
        raise TypeError(f"{type(self).__name__} defines no panels()")

    @property
    def size_in_inches(self) -> tuple[float, float]:
        """Width and height of a figure for all panels."""
        return PANEL_WIDTH * len(self.panels()), PANEL_HEIGHT

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw all panels in the place of the axes; returns the axes, which hold the first."""
        import matplotlib

        panels = self.panels()
        with matplotlib.rc_context(SETTINGS if ax is None else {}):
            ax = new_axes(*self.size_in_inches) if ax is None else ax
            places = _side_by_side(ax, len(panels))
            for panel, place in zip(panels, places, strict=True):
                panel.plot(place)
            if self.one_legend:
                finish_all(places)
        return ax


class SizeHistogram(EvaluationDisplay):
    """Distribution of the set sizes."""

    title = "Set sizes"
    caption = "Share of rows by the number of labels in their set. The dotted line marks the mean."

    @staticmethod
    def shows(evaluation: Evaluation) -> bool:
        """A rule was evaluated."""
        return evaluation.rule is not None

    @property
    def tells(self) -> bool:
        """Some sets differ in size."""
        return any(int((evaluation.sizes > 0).sum()) > 1 for evaluation in self.evaluations)

    def points(self) -> dict[str, list[object]]:
        """name, size, rows, share."""
        columns: dict[str, list[object]] = {"name": [], "size": [], "rows": [], "share": []}
        for evaluation in self.evaluations:
            for size, count in _present(evaluation.sizes):
                append(columns, evaluation.name, size, count, count / evaluation.rows)
        return columns

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Bars for one evaluation, steps for several."""
        ax = self._axes(ax, "labels in the set", "share of rows")
        whole_ticks(ax)
        alone = len(self.evaluations) == 1
        for evaluation, colour in self._series():
            last = _last_size([evaluation.sizes])
            share = (evaluation.sizes / evaluation.rows)[: last + 1].tolist()
            if alone:
                ax.bar(range(last + 1), share, width=0.86 if last < 60 else 1.0, color=colour)
            else:
                edges = [size - 0.5 for size in range(last + 2)]
                ax.stairs(share, edges, color=colour, label=NAMED + evaluation.name, linewidth=1.8)
            ax.axvline(evaluation.size.mean, color=INK if alone else colour, linestyle=":", linewidth=1.6, zorder=3)
        return finish(ax, legend=not alone, below=True)


class GroupSizeHistogram(EvaluationDisplay):
    """Set sizes by the number of training examples of the row's class."""

    title = "Set sizes by shot group"
    caption = (
        "Share of the rows of each group by the number of labels in their set. Few-shot classes have fewer than 20 training "
        "examples, many-shot classes more than 100."
    )

    def __init__(self, evaluations: Evaluation | Sequence[Evaluation]):
        super().__init__(evaluations)
        if any(evaluation.shots is not None for evaluation in self.evaluations):
            self.caption = (  # type: ignore[misc]
                "Share of the rows of each group by the number of labels in their set. Groups are named by the number of "
                "training examples of the row's class."
            )

    @staticmethod
    def shows(evaluation: Evaluation) -> bool:
        """Training counts are known, and one label a row."""
        return evaluation.single_label and any(float(counts.sum()) for counts in evaluation.group_sizes.values())

    @property
    def tells(self) -> bool:
        """Several groups have rows."""
        return any(sum(float(counts.sum()) > 0 for counts in one.group_sizes.values()) > 1 for one in self.evaluations)

    def points(self) -> dict[str, list[object]]:
        """name, group, size, rows, share."""
        columns: dict[str, list[object]] = {"name": [], "group": [], "size": [], "rows": [], "share": []}
        for evaluation in self.evaluations:
            for group, counts in evaluation.group_sizes.items():
                for size, count in _present(counts):
                    append(columns, evaluation.name, group, size, count, count / float(counts.sum()))
        return columns

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Steps, a colour for each group, a dash for each evaluation."""
        ax = self._axes(ax, "labels in the set", "share of the group's rows")
        whole_ticks(ax)
        groups = dict.fromkeys(group for one in self.evaluations for group in one.group_sizes)
        colours = dict(zip(groups, itertools.cycle(SERIES), strict=False))
        for group, colour in colours.items():
            if any(float(one.group_sizes[group].sum()) for one in self.evaluations if group in one.group_sizes):
                ax.plot([], [], color=colour, label=NAMED + shot_title(group))
        for n, evaluation in enumerate(self.evaluations if len(self.evaluations) > 1 else ()):
            ax.plot([], [], color=MUTED, linestyle=DASHES[n % len(DASHES)], label=NAMED + evaluation.name)
        for n, evaluation in enumerate(self.evaluations):
            last = _last_size(list(evaluation.group_sizes.values()))
            for group, counts in evaluation.group_sizes.items():
                if float(counts.sum()):
                    share = (counts / counts.sum())[: last + 1].tolist()
                    edges = [size - 0.5 for size in range(last + 2)]
                    ax.stairs(share, edges, color=colours[group], linewidth=1.8, linestyle=DASHES[n % len(DASHES)])
        return finish(ax, legend=True, below=True)


class SizeCoverage(EvaluationDisplay):
    """Coverage against mean set size, for top-k sets, average-k sets and the rule."""

    title = "Coverage against set size"
    caption = (
        "The coverage that each mean set size gives: all labels above one threshold (average-k, line) and, with one label a "
        "row, the k most probable labels (top-k, points). Crosses mark the rules of this report; black marks, if "
        "there are any, the sets of people."
    )

    def __init__(self, evaluations: Evaluation | Sequence[Evaluation], people: Sequence[PersonResult] = ()):
        super().__init__(evaluations)
        self.people = people

    @staticmethod
    def shows(evaluation: Evaluation) -> bool:
        """Labels are known, and probabilities or ranks."""
        return evaluation.rank_curve is not None or evaluation.size_curve is not None

    def points(self) -> dict[str, list[object]]:
        """name, kind (top-k, average-k, rule or person), size, coverage."""
        columns: dict[str, list[object]] = {"name": [], "kind": [], "size": [], "coverage": []}
        for evaluation in self.evaluations:
            for kind, curve in (("top-k", evaluation.rank_curve), ("average-k", evaluation.size_curve)):
                if curve is not None:
                    for size, accuracy in zip(curve.sizes.tolist(), curve.accuracies.tolist(), strict=True):
                        append(columns, evaluation.name, kind, size, accuracy)
            if evaluation.rule is not None:
                append(columns, evaluation.name, "rule", evaluation.size.mean, evaluation.coverage)
        for person in self.people:
            append(columns, person.name, "person", person.size, person.coverage)
        return columns

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """A line, points and a cross for each evaluation."""
        word = "coverage" if all(evaluation.single_label for evaluation in self.evaluations) else "recall"
        ax = self._axes(ax, "mean labels in the set", word)
        limit = max([10.0, *(2.5 * evaluation.size.mean for evaluation in self.evaluations if evaluation.rule is not None)])
        limit = max([limit, *(1.2 * person.size for person in self.people)])
        limit = min(limit, max((len(evaluation.classes) for evaluation in self.evaluations), default=limit))
        lowest = 1.0
        alike = distinct(self.evaluations, _same_sizes)
        for evaluation, colour in self._series():
            label = whose(evaluation, self.evaluations, _same_sizes)
            if evaluation in alike and evaluation.size_curve is not None:
                sizes, accuracies = _upto(evaluation.size_curve.sizes, evaluation.size_curve.accuracies, limit)
                ax.plot(sizes, accuracies, color=colour, label=f"{NAMED}average-k{label}")
                lowest = min(lowest, evaluation.size_curve.at(0.7))
            if evaluation in alike and evaluation.rank_curve is not None:
                sizes, accuracies = _upto(evaluation.rank_curve.sizes[1:], evaluation.rank_curve.accuracies[1:], limit)
                ax.plot(sizes, accuracies, color=colour, marker="o", markersize=4, linestyle="", label=f"{NAMED}top-k{label}")
                lowest = min([lowest, *accuracies])
            if evaluation.rule is None:
                continue
            cross = {"marker": "x", "color": colour, "markersize": 10, "markeredgewidth": 2.4, "linestyle": ""}
            name = NAMED + evaluation.name if len(alike) < len(self.evaluations) else None
            ax.plot(evaluation.size.mean, evaluation.coverage, label=name, **cross)  # type: ignore[arg-type]
            lowest = min(lowest, evaluation.coverage)
        for place, person in enumerate(self.people):
            marker = PEOPLE[place % len(PEOPLE)]
            ax.plot(person.size, person.coverage, marker, color=INK, markersize=11, label=NAMED + person.name)
            lowest = min(lowest, person.coverage)
        ax.set_xlim(0, limit)
        ax.set_ylim(max(0.0, lowest - 0.12 * (1 - lowest) - 0.01), 1 + 0.02 * (1 - lowest) + 0.002)
        return finish(ax, legend=True, below=True)


class Lorenz(EvaluationDisplay):
    """Lorenz curve of the class counts: how unequal they are."""

    title = "Long tail"
    caption = (
        "Cumulative share of the examples against the share of the classes, from the rarest; equally common classes lie on the "
        "diagonal."
    )

    @staticmethod
    def shows(evaluation: Evaluation) -> bool:
        """Training counts or labels are known."""
        known = evaluation.train_counts is not None or evaluation.labelled
        return known and bool(_counts(evaluation).sum() > 0)

    @property
    def tells(self) -> bool:
        """Some classes are much more common than others."""
        return any(LongTail(_counts(evaluation)).gini > BALANCED for evaluation in self.evaluations)

    def points(self) -> dict[str, list[object]]:
        """name, share of the classes, share of the examples."""
        columns: dict[str, list[object]] = {"name": [], "classes": [], "examples": []}
        for evaluation in self.evaluations:
            for share, held in zip(*_lorenz(evaluation), strict=True):
                append(columns, evaluation.name, share, held)
        return columns

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """A line for each different count of classes."""
        counted = "training examples" if all(e.train_counts is not None for e in self.evaluations) else "labels"
        ax = self._axes(ax, "share of classes, from the rarest", f"share of {counted}")
        ax.plot([0, 1], [0, 1], color=GRID, linewidth=1.4)
        drawn = distinct(self.evaluations, lambda one, other: _lorenz(one) == _lorenz(other))
        for evaluation, colour in self._series():
            if evaluation in drawn:
                ax.plot(*_thinned(_lorenz(evaluation)), color=colour, label=NAMED + evaluation.source)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        return finish(ax, legend=len(drawn) > 1, below=True)


def _side_by_side(ax: "Axes", n: int) -> "list[Axes]":
    """The axes, narrowed to the first of n equal parts, and new axes in the others."""
    spec = ax.get_subplotspec()
    if n == 1:
        return [ax]
    if spec is not None:
        grid = spec.subgridspec(1, n)
        ax.set_subplotspec(grid[0])
        return [ax, *(ax.figure.add_subplot(grid[place]) for place in range(1, n))]
    left, bottom, whole, height = ax.get_position().bounds
    step = whole / (n - GUTTER)
    boxes = [(left + place * step, bottom, (1 - GUTTER) * step, height) for place in range(n)]
    ax.set_position(boxes[0])
    return [ax, *(ax.figure.add_axes(box) for box in boxes[1:])]


def distinct(evaluations: Sequence[Evaluation], same: Callable[[Evaluation, Evaluation], bool]) -> list[Evaluation]:
    """The first of each group of evaluations that draw the same line, such as several rules on the same scores."""
    found: list[Evaluation] = []
    for evaluation in evaluations:
        if not any(same(evaluation, other) for other in found):
            found.append(evaluation)
    return found


def whose(evaluation: Evaluation, evaluations: Sequence[Evaluation], same: Callable[[Evaluation, Evaluation], bool]) -> str:
    """Suffix of the label of a line that may stand for several evaluations; empty for a single one."""
    if len(evaluations) == 1:
        return ""
    sharing = [other for other in evaluations if same(evaluation, other)]
    sources = list(dict.fromkeys(other.source for other in sharing))
    if len(sharing) == len(evaluations):
        return f" (the same for all {len(evaluations)})"
    return f", {' and '.join(sources)}" + (" (the same)" if len(sources) > 1 else "")


def _same_sizes(one: Evaluation, other: Evaluation) -> bool:
    return same_curve(one.size_curve, other.size_curve) and same_curve(one.rank_curve, other.rank_curve)


def same_curve(one: Curve | None, other: Curve | None) -> bool:
    """Whether both have the same points, or both are missing."""
    if one is None or other is None:
        return one is other
    return torch.equal(one.sizes, other.sizes) and torch.equal(one.accuracies, other.accuracies)


def append(columns: dict[str, list[object]], *values: object) -> None:
    """Append a row to the columns."""
    for column, value in zip(columns.values(), values, strict=True):
        column.append(value)


def _present(counts: Tensor) -> list[tuple[int, int]]:
    return [(int(size), int(counts[size])) for size in counts.nonzero().flatten()]


def _last_size(counts: Sequence[Tensor]) -> int:
    """The 99.9 % quantile of the sizes, so that a single huge set does not flatten the plot."""
    total = torch.stack(list(counts)).sum(0)
    return max(1, int(torch.searchsorted(total.cumsum(0), 0.999 * total.sum())))


def _upto(sizes: Tensor, accuracies: Tensor, limit: float) -> tuple[list[float], list[float]]:
    """The points up to the limit and the one after."""
    shown = int((sizes <= limit).sum()) + 1
    return _thinned((sizes[:shown].tolist(), accuracies[:shown].tolist()))


def _lorenz(evaluation: Evaluation) -> tuple[list[float], list[float]]:
    held = LongTail(_counts(evaluation)).lorenz
    return torch.linspace(0, 1, len(held)).tolist(), held.tolist()


def _counts(evaluation: Evaluation) -> Tensor:
    return evaluation.hits[1] if evaluation.train_counts is None else evaluation.train_counts.double()


def _thinned(columns: tuple[list[float], list[float]], most: int = 1000) -> tuple[list[float], list[float]]:
    """About ``most`` of the points, the last included, to keep the page small."""
    step = max(1, len(columns[0]) // most)
    x, y = ([*column[:-1:step], column[-1]] for column in columns)
    return x, y


def whole_ticks(ax: "Axes") -> None:
    """Put ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))  # a single epoch gets one tick
