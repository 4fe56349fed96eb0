"""Rounds of a search over values that are here: counting them, and going on until the result is known."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.leading_bits import WIDE, BitCounts, added, keys_of
from shortlist.tensors import Array

CHUNK = 2**20  # values counted at once, small enough for the processor's cache
# Values kept in memory by a search over values that can be read again: at most 16 MB for any number of them.
KEPT_CANDIDATES = 2**21

Found = TypeVar("Found")


@dataclass(frozen=True)
class Values:
    """Values of some rows, to be counted.

    Args:
        values: (n,), or (rows, groups) if every column is a group.
        rows: the number of rows they come from.
        groups: the group of each, int64 (n,), from 0.
        marks: whether each is marked, bool, if marks are counted.
        own: what a share of is taken away from each value at random, if anything is.
        numbers: the number of the row of each value, int64 (n,), by which that share is drawn.
        seen: the number of values before those below a floor were left out; all by default.
    """

    values: Tensor
    rows: int
    groups: Tensor | None = None
    marks: Tensor | None = None
    own: Tensor | None = None
    numbers: Tensor | None = None
    seen: int | None = None

    @property
    def count(self) -> int:
        """The number of values, those left out included."""
        return self.values.numel() if self.seen is None else self.seen

    def from_floor(self, floor: float | None) -> "Values":
        """Without the values below the floor, flat and as an own copy."""
        if floor is None or self.groups is not None or self.marks is not None:
            return self
        flat = self.values.detach().reshape(-1)
        if flat.device.type != "cpu":
            return replace(self, values=flat[flat >= floor].cpu(), seen=self.count)
        numbers = as_array(flat)
        parts = (numbers[start : start + CHUNK] for start in range(0, numbers.size, CHUNK))
        kept = [part[part >= part.dtype.type(floor)] for part in parts]
        return replace(self, values=torch.from_numpy(np.concatenate([*kept, numbers[:0]])), seen=self.count)


class Counter:
    """Counts the values of one round.

    Args:
        asked: the round; what it holds already is kept.
    """

    def __init__(self, asked: BitCounts):
        self.asked = asked
        self._parts: list[tuple[Array, Array]] = [(asked.codes, asked.counts)]
        self._waiting = 0
        self._dtype, self._rows, self._seen = asked.dtype, asked.rows, asked.seen

    def add(self, values: Values) -> None:
        """Count these values."""
        self._rows += values.rows
        self._seen += values.count
        kind = str(values.values.dtype).removeprefix("torch.").replace("bfloat16", "float32")
        if values.values.numel():
            if self._dtype not in (None, kind):
                raise InputError(f"probs: expected batches of one dtype, got {self._dtype} and {kind}")
            self._dtype = kind
        if self.asked.opened and not len(self.asked.opened[-1]):
            return
        for keys, groups, marks in _in_chunks(values):
            self._parts.append(self._counted(*self._codes(keys, groups, marks)))
            self._waiting += len(self._parts[-1][0])
            if self._waiting > CHUNK:
                self._parts, self._waiting = [added(self._parts)], 0

    def _codes(self, keys: Array, groups: Array | None, marks: Array | None) -> tuple[Array, Array | None]:
        """The codes of the values below the open ones, and their marks."""
        places = np.zeros(len(keys), np.uint64) if groups is None else groups.astype(np.uint64)
        left = 8 * keys.dtype.itemsize
        for width, opened in zip(self.asked.widths, (*self.asked.opened, None), strict=True):
            left -= width
            digits = (keys >> keys.dtype.type(left)) & keys.dtype.type(2**width - 1)
            codes = (places << np.uint64(width)) | digits.astype(np.uint64)
            if opened is None:
                return codes, marks
            found = np.minimum(np.searchsorted(opened, codes), len(opened) - 1)
            inside = opened[found] == codes
            places, keys = found[inside].astype(np.uint64), keys[inside]
            marks = None if marks is None else marks[inside]
        raise AssertionError("the last digit is counted")  # pragma: no cover

    def _counted(self, codes: Array, marks: Array | None) -> tuple[Array, Array]:
        """The codes that occur, in order, and how often."""
        if not len(codes):
            return codes, np.zeros((0, self.asked.columns), np.int64)
        room = int(codes.max()) + 1
        if room <= max(2**WIDE, 2 * len(codes)):
            kinds = [codes] if marks is None else [codes, codes[marks]]
            table = np.stack([np.bincount(kind.astype(np.int64), minlength=room) for kind in kinds], 1)
            found = np.flatnonzero(table[:, 0])
            return found.astype(np.uint64), table[found]
        ones = np.ones((len(codes), 1), np.int64)
        return added([(codes, ones if marks is None else np.concatenate([ones, marks[:, None].astype(np.int64)], 1))])

    def result(self) -> BitCounts:
        """What was counted."""
        codes, counts = added(self._parts)
        return replace(self.asked, dtype=self._dtype, rows=self._rows, seen=self._seen, codes=codes, counts=counts)


def _in_chunks(values: Values) -> Iterator[tuple[Array, Array | None, Array | None]]:
    """Keys, groups and marks of some of the values at a time."""
    by_column = values.values.ndim == 2 and values.marks is not None
    table = as_array(values.values)
    if by_column:
        marks = as_array(values.marks)  # type: ignore[arg-type]
        step = max(1, CHUNK // max(1, table.shape[1]))
        for start in range(0, len(table), step):
            some = table[start : start + step].T  # column by column, so that counts of one group are in the cache
            groups = np.repeat(np.arange(some.shape[0]), some.shape[1])
            yield keys_of(some.ravel()), groups, marks[start : start + step].T.ravel()
        return
    flat, given = table.reshape(-1), None if values.groups is None else as_array(values.groups)
    for start in range(0, flat.size, CHUNK):
        part = slice(start, start + CHUNK)
        yield keys_of(flat[part]), None if given is None else given[part], None


def in_rounds(
    read: Callable[[], Iterable[Values]],
    asked: BitCounts,
    step: Callable[[BitCounts], "BitCounts | Found"],
    *,
    repeatable: bool = True,
) -> Found:
    """The result of a search over values that are read here, round after round.

    Args:
        read: starts a new pass over all values. If they are few they are kept, and there is one pass.
        asked: the first round.
        step: gives the result, or the next round, from what was counted.
        repeatable: whether there can be more than one pass; otherwise all values are kept unless one is enough.
    """
    kept, fresh = Kept(limited=repeatable), True
    while True:
        counter = Counter(asked)
        for values in read() if fresh or kept.values is None else kept.values:
            some = values.from_floor(asked.floor)
            counter.add(some)
            if fresh:
                kept.add(some if some is not values else replace(values, values=values.values.clone()))
        found = step(counter.result())
        if not isinstance(found, BitCounts):
            return found
        fresh = found.first  # again, without a floor that was too high
        kept, asked = Kept(limited=repeatable) if fresh else kept, found


class Kept:
    """Values that were read, as long as they are few.

    Args:
        limited: whether many are given up; they have to be read again.

    Attributes:
        values: all that were added; None if they are many.
    """

    def __init__(self, *, limited: bool):
        self.values: list[Values] | None = []
        self._held, self._limited = 0, limited

    def add(self, values: Values) -> None:
        """Keep these values too."""
        self._held += values.values.numel()
        if self._limited and self._held > KEPT_CANDIDATES:
            self.values = None
        if self.values is not None:
            self.values.append(values)


def as_array(values: Tensor) -> Array:
    """The values as an array; bfloat16, which numpy lacks, as float32 (whose low 16 bits are then zero)."""
    values = values.detach()
    return (values.float() if values.dtype == torch.bfloat16 else values).cpu().numpy()
