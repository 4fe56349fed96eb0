"""Plots that compare models: one quantity against another, a point for each model.

Garcin, thesis, figures 3.5 to 3.9.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from shortlist.checks import check_distinct, whole
from shortlist.errors import InputError
from shortlist.evaluation import Evaluation
from shortlist.evaluation.quantities import QUANTITIES
from shortlist.evaluation.quantity import Quantity
from shortlist.report.display import Display
from shortlist.report.legend import NAMED, finish
from shortlist.report.style import MUTED, SERIES
from shortlist.words import did_you_mean, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "osD^vP*X"


class ModelScatter(Display):
    """A quantity against another, a point for each model.

    ``ModelScatter(runs)`` shows by how much the macro average lies below the micro average; with two lists, one quantity on two
    datasets or for two trainings of each model.

    Args:
        evaluations: of the models, along the horizontal axis.
        others: of the same models, matched by name, along the vertical axis; the same evaluations by default.
        x: name of the quantity along the horizontal axis, see :data:`shortlist.evaluation.quantities.QUANTITIES`.
        y: name of the quantity along the vertical axis; with ``others``, ``x`` by default.
        x_label: of the horizontal axis; the title of its quantity by default.
        y_label: of the vertical axis.

    >>> from shortlist import evaluate
    >>> one = evaluate([[0.7, 0.3], [0.6, 0.4], [0.2, 0.8]], [0, 0, 0], "top-k:1", name="one")
    >>> ModelScatter([one]).points()
    {'name': ['one'], 'coverage': [0.666...], 'macro coverage': [0.666...]}

    Garcin, thesis, figures 3.5, 3.6, 3.8 and 3.9.
    """

    title: ClassVar[str] = "Models compared"
    caption: ClassVar[str] = "A point for each model; along the dashed line the two numbers are equal."

    def __init__(
        self,
        evaluations: Sequence[Evaluation],
        others: Sequence[Evaluation] | None = None,
        *,
        x: str = "coverage",
        y: str | None = None,
        x_label: str | None = None,
        y_label: str | None = None,
    ):
        across = _quantity("x", x)
        up = _quantity("y", y or (x if others is not None else "macro_coverage"))
        partners = evaluations if others is None else _partners(evaluations, others)
        self.x_label, self.y_label = x_label or _title(across, evaluations), y_label or _title(up, partners)
        if self.x_label == self.y_label:
            self.x_label, self.y_label = f"{self.x_label}, first", f"{self.y_label}, second"
        values = [(one.name, across.value(one), up.value(two)) for one, two in zip(evaluations, partners, strict=True)]
        self.values = [(name, a, b) for name, a, b in values if a is not None and b is not None]

    def points(self) -> dict[str, list[object]]:
        """name, and the two quantities by their titles."""
        names, across, up = zip(*self.values, strict=True) if self.values else ((), (), ())
        return {"name": list(names), self.x_label: list(across), self.y_label: list(up)}

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Points with the names of the models in the legend."""
        ax = self._axes(ax, self.x_label, self.y_label)
        for place, (name, across, up) in enumerate(self.values):
            colour, marker = SERIES[place % len(SERIES)], MARKERS[place // len(SERIES) % len(MARKERS)]
            ax.plot(across, up, marker=marker, markersize=8, linestyle="", color=colour, label=NAMED + name)
        low = min((min(across, up) for _, across, up in self.values), default=0.0)
        high = max((max(across, up) for _, across, up in self.values), default=1.0)
        room = 0.08 * (high - low) + 0.005
        ax.plot([low - room, high + room], [low - room, high + room], linestyle="--", linewidth=1, color=MUTED, zorder=0)
        ax.set_xlim(low - room, high + room)
        ax.set_ylim(low - room, high + room)
        return finish(ax, legend=True, below=True)


class TopkAgainstAverage(ModelScatter):
    """Top-k accuracy against average-k accuracy, a point for each model with one label a row.

    Args:
        evaluations: of the models.
        k: the size of every top-k set, and the mean size of the average-k sets.

    >>> from shortlist import evaluate
    >>> one = evaluate([[0.7, 0.3], [0.6, 0.4], [0.2, 0.8]], [0, 0, 0], name="one")
    >>> list(TopkAgainstAverage([one], 1).points())
    ['name', 'top-1 accuracy', 'average-1 accuracy']

    Garcin, thesis, figure 3.8.
    """

    title: ClassVar[str] = "Top-k against average-k"

    caption: ClassVar[str] = (
        "A point for each model: the accuracy of sets of k labels, and that of sets of k on average, read off its curve; "
        "along the dashed line the two are equal."
    )

    def __init__(self, evaluations: Sequence[Evaluation], k: int = 5):
        k = whole(1)("k", k)
        self.x_label, self.y_label = f"top-{k} accuracy", f"average-{k} accuracy"
        self.values = []
        for evaluation in evaluations:
            ranks, sizes = evaluation.rank_curve, evaluation.size_curve
            if ranks is not None and sizes is not None and k <= len(evaluation.classes):
                self.values.append((evaluation.name, ranks.at(k), sizes.at(k)))


def _title(quantity: Quantity, evaluations: Sequence[Evaluation]) -> str:
    return quantity.heading(evaluations[0]) if evaluations else quantity.title


class MacroAgainstMicro(ModelScatter):
    """The mean over classes against the mean over rows of the coverage (with several labels a row, of the recall).

    Args:
        evaluations: of the models.

    Garcin, thesis, figure 3.5.
    """

    title: ClassVar[str] = "Macro against micro average"
    caption: ClassVar[str] = (
        "A point for each model: coverage over rows, and the mean of the coverages of classes; along the dashed line the two "
        "are equal, below it rare classes fare worse."
    )

    def __init__(self, evaluations: Sequence[Evaluation]):
        single = all(one.single_label for one in evaluations)
        x, y = ("coverage", "macro_coverage") if single else ("recall", "macro_recall")
        super().__init__(evaluations, x=x, y=y)


def models_compared(evaluations: Sequence[Evaluation], k: int | None = None) -> list[ModelScatter]:
    """The plots of several classifiers in one report: top-k against average-k, and macro against micro average.

    Args:
        evaluations: of one rule or several on the scores of one classifier or several.
        k: of the first plot; by default that of the rules if they share one, otherwise 5, or fewer than the classes.
    """
    sources = {evaluation.source: evaluation for evaluation in reversed(evaluations)}
    classifiers = [replace(one, name=source) for source, one in reversed(sources.items())]
    if len(classifiers) < 2:
        return []
    given = {one.rule.k for one in evaluations if one.rule is not None and one.rule.k is not None}
    usual = min(5, max(1, min(len(one.classes) for one in classifiers) - 1))
    k = k or (max(1, round(given.pop())) if len(given) == 1 else usual)
    found = [TopkAgainstAverage(classifiers, k), MacroAgainstMicro(evaluations)]
    return [display for display in found if len(display.values) > 1]


def _quantity(parameter: str, name: str) -> Quantity:
    if name not in QUANTITIES:
        raise InputError(
            f"{parameter}: {did_you_mean(name, QUANTITIES)}expected a quantity ({listed(list(QUANTITIES))}), got {name!r}"
        )
    return QUANTITIES[name]


def _partners(evaluations: Sequence[Evaluation], others: Sequence[Evaluation]) -> list[Evaluation]:
    """The other evaluation of each model."""
    for name, models in (("evaluations", evaluations), ("others", others)):
        check_distinct((one.name for one in models), f"{name} of models")
    named = {other.name: other for other in others}
    missing = [one.name for one in evaluations if one.name not in named]
    if missing:
        raise InputError(f"others: expected an evaluation of each model, got none called {missing[0]!r}")
    return [named[one.name] for one in evaluations]
