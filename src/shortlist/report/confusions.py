"""Which classes are confused: pairs with pictures, a clustered table of sets, and what a superclass would have answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from shortlist.evaluation import Evaluation
from shortlist.evaluation.confusion import MOST_LABELS, ConfusedPair
from shortlist.report.displays import EvaluationDisplay, append
from shortlist.report.pictures import PagePictures
from shortlist.report.style import SERIES
from shortlist.report.table import Table
from shortlist.words import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAIRS, PICTURED, CLASSES = 12, 6, 40
FEW = 3  # classes below which a table of them shows nothing


@dataclass(frozen=True)
class PairPictures:
    """A pair of classes with a picture of each."""

    title: str
    text: str
    pictures: Sequence[tuple[str, str]]  # the picture as a data URI, and its caption


CAPTION = (
    "For the rows of the class on the left, the share whose {} the class below: the darker, the more. Classes that are "
    "confused stand together; blocks along the diagonal are groups that the classifier does not tell apart."
)


class ConfusionMatrix(EvaluationDisplay):
    """How often the rows of a class have another in their set, for the most confused classes; similar ones stand together.

    Without a rule there are no sets, and it is how often another is their most probable label. Of several evaluations the
    first is drawn. Classes are ordered by average-linkage clustering of the two-way shares, with the order of leaves that puts
    similar neighbours side by side.
    """

    title = "Confused classes"
    caption = CAPTION.format("set contains")

    def __init__(self, evaluations: Evaluation | Sequence[Evaluation], most: int = CLASSES):
        super().__init__(evaluations)
        self.labels, self.shares = ([], np.zeros((0, 0))) if not self.evaluations else _clustered(self.evaluations[0], most)
        self.of_sets = not self.evaluations or self.evaluations[0].rule is not None
        if not self.of_sets:
            self.caption = CAPTION.format("most probable label is")  # type: ignore[misc]

    @property
    def size_in_inches(self) -> tuple[float, float]:
        """Width and height of the figure: larger for more classes."""
        side = 3.2 + 0.1 * len(self.labels)
        return side + 0.8, side

    @staticmethod
    def shows(evaluation: Evaluation) -> bool:
        """Labels are known, and a few classes are confused."""
        return evaluation.confusions is not None and len(evaluation.confusions.most_confused(FEW)) == FEW

    def points(self) -> dict[str, list[object]]:
        """class, other (the class in its sets, or as most probable label), share of the rows of the class."""
        columns: dict[str, list[object]] = {"class": [], "other": [], "share": []}
        names = [] if not self.evaluations else [self.evaluations[0].classes[label] for label in self.labels]
        for own, row in zip(names, self.shares, strict=True):
            for other, share in zip(names, row.tolist(), strict=True):
                append(columns, own, other, share)
        return columns

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """A square for each pair of classes."""
        from matplotlib.collections import PatchCollection
        from matplotlib.patches import Rectangle

        ax = self._axes(ax, "in the set" if self.of_sets else "most probable label", "label of the row")
        n = len(self.labels)
        places = [(row, column) for row in range(n) for column in range(n) if self.shares[row, column] > 0]
        squares = PatchCollection([Rectangle((column - 0.5, row - 0.5), 1, 1) for row, column in places], linewidths=0)
        squares.set_facecolor(SERIES[0])
        # The square root makes rare confusions visible beside frequent ones.
        squares.set_alpha([float(self.shares[place]) ** 0.5 for place in places] or None)
        ax.add_collection(squares)
        names = [_short(self.evaluations[0].classes[label]) for label in self.labels]
        ax.set_xticks(range(n), names, rotation=90, fontsize=6 if n > 25 else 8)
        ax.set_yticks(range(n), names, fontsize=6 if n > 25 else 8)
        ax.set_xlim(-0.5, n - 0.5)
        ax.set_ylim(n - 0.5, -0.5)
        ax.set_aspect("equal")
        ax.grid(False)
        return ax


def _short(name: str, most: int = 22) -> str:
    # A dollar sign would begin a formula.
    return (name if len(name) <= most else name[: most - 1] + "…").replace("$", r"\$")


def _clustered(evaluation: Evaluation, most: int) -> tuple[list[int], npt.NDArray[np.float64]]:
    """The most confused classes in the order of a clustering, and the share of rows of each with each other in their set."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    assert evaluation.confusions is not None
    labels = evaluation.confusions.most_confused(most)
    shares = evaluation.confusions.shares(labels)
    distances = squareform(1 - (shares + shares.T) / 2, checks=False)
    order = leaves_list(linkage(distances, "average", optimal_ordering=True)) if len(labels) > 2 else np.arange(len(labels))
    return [labels[place] for place in order], shares[order][:, order]


