"""Columns: what else is known about each row, by name: the site where a picture was taken, the weight of the row.

A column is an array of one number for each row, or of one text, which is empty where nothing is known.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.class_names import as_number
from shortlist.errors import InputError
from shortlist.predictions.checks import check_storable
from shortlist.tensors import Array
from shortlist.words import shown

# Names under which files hold something else.
RESERVED = ("scores", "target", "id", "ids", "quality", "classes", "superclasses", "train_counts", "link", "format", "padding")
EXACT = 2**53  # whole numbers up to which numbers with a gap among them are kept exactly; beyond, such a column is texts
PREFIXES = ("scores.", "link.", "column.")


def as_columns(columns: Any, rows: int) -> dict[str, Array]:
    """The columns by name, each with an entry for every row; of a mapping or a data frame."""
    if not isinstance(columns, Mapping) and not hasattr(columns, "items"):
        raise InputError(f"columns: expected a mapping from names to values, or a data frame, got {shown(columns)}")
    return {check_column_name(name): as_column(values, rows, f"column {name!r}") for name, values in columns.items()}


def check_column_name(name: Any) -> str:
    """A name that every file format can hold beside what else is in the file."""
    if not isinstance(name, str) or not name:
        raise InputError(f"columns: expected names that are texts, got {shown(name)}")
    if name in RESERVED or name.startswith(PREFIXES):
        raise InputError(f"columns: expected other names than those that files use themselves, got {name!r}: rename it")
    check_storable([name], "columns")
    return name


def column_list(names: Any) -> tuple[str, ...]:
    """Names of columns to read, each once; a text is the name of one."""
    given = [names] if isinstance(names, str) else list(names)
    return tuple(dict.fromkeys(check_column_name(name) for name in given))


def as_column(values: Any, rows: int, what: str) -> Array:
    """One entry for each row: int64, float64 or text; truth values, dates and the like become texts, what is missing empty.

    Numbers among texts become the texts by which :func:`as_names` calls them.

    >>> as_column(["north", None, "south"], 3, "column 'site'").tolist()
    ['north', '', 'south']
    >>> as_column([2, 0.5], 2, "column 'weight'")
    array([2. , 0.5])
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    if isinstance(values, str | bytes) or not (isinstance(values, Sequence | np.ndarray) or hasattr(values, "to_numpy")):
        raise InputError(f"{what}: expected one entry for each of {rows} rows, got {shown(values)}")
    found = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if found.dtype.kind == "U" and isinstance(values, Sequence) and not all(isinstance(entry, str) for entry in values):
        found = np.array(values, object)  # numpy would spell numbers among texts
    if found.shape != (rows,):
        raise InputError(f"{what}: expected one entry for each row, ({rows},), got the shape {found.shape}")
    if found.dtype.kind in "iu" and not (found.dtype == np.uint64 and bool((found >= 2**63).any())):
        return found.astype(np.int64)
    if found.dtype.kind == "f":
        return _as_written(found)
    entries = [_plain(entry) for entry in (found.astype(str) if found.dtype.kind in "MS" else found).tolist()]
    kinds = {type(entry) for entry in entries if not _missing(entry)}
    if kinds == {int} and all(not _missing(entry) and abs(entry) < 2**63 for entry in entries):
        return np.array(entries, np.int64)
    long = kinds == {int} and any(not _missing(entry) and abs(entry) > EXACT for entry in entries)
    if kinds and kinds <= {int, float} and not long:
        return np.array([np.nan if _missing(entry) else entry for entry in entries], np.float64)
    texts = np.array(_texts(entries), dtype=str)
    check_storable(texts.tolist(), what)
    return texts if texts.dtype.kind == "U" else texts.astype(str)


