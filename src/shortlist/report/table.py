"""Table: rows of text and numbers, as Markdown, HTML, CSV or a data frame."""

import html
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shortlist.csv_files import csv_writer

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Table:
    """Named columns, rows of text and numbers, and the number format of each column.

    Args:
        columns: names of the columns.
        rows: values, as many as there are columns; None and NaN show as a dash.
        formats: ``str.format`` specifications by column, such as ``.1%``.
        flush_right: which columns are right-aligned; by default those of numbers.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    formats: Sequence[str] = ()
    flush_right: Sequence[bool] | None = None

    def shown(self) -> list[list[str]]:
        """The rows as text."""
        formats = [*self.formats, *[""] * (len(self.columns) - len(self.formats))]
        return [[_shown(value, form) for value, form in zip(row, formats, strict=True)] for row in self.rows]

    def right(self) -> Sequence[bool]:
        """Which columns are right-aligned."""
        if self.flush_right is not None:
            return self.flush_right
        return [
            any(isinstance(row[place], int | float) for row in self.rows)
            and not any(isinstance(r[place], str) for r in self.rows)
            for place in range(len(self.columns))
        ]

    def transposed(self) -> "Table":
        """The table with rows and columns swapped, as text; the first column becomes the header."""
        first, *others = self.columns
        shown = self.shown()
        rows = [[name, *(row[place] for row in shown)] for place, name in enumerate(others, 1)]
        return Table([first, *(row[0] for row in shown)], rows, flush_right=[False, *[True] * len(shown)])

    def frame(self) -> "pd.DataFrame":
        """The values as a data frame."""
        import pandas as pd

        return pd.DataFrame([list(row) for row in self.rows], columns=list(self.columns))

    def records(self) -> list[dict[str, Any]]:
        """The values as one dictionary a row, NaN as None."""
        return [{n: _plain(v) for n, v in zip(self.columns, row, strict=True)} for row in self.rows]

    def csv(self) -> str:
        """The values in full precision, comma separated."""
        out = io.StringIO(newline="")
        writer = csv_writer(out)
        writer.writerow(self.columns)
        writer.writerows([["" if _plain(v) is None else v for v in row] for row in self.rows])
        return out.getvalue()

    def markdown(self) -> str:
        """A Markdown table."""
        rules = ["---:" if number else "---" for number in self.right()]
        rows = [list(self.columns), rules, *self.shown()]
        return "\n".join("| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) + " |" for row in rows)

    def html(self) -> str:
        """An HTML table, text escaped."""
        kinds = [' class="number"' if number else "" for number in self.right()]
        head = "".join(f"<th{kind}>{html.escape(name)}</th>" for name, kind in zip(self.columns, kinds, strict=True))
        body = "".join(
            "<tr>" + "".join(f"<td{kind}>{html.escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
            for row in self.shown()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _shown(value: Any, form: str) -> str:
    value = _plain(value)
    if value is None:
        return "–"
    return format(value, form) if isinstance(value, int | float) and form else str(value)