def pair_table(evaluation: Evaluation, n: int = PAIRS) -> Table:
    """The pairs of classes that are confused most, with counts."""
    pairs = [] if evaluation.confusions is None else evaluation.confusions.pairs(n)
    names = evaluation.classes
    if not evaluation.single_label:
        rows = [[names[pair.first], names[pair.second], pair.confused] for pair in pairs]
        return Table(["label", "in the set instead", "rows"], rows, ["", "", ",d"])
    found = [
        [names[pair.first], names[pair.second], pair.confused, pair.shared, pair.mistaken, _of(evaluation, pair)]
        for pair in pairs
    ]
    return Table(
        ["class", "confused with", "rows", "both in the set", "most probable is the other", "share of their rows"],
        found,
        ["", "", ",d", ",d", ",d", ".1%"],
    )


def _of(evaluation: Evaluation, pair: ConfusedPair) -> float:
    """The share of the rows of both classes that are confused."""
    assert evaluation.confusions is not None
    return pair.confused / float(evaluation.confusions.own[0, [pair.first, pair.second]].sum())


def confusion_remark(evaluation: Evaluation) -> str:
    """What the counts leave out, in a sentence; empty if nothing."""
    found, parts = evaluation.confusions, []
    if found is not None and found.skipped:
        parts.append(f"Of {found.skipped:,} sets with more than {MOST_LABELS} labels only the most probable label counts.")
    if found is not None and found.every > 1:
        parts.append(
            f"There are so many pairs that they are counted among one row in {found.every:,}, chosen by a hash of its number."
        )
    return " ".join(parts)


def pair_pictures(evaluation: Evaluation, pictures: PagePictures | None, n: int = PICTURED) -> list[PairPictures]:
    """A picture of each class of the most confused pairs, of rows that were confused."""
    if evaluation.confusions is None or evaluation.lookup is None or pictures is None:
        return []
    found = []
    for pair in evaluation.confusions.pairs(n):
        shown = []
        for exhibit in evaluation.lookup(torch.tensor(pair.rows, dtype=torch.int64)):
            uri, _ = pictures.embed(exhibit.answer)
            if uri is not None:
                shown.append((uri, ", ".join(exhibit.answer.target or [])))
        if shown:
            title = f"{evaluation.classes[pair.first]} and {evaluation.classes[pair.second]}"
            mistaken = f", {pair.mistaken:,} with the other as most probable label" if pair.mistaken else ""
            text = counted(pair.confused, "row") + mistaken
            found.append(PairPictures(title, text, shown))
    return found


def superclass_sentence(evaluation: Evaluation) -> str:
    """What a superclass would have answered; empty where there are none."""
    totals = evaluation.totals.get("superclass_answers")
    if totals is None:
        return ""
    wrong, kept, several, one, right, _ = (int(count) for count in totals.tolist())
    parts = []
    if wrong:
        parts.append(
            f"Of the {wrong:,} rows whose most probable label is wrong, {kept:,} ({kept / wrong:.0%}) still have the right "
            "superclass."
        )
    if several:
        within = f"{one:,} ({one / several:.0%}) stay within one superclass"
        told = f", which is the right one for {right:,} of them ({right / one:.0%})" if one else ""
        parts.append(f"Of the {several:,} sets with several labels, {within}{told}.")
    if one and right / one > 0.5:
        parts.append("A sure-node rule answers such rows with the superclass by itself.")
    return " ".join(parts)
