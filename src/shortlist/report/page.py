"""The report: one self-contained HTML page about one evaluation, or several side by side."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from shortlist.evaluation import Evaluation
from shortlist.evaluation.quantity import HEADLINE
from shortlist.files import write_text
from shortlist.report.class_tables import class_calibration, worst_classes
from shortlist.report.display import Display
from shortlist.report.displays import EvaluationDisplay, GroupSizeHistogram, Lorenz, SizeCoverage, SizeHistogram, distinct
from shortlist.report.group_tables import shot_definitions, shot_table, superclass_table
from shortlist.report.model_plots import models_compared
from shortlist.report.numbers import as_comparable, definitions, headline, number_groups, provenance, tiles
from shortlist.report.optimum import DistanceToOptimum, Optimum
from shortlist.report.people import PersonResult
from shortlist.report.published import Comparison
from shortlist.report.reliability import PairReliability, Reliability, TopNReliability, same_bins
from shortlist.report.style import themed_svg
from shortlist.report.templates import template
from shortlist.report.training_plots import History, TrainingCurves
from shortlist.versions import version_of

DISPLAYS: tuple[type[EvaluationDisplay], ...] = (
    SizeHistogram,
    SizeCoverage,
    Reliability,
    PairReliability,
    TopNReliability,
    GroupSizeHistogram,
    Lorenz,
)
INTERVAL = [("±", "half-width of the 95 % confidence interval")]


def render(
    evaluations: Evaluation | Sequence[Evaluation],
    *,
    title: str = "Shortlist report",
    warnings: Sequence[str] = (),
    history: History | Mapping[str, History] | None = None,
    optimum: Optimum | Any = None,
    people: Sequence[PersonResult] = (),
    published: Comparison | None = None,
) -> str:
    """The page as HTML text; the arguments are those of :func:`write_report`."""
    evaluations = as_comparable(evaluations)
    best = optimum if optimum is None or isinstance(optimum, Optimum) else Optimum.of(optimum)
    displays = [SizeCoverage(evaluations, people) if kind is SizeCoverage else kind(evaluations) for kind in DISPLAYS]
    return template("page.html").render(
        title=title,
        version=version_of("shortlist"),
        evaluations=evaluations,
        tiles=tiles(evaluations[0]) if len(evaluations) == 1 else [],
        headline=headline(evaluations).transposed().html(),
        warnings=list(dict.fromkeys([*warnings, *(note for evaluation in evaluations for note in evaluation.notes)])),
        guarantees=list(dict.fromkeys((e.rule.text, e.rule.guarantee) for e in evaluations if e.rule is not None)),
        groups=_groups(evaluations),
        definitions=definitions(evaluations, HEADLINE) + (INTERVAL if len(evaluations) == 1 else []),
        figures=[_figure(display) for display in displays if _belongs(display)],
        models=[_figure(display) for display in models_compared(evaluations)],
        calibration=_calibration(evaluations),
        published=published,
        distance=None if best is None else _distance(evaluations, best),
        training=None if history is None else _training(history),
        provenance=provenance(evaluations).html(),
        shots=_shots(evaluations),
        superclasses=[(one, superclass_table(one).html()) for one in evaluations if "superclass_hits" in one.totals],
        worst=[(evaluation, worst_classes(evaluation).html()) for evaluation in evaluations if "hits" in evaluation.totals],
    )


def _calibration(evaluations: Sequence[Evaluation]) -> list[tuple[Evaluation, str]]:
    """The table of the worst calibrated classes for each different set of scores; several rules on the same scores share it."""
    shown = [evaluation for evaluation in evaluations if "class_bins" in evaluation.totals]
    alike = distinct(shown, lambda one, other: torch.equal(one.totals["class_bins"], other.totals["class_bins"]))
    return [(evaluation, class_calibration(evaluation).html()) for evaluation in alike]


def write_report(
    evaluations: Evaluation | Sequence[Evaluation],
    path: str | Path,
    *,
    title: str = "Shortlist report",
    warnings: Sequence[str] = (),
    history: History | Mapping[str, History] | None = None,
    optimum: Optimum | Any = None,
    people: Sequence[PersonResult] = (),
    published: Comparison | None = None,
) -> None:
    """Write the report to one HTML file: the page that ``shortlist report`` and ``shortlist train`` write.

    Args:
        evaluations: one, or several to be compared.
        path: of the file.
        title: of the page.
        warnings: sentences for the top of the page, in addition to those of the evaluations.
        history: adds training curves: a dictionary for each epoch, as in ``metrics.jsonl``, or several such histories by name
            (see :class:`TrainingCurves`).
        optimum: adds the distance to the optimum: an :class:`Optimum` of the rows evaluated, or their true posterior (N, C).
        people: results of people on the same rows, drawn among the classifiers, see :func:`read_human_sets`.
        published: adds published numbers beside those measured.
    """
    more: dict[str, Any] = {"history": history, "optimum": optimum, "people": people, "published": published}
    write_text(path, render(evaluations, title=title, warnings=warnings, **more))


def _belongs(display: EvaluationDisplay) -> bool:
    """Whether a display has something to show, or to compare if that is what it is for."""
    return bool(display.evaluations) and (not display.compares or len(distinct(display.evaluations, same_bins)) > 1)


def _figure(display: Display) -> dict[str, str]:
    return {"title": display.title, "caption": display.caption, "svg": themed_svg(display)}


def _distance(evaluations: Sequence[Evaluation], optimum: Optimum) -> dict[str, Any]:
    """Of the evaluations with one label a row; without any, the display raises an error that says so."""
    fitting = [evaluation for evaluation in evaluations if evaluation.labelled and evaluation.single_label]
    display = DistanceToOptimum(fitting or evaluations, optimum)
    table = display.table()
    # Best and gap follow the column they belong to: short headings are clear, and fit on a phone.
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


def _groups(evaluations: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """Table and definitions of each group of numbers."""
    return [
        {"table": table.html(), "definitions": definitions(evaluations, table.columns[0])}
        for table in number_groups(evaluations)
    ]


def _shots(evaluations: Sequence[Evaluation]) -> dict[str, Any] | None:
    """Table and definitions of the shot groups."""
    table = shot_table(evaluations)
    return {"table": table.html(), "definitions": shot_definitions(evaluations)} if table.rows else None
