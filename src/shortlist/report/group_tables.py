"""Tables by groups of classes: by number of training examples, and by superclass."""

from collections.abc import Sequence

from shortlist.evaluation import Evaluation
from shortlist.evaluation.column_groups import column_numbers
from shortlist.evaluation.quantities import SHOTS
from shortlist.evaluation.quantity import LONG_TAIL
from shortlist.evaluation.shots import DEFINITIONS
from shortlist.report.table import Table

WORST = 12
TITLES = {
    "classes": "classes",
    "present": "present",
    "rows": "rows",
    "macro_coverage": "macro coverage",
    "macro_recall": "macro recall",
    "macro_top1": "macro top-1",
    "size": "mean size",
}
FORMS = {"macro_coverage": ".1%", "macro_recall": ".1%", "macro_top1": ".1%", "size": ".2f"}


def shot_table(evaluations: Sequence[Evaluation]) -> Table:
    """The numbers of each shot group, a row for each group and evaluation; no rows where training counts are not known.

    The first column is called ``long tail``; with several evaluations, a second one names them.
    """
    records = [(one.name, group.record()) for one in evaluations for group in one.shot_groups()]
    found = [name for name in TITLES if any(name in record for _, record in records)]
    order = list(dict.fromkeys(record["group"] for _, record in records))
    records.sort(key=lambda pair: order.index(pair[1]["group"]))
    several = len(evaluations) > 1
    rows = [
        [shot_title(record["group"]), *([name] if several else []), *(record.get(column) for column in found)]
        for name, record in records
    ]
    columns = [LONG_TAIL, *(["predictions"] if several else []), *(TITLES[name] for name in found)]
    return Table(columns, rows, ["", *([""] if several else []), *(FORMS.get(name, ",d") for name in found)])


def shot_title(group: str) -> str:
    """A shot group as tables and legends call it: ``few-shot``, ``11-50``."""
    return f"{group}-shot" if group in SHOTS else group


def shot_definitions(evaluations: Sequence[Evaluation]) -> list[tuple[str, str]]:
    """Title and definition of the rows and columns of :func:`shot_table`."""
    records = [group.record() for one in evaluations for group in one.shot_groups()]
    groups = list(dict.fromkeys(record["group"] for record in records))
    named = [(shot_title(group), f"classes with {SHOTS[group]} training examples") for group in groups if group in SHOTS]
    if groups and not named:
        named = [(groups[0], "classes by number of training examples, from the first number to the second, both included")]
    columns = [name for name in DEFINITIONS if any(name in record for record in records)]
    return named + [(TITLES[name], DEFINITIONS[name]) for name in columns]


def column_tables(evaluations: Sequence[Evaluation], n: int | None = None) -> list[Table]:
    """For each column that was counted by, a table of its groups, that with the lowest coverage first.

    With several evaluations, a second column names them. The interval is Wilson's, at 95 %.

    Args:
        evaluations: with the columns that they were counted by.
        n: the largest number of groups of an evaluation; all by default.
    """
    several, tables = len(evaluations) > 1, []
    for column in dict.fromkeys(name for one in evaluations for name in one.columns):
        word = "coverage" if all(one.single_label for one in evaluations) else "recall"
        rows: list[list[object]] = []
        for one in evaluations:
            if column in one.columns and "outcomes" in one.totals:
                rows += _column_rows(one, column, several, n)
        titles = [column, *(["predictions"] if several else []), "rows", word, "low", "high", "mean size", "empty"]
        forms = ["", *([""] if several else []), ",d", ".1%", ".1%", ".1%", ".2f", ".1%"]
        tables += [Table(titles, rows, forms)] if rows else []
    return tables


def _column_rows(evaluation: Evaluation, column: str, several: bool, n: int | None) -> list[list[object]]:
    numbers = column_numbers(evaluation.columns[column], evaluation.totals["outcomes"])
    shown = ("rows", "coverage", "coverage_low", "coverage_high", "size", "empty_sets")
    found = list(zip(numbers["group"], *(numbers[name] for name in shown), strict=True))
    found.sort(key=lambda row: (row[2] != row[2], row[2], row[0]))
    name = [evaluation.name] if several else []
    return [[row[0] or "(none)", *name, *row[1:]] for row in found[:n]]


def superclass_table(evaluation: Evaluation, n: int = WORST) -> Table:
    """The superclasses with the lowest coverage; :meth:`Evaluation.by_superclass` has all of them."""
    word = "coverage" if evaluation.single_label else "recall"
    found = zip(*evaluation.superclass_numbers().values(), strict=True)
    rows = sorted((list(row) for row in found if row[2]), key=lambda row: row[3:])  # those that have rows
    return Table(
        ["superclass", "classes", "rows", f"superclass {word}", f"class {word}"], rows[:n], ["", ",d", ",d", ".1%", ".1%"]
    )
