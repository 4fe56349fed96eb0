"""Rounds of a search over values that are here: counting them, and going on until the result is known."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.leading_bits import BitCounts, added, keys_of
from shortlist.tensors import Array, row_blocks

CHUNK = 2**18  # values counted at once, small enough for the processor's cache
# Values kept in memory by a search over values that can be read again: at most 16 MB for any number of them.
KEPT_CANDIDATES = 2**21
FEW = 2**14  # values of which sorting takes less than another round of counting
TURNED = 2**24  # values of a matrix whose columns are groups that are turned at once, so that groups are together
ROOM = 2**23  # codes below it are looked up in a table of 32 MB
PAYS = 64  # places of a table are written in the time that one code is searched for without it

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
        kept = [part[np.flatnonzero(part >= part.dtype.type(floor))] for part in parts]
        return replace(self, values=torch.from_numpy(np.concatenate([*kept, numbers[:0]])), seen=self.count)


class Counter:
    """Counts the values of one round.

    Args:
        asked: the round; what it holds already is kept.
    """

    def __init__(self, asked: BitCounts):
        self.asked = asked
        self._known = asked.codes, asked.counts
        self._waiting: list[tuple[Array, Array | None]] = []  # codes and marks that were not counted yet
        self._levels = [*map(_Places, asked.opened), None]
        self._dtype, self._rows, self._seen = asked.dtype, asked.rows, asked.seen

    def add(self, values: Values) -> None:
        """Count these values."""
        self._rows += values.rows
        self._seen += values.count
        if not values.values.numel():
            return
        kind = str(values.values.dtype).removeprefix("torch.").replace("bfloat16", "float32")
        if self._dtype not in (None, kind):
            raise InputError(f"probs: expected batches of one dtype, got {self._dtype} and {kind}")
        self._dtype = kind
        for keys, groups, marks in _in_chunks(values):
            self._waiting.append(self._codes(keys, groups, marks))
            if sum(len(codes) for codes, _ in self._waiting) >= CHUNK:
                self._count()

    def _codes(self, keys: Array, groups: Array | None, marks: Array | None) -> tuple[Array, Array | None]:
        """The codes of the values below the open ones, and their marks."""
        places: Array | None = groups
        left = 8 * keys.dtype.itemsize
        for width, level in zip(self.asked.widths, self._levels, strict=True):
            left -= width
            codes = ((keys >> keys.dtype.type(left)) & keys.dtype.type(2**width - 1)).astype(np.int64)
            if places is not None:
                codes |= places << width
            if level is None:
                break
            inside, places = level.of(codes)
            keys, marks = keys[inside], None if marks is None else marks[inside]
        return codes, marks

    def _count(self) -> None:
        """Add what waits to what is known."""
        parts = [(codes, marks) for codes, marks in self._waiting if len(codes)]
        self._waiting = []
        if not parts:
            return
        codes = np.concatenate([codes for codes, _ in parts])
        kinds = [codes]
        if self.asked.columns > 1:
            kinds.append(codes[np.concatenate([marks for _, marks in parts if marks is not None])])
        fresh = _counted(kinds)
        self._known = added([self._known, fresh]) if len(self._known[0]) else fresh

    def result(self) -> BitCounts:
        """What was counted."""
        self._count()
        codes, counts = self._known
        return replace(self.asked, dtype=self._dtype, rows=self._rows, seen=self._seen, codes=codes, counts=counts)


def _counted(kinds: list[Array]) -> tuple[Array, Array]:
    """The codes that occur, in order, and how often each kind has them; the first kind has all."""
    least = int(kinds[0].min())
    room = int(kinds[0].max()) + 1 - least
    if room <= 8 * len(kinds[0]):
        tables = [np.bincount(kind - least, minlength=room) for kind in kinds]
        found = np.flatnonzero(tables[0])
        return (found + least).astype(np.uint64), np.stack([table[found] for table in tables], 1)
    found, counts = np.unique(kinds[0], return_counts=True)
    others = [np.bincount(np.searchsorted(found, kind), minlength=len(found)) for kind in kinds[1:]]
    return found.astype(np.uint64), np.stack([counts.astype(np.int64), *others], 1)


class _Places:
    """Where codes are among the open ones.

    Args:
        opened: the open codes, in order.
    """

    def __init__(self, opened: Array):
        self._opened = opened.astype(np.int64)
        self._table: Array | None = None
        self._room = int(self._opened[-1]) + 2 if len(opened) > 1 and self._opened[-1] < ROOM else 0
        self._looked_up = 0

    def of(self, codes: Array) -> tuple[Array, Array]:
        """Which codes are open, bool (n,), and the places of those, int64."""
        if len(self._opened) == 1:
            inside = codes == self._opened[0]
            return inside, np.zeros(np.count_nonzero(inside), np.int64)
        self._looked_up += len(codes)
        if self._table is None and 0 < self._room <= PAYS * self._looked_up:
            self._table = np.full(self._room, -1, np.int32)  # the last stands for all larger codes
            self._table[self._opened] = np.arange(len(self._opened))
        if self._table is not None:
            found = self._table[np.minimum(codes, len(self._table) - 1)]
            inside = found >= 0
        else:
            found = np.searchsorted(self._opened, codes)
            inside = self._opened[np.minimum(found, len(self._opened) - 1)] == codes
        return inside, found[inside].astype(np.int64)


def _in_chunks(values: Values) -> Iterator[tuple[Array, Array | None, Array | None]]:
    """Keys, groups and marks of some of the values at a time."""
    table = as_array(values.values)
    if values.marks is not None:
        marks = as_array(values.marks)
        for rows in row_blocks(len(table), table.shape[1], TURNED):
            # Column by column, so that counts of one group are in the cache.
            columns, marked = (np.ascontiguousarray(part[rows].T) for part in (table, marks))
            for some in row_blocks(len(columns), columns.shape[1], CHUNK):
                groups = np.repeat(np.arange(some.start, some.stop), columns.shape[1])
                yield keys_of(columns[some].ravel()), groups, marked[some].ravel()
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
        source = read() if fresh or kept.values is None else kept.values
        if asked.first and not asked.small:
            asked, source = _of_few(asked, source)
        counter = Counter(asked)
        for values in source:
            some = values.from_floor(asked.floor)
            counter.add(some)
            if fresh:
                kept.add(some, shared=some is values)
        found = step(counter.result())
        if not isinstance(found, BitCounts):
            return found
        fresh = found.first  # again, without a floor that was too high
        kept, asked = Kept(limited=repeatable) if fresh else kept, found


def _of_few(asked: BitCounts, source: Iterable[Values]) -> tuple[BitCounts, Iterable[Values]]:
    """The first round with the widest digits if the source has one batch of few values without groups; the source as well."""
    batches = iter(source)
    head = list(islice(batches, 1))
    few = bool(head) and 0 < head[0].values.numel() <= FEW and head[0].groups is None and head[0].marks is None
    head += list(islice(batches, 1)) if few else []
    if not few or len(head) > 1:
        return asked, chain(head, batches)
    # bfloat16 is counted as float32
    bits = max(8 * head[0].values.element_size(), 32 if head[0].values.dtype == torch.bfloat16 else 0)
    return asked.of_few(bits), head


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

    def add(self, values: Values, *, shared: bool = False) -> None:
        """Keep these values too; a copy if their memory is shared with the source, which may use it again."""
        self._held += values.values.numel()
        if self._limited and self._held > KEPT_CANDIDATES:
            self.values = None
        if self.values is not None:
            self.values.append(replace(values, values=values.values.clone()) if shared else values)


def as_array(values: Tensor) -> Array:
    """The values as an array; bfloat16, which numpy lacks, as float32 (whose low 16 bits are then zero)."""
    values = values.detach()
    return (values.float() if values.dtype == torch.bfloat16 else values).cpu().numpy()
