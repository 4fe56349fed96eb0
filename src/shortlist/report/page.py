"""The report: one self-contained HTML page about one evaluation, or several side by side."""

import dataclasses
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from shortlist.errors import InputError
from shortlist.evaluation import Evaluation
from shortlist.evaluation.quantities import QUANTITIES, in_groups
from shortlist.evaluation.quantity import HEADLINE, LONG_TAIL, Quantity, known
from shortlist.files import write_text
from shortlist.metrics.accuracy import class_shares
from shortlist.report.display import Display
from shortlist.report.displays import EvaluationDisplay, GroupSizeHistogram, Lorenz, SizeCoverage, SizeHistogram, distinct
from shortlist.report.group_tables import WORST, shot_definitions, shot_table, superclass_table
from shortlist.report.model_plots import models_compared
from shortlist.report.optimum import DistanceToOptimum, Optimum
from shortlist.report.people import PersonResult
from shortlist.report.published import Comparison
from shortlist.report.reliability import PairReliability, Reliability, TopNReliability, same_bins
from shortlist.report.style import themed_svg
from shortlist.report.table import Table
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
NORMAL_95 = 1.96
CARD_LABELS = {name: f"{name}: {QUANTITIES[name].definition}" for name in ("coverage", "recall")}
CARD_LABELS["size"] = QUANTITIES["size"].definition
SPELT_OUT = {
    "ECE": "expected calibration error (ECE), the mean gap between probability and frequency",
    "ACE": "average calibration error (ACE), the mean of the gaps of the bins, each counted alike",
    "MCE": "maximum calibration error (MCE), the largest gap of a bin",
}
INTERVAL = [("±", "half-width of the 95 % confidence interval")]
LEADING = {"name": ("predictions", ""), "rule": ("rule", ""), "rows": ("rows", ",d")}


def headline(evaluations: Evaluation | Sequence[Evaluation]) -> Table:
    """The most important numbers, one row for each evaluation; :func:`number_groups` has the others."""
    evaluations = _several(evaluations)
    first = [{"name": one.name, "rule": one.rule_text, "rows": one.rows} for one in evaluations]
    leading = dict(LEADING)
    if all(one.rule is None for one in evaluations):
        del leading["rule"]
    elif all(row["name"] == row["rule"] for row in first):
        del leading["name"]
    quantities = in_groups(evaluations).get(HEADLINE, [])
    numbers = _values(evaluations, quantities)
    rows = [[*(row[name] for name in leading), *values] for row, values in zip(first, numbers, strict=True)]
    titles = [title for title, _ in leading.values()] + _headings(evaluations, quantities)
    return Table(titles, rows, [form for _, form in leading.values()] + [quantity.form for quantity in quantities])


def number_groups(evaluations: Evaluation | Sequence[Evaluation]) -> list[Table]:
    """The numbers that the headline leaves out, a table for each group: a row for each number, a column for each evaluation.

    The first column of each table is named after the group, for example ``calibration``. Shot groups are in
    :func:`shot_table`.
    """
    evaluations = _several(evaluations)
    groups = in_groups(evaluations).items()
    return [_group(name, evaluations, quantities) for name, quantities in groups if name not in (HEADLINE, LONG_TAIL)]


def _group(name: str, evaluations: Sequence[Evaluation], quantities: Sequence[Quantity]) -> Table:
    rows = [[one.name, *values] for one, values in zip(evaluations, _values(evaluations, quantities), strict=True)]
    forms = ["", *(quantity.form for quantity in quantities)]
    return Table([name, *_headings(evaluations, quantities)], rows, forms).transposed()


def _values(evaluations: Sequence[Evaluation], quantities: Sequence[Quantity]) -> list[list[float | None]]:
    return [[quantity.value(evaluation) for quantity in quantities] for evaluation in evaluations]


def _headings(evaluations: Sequence[Evaluation], quantities: Sequence[Quantity]) -> list[str]:
    return [quantity.heading(_owner(evaluations, quantity)) for quantity in quantities]


def _owner(evaluations: Sequence[Evaluation], quantity: Quantity) -> Evaluation:
    """The first evaluation that defines the quantity."""
    return next(evaluation for evaluation in evaluations if quantity.value(evaluation) is not None)


def quantities_table(evaluation: Evaluation) -> Table:
    """Every quantity of one evaluation: group, value, half-width of its 95 % interval where it has one, definition."""
    rows = []
    for group, quantities in in_groups([evaluation], measured=False).items():
        for quantity in quantities:
            value = quantity.value(evaluation)
            margin = None if quantity.error is None else format(NORMAL_95 * quantity.error(evaluation), quantity.form)
            shown = format(value, quantity.form) if known(value) else "–"
            rows.append([group, quantity.heading(evaluation), shown, margin or "", quantity.meaning(evaluation)])
    if evaluation.shots is not None:
        for name, value in evaluation.shot_coverages().items():
            meaning = f"macro average over the classes with {name.replace('-', ' to ')} training examples"
            rows.append([LONG_TAIL, name, f"{value:.1%}" if known(value) else "–", "", meaning])
    columns = ["group", "quantity", "value", "±", "definition"]
    return Table(columns, rows, flush_right=[False, False, True, True, False])


