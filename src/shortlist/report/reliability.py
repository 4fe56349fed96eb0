"""Reliability diagrams: whether probabilities are frequencies, with confidence bands."""

from typing import TYPE_CHECKING, ClassVar

import torch

from shortlist.evaluation import Evaluation
from shortlist.evaluation.evaluation import Pairs
from shortlist.report.displays import EvaluationDisplay, append, distinct, whose
from shortlist.report.legend import NAMED, finish
from shortlist.report.style import DASHES, GRID, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "How often a label is right against the probability it was given, in bins of equal width; calibrated probabilities lie on "
    "the diagonal. Bands are 95 % confidence intervals of each bin. The area of a point shows the share of pairs in its bin; "
    "bins with fewer than 20 pairs are faded and left out of the line."
)
FEW = 20  # pairs of a bin below which its frequency is mostly chance
FADED = 0.35


class Reliability(EvaluationDisplay):
    """Reliability diagram: of one classifier over every choice of pairs, of several over the top label of a row.

    The bands are Wilson intervals of the frequency in each bin, widened where the pairs of one row depend on each other:
    :func:`shortlist.metrics.binned_pairs.frequency_bands`.
    """

    title = "Reliability"
    caption = CAPTION
    over: ClassVar[Pairs] = "top"

    @classmethod
    def shows(cls, evaluation: Evaluation) -> bool:
        """Labels and probabilities are known."""
        return cls.over in evaluation.reliability

    def points(self) -> dict[str, list[object]]:
        """name, over (``top`` label, ``all`` pairs, ``top_n``), bin, pairs, mean confidence, frequency, its 95 % interval."""
        names = ("name", "over", "bin", "pairs", "confidence", "frequency", "low", "high")
        columns: dict[str, list[object]] = {name: [] for name in names}
        for evaluation in self.evaluations:
            for over, table in evaluation.reliability.items():
                rows = torch.stack([*table, *evaluation.reliability_bands(over)]).T.tolist()
                for place, (count, confidence, right, low, high) in enumerate(rows):
                    if count:
                        append(columns, evaluation.name, over, place, count, confidence / count, right / count, low, high)
        return columns

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """A line with points and a band for each choice of pairs, or for each classifier."""
        ax = self._axes(ax, "probability", "share right")
        ax.plot([0, 1], [0, 1], color=GRID, linewidth=1.4)
        alike = distinct(self.evaluations, same_bins)
        for evaluation, colour in [(one, colour) for one, colour in self._series() if one in alike]:
            owner = whose(evaluation, self.evaluations, same_bins)
            if len(alike) > 1:
                self._line(ax, evaluation, self.over, colour, owner)
            else:
                for n, over in enumerate(evaluation.reliability):
                    self._line(ax, evaluation, over, SERIES[n], owner, n)
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.02)
        return finish(ax, legend=True, below=True)

    def _line(self, ax: "Axes", evaluation: Evaluation, over: Pairs, colour: str, owner: str, dash: int = 0) -> None:
        table, bands = evaluation.reliability[over], evaluation.reliability_bands(over)
        filled = table[0] > 0
        counts, confidence, right = table[:, filled]
        x, y = (confidence / counts).tolist(), (right / counts).tolist()
        label = {"top": "top label", "all": "all labels", "top_n": f"top {evaluation.top_n} labels"}[over] + owner
        low, high = (bound[filled].tolist() for bound in bands)
        enough = (counts >= FEW).tolist()
        line = [[value for value, solid in zip(part, enough, strict=True) if solid] for part in (x, y, low, high)]
        ax.fill_between(line[0], line[2], line[3], color=colour, alpha=0.16, linewidth=0)
        ax.plot(line[0], line[1], color=colour, linestyle=DASHES[dash], label=NAMED + label)
        areas = (6 + 140 * counts / counts.sum()).tolist()
        points = ax.scatter(x, y, s=areas, color=colour, linewidths=0, zorder=3)
        points.set_alpha([1.0 if solid else FADED for solid in enough])


class PairReliability(Reliability):
    """Reliability diagram of several classifiers over all (row, label) pairs."""

    title = "Reliability of all labels"
    caption = CAPTION + " All labels of a row count, not only the most probable one."
    over: ClassVar[Pairs] = "all"
    compares: ClassVar[bool] = True


class TopNReliability(Reliability):
    """Reliability diagram of several classifiers over the n most probable labels of each row (Liao, Figure 3)."""

    title = "Reliability of the top n"
    caption = CAPTION + " The n most probable labels of a row count."
    over: ClassVar[Pairs] = "top_n"
    compares: ClassVar[bool] = True


def same_bins(one: Evaluation, other: Evaluation) -> bool:
    """Whether both draw the same lines, as several rules on the same scores do."""
    mine, others = one.reliability, other.reliability
    return mine.keys() == others.keys() and all(torch.equal(table, others[over]) for over, table in mine.items())
