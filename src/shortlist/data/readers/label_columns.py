"""Columns of a table → class names and a target, for every way to write labels."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shortlist.data.names import check_names
from shortlist.data.problems import BLANKS, Problem
from shortlist.errors import InputError
from shortlist.predictions.stored import matched_part
from shortlist.tensors import Array

# Whole numbers in their usual form: 7, but not 007 or +7, which may be codes.
WRITTEN_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")
YES, NO = ("1", "true", "yes"), ("0", "false", "no")


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of a table.

    Args:
        classes: the names, in the order of the labels.
        target: int64 (N,), one label a row, or bool (N, C), any number.
        known: bool (N,): False where the label is missing and the target of the row is meaningless.
        problems: problems with the labels.
        by_column: whether every class has a column of its own, so that nothing is known about other classes.
    """

    classes: list[str]
    target: Array
    known: Array
    problems: list[Problem] = field(default_factory=list)
    by_column: bool = False

    def at_rows(self, rows: Array) -> "Labels":
        """The same labels as those of some rows of a longer table, bool (N,); the labels of its other rows are not known."""
        if rows.all():
            return self
        target, known = np.zeros((len(rows), *self.target.shape[1:]), self.target.dtype), np.zeros(len(rows), bool)
        target[rows], known[rows] = self.target, self.known
        return replace(self, target=target, known=known)


def read_labels(
    table: Any, columns: Sequence[str], asked: str | None, separator: str | None, empty_is_none: bool, *, exact: bool = False
) -> Labels:
    """The labels of every row.

    One column holds one label a row; with ``separator``, or where it holds lists, any number of labels a row. Several columns
    hold a 0 or a 1 each, one column a class; so does one column that a pattern has found.

    Args:
        table: an Arrow table.
        columns: the columns of labels.
        asked: the pattern or the name that the user gave.
        separator: the text between two labels of a row.
        empty_is_none: an empty cell means no label rather than an unknown one; a CSV file cannot tell the two apart.
        exact: one label a row is read as it is written, with blanks around it.
    """
    if separator == "":
        raise InputError("separator: expected the text between two labels, such as '|', got nothing")
    if len(columns) > 1 or (asked not in (None, columns[0]) and _holds_marks(table.column(columns[0]), columns[0])):
        return _marked(table, columns, asked or "")
    column = table.column(columns[0])
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type):
        return _several(column, columns[0])
    if separator is None:
        return _single(column, columns[0], exact)
    text = _as_text(column, columns[0])
    empty = text.null_count if empty_is_none else 0
    labels = _several(pc.split_pattern(pc.fill_null(text, "") if empty_is_none else text, separator), columns[0])
    if empty:
        what = f"{empty:,} cells are empty: read as rows without a label"
        labels.problems.append(Problem("empty label cells", columns[0], what))
    return labels


def encode_names(values: Any, name: str, *, exact: bool = False) -> tuple[Array, list[str], list[Problem]]:
    """Names → their places among the classes, int64 (N,), -1 where there is none; the classes; what was odd.

    Names are stripped of blanks around them, unless they are to be read exactly as they are written. The classes are in
    alphabetical order, or in that of numbers where every name is a whole number.

    >>> encode_names(pa.chunked_array([["10", "9", None, "10"]]), "label")[:2]
    (array([ 1,  0, -1,  1]), ['9', '10'])
    """
    coded = _one_piece(_as_text(values, name).dictionary_encode())
    written = coded.dictionary.to_pylist()
    read = written if exact else [text.strip() for text in written]
    rows_with = np.bincount(coded.indices.drop_null().to_numpy(), minlength=len(written))
    classes = _in_order(set(read) - {""})
    place = {text: label for label, text in enumerate(classes)}
    # The last entry is what index -1, a missing name, leads to.
    lookup = np.array([*(place.get(text, -1) for text in read), -1], np.int64)
    codes: Array = lookup[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    problems = [
        Problem(
            BLANKS,
            repr(text),
            f"read as {name!r} in {count:,} row{'s' if count > 1 else ''}"
            + (", one class with that name" if name in written else ""),
        )
        for text, name, count in zip(written, read, rows_with.tolist(), strict=True)
        if text != name and name
    ]
    return codes, classes, problems


def _single(column: Any, name: str, exact: bool) -> Labels:
    codes, classes, problems = encode_names(column, name, exact=exact)
    return Labels(classes, codes, codes >= 0, [*problems, *check_names(classes)])


def _several(column: Any, name: str) -> Labels:
    """A column of lists; one with a null in it is not known, because what is missing may be any label."""
    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    known: Array = np.array(column.is_valid())
    written = pc.list_flatten(column)
    codes, classes, problems = encode_names(written, name)
    target = np.zeros((len(column), len(classes)), bool)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    rows = np.repeat(np.arange(len(column)), lengths)
    known[rows[pc.is_null(written, nan_is_null=True).to_numpy(zero_copy_only=False)]] = False
    target[rows[codes >= 0], codes[codes >= 0]] = True
    return Labels(classes, target, known, [*problems, *check_names(classes)])


def _marked(table: Any, columns: Sequence[str], pattern: str) -> Labels:
    """One column a class, of zeros and ones."""
    classes = [matched_part(name, pattern) for name in columns]
    target = np.zeros((table.num_rows, len(columns)), bool)
    known = np.ones(table.num_rows, bool)
    for place, name in enumerate(columns):
        marks = read_marks(table.column(name), name)
        target[:, place] = marks.yes
        known &= marks.known
    return Labels(classes, target, known, list(check_names(classes)), by_column=True)


def _holds_marks(column: Any, name: str) -> bool:
    try:
        read_marks(column, name)
    except InputError:
        return False
    return True


class Marks(NamedTuple):
    """A column of zeros and ones.

    Args:
        yes: bool (N,).
        known: bool (N,), False where the cell is empty.
    """

    yes: Array
    known: Array


def read_marks(column: Any, name: str) -> Marks:
    """A column of 0 and 1, or of words such as true and false.

    >>> read_marks(pa.chunked_array([["1", "False", None]]), "valid").yes
    array([ True, False, False])
    """
    coded = _one_piece(_as_text(column, name).dictionary_encode())
    written = [text.strip().casefold() for text in coded.dictionary.to_pylist()]
    strange = next((text for text in written if text not in (*YES, *NO, "")), None)
    if strange is not None:
        raise InputError(f"{name}: expected 0 or 1 in every row, got {strange!r}")
    indices = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    yes = np.array([*(text in YES for text in written), False])[indices]
    return Marks(yes, np.array([*(text != "" for text in written), False])[indices])


def _as_text(column: Any, name: str) -> Any:
    """Whole numbers, booleans and text as text; booleans as Python, and pandas in a CSV file, write them: True and False."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_dictionary(column.type):
        column = column.cast(kind)
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), None, column)  # how pandas writes a missing whole number
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InputError(f"{name}: expected names or whole numbers, got fractions") from error
    elif not (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    ):
        raise InputError(f"{name}: expected names or whole numbers, got {kind}")
    return pc.if_else(column, "True", "False") if pa.types.is_boolean(kind) else column.cast(pa.string())


def _one_piece(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _in_order(names: set[str]) -> list[str]:
    if all(WRITTEN_NUMBER.fullmatch(name) for name in names):
        return sorted(names, key=int)
    return sorted(names)
