"""The report: one HTML file that needs nothing else, for one prediction file or several side by side."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from shortlist.errors import InputError
from shortlist.files import write_text
from shortlist.metrics import calibration_definition
from shortlist.metrics.accuracy import class_accuracy
from shortlist.report.display import Display
from shortlist.report.displays import DISPLAYS
from shortlist.report.evaluation import Evaluation
from shortlist.report.optimum import DistanceToOptimum, Optimum
from shortlist.report.style import themed_svg
from shortlist.report.table import Table
from shortlist.report.training_pictures import History, TrainingCurves
from shortlist.versions import version_of

WORST = 12
# name in Evaluation.numbers → column title and format
COLUMNS = {
    "name": ("predictions", ""),
    "rule": ("rule", ""),
    "rows": ("rows", ",d"),
    "accuracy": ("accuracy", ".1%"),
    "recall": ("recall", ".1%"),
    "row_recall": ("recall by row", ".1%"),
    "macro_accuracy": ("macro accuracy", ".1%"),
    "macro_recall": ("macro recall", ".1%"),
    "few": ("few-shot", ".1%"),
    "medium": ("medium-shot", ".1%"),
    "many": ("many-shot", ".1%"),
    "precision": ("precision", ".1%"),
    "size": ("mean size", ".2f"),
    "empty": ("empty sets", ".1%"),
    "top1": ("top-1", ".1%"),
    "map_class": ("mAP by class", ".1%"),
    "map_example": ("mAP by example", ".1%"),
    "calibration_top": ("ECE top", ".2%"),
    "calibration_all": ("ECE all", ".2%"),
}


def headline(evaluations: Evaluation | Sequence[Evaluation]) -> Table:
    """The numbers that matter, one row for each evaluation."""
    evaluations = _several(evaluations)
    numbers = [evaluation.numbers() for evaluation in evaluations]
    names = [name for name in COLUMNS if any(_known(row.get(name)) for row in numbers)]
    if all(row["name"] == row["rule"] for row in numbers):
        names.remove("name")
    rows = [[row.get(name) for name in names] for row in numbers]
    return Table([COLUMNS[name][0] for name in names], rows, [COLUMNS[name][1] for name in names])


def _known(value: Any) -> bool:
    return value is not None and value == value  # NaN is what has nothing to measure


def worst_classes(evaluation: Evaluation, n: int = WORST) -> Table:
    """The classes whose label is least often in the set."""
    accuracy = class_accuracy(evaluation.hits)
    present = ((evaluation.hits[1] > 0) & (accuracy < 1)).nonzero().flatten()
    order = present[accuracy[present].argsort(stable=True)][:n].tolist()
    counts = evaluation.train_counts
    columns = [
        "class",
        "accuracy" if evaluation.single_label else "recall",
        "rows",
        *(["training examples"] if counts is not None else []),
    ]
    rows = [
        [
            evaluation.classes[label],
            float(accuracy[label]),
            int(evaluation.hits[1, label]),
            *([int(counts[label])] if counts is not None else []),
        ]
        for label in order
    ]
    return Table(columns, rows, ["", ".1%", ",d", ",d"][: len(columns)])


def provenance(evaluations: Evaluation | Sequence[Evaluation]) -> Table:
    """Where scores and rules come from: what someone who doubts a number would ask first."""
    evaluations = _several(evaluations)
    names = list(dict.fromkeys(name for evaluation in evaluations for name in evaluation.details))
    rows = [[e.source, e.rule.text, *(e.details.get(name) for name in names)] for e in evaluations]
    return Table(["scores", "rule", *names], rows)


def _several(evaluations: Evaluation | Sequence[Evaluation]) -> Sequence[Evaluation]:
    found = [evaluations] if isinstance(evaluations, Evaluation) else list(evaluations)
    if not found:
        raise InputError("evaluations: expected at least one, got none")
    return found


def render(
    evaluations: Evaluation | Sequence[Evaluation],
    *,
    title: str = "Shortlist report",
    warnings: Sequence[str] = (),
    history: History | Mapping[str, History] | None = None,
    optimum: Optimum | None = None,
) -> str:
    """The page as text.

    Args:
        evaluations: one, or several side by side.
        title: of the page.
        warnings: sentences for the top of the page, beside those of the evaluations.
        history: of the training, a dictionary for each epoch, or several histories by name: see :class:`TrainingCurves`.
        optimum: the best possible on the rows evaluated, where their law is known: see :class:`DistanceToOptimum`.
    """
    import jinja2

    evaluations = _several(evaluations)
    source = resources.files("shortlist.report").joinpath("page.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["percent"] = lambda value: f"{value:.1%}"
    displays = [kind(evaluations) for kind in DISPLAYS]
    return environment.from_string(source).render(
        title=title,
        version=version_of("shortlist"),
        evaluations=evaluations,
        cards=_cards(evaluations[0]) if len(evaluations) == 1 else [],
        headline=headline(evaluations).transposed().html(),
        warnings=list(dict.fromkeys([*warnings, *(note for evaluation in evaluations for note in evaluation.notes)])),
        guarantees=list(dict.fromkeys((e.rule.text, e.rule.guarantee) for e in evaluations)),
        definitions=_definitions(evaluations),
        figures=[_figure(display) for display in displays if display.evaluations],
        distance=None if optimum is None else _distance(evaluations, optimum),
        training=None if history is None else _training(history),
        provenance=provenance(evaluations).html(),
        worst=[(evaluation, worst_classes(evaluation).html()) for evaluation in evaluations if evaluation.labelled],
    )


def write_report(
    evaluations: Evaluation | Sequence[Evaluation],
    path: str | Path,
    *,
    title: str = "Shortlist report",
    warnings: Sequence[str] = (),
    history: History | Mapping[str, History] | None = None,
    optimum: Optimum | None = None,
) -> None:
    """Write the page, whole or not at all. What else there is to give, :func:`render` explains."""
    write_text(path, render(evaluations, title=title, warnings=warnings, history=history, optimum=optimum))


def _figure(display: Display) -> dict[str, str]:
    return {"title": display.title, "caption": display.caption, "svg": themed_svg(display)}


def _distance(evaluations: Sequence[Evaluation], optimum: Optimum) -> dict[str, Any]:
    """Of those with one label a row; where there is none of them, the display says so."""
    fitting = [evaluation for evaluation in evaluations if evaluation.labelled and evaluation.single_label]
    display = DistanceToOptimum(fitting or evaluations, optimum)
    table = display.table()
    # Best and gap follow what they belong to: on a page no longer name is needed, and on a phone none fits.
    short = [name.split()[0] if name.startswith("best ") else name.split()[-1] for name in table.columns]
    margins = optimum.margins()["top_k"].tolist()
    ends = {int(k): f"{100 * margin:.1f} points at k = {k}" for k, margin in zip(optimum.k, margins, strict=True)}
    return {
        "figures": [_figure(panel) for panel in display.panels()],
        "table": dataclasses.replace(table, columns=short).html(),
        "rows": f"{optimum.rows:,}",
        "chance": " and ".join(dict.fromkeys([ends[int(optimum.k[0])], ends[int(optimum.k[-1])]])),
    }


def _training(history: History | Mapping[str, History]) -> dict[str, Any]:
    display = TrainingCurves(history)
    return {"figures": [_figure(panel) for panel in display.panels()], "table": display.table().html()}


def _cards(evaluation: Evaluation) -> list[dict[str, Any]]:
    size = evaluation.size
    cards = []
    if evaluation.labelled and float(evaluation.hits[1].sum()):
        what = "rows whose label is in the set" if evaluation.single_label else "labels that are in their set"
        margin = f"± {1.96 * evaluation.accuracy_error:.1%}"
        cards.append({"value": f"{evaluation.accuracy:.1%}", "margin": margin, "label": what})
        cards.append({"value": f"{evaluation.macro_accuracy:.1%}", "margin": "", "label": "the same, averaged over classes"})
    cards.append(
        {
            "value": f"{size.mean:.2f}",
            "margin": f"± {1.96 * math.sqrt(size.variance / size.rows):.2f}",
            "label": "labels in a set, on average",
        }
    )
    cards.append({"value": f"{evaluation.empty_rate:.1%}", "margin": "", "label": "sets that are empty"})
    return cards


def _definitions(evaluations: Sequence[Evaluation]) -> list[tuple[str, str]]:
    labelled = [evaluation for evaluation in evaluations if evaluation.labelled]
    single = all(evaluation.single_label for evaluation in labelled)
    interval = "; ± is a 95 % interval" if len(evaluations) == 1 else ""
    found = []
    if any(evaluation.single_label for evaluation in labelled):
        found.append(("accuracy", f"share of rows whose label is in their set{interval}"))
    if not single:
        found.append(("recall", f"share of all labels that are in the set of their row{interval}"))
        found.append(("recall by row", "mean over rows of the share of a row's labels in its set, 1 for a row without labels"))
    if labelled:
        found.append(("macro", "the mean of that over the classes present, each counting the same"))
    if any(evaluation.train_counts is not None for evaluation in evaluations):
        found.append(
            ("few, medium, many", "the mean over classes with fewer than 20, 20 to 100, and over 100 training examples")
        )
    if any(evaluation.reliability for evaluation in evaluations):
        gap = "expected calibration error, the gap between probability and frequency"
        found += [(f"ECE {over}", calibration_definition("expected", over=over).replace("ECE", gap)) for over in ("top", "all")]
    if not single:
        found.append(("mAP", "average precision, tied scores together, over classes or rows that have a positive"))
    return found
