"""Rows that tie in the searched file: of which of them it is known, without looking them up, that they tie exactly.

Probabilities that were rounded, or come from a step function such as isotonic regression, are shared by many rows. Their
logarithms in float32 are equal, which in general says little: so are those of exact values that float32 cannot tell apart. So
the writer of a segment compares them. A value of a column is *settled* if all rows of the segment that have it have the same
exact log odds. The footer of the searched file keeps from which value on all values of a column are; columns whose values
hardly repeat are left out. Older files keep nothing: their rows are all looked up.

Rows of a segment whose values are equal, column by column, and settled have the same exact probability of a query. One of them
is looked up for all, and only the n first of them can be among the n best.
"""

import base64
import math
import threading
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
RowNumbers: TypeAlias = NDArray[np.int64]

FOOTER = "shortlist.settled_from"  # key of the footer
SAMPLE = 4_096  # rows of a column that say whether its values repeat
REPEATS = 8  # so many of them must: fewer are chance
MOST_VALUES, MOST_IN_ALL = 4_096, 2**21  # values that are compared of a column, and of all columns of one side
EVERY = -float(np.finfo(np.float32).max)  # every finite value is settled; a probability of 0 has the other column
UNKNOWN = -1  # of a row that may differ from all others
Table: TypeAlias = tuple[Floats, Floats, float]  # log odds, ascending; their logarithms; the largest logarithm left out


# Which values are settled ----------------------------------------------------------------------------------------------------


