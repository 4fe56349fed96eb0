"""``shortlist.evaluate``: from probabilities, labels and a rule to an evaluation that shows itself."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from shortlist.errors import InputError, NotFittedError
from shortlist.evaluation import Evaluation, measure
from shortlist.evaluation.quantity import HEADLINE
from shortlist.evaluation.tally import BINS
from shortlist.links import Link
from shortlist.predictions import Predictions
from shortlist.report.display import Display
from shortlist.report.displays import Panels, SizeCoverage, SizeHistogram
from shortlist.report.numbers import quantities_table
from shortlist.report.page import write_report
from shortlist.report.reliability import Reliability
from shortlist.sets import SetRule, parse_rule
from shortlist.words import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class EvaluationPanels(Panels):
    """Set sizes, coverage against set size and reliability, side by side, as far as they are defined."""

    title: ClassVar[str] = "Evaluation"
    caption: ClassVar[str] = "Set sizes, coverage against mean set size, and reliability of the probabilities."

    def __init__(self, evaluations: Evaluation | Sequence[Evaluation]):
        shown = [kind(evaluations) for kind in (SizeHistogram, SizeCoverage, Reliability)]
        self._panels: list[Display] = [display for display in shown if display.evaluations]

    def panels(self) -> list[Display]:
        """The plots, from left to right."""
        return self._panels


class EvaluationReport(Evaluation):
    """An evaluation that shows itself: a table in the console and in notebooks, plots, and the HTML report."""

    def __repr__(self) -> str:
        lines = [self._heading()]
        for group, rows in self._groups():
            lines += [f"{group}:"] if group != HEADLINE else []
            lines += [
                f"{title:<16} {value:>8} {margin and '± ' + margin:<8} {definition}"
                for title, value, margin, definition in rows
            ]
        return "\n".join(lines)

    def _groups(self) -> Iterator[tuple[str, list[list[str]]]]:
        """The rows of the table, without their group, by group."""
        for group, rows in itertools.groupby(quantities_table(self).shown(), key=lambda row: row[0]):
            yield group, [row[1:] for row in rows]

    def _repr_html_(self) -> str:
        import html

        return f"<p>{html.escape(self._heading())}</p>{quantities_table(self).html()}"

    def _heading(self) -> str:
        rows, classes = counted(self.rows, "row"), counted(len(self.classes), "class", "classes")
        rule = "" if self.rule is None else f", rule {self.rule.text}"
        return f"{self.name}: {rows}, {classes}{rule}"

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw set sizes, coverage against set size and reliability side by side; returns the axes of the first."""
        return EvaluationPanels(self).plot(ax)

    def save(self, path: str | Path, **settings: Any) -> None:
        """Write the HTML report; settings are those of :func:`~shortlist.report.write_report`."""
        if Path(path).suffix not in (".html", ".htm"):
            raise InputError(f"path: expected a name that ends in .html, got {path}; plot().figure.savefig writes charts")
        write_report(self, path, **settings)


def evaluate(
    predictions: Any,
    labels: Any = None,
    rule: SetRule | str | None = None,
    *,
    calibration: Any = None,
    link: Link | str | None = "identity",
    name: str = "predictions",
    source: str | None = None,
    progress: Callable[[int], None] = lambda rows: None,
    calibration_bins: int = BINS,
    top_n: int | None = None,
    shots: Sequence[int] | None = None,
    by: Sequence[str] = (),
) -> EvaluationReport:
    """Measure the sets of a rule, and the probabilities behind them.

    Args:
        predictions: probabilities (N, C) as an array, list, tensor or data frame (whose columns name the classes), or
            :class:`~shortlist.Predictions`, which bring their own labels and link.
        labels: int (N,) one label a row, or bool (N, C) any number of labels a row; with predictions, the rule may stand in
            their place. Without labels only set sizes are known.
        rule: a rule, or its text such as ``"top-k:5"``; None measures the probabilities alone.
        calibration: what to fit the rule on if it needs it and is not fitted: probabilities, a pair of probabilities and
            labels, or predictions. Use other rows than those evaluated.
        link: turns scores into probabilities, for example ``"softmax"`` if the first argument holds logits; by default it
            holds probabilities.
        name: what tables call the evaluation.
        source: what plots of the scores alone call it, if several rules share them; the name by default.
        progress: callback, called with the number of rows done after each block.
        calibration_bins: number of bins of equal width of calibration errors, reliability diagrams and the calibration test.
        top_n: calibration errors and macro F1 over the n most probable labels of each row are measured too; by default 4 for
            rows with several labels, and not at all for rows with one.
        shots: edges of the groups of classes by number of training examples, as in :func:`shortlist.metrics.shot_coverage`:
            ``(10, 50, 500, 2000)`` has five groups; by default few (< 20), medium (20–100) and many (> 100). Needs
            predictions with ``train_counts``; :meth:`Evaluation.by_shots` gives the numbers of each group.
        by: columns of the predictions: :meth:`Evaluation.by_column` gives the numbers of each of their values.

    >>> from shortlist.sets import threshold
    >>> found = evaluate([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4]], [0, 2], "threshold:0.4")
    >>> found.coverage, found.size.mean
    (1.0, 1.5)
    >>> found.numbers()["top1"]
    0.5
    """
    if isinstance(labels, SetRule | str):
        if rule is not None:
            raise InputError("labels: expected the labels of the rows, got a second rule")
        labels, rule = None, labels
    rows = _predictions(predictions, labels, link)
    fitted_on = None if calibration is None else _calibration(calibration, link)
    chosen = _fitted(_parsed(rule, [fitted_on, rows]) if isinstance(rule, str) else rule, fitted_on)
    settings: dict[str, Any] = {"calibration_bins": calibration_bins, "top_n": top_n, "shots": shots, "by": by}
    found = measure(rows, chosen, name=name, source=source, progress=progress, **settings)
    return EvaluationReport(**{field.name: getattr(found, field.name) for field in dataclasses.fields(found)})


def _predictions(given: Any, labels: Any, link: Link | str | None) -> Predictions:
    if not isinstance(given, Predictions):
        return Predictions(given, labels, link=link)
    if labels is None:
        return given
    return dataclasses.replace(given, target=labels)


def _calibration(given: Any, link: Link | str | None) -> Predictions:
    """The calibration rows: probabilities, a pair of probabilities and labels, or predictions."""
    probs, labels = given if isinstance(given, tuple) else (given, None)
    return _predictions(probs, labels, link)


def _parsed(text: str, known: list[Predictions | None]) -> SetRule:
    """The rule of a text, with the prior and the superclasses of the first of these rows that have them."""

    def first(name: str) -> Any:
        found = (getattr(rows, name) for rows in known if rows is not None)
        return next((value for value in found if value is not None), None)

    return parse_rule(text, prior=lambda: first("prior"), superclasses=lambda: first("superclasses"))


def _fitted(rule: SetRule | None, calibration: Predictions | None) -> SetRule | None:
    if rule is not None and not isinstance(rule, SetRule):
        raise InputError(f"rule: expected one rule or its text, got {type(rule).__name__}: evaluate rules one by one")
    if rule is None or rule.fitted:
        return rule
    if calibration is None:
        raise NotFittedError(
            f"rule: {rule.text} is not fitted: fit it on other rows with rule.fit(probs, labels), or give them as calibration="
        )
    return rule.twin().fit(calibration)  # the rule that was given stays as it is, and is fitted anew next time
