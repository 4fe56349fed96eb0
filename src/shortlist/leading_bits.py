"""Counts of values by their leading bits: what searches for order statistics of any number of values are made of.

Floats are compared by their *keys*, unsigned integers in the same order. A search goes in rounds. In each round it counts how
many values have each next digit (16 bits, or 8) below the leading bits that are still open; from the counts follows which
leading bits stay open, until every bit is known. Counts of different values add up, in any order, so the values can be in
different places: :class:`BitCounts` is all that has to be sent, and its size does not depend on the number of values.

Values may belong to *groups* (classes, say), which are searched at once and apart from each other.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from shortlist.errors import InputError
from shortlist.tensors import Array

WIDE, NARROW, LEAST = 16, 8, 4  # bits of a digit: usually, the first of many groups, and at least
WIDEST = 32  # of values that are so few that sorting them takes less than another round
# A round may count this many different digits, so that a message stays small: beyond, digits have fewer bits. Where there are
# many groups, most digits occur, and often: fewer are counted at once, in more rounds.
MOST_BINS, MOST_GROUPED_BINS = 2**18, 2**14


PLAIN = ("widths", "columns", "small", "dtype", "rows", "seen")  # parts of counts that are no arrays, but for the floor


class Bins(NamedTuple):
    """What was counted, one entry for each digit that occurs, in the order of groups and then of values.

    Args:
        groups: int64 (n,).
        prefixes: the leading bits of the keys, uint64 (n,).
        counts: the number of values, and of marked values if there are marks, int64 (n, columns).
        above: the same of all larger values of the group.
    """

    groups: Array
    prefixes: Array
    counts: Array
    above: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class BitCounts:
    """What one round of a search counts, and what was counted of some of the values.

    Args:
        widths: bits of each digit: those that are known, and last the one that is counted.
        columns: 1, or 2 to count marked values as well.
        small: whether digits are narrow where there are many groups or open codes, so that what is sent is small.
        floor: values below it are not looked at; None looks at all.
        opened: after each known digit the codes that stayed open, in order, uint64. A code is the place of the code before it,
            or the group, followed by a digit.
        before: for each of the last of these the number of larger values of its group, int64 (entries, columns).
        groups: the groups that have values, int64; known after the first round.
        totals: the number of their values, int64 (groups, columns).
        dtype: of the values; None as long as there are none.
        rows: the number of rows that the values come from.
        seen: the number of values, those below the floor included.
        codes: the codes that occur, uint64.
        counts: how often, int64 (codes, columns).
    """

    widths: tuple[int, ...]
    columns: int
    small: bool
    floor: float | None
    opened: tuple[Array, ...] = ()
    before: Array
    groups: Array
    totals: Array
    dtype: str | None = None
    rows: int = 0
    seen: int = 0
    codes: Array
    counts: Array

    @property
    def bits(self) -> int:
        """The bits of a value."""
        return 0 if self.dtype is None else 8 * np.dtype(self.dtype).itemsize

    @property
    def first(self) -> bool:
        """Whether this is the first round."""
        return not self.opened

    @property
    def resolved(self) -> bool:
        """Whether every bit of the values that are counted is known."""
        return sum(self.widths) >= self.bits

    def empty(self) -> "BitCounts":
        """The same round with nothing counted."""
        none = np.zeros((0, self.columns), np.int64)
        return replace(self, rows=0, seen=0, codes=np.zeros(0, np.uint64), counts=none)

    def kept_here(self) -> "BitCounts":
        """The same first round for counts that are not sent: digits are wide, and rounds are few."""
        return replace(self, widths=(WIDE,), small=False)

    def of_few(self, bits: int) -> "BitCounts":
        """The same first round with the widest digits, for few values of this many bits, without groups, all of them here."""
        return replace(self, widths=(min(WIDEST, bits),))

    def merge(self, other: "BitCounts") -> "BitCounts":
        """The counts of the values of both; exact, and the same in any order."""
        if not self._same_round(other):
            raise InputError("states: expected counts of the same round of the same search, got those of different ones")
        if None not in (self.dtype, other.dtype) and self.dtype != other.dtype:
            raise InputError(f"probs: expected values of one dtype, got {self.dtype} and {other.dtype}")
        codes, counts = added([(self.codes, self.counts), (other.codes, other.counts)])
        return replace(
            self,
            dtype=self.dtype or other.dtype,
            rows=self.rows + other.rows,
            seen=self.seen + other.seen,
            codes=codes,
            counts=counts,
        )

    __add__ = merge

    def _same_round(self, other: "BitCounts") -> bool:
        plain = (self.widths, self.columns, self.small, self.floor) == (other.widths, other.columns, other.small, other.floor)
        ours, theirs = ((*one.opened, one.before, one.groups, one.totals) for one in (self, other))
        return plain and all(map(np.array_equal, ours, theirs))

    def packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The same as numbers that JSON holds, and arrays of few bytes; for :meth:`unpacked`."""
        floor = None if self.floor is None else self.floor.hex()
        plain = {name: getattr(self, name) for name in PLAIN}
        arrays = {name: narrow(getattr(self, name)) for name in ("before", "groups", "totals", "counts")}
        arrays |= {f"opened.{place}": steps(codes) for place, codes in enumerate(self.opened)}
        return {**plain, "floor": floor}, {**arrays, "codes": steps(self.codes)}

    @staticmethod
    def unpacked(plain: dict[str, Any], arrays: dict[str, Array]) -> "BitCounts":
        """The counts that :meth:`packed` gave."""
        numbers = {name: plain[name] for name in PLAIN} | {"widths": tuple(plain["widths"])}
        floor = None if plain["floor"] is None else float.fromhex(plain["floor"])
        opened = tuple(np.cumsum(arrays[f"opened.{place}"], dtype=np.uint64) for place in range(len(plain["widths"]) - 1))
        tables: dict[str, Any] = {name: arrays[name].astype(np.int64) for name in ("before", "groups", "totals", "counts")}
        codes = np.cumsum(arrays["codes"], dtype=np.uint64)
        return BitCounts(**numbers, floor=floor, opened=opened, codes=codes, **tables)

    @cached_property
    def bins(self) -> Bins:
        """The counts with the groups and the leading bits that they belong to."""
        return Bins(*self._spelled(self.codes), self.counts, self.larger(self.codes + np.uint64(1), self.codes >> self._digit))

    @property
    def _digit(self) -> np.uint64:
        return np.uint64(self.widths[-1])

    def larger(self, codes: Array, entries: Array) -> Array:
        """The number of values of the group from these codes on, int64 (n, columns).

        Args:
            codes: uint64 (n,); they need not occur.
            entries: the place of the last open code that each belongs to.
        """
        onward = np.concatenate([self.counts[::-1].cumsum(0)[::-1], np.zeros((1, self.columns), np.int64)])
        ends = np.searchsorted(self.codes, (entries + np.uint64(1)) << self._digit)
        found: Array = onward[np.searchsorted(self.codes, codes)] - onward[ends]
        return found if self.first else found + self.before[entries.astype(np.int64)]

    def _spelled(self, codes: Array) -> tuple[Array, Array]:
        """The group and the leading bits of each code."""
        prefixes, shift = np.zeros(len(codes), np.uint64), 0
        for width, opened in zip(self.widths[::-1], (*self.opened[::-1], None), strict=True):
            prefixes |= (codes & np.uint64(2**width - 1)) << np.uint64(shift)
            shift += width
            codes = codes >> np.uint64(width)
            codes = codes if opened is None else opened[codes.astype(np.int64)]
        return codes.astype(np.int64), prefixes

    def opening(self, codes: Array) -> "BitCounts":
        """The next round, which counts below these codes.

        Args:
            codes: uint64 (n,); they need not occur.
        """
        codes = np.unique(codes.astype(np.uint64))
        width = min(self._next_width(codes), self.bits - sum(self.widths))
        before = self.larger(codes + np.uint64(1), codes >> self._digit)
        groups, totals = self._by_group() if self.first else (self.groups, self.totals)
        following = replace(
            self, widths=(*self.widths, width), opened=(*self.opened, codes), before=before, groups=groups, totals=totals
        ).empty()
        return replace(following, floor=following._lowest())

    def _next_width(self, codes: Array) -> int:
        """The bits of a digit below these codes: as many as a message has room for."""
        if not self.small:
            return self.widths[0]
        most = MOST_BINS if self.widths[0] == WIDE else MOST_GROUPED_BINS
        values = int(self.counts[np.isin(self.codes, codes), 0].sum())
        # The digit of a value that is alone takes half the room of one that is counted often.
        room = WIDE if values <= 2 * most else (most // max(1, len(codes))).bit_length() - 1
        return min(WIDE, max(LEAST, room))

    def _by_group(self) -> tuple[Array, Array]:
        groups = (self.codes >> self._digit).astype(np.int64)
        found, starts = np.unique(groups, return_index=True)
        return found, np.add.reduceat(self.counts, starts, axis=0) if len(found) else self.totals.reshape(0, self.columns)

    def group_totals(self) -> tuple[Array, Array]:
        """The groups that have values, and how many: int64 (groups,) and (groups, columns)."""
        return self._by_group() if self.first else (self.groups, self.totals)

    def everywhere(self, prefix: int) -> Array:
        """The codes of these leading bits in every group, if all groups are open below the same ones."""
        entries = self.group_totals()[0] if self.first else np.arange(len(self.opened[-1]))
        codes: Array = (entries.astype(np.uint64) << self._digit) | np.uint64(prefix % 2 ** self.widths[-1])
        return codes

    def below(self) -> Array:
        """The number of values of each group below all that is open, int64 (groups, columns); for the same case."""
        if self.first:
            return np.zeros_like(self.group_totals()[1])
        inside = np.zeros_like(self.before)
        np.add.at(inside, (self.codes >> self._digit).astype(np.int64), self.counts)
        return self.totals - self.before - inside

    def _lowest(self) -> float | None:
        """The smallest value below an open code if all are of one group; only a floor that is known keeps values out sooner."""
        parent = replace(self, widths=self.widths[:-1], opened=self.opened[:-1])
        groups, prefixes = parent._spelled(self.opened[-1])
        if not len(groups) or groups.any():
            return None
        lowest = int(prefixes.min()) << self.widths[-1] << (self.bits - sum(self.widths))
        value = float(values_of([lowest], np.dtype(self.dtype))[0])
        return -np.inf if np.isnan(value) else value  # the keys below that of -inf are those of NaN

    def values(self) -> Array:
        """The values that were counted, once every bit is known."""
        return values_of(self.bins.prefixes, np.dtype(self.dtype))


def first_round(*, marked: bool = False, grouped: bool = False, floor: float | None = None) -> BitCounts:
    """The first round of a search.

    Args:
        marked: whether some values are marked.
        grouped: whether there are many groups: digits are then narrow.
        floor: values below it are not looked at, if there are no groups.
    """
    columns = 2 if marked else 1
    none = np.zeros((0, columns), np.int64)
    return BitCounts(
        widths=(NARROW if grouped else WIDE,),
        columns=columns,
        small=True,
        floor=floor,
        before=none,
        groups=np.zeros(0, np.int64),
        totals=none,
        codes=np.zeros(0, np.uint64),
        counts=none,
    )


def added(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The sums of counts by their codes; codes come out in order, each once."""
    codes, counts = (np.concatenate(kind) for kind in zip(*parts, strict=True))
    if len(parts) == 1 and bool((codes[1:] > codes[:-1]).all()):
        return codes, counts
    order = np.argsort(codes, kind="stable")
    codes, counts = codes[order], counts[order]
    fresh = np.flatnonzero(np.concatenate([np.ones(min(1, len(codes)), bool), codes[1:] != codes[:-1]]))
    return codes[fresh], np.add.reduceat(counts, fresh, axis=0) if len(fresh) else counts


def ranked(counts: BitCounts, ranks: Array, column: int = 0) -> Array:
    """The places of the bins that hold the values of these ranks.

    Args:
        counts: what was counted.
        ranks: for each group, from 0, the rank of a value, 1 for the largest of the group; 0 for none.
        column: 1 for ranks among the marked values.
    """
    bins = counts.bins
    above, wanted = bins.above[:, column], ranks[bins.groups]
    found: Array = np.flatnonzero((above < wanted) & (wanted <= above + bins.counts[:, column]))
    return found


def narrow(numbers: Array) -> Array:
    """The same whole numbers in the smallest type that holds them."""
    ends = numbers.min(initial=0), numbers.max(initial=0)
    return numbers.astype(np.result_type(*map(np.min_scalar_type, ends)))


def steps(codes: Array) -> Array:
    """The differences of whole numbers from 0 in order, which take less room; their cumulative sums are the numbers."""
    return narrow(np.diff(codes.astype(np.uint64), prepend=np.uint64(0)))


def keys_of(values: Array) -> Array:
    """Unsigned integers in the order of the floats: the sign bit is flipped, and for negative floats all other bits too."""
    width = values.dtype.itemsize
    unsigned = np.dtype(f"u{width}")
    bits = (values + values.dtype.type(0)).view(unsigned)  # adding 0 makes -0 and 0 one value
    sign = unsigned.type(1 << (8 * width - 1))
    keys: Array = np.where(bits & sign, ~bits, bits | sign)
    return keys


def values_of(keys: Any, dtype: np.dtype[Any]) -> Array:
    """The floats of these keys."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    bits = keys.astype(unsigned) if isinstance(keys, np.ndarray) else np.array(keys, unsigned)
    sign = unsigned.type(1 << (8 * dtype.itemsize - 1))
    floats: Array = np.where(bits & sign, bits ^ sign, ~bits).view(dtype)
    return floats
