"""Plots of datasets: how unequal the classes are."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from shortlist.data.dataset import Dataset
from shortlist.data.statistics import LongTail
from shortlist.report.display import Display
from shortlist.report.style import DASHES, GRID, MUTED, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ClassShares(Display):
    """Lorenz curve of the class counts: the cumulative share of the pictures against that of the classes, from the rarest.

    Args:
        counts: class counts by name, one curve each.

    >>> ClassShares({"garden": LongTail([1, 1, 2])}).frame()["pictures"].tolist()
    [0.0, 0.25, 0.5, 1.0]
    """

    title: ClassVar[str] = "Long tail"
    caption: ClassVar[str] = (
        "Cumulative share of the pictures against the share of the classes, from the rarest; equally common classes lie on the "
        "diagonal."
    )

    def __init__(self, counts: Mapping[str, LongTail]):
        self.counts = counts

    @classmethod
    def of(cls, dataset: Dataset) -> "ClassShares":
        """One curve for each split that has a label."""
        counts = {name: split.counts(len(dataset.classes)) for name, split in dataset.splits.items()}
        return cls({name: LongTail(count) for name, count in counts.items() if count.sum()})

    def points(self) -> dict[str, list[object]]:
        """name, share of the classes, share of the pictures."""
        columns: dict[str, list[object]] = {"name": [], "classes": [], "pictures": []}
        for name, tail in self.counts.items():
            columns["name"] += [name] * len(tail.lorenz)
            columns["classes"] += np.linspace(0, 1, len(tail.lorenz)).tolist()
            columns["pictures"] += tail.lorenz.tolist()
        return columns

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """A curve for each name, and the share of the rarest 80 %."""
        ax = self._axes(ax, "share of classes, from the rarest", "share of pictures")
        ax.plot([0, 1], [0, 1], color=GRID, linewidth=1.4)
        lines = []
        for place, tail in enumerate(self.counts.values()):
            colour, dashes = SERIES[place % len(SERIES)], DASHES[place % len(DASHES)]
            lines += ax.plot(np.linspace(0, 1, len(tail.lorenz)), tail.lorenz, color=colour, linestyle=dashes)
        ax.axvline(0.8, color=MUTED, linewidth=0.8, linestyle=(0, (2, 3)))
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        if lines:
            labels = [f"{name}: rarest 80 % hold {tail.share_of_rarest(0.8):.0%}" for name, tail in self.counts.items()]
            for text in ax.legend(lines, labels, loc="upper left").get_texts():
                text.set_parse_math(False)  # a dollar sign in a name does not start a formula
        return ax
