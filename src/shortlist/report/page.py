"""The report: one self-contained HTML page about one evaluation, or several side by side."""

import base64
import dataclasses
import datetime
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from shortlist.data.dataset import Dataset, Split
from shortlist.evaluation import Evaluation
from shortlist.evaluation.quantity import HEADLINE
from shortlist.files import write_text
from shortlist.report.class_table import class_tables
from shortlist.report.comparing import fact_tables, paired_table
from shortlist.report.confusions import (
    ConfusionMatrix,
    confusion_remark,
    pair_pictures,
    pair_table,
    superclass_sentence,
)
from shortlist.report.display import Display
from shortlist.report.displays import EvaluationDisplay, GroupSizeHistogram, Lorenz, SizeCoverage, SizeHistogram, distinct
from shortlist.report.galleries import shown_galleries
from shortlist.report.group_tables import WORST, column_tables, shot_definitions, shot_table, superclass_table
from shortlist.report.model_plots import models_compared
from shortlist.report.numbers import as_comparable, definitions, number_groups, provenance, tiles, with_intervals
from shortlist.report.optimum import DistanceToOptimum, Optimum
from shortlist.report.people import PersonResult
from shortlist.report.pictures import PagePictures
from shortlist.report.promises import promise_table, promises
from shortlist.report.published import Comparison
from shortlist.report.reliability import PairReliability, Reliability, TopNReliability, same_bins
from shortlist.report.size_coverage import CoverageBySize
from shortlist.report.style import themed_svg
from shortlist.report.templates import source_of, template
from shortlist.report.training_plots import History, TrainingCurves
from shortlist.versions import version_of

DISPLAYS: tuple[type[EvaluationDisplay], ...] = (
    SizeHistogram,
    CoverageBySize,
    SizeCoverage,
    Reliability,
    PairReliability,
    TopNReliability,
    GroupSizeHistogram,
    Lorenz,
)
INTERVAL = [("±", "half-width of the 95 % confidence interval")]
PAIR_MEANING = (
    "Rows of either class that have the other in their set or as their most probable label. Where both are in the set, the "
    "answer is right but undecided."
)
INSTEAD_MEANING = "Rows with the first label that have the second in their set, wrongly, and not the first."
PagePictureSource: TypeAlias = PagePictures | Dataset | Split | Mapping[str, PagePictures]


def render(
    evaluations: Evaluation | Sequence[Evaluation],
    *,
    title: str = "Shortlist report",
    warnings: Sequence[str] = (),
    remarks: Sequence[str] = (),
    history: History | Mapping[str, History] | None = None,
    optimum: Optimum | Any = None,
    people: Sequence[PersonResult] = (),
    published: Comparison | None = None,
    pictures: PagePictureSource | None = None,
    facts: Mapping[str, Mapping[str, str]] | None = None,
    date: str | None = None,
) -> str:
    """The page as HTML text; the arguments are those of :func:`write_report`."""
    evaluations = as_comparable(evaluations)
    best = optimum if optimum is None or isinstance(optimum, Optimum) else Optimum.of(optimum)
    displays = [SizeCoverage(evaluations, people) if kind is SizeCoverage else kind(evaluations) for kind in DISPLAYS]
    warned = [*warnings, *(note for evaluation in evaluations for note in evaluation.notes)]
    shared, differing = fact_tables(facts or {})
    script = source_of("classes.js")
    illustrated = _illustrated(evaluations, pictures)
    galleries = shown_galleries(evaluations, illustrated)
    return template("page.html").render(
        title=title,
        version=version_of("shortlist"),
        date=date or datetime.date.today().isoformat(),
        facts=shared,
        differing=None if differing is None else differing.html(),
        script=script,
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        evaluations=evaluations,
        tiles=tiles(evaluations[0]) if len(evaluations) == 1 else [],
        headline=with_intervals(evaluations).html(),
        paired=_paired(evaluations),
        warnings=list(dict.fromkeys(warned)),
        remarks=[remark for remark in dict.fromkeys(remarks) if remark not in warned],
        guarantees=list(dict.fromkeys((e.rule.text, e.rule.guarantee) for e in evaluations if e.rule is not None)),
        promises=promises(evaluations),
        promise_table=promise_table(evaluations).html() if promise_table(evaluations).rows else None,
        groups=_groups(evaluations),
        definitions=definitions(evaluations, HEADLINE) + INTERVAL,
        figures=[_figure(display) for display in displays if _belongs(display)],
        models=[_figure(display) for display in models_compared(evaluations)],
        published=published,
        distance=None if best is None else _distance(evaluations, best),
        training=None if history is None else _training(history),
        provenance=provenance(evaluations).html(),
        shots=_shots(evaluations),
        columns=[table.html() for table in column_tables(evaluations, WORST)],
        superclasses=[(one, superclass_table(one).html()) for one in evaluations if "superclass_hits" in one.totals],
        galleries=galleries,
        confusions=_confusions(evaluations, illustrated),
        pictures_remark=_left_out(illustrated),
        class_tables=class_tables(evaluations),
    )


