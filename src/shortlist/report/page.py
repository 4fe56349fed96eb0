"""The report: one self-contained HTML page about one evaluation, or several side by side."""

import dataclasses
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from shortlist.errors import InputError
from shortlist.evaluation import Evaluation
from shortlist.evaluation.quantities import QUANTITIES, defined
from shortlist.files import write_text
from shortlist.metrics.accuracy import class_shares
from shortlist.report.display import Display
from shortlist.report.displays import DISPLAYS
from shortlist.report.optimum import DistanceToOptimum, Optimum
from shortlist.report.style import themed_svg
from shortlist.report.table import Table
from shortlist.report.training_plots import History, TrainingCurves
from shortlist.versions import version_of

WORST = 12
NORMAL_95 = 1.96
# Quantities that machines get and the headline leaves out; without a rule there is room for the log-loss.
NOT_IN_HEADLINE = {"size_sd", "map_class_low", "map_class_high", "log_loss", "auroc_any_label", "fpr95"}
CARD_LABELS = {name: f"{name}: {QUANTITIES[name].definition}" for name in ("coverage", "recall")}
CARD_LABELS["size"] = QUANTITIES["size"].definition
COLUMNS = {"name": ("predictions", ""), "rule": ("rule", ""), "rows": ("rows", ",d")}
COLUMNS |= {name: (quantity.title, quantity.form) for name, quantity in QUANTITIES.items()}


def headline(evaluations: Evaluation | Sequence[Evaluation]) -> Table:
    """The most important numbers, one row for each evaluation."""
    evaluations = _several(evaluations)
    numbers = [evaluation.numbers() for evaluation in evaluations]
    rules = any(evaluation.rule is not None for evaluation in evaluations)
    left_out = NOT_IN_HEADLINE if rules else NOT_IN_HEADLINE - {"log_loss"} | {"rule"}
    names = [name for name in COLUMNS if name not in left_out and any(_known(row.get(name)) for row in numbers)]
    if all(row["name"] == row["rule"] for row in numbers):
        names.remove("name")
    rows = [[row.get(name) for name in names] for row in numbers]
    return Table([COLUMNS[name][0] for name in names], rows, [COLUMNS[name][1] for name in names])


def _known(value: Any) -> bool:
    return value is not None and value == value  # NaN: nothing to measure


def quantities_table(evaluation: Evaluation) -> Table:
    """Every quantity of one evaluation: value, half-width of its 95 % interval where it has one, definition."""
    rows = []
    for quantity, value in defined(evaluation):
        margin = None if quantity.error is None else format(NORMAL_95 * quantity.error(evaluation), quantity.form)
        shown = format(value, quantity.form) if _known(value) else "–"
        rows.append([quantity.title, shown, margin or "", quantity.definition])
    return Table(["quantity", "value", "±", "definition"], rows, flush_right=[False, True, True, False])


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
    return found


def render(
    evaluations: Evaluation | Sequence[Evaluation],
    *,
    title: str = "Shortlist report",
    warnings: Sequence[str] = (),
    history: History | Mapping[str, History] | None = None,
    optimum: Optimum | Any = None,
) -> str:
    """The page as HTML text; the arguments are those of :func:`write_report`."""
    import jinja2

    evaluations = _several(evaluations)
    source = resources.files("shortlist.report").joinpath("page.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    best = optimum if optimum is None or isinstance(optimum, Optimum) else Optimum.of(optimum)
    displays = [kind(evaluations) for kind in DISPLAYS]
    return environment.from_string(source).render(
        title=title,
        version=version_of("shortlist"),
        evaluations=evaluations,
        cards=_cards(evaluations[0]) if len(evaluations) == 1 else [],
        headline=headline(evaluations).transposed().html(),
        warnings=list(dict.fromkeys([*warnings, *(note for evaluation in evaluations for note in evaluation.notes)])),
        guarantees=list(dict.fromkeys((e.rule.text, e.rule.guarantee) for e in evaluations if e.rule is not None)),
        definitions=_definitions(evaluations),
        figures=[_figure(display) for display in displays if display.evaluations],
        distance=None if best is None else _distance(evaluations, best),
        training=None if history is None else _training(history),
        provenance=provenance(evaluations).html(),
        worst=[(evaluation, worst_classes(evaluation).html()) for evaluation in evaluations if "hits" in evaluation.totals],
    )


def write_report(
    evaluations: Evaluation | Sequence[Evaluation],
    path: str | Path,
    *,
    title: str = "Shortlist report",
    warnings: Sequence[str] = (),
    history: History | Mapping[str, History] | None = None,
    optimum: Optimum | Any = None,
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
    """
    write_text(path, render(evaluations, title=title, warnings=warnings, history=history, optimum=optimum))


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
        if value is not None and _known(value):
            error = None if quantity.error is None else NORMAL_95 * quantity.error(evaluation)
            margin = "" if error is None else f"± {error:{quantity.form}}"
            label = CARD_LABELS.get(quantity.name, quantity.title)
            cards.append({"value": format(value, quantity.form), "margin": margin, "label": label})
    return cards


def _definitions(evaluations: Sequence[Evaluation]) -> list[tuple[str, str]]:
    """The quantities of the headline table, in words."""
    known = {quantity.name: quantity for evaluation in evaluations for quantity, value in defined(evaluation) if _known(value)}
    shown = set(headline(evaluations).columns)
    named = [quantity for name, quantity in QUANTITIES.items() if name in known and quantity.title in shown]
    interval = [("±", "half-width of the 95 % confidence interval")] if len(evaluations) == 1 else []
    return [(quantity.title, _spelt_out(quantity.definition)) for quantity in named] + interval


def _spelt_out(definition: str) -> str:
    return definition.replace("ECE", "expected calibration error, the gap between probability and frequency")