class SettledColumns:
    """Finds from which value on each column of a segment is settled, block by block.

    Args:
        labels: number of labels.

    >>> columns = SettledColumns(labels=1)
    >>> steps = np.repeat([-2.0, 1.0, 3.0], 5)
    >>> log_yes, log_no = (np.repeat(np.array([logs], np.float32), 5, 1) for logs in ([-3, -3, -0.5], [-0.1, -1, -3]))
    >>> columns.add(steps[None], log_yes, log_no)
    >>> columns.starts.tolist() == [[-0.5], [EVERY]]  # the two lower steps have the same log η
    True
    """

    def __init__(self, labels: int):
        self.labels = labels
        self._most = max(1, min(MOST_VALUES, MOST_IN_ALL // labels))
        self._tables: dict[tuple[int, int], Table | None] = {}  # by side and label; None where nothing is settled

    def add(self, odds: Floats, log_yes: Floats, log_no: Floats) -> None:
        """Add a block: exact log odds and float32 logarithms, (C, n) each."""
        for label, exact in enumerate(odds):
            if (0, label) not in self._tables and not _repeats(exact):
                self._tables |= {(0, label): None, (1, label): None}
            for side, odds_up, logs in ((0, exact, log_yes[label]), (1, -exact, log_no[label])):
                if self._tables.get((side, label), ()) is None:
                    continue  # nothing of it is settled
                new = _table(odds_up, logs, self._most)
                known = (side, label) in self._tables
                self._tables[side, label] = _merged(self._tables[side, label], new, self._most) if known else new

    @property
    def starts(self) -> NDArray[np.float32]:
        """The value from which on each column is settled, float32 (2, C): of log η and of log(1 - η); inf if none is."""
        found = np.full((2, self.labels), np.inf, np.float32)
        for (side, label), table in self._tables.items():
            found[side, label] = math.inf if table is None else _start(table)
        return found


def footer_text(starts: NDArray[np.float32]) -> str:
    """What the footer of a searched file keeps, as text."""
    return base64.b64encode(starts.astype("<f4").tobytes()).decode()


def starts_of(footer: dict[bytes, bytes] | None, labels: int) -> NDArray[np.float32]:
    """What the footer of a searched file says, float32 (2, C); inf where it says nothing.

    >>> starts = np.array([[-1.0], [np.inf]], np.float32)
    >>> starts_of({FOOTER.encode(): footer_text(starts).encode()}, labels=1).tolist(), starts_of(None, labels=1).tolist()
    ([[-1.0], [inf]], [[inf], [inf]])
    """
    text = (footer or {}).get(FOOTER.encode())
    if text is None:
        return np.full((2, labels), np.inf, np.float32)
    return np.frombuffer(base64.b64decode(text), "<f4").reshape(2, labels)


def _repeats(values: Floats) -> bool:
    """Whether so many rows share their values that ties are no chance."""
    few = values[:: -(-len(values) // SAMPLE)]
    return len(few) - len(np.unique(few)) >= REPEATS


def _table(odds: Floats, logs: Floats, most: int) -> Table | None:
    """The largest log odds of a block and their logarithms; None if one of the former has several of the latter."""
    distinct = np.unique(odds)
    kept = np.ones(len(odds), np.bool_)
    if len(distinct) > most:
        distinct = distinct[-most:]
        kept = odds >= distinct[0]
    places = np.searchsorted(distinct, odds[kept])
    found = np.empty(len(distinct), np.float32)
    found[places] = logs[kept]
    return (distinct, found, _largest(logs[~kept])) if np.array_equal(found[places], logs[kept]) else None


def _merged(one: Table | None, other: Table | None, most: int) -> Table | None:
    if one is None or other is None:
        return None
    odds, logs = (np.concatenate([one[part], other[part]]) for part in range(2))
    merged = _table(odds, logs, most)
    return None if merged is None else (*merged[:2], max(one[2], other[2], merged[2]))


def _start(table: Table) -> float:
    """The smallest value such that it and all larger ones have one log odds each, and that none left out has."""
    _, logs, left_out = table
    ordered = np.sort(logs)
    several = max(left_out, _largest(ordered[1:][ordered[1:] == ordered[:-1]]))
    if several == -math.inf:
        return EVERY
    alone = ordered[ordered > several]
    return float(alone[0]) if len(alone) else math.inf


def _largest(values: Floats) -> float:
    return float(values.max()) if len(values) else -math.inf


# Rows that are alike ---------------------------------------------------------------------------------------------------------


class Alike:
    """Numbers rows such that rows with the same number have the same exact probability."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, bytes], int] = {}
        self._lock = threading.Lock()

    def numbers(self, where: Any, labels: Sequence[Sequence[tuple[Floats, float]]]) -> RowNumbers:
        """The numbers of some rows, int64 (m,); ``UNKNOWN`` for rows with a value that is not settled.

        Args:
            where: what the values are settled for.
            labels: for each label one column of these rows or both, with the value from which on it is settled.

        >>> column = np.array([-1, -3, -1, -2], np.float32)
        >>> Alike().numbers("a segment", [[(column, -2.0)]])
        array([ 0, -1,  0,  1])
        """
        settled = np.logical_and.reduce([np.logical_or.reduce([values >= start for values, start in one]) for one in labels])
        found = np.full(len(settled), UNKNOWN, np.int64)
        if settled.any():
            columns = np.stack([values[settled] for one in labels for values, _ in one], axis=1)
            found[settled] = self._numbered(where, columns.astype(np.float32, copy=False))
        return found

    def _numbered(self, where: Any, columns: Floats) -> RowNumbers:
        content = np.ascontiguousarray(columns)
        width = pa.binary(content.shape[1] * content.itemsize)
        rows = pa.FixedSizeBinaryArray.from_buffers(width, len(content), [None, pa.py_buffer(content)]).dictionary_encode()
        with self._lock:
            known = [self._numbers.setdefault((where, one), len(self._numbers)) for one in rows.dictionary.to_pylist()]
        return np.array(known, np.int64)[np.frombuffer(rows.indices.buffers()[1], np.int32)[: len(content)]]


def first_of_alike(alike: RowNumbers, rows: RowNumbers, n: int) -> NDArray[np.bool_]:
    """All rows but those that come after n others like them.

    >>> first_of_alike(np.array([0, 0, UNKNOWN, 0]), np.array([7, 3, 8, 5]), n=2)
    array([False,  True,  True,  True])
    """
    order = np.lexsort((rows, alike))
    ordered = alike[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    before = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    kept = np.empty(len(order), np.bool_)
    kept[order] = (before < n) | (ordered == UNKNOWN)
    return kept
