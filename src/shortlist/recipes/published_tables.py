"""The published numbers of a recipe laid out as in the papers: a table for each of theirs, a row for each method."""

from collections.abc import Sequence

from shortlist.recipes.published import Published, published_numbers
from shortlist.report.table import Table

UNITS = {"percent": "in percent", "share": "from 0 to 1", "seconds": "in seconds", "count": "counts"}


def published_tables(recipe: str) -> list[tuple[str, Table]]:
    """The published numbers of a recipe: for each table of a paper a heading and the table.

    Args:
        recipe: the name of the recipe.

    >>> (heading, table), *_ = published_tables("cifar100-average5")
    >>> heading
    'published: Garcin 2023, Table 1, DenseNet 40-40, in percent'
    >>> table.shown()[1]
    ['average-k', 'alpha=0.3', '97.35 ± 0.06']
    """
    parts: dict[tuple[str, str], list[Published]] = {}
    for number in published_numbers(recipe=recipe):
        parts.setdefault((number.source, number.backbone), []).append(number)
    return [(_heading(source, backbone, numbers), _table(numbers)) for (source, backbone), numbers in parts.items()]


def _heading(source: str, backbone: str, numbers: Sequence[Published]) -> str:
    notes = "; ".join(dict.fromkeys(number.note for number in numbers if number.note))
    heading = "published: " + ", ".join(part for part in (source, backbone, _units(numbers)) if part)
    return f"{heading} ({notes})" if notes else heading


def _units(numbers: Sequence[Published]) -> str:
    """The unit of all numbers, or that of most, with the quantities that have another."""
    first, *others = dict.fromkeys(number.unit for number in numbers)
    exceptions = [f"{number.quantity} {UNITS[number.unit]}" for number in numbers if number.unit in others]
    return ", ".join([UNITS[first], *dict.fromkeys(exceptions)])


def _table(numbers: Sequence[Published]) -> Table:
    quantities = list(dict.fromkeys(number.quantity for number in numbers))
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for number in numbers:
        noise = f"label_noise={number.noise:g}" if number.noise else ""
        settings = " ".join([*(f"{name}={value}" for name, value in number.settings.items()), *([noise] if noise else [])])
        cells.setdefault((number.method, settings), {})[number.quantity] = number.shown
    rows = [[*row, *(found.get(quantity) for quantity in quantities)] for row, found in cells.items()]
    right = [False, False, *[True] * len(quantities)]
    return Table(["method", "settings", *quantities], rows, flush_right=right)
