"""Published numbers beside measured ones, as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shortlist.report.table import Table


@dataclass(frozen=True)
class Compared:
    """One published number beside the measured one; both as shares, not in percent.

    Args:
        quantity: what was measured.
        published: the published number.
        spread: what the publication prints after ±; None where there is nothing.
        measured: the same quantity, measured here.
        source: the publication and its table.
        decimals: decimals to show, of percent, or of the number itself.
        percent: whether to show both in percent.
    """

    quantity: str
    published: float
    spread: float | None
    measured: float
    source: str
    decimals: int = 1
    percent: bool = True

    def row(self) -> list[str]:
        """The row of the table, as text."""
        form = f".{self.decimals}{'%' if self.percent else 'f'}"
        difference = (self.measured - self.published) * (100 if self.percent else 1)
        spread = "" if self.spread is None else format(self.spread, form)
        shown = format(difference, f"+.{self.decimals}f")
        return [self.quantity, format(self.published, form), spread, format(self.measured, form), shown, self.source]


@dataclass(frozen=True)
class Comparison:
    """Published numbers beside those of one run, and how the run differs from the published experiment.

    Args:
        rows: the numbers.
        differences: settings in which the run differs, with its value and that of the published experiment.

    >>> found = Comparison([Compared("top-5", 0.944, 0.001, 0.939, "Garcin 2022, Table 4")], {"epochs": (100, 300)})
    >>> found.table().shown()
    [['top-5', '94.4%', '0.1%', '93.9%', '-0.5', 'Garcin 2022, Table 4']]
    >>> found.remark()
    'Not the published experiment: epochs 100 instead of 300.'
    """

    rows: Sequence[Compared]
    differences: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def table(self) -> Table:
        """Quantity, published number with its ±, measured number, difference in points, and source."""
        columns = ["quantity", "published", "±", "measured", "difference", "source"]
        return Table(columns, [one.row() for one in self.rows], flush_right=[False, True, True, True, True, False])

    def remark(self) -> str:
        """One sentence on the settings that differ; empty if none does."""
        if not self.differences:
            return ""
        parts = [f"{name} {_shown(mine)} instead of {_shown(theirs)}" for name, (mine, theirs) in self.differences.items()]
        return f"Not the published experiment: {', '.join(parts)}."


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "none"
    return "the default" if value is None else str(value)