def worst_classes(evaluation: Evaluation, n: int = WORST) -> Table:
    """The classes with the lowest coverage."""
    coverage = class_shares(evaluation.hits)
    present = ((evaluation.hits[1] > 0) & (coverage < 1)).nonzero().flatten()
    order = present[coverage[present].argsort(stable=True)][:n].tolist()
    counts = evaluation.train_counts
    columns = [
        "class",
        "coverage" if evaluation.single_label else "recall",
        "rows",
        *(["training examples"] if counts is not None else []),
    ]
    rows = [
        [
            evaluation.classes[label],
            float(coverage[label]),
            int(evaluation.hits[1, label]),
            *([int(counts[label])] if counts is not None else []),
        ]
        for label in order
    ]
    return Table(columns, rows, ["", ".1%", ",d", ",d"][: len(columns)])


def class_calibration(evaluation: Evaluation, n: int = WORST) -> Table:
    """The classes with the largest calibration error; :meth:`Evaluation.class_calibration` has all of them."""
    forms = {"labels": ",.0f", "probability": ".2%", "frequency": ".2%", "gap": "+.2%", "z": "+.1f", "ece": ".2%", "mce": ".1%"}
    titles = {"probability": "mean probability", "ece": "ECE", "mce": "MCE"}
    numbers = evaluation.class_numbers()
    order = numbers["ece"].argsort(descending=True, stable=True)[:n].tolist() if numbers else []
    rows = [[evaluation.classes[label], *(float(numbers[name][label]) for name in forms)] for label in order]
    return Table(["class", *(titles.get(name, name) for name in forms)], rows, ["", *forms.values()])


def provenance(evaluations: Evaluation | Sequence[Evaluation]) -> Table:
    """Where scores and rules come from: link, threshold, calibration rows."""
    evaluations = _several(evaluations)
    names = list(dict.fromkeys(name for evaluation in evaluations for name in evaluation.details))
    rows = [[e.source, e.rule_text, *(e.details.get(name) for name in names)] for e in evaluations]
    return Table(["scores", "rule", *names], rows)


def _several(evaluations: Evaluation | Sequence[Evaluation]) -> Sequence[Evaluation]:
    found = [evaluations] if isinstance(evaluations, Evaluation) else list(evaluations)
    if not found:
        raise InputError("evaluations: expected at least one, got none")
    for setting in ("calibration_bins", "top_n"):
        values = sorted({getattr(one, setting) for one in found} - {None})
        if len(values) > 1:
            raise InputError(
                f"evaluations: expected the same {setting} in all, to compare their numbers, got "
                f"{' and '.join(map(str, values))}"
            )
    edges = {"the default" if one.shots is None else str(one.shots) for one in found if one.train_counts is not None}
    if len(edges) > 1:
        raise InputError(f"evaluations: expected the same shots in all, got {' and '.join(sorted(edges))}")
    return found


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
    import jinja2

    evaluations = _several(evaluations)
    source = resources.files("shortlist.report").joinpath("page.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    best = optimum if optimum is None or isinstance(optimum, Optimum) else Optimum.of(optimum)
    displays = [SizeCoverage(evaluations, people) if kind is SizeCoverage else kind(evaluations) for kind in DISPLAYS]
    return environment.from_string(source).render(
        title=title,
        version=version_of("shortlist"),
        evaluations=evaluations,
        cards=_cards(evaluations[0]) if len(evaluations) == 1 else [],
        headline=headline(evaluations).transposed().html(),
        warnings=list(dict.fromkeys([*warnings, *(note for evaluation in evaluations for note in evaluation.notes)])),
        guarantees=list(dict.fromkeys((e.rule.text, e.rule.guarantee) for e in evaluations if e.rule is not None)),
        groups=_groups(evaluations),
        definitions=_definitions(evaluations, HEADLINE) + (INTERVAL if len(evaluations) == 1 else []),
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


def _cards(evaluation: Evaluation) -> list[dict[str, Any]]:
    """The large numbers at the top of the page of a single evaluation."""
    rule = ("coverage", "recall", "macro_coverage", "macro_recall", "size", "empty")
    names = ("top1", "map_class", "calibration_top", "log_loss") if evaluation.rule is None else rule
    cards = []
    for quantity in (QUANTITIES[name] for name in names):
        value = quantity.value(evaluation)
        if value is not None and known(value):
            error = None if quantity.error is None else NORMAL_95 * quantity.error(evaluation)
            margin = "" if error is None else f"± {error:{quantity.form}}"
            label = CARD_LABELS.get(quantity.name, quantity.title)
            cards.append({"value": format(value, quantity.form), "margin": margin, "label": label})
    return cards


def _groups(evaluations: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """Table and definitions of each group of numbers."""
    return [
        {"table": table.html(), "definitions": _definitions(evaluations, table.columns[0])}
        for table in number_groups(evaluations)
    ]


def _shots(evaluations: Sequence[Evaluation]) -> dict[str, Any] | None:
    """Table and definitions of the shot groups."""
    table = shot_table(evaluations)
    return {"table": table.html(), "definitions": shot_definitions(evaluations)} if table.rows else None


def _definitions(evaluations: Sequence[Evaluation], group: str) -> list[tuple[str, str]]:
    """Title and definition of the numbers of a group, or of the headline."""
    owned = [(quantity, _owner(evaluations, quantity)) for quantity in in_groups(evaluations).get(group, [])]
    return [(quantity.heading(one), _spelt_out(quantity.meaning(one))) for quantity, one in owned]


def _spelt_out(definition: str) -> str:
    for short, words in SPELT_OUT.items():
        definition = definition.replace(short, words)
    return definition
