"""Coverage by set size: whether a rule covers the rows with large sets, the difficult ones, as well as the others."""

import math
from typing import TYPE_CHECKING

from shortlist.evaluation import Evaluation
from shortlist.evaluation.coverage_quantities import coverage_asked_for
from shortlist.evaluation.size_strata import ENOUGH, SizeStratum
from shortlist.report.displays import EvaluationDisplay, append
from shortlist.report.legend import NAMED, finish
from shortlist.report.style import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 0.5  # of the space between two strata, in which evaluations stand side by side
LARGEST, SMALLEST = 190, 8  # areas of the points of all rows and of none


class CoverageBySize(EvaluationDisplay):
    """Coverage of the rows whose sets have the same size, or nearly, with 95 % intervals."""

    title = "Coverage by set size"
    caption = (
        "Coverage of the rows by the number of labels in their set, with 95 % confidence intervals. The area of a point shows "
        f"the share of rows; sizes of fewer than {ENOUGH} rows are left out. The dotted line marks the coverage asked for: a "
        "rule whose points stay near it covers rows with large sets, the difficult ones, as well as the others."
    )

    @staticmethod
    def shows(evaluation: Evaluation) -> bool:
        """Labels are known, and a rule was evaluated."""
        return bool(_shown(evaluation))

    @property
    def tells(self) -> bool:
        """Some sets differ in size."""
        return any(len(_shown(evaluation)) > 1 for evaluation in self.evaluations)

    def points(self) -> dict[str, list[object]]:
        """name, size, rows, share, coverage, its 95 % interval; also of the sizes that are left out of the plot."""
        names = ("name", "size", "rows", "share", "coverage", "low", "high")
        columns: dict[str, list[object]] = {name: [] for name in names}
        for evaluation in self.evaluations:
            for one in evaluation.size_strata():
                ends = one.coverage, one.coverage_low, one.coverage_high
                append(columns, evaluation.name, one.name, one.rows, one.share, *ends)
        return columns

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """A point with an interval for each size, side by side for several evaluations."""
        word = "coverage" if all(evaluation.single_label for evaluation in self.evaluations) else "recall"
        ax = self._axes(ax, "labels in the set", word)
        known = {one.low: one for evaluation in self.evaluations for one in _shown(evaluation)}
        places, lowest = {low: place for place, low in enumerate(sorted(known))}, 1.0
        for level in {coverage_asked_for(evaluation) for evaluation in self.evaluations} - {None}:
            ax.axhline(level, color=INK, linestyle=":", linewidth=1.4, zorder=1)  # type: ignore[arg-type]
        for number, (evaluation, colour) in enumerate(self._series()):
            shift = WIDTH * ((number + 0.5) / len(self.evaluations) - 0.5)
            for one in _shown(evaluation):
                place, lowest = places[one.low] + shift, min(lowest, one.coverage_low)
                ax.plot([place, place], [one.coverage_low, one.coverage_high], color=colour, linewidth=1.8)
                ax.scatter([place], [one.coverage], s=SMALLEST + LARGEST * one.share, color=colour, linewidths=0, zorder=3)
            ax.plot([], [], "o", color=colour, label=NAMED + evaluation.name)
        ax.set_xticks([*places.values()], [known[low].name for low in places])
        ax.set_ylim(lowest - 0.06 * (1.05 - lowest), 1 + 0.03 * (1.05 - lowest))
        return finish(ax, legend=len(self.evaluations) > 1, below=True)


def _shown(evaluation: Evaluation) -> list[SizeStratum]:
    """The strata with enough rows, and labels."""
    return [one for one in evaluation.size_strata() if one.rows >= ENOUGH and not math.isnan(one.coverage)]
