"""Tables of the numbers of evaluations: the headline, the groups, everything about one, and where they come from."""

from collections.abc import Sequence
from typing import Any

from shortlist.errors import InputError
from shortlist.evaluation import Evaluation
from shortlist.evaluation.quantities import QUANTITIES, in_groups
from shortlist.evaluation.quantity import HEADLINE, LONG_TAIL, Quantity, known
from shortlist.report.table import Table

NORMAL_95 = 1.96
TILE_LABELS = {name: f"{name}: {QUANTITIES[name].definition}" for name in ("coverage", "recall")}
TILE_LABELS["size"] = QUANTITIES["size"].definition
SPELT_OUT = {
    "ECE": "expected calibration error (ECE), the mean gap between probability and frequency",
    "ACE": "average calibration error (ACE), the mean of the gaps of the bins, each counted alike",
    "MCE": "maximum calibration error (MCE), the largest gap of a bin",
}
LEADING = {"name": ("predictions", ""), "rule": ("rule", ""), "rows": ("rows", ",d")}


def headline(evaluations: Evaluation | Sequence[Evaluation]) -> Table:
    """The most important numbers, one row for each evaluation; :func:`number_groups` has the others."""
    evaluations = as_comparable(evaluations)
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


def with_intervals(evaluations: Evaluation | Sequence[Evaluation]) -> Table:
    """The headline with 95 % intervals: a row for each number, a column for each evaluation."""
    evaluations = as_comparable(evaluations)
    table = headline(evaluations).transposed()
    margins = {
        quantity.heading(_owner(evaluations, quantity)): quantity for quantity in in_groups(evaluations).get(HEADLINE, [])
    }
    rows = [
        [title, *(_with_margin(cell, margins.get(title), one) for cell, one in zip(cells, evaluations, strict=True))]
        for title, *cells in table.rows
    ]
    return Table(table.columns, rows, flush_right=table.flush_right)


def _with_margin(cell: str, quantity: Quantity | None, evaluation: Evaluation) -> str:
    if quantity is None or quantity.error is None or not known(quantity.value(evaluation)):
        return cell
    return f"{cell} ± {NORMAL_95 * quantity.error(evaluation):{quantity.form}}"


def number_groups(evaluations: Evaluation | Sequence[Evaluation]) -> list[Table]:
    """The numbers that the headline leaves out, a table for each group: a row for each number, a column for each evaluation.

    The first column of each table is named after the group, for example ``calibration``. Shot groups are in
    :func:`shot_table`.
    """
    evaluations = as_comparable(evaluations)
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


def provenance(evaluations: Evaluation | Sequence[Evaluation]) -> Table:
    """Where scores and rules come from: link, threshold, calibration rows."""
    evaluations = as_comparable(evaluations)
    names = list(dict.fromkeys(name for evaluation in evaluations for name in evaluation.details))
    rows = [[e.source, e.rule_text, *(e.details.get(name) for name in names)] for e in evaluations]
    return Table(["scores", "rule", *names], rows)


def tiles(evaluation: Evaluation) -> list[dict[str, Any]]:
    """The large numbers at the top of the page of a single evaluation."""
    rule = ("coverage", "recall", "macro_coverage", "macro_recall", "size", "empty")
    names = ("top1", "map_class", "calibration_top", "log_loss") if evaluation.rule is None else rule
    tiles = []
    for quantity in (QUANTITIES[name] for name in names):
        value = quantity.value(evaluation)
        if value is not None and known(value):
            error = None if quantity.error is None else NORMAL_95 * quantity.error(evaluation)
            margin = "" if error is None else f"± {error:{quantity.form}}"
            label = TILE_LABELS.get(quantity.name, quantity.title)
            tiles.append({"value": format(value, quantity.form), "margin": margin, "label": label})
    return tiles


def definitions(evaluations: Sequence[Evaluation], group: str) -> list[tuple[str, str]]:
    """Title and definition of the numbers of a group, or of the headline."""
    owned = [(quantity, _owner(evaluations, quantity)) for quantity in in_groups(evaluations).get(group, [])]
    return [(quantity.heading(one), _spelt_out(quantity.meaning(one))) for quantity, one in owned]


def _spelt_out(definition: str) -> str:
    for short, words in SPELT_OUT.items():
        definition = definition.replace(short, words)
    return definition


def as_comparable(evaluations: Evaluation | Sequence[Evaluation]) -> Sequence[Evaluation]:
    """One evaluation or several as a sequence; an error if their numbers cannot be compared."""
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