def _as_written(numbers: Array) -> Array:
    """Floating-point numbers as float64: those of fewer bits as the shortest decimals that they stand for.

    A float32 that was written 1.1 is the number 1.1, not 1.100000023841858, and so of the same group as in another column.

    >>> _as_written(np.array([1.1, 3.0], np.float32))
    array([1.1, 3. ])
    """
    wide = numbers.astype(np.float64)
    if numbers.dtype.itemsize < wide.itemsize:
        distinct, places = np.unique(numbers, return_inverse=True)
        wide = distinct.astype(str).astype(np.float64)[places]
    return wide


def _plain(entry: Any) -> Any:
    """The number of Python that a number of numpy is; anything else as it is."""
    if isinstance(entry, np.floating):
        return float(str(entry))  # the shortest decimal, as of an array
    return int(entry) if isinstance(entry, np.integer) else entry


def _texts(entries: list[Any]) -> list[str]:
    """These entries as texts: a number is called the same as in a column of numbers, and so are texts that spell it there.

    >>> _texts(["north", 3.0, "3", "3.0", None])
    ['north', '3', '3', '3', '']
    """
    called = {str(entry): as_names(np.array([entry]))[0] for entry in entries if type(entry) is float and entry == entry}
    texts = ["" if _missing(entry) else str(entry) for entry in entries]
    return [called.get(text, text) for text in texts]


def _missing(entry: Any) -> bool:
    """Whether an entry stands for nothing: None, NaN, pandas' NA and NaT."""
    return entry is None or type(entry).__name__ in ("NAType", "NaTType") or entry in ("", "NaT") or entry != entry


def as_names(column: Array) -> list[str]:
    """The entries as texts, the same whichever file they come from: 3 and 3.0 are the text 3, what is missing is empty.

    >>> as_names(np.array([3.0, np.nan, 0.5]))
    ['3', '', '0.5']
    """
    if column.dtype.kind == "U":
        names: list[str] = column.tolist()
        return names
    if column.dtype.kind == "i":
        return [str(entry) for entry in column.tolist()]
    return ["" if entry != entry else str(int(entry)) if entry.is_integer() else repr(entry) for entry in column.tolist()]


def name_of_number(text: str) -> str | None:
    """What :func:`as_names` calls the number that a text spells; None for texts that spell none.

    >>> name_of_number("1.10"), name_of_number("3.0"), name_of_number("north")
    ('1.1', '3', None)
    """
    number = None if "_" in text else as_number(text)
    if number is None:
        return None
    if abs(number) < 2**63 and number == number.to_integral_value():
        return str(int(number))
    return as_names(np.array([float(number)]))[0]


def is_plain_number(text: str) -> bool:
    """Whether a text is a number as programs write it: 1.5, 3, 3.0 and 1e-05, but not 1.50 and 007.

    >>> [is_plain_number(text) for text in ("1.5", "3.0", "1e-05", "1.50", "007", "north")]
    [True, True, True, False, False, False]
    """
    name = name_of_number(text)
    return name is not None and (text in (name, f"{name}.0") or text == repr(float(text)))


def taken(columns: Mapping[str, Array], index: Tensor | slice) -> dict[str, Array]:
    """The same columns of some rows."""
    rows = index if isinstance(index, slice) else index.cpu().numpy()
    return {name: column[rows] for name, column in columns.items()}


def kinds_of(columns: Mapping[str, Array]) -> tuple[tuple[str, str], ...]:
    """The name of each column, and whether it holds texts (U), whole numbers (i) or other numbers (f)."""
    return tuple((name, column.dtype.kind) for name, column in columns.items())


def joined(parts: Iterable[Array], kind: str) -> Array:
    """A column from those of blocks of rows."""
    none = np.empty(0, {"U": np.dtype("U1"), "i": np.dtype(np.int64), "f": np.dtype(np.float64)}[kind])
    found: Array = np.concatenate([none, *parts])
    return found


def as_tensor_of(column: Array) -> Tensor:
    """A column of numbers as a tensor."""
    return torch.from_numpy(np.ascontiguousarray(column))
