"""Groups across files: codes that look like numbers in one CSV file, and are texts where a rule was fitted, or the reverse."""

from pathlib import Path

from shortlist.predictions import Predictions
from shortlist.predictions.csv_tables import as_groups
from shortlist.predictions.stored import Keys
from shortlist.sets import SetRule


def grouped(path: Path, rows: Predictions, rule: SetRule, keys: Keys) -> Predictions:
    """The rows of a file that was read before, their groups spelt as those of a fitted rule.

    Args:
        path: the file.
        rows: as they were read.
        rule: fitted, or one without groups.
        keys: how the file was read.
    """
    column = None if rule.column is None else rows.columns.get(rule.column)
    if column is None or rule.groups is None or not rule.groups.fitted or path.suffix.lower() != ".csv":
        return rows
    is_text = column.dtype.kind == "U"
    if not is_text and not rule.groups.are_texts:
        return rows  # numbers on both sides
    found = as_groups(path, rule.groups.column, column, set(rule.groups.names), keys)
    return rows if is_text and column.tolist() == found.tolist() else rows.with_columns({rule.column: found})