def write_report(
    evaluations: Evaluation | Sequence[Evaluation],
    path: str | Path,
    *,
    title: str = "Shortlist report",
    warnings: Sequence[str] = (),
    remarks: Sequence[str] = (),
    history: History | Mapping[str, History] | None = None,
    optimum: Optimum | Any = None,
    people: Sequence[PersonResult] = (),
    published: Comparison | None = None,
    pictures: PagePictureSource | None = None,
    facts: Mapping[str, Mapping[str, str]] | None = None,
    date: str | None = None,
) -> None:
    """Write the report to one HTML file: the page that ``shortlist report`` and ``shortlist train`` write.

    Args:
        evaluations: one, or several to be compared; differences are to the first.
        path: of the file.
        title: of the page.
        warnings: sentences for the top of the page, in addition to those of the evaluations.
        remarks: sentences that a reader should know, but need not worry about.
        history: adds training curves: a dictionary for each epoch, as in ``metrics.jsonl``, or several such histories by name
            (see :class:`TrainingCurves`).
        optimum: adds the distance to the optimum: an :class:`Optimum` of the rows evaluated, or their true posterior (N, C).
        people: results of people on the same rows, drawn among the classifiers, see :func:`read_human_sets`.
        published: adds published numbers beside those measured.
        pictures: the data that the rows come from, found by their ids, or :class:`PagePictures` to choose how large they are
            and how much of the page they may take (2 MB by default); for several evaluations on different data, by their
            ``source``.
        facts: by the name of an evaluation, what is known about its training (data, backbone, epochs): what all share is shown
            at the top, what differs in a table.
        date: that the page shows; today by default.
    """
    more: dict[str, Any] = {"history": history, "optimum": optimum, "people": people, "published": published, "facts": facts}
    more |= {"pictures": pictures, "remarks": remarks, "date": date}
    write_text(path, render(evaluations, title=title, warnings=warnings, **more))


def _illustrated(evaluations: Sequence[Evaluation], pictures: PagePictureSource | None) -> list[PagePictures | None]:
    """The pictures of the rows of each evaluation."""
    if isinstance(pictures, Dataset | Split):
        pictures = PagePictures(pictures)
    if isinstance(pictures, Mapping):
        return [pictures.get(evaluation.source) for evaluation in evaluations]
    return [pictures] * len(evaluations)


def _left_out(pictures: Sequence[PagePictures | None]) -> str:
    """A sentence if some pictures found no room; empty otherwise."""
    distinct = {id(one): one for one in pictures if one is not None}.values()
    left_out, most = sum(one.left_out for one in distinct), sum(one.most_bytes for one in distinct)
    return f"{left_out:,} pictures were left out: the page holds up to {most / 1e6:g} MB of them." if left_out else ""


def _belongs(display: EvaluationDisplay) -> bool:
    """Whether a display has something to say, or to compare if that is what it is for."""
    return display.tells and (not display.compares or len(distinct(display.evaluations, same_bins)) > 1)


def _figure(display: Display) -> dict[str, str]:
    return {"title": display.title, "caption": display.caption, "svg": themed_svg(display)}


def _paired(evaluations: Sequence[Evaluation]) -> str | None:
    table = paired_table(evaluations)
    return table.html() if table.rows else None


def _confusions(evaluations: Sequence[Evaluation], pictures: Sequence[PagePictures | None]) -> list[dict[str, Any]]:
    """Pairs, pictures and the clustered table of each different set of scores; the matrix is that of the first rule on them."""
    found: dict[str, dict[str, Any]] = {}
    for evaluation, illustrated in zip(evaluations, pictures, strict=True):
        table = pair_table(evaluation)
        if not table.rows or evaluation.source in found:
            continue
        matrix = ConfusionMatrix(evaluation)
        labels = len(matrix.labels)
        found[evaluation.source] = {
            "name": evaluation.name,
            "pairs": pair_pictures(evaluation, illustrated if not found else None),
            "table": table.html(),
            "meaning": PAIR_MEANING if evaluation.single_label else INSTEAD_MEANING,
            "remark": confusion_remark(evaluation),
            "superclass": superclass_sentence(evaluation),
            "matrix": _figure(matrix) if matrix.evaluations and evaluation.single_label else None,
            "shown": f" The {labels} most confused of {len(evaluation.classes):,}." if labels < len(evaluation.classes) else "",
        }
    return list(found.values())


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
    """Table and definitions of the shot groups, if there are several with rows."""
    table = shot_table(evaluations)
    filled = {group.record()["group"] for one in evaluations for group in one.shot_groups() if group.record().get("rows")}
    return {"table": table.html(), "definitions": shot_definitions(evaluations)} if len(filled) > 1 else None
