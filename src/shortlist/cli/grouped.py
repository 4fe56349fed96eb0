"""Groups across files: codes that look like numbers in one CSV file, and are texts where a rule was fitted."""

from pathlib import Path

from shortlist.predictions import Predictions
from shortlist.predictions.columns import as_names
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
    if column is None or rule.groups is None or not rule.groups.are_texts or path.suffix.lower() != ".csv":
        return rows
    found = as_groups(path, rule.groups.column, column, set(rule.groups.names), keys)
    return rows if as_names(column) == as_names(found) else rows.with_columns({rule.column: found})
