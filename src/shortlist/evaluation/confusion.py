"""Which classes are confused: counts of pairs of classes that share sets or mistakes, kept sparse, from one pass over rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.evaluation.hashing import hashed
from shortlist.leading_bits import narrow, steps
from shortlist.metrics.accuracy import class_hits
from shortlist.row_order import count_rows, first_largest
from shortlist.sets import top_k
from shortlist.tensors import Array, Probs, Sets, Target, is_single_label

MOST_LABELS = 50  # larger sets name so many classes that they say little about two of them, and would take most of the time
MOST_PAIRS = 2**22  # pairs kept; beyond that half of the rows are left out, and half of these, and so on
# Each row has a level, by a hash of its number: half of the rows have level 0, a quarter level 1, …, the rest the last.
LEVELS, LEVEL_BITS = 12, 4
Codes = npt.NDArray[np.int64]
HELD, SHARED, MISTAKEN, CONFUSED = range(4)
AT_ONCE = 2**18  # pairs that wait to be merged with the others
LATER = 2**62  # added to the numbers of rows that are shown only if no row was mistaken


@dataclass(frozen=True)
class ConfusedPair:
    """Two classes and how often rows of one were taken for the other.

    Args:
        first: number of the class more of whose rows are confused.
        second: number of the other.
        confused: rows of either with the other in their set, or as their most probable label.
        shared: those whose set holds both.
        mistaken: those whose most probable label is the other.
        rows: one row of each class that was confused with the other, where there is one; a mistaken one, if there is one.
    """

    first: int
    second: int
    confused: int
    shared: int
    mistaken: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class _Pairs:
    """What was counted of pairs of classes.

    Args:
        codes: int64 (n,), in order and each once where they were put together.
        counts: of each, int64 (n, 4).
        rows: the lowest row number of each, int64 (n,).
    """

    codes: Codes
    counts: Codes
    rows: Codes

    @staticmethod
    def none() -> "_Pairs":
        return _Pairs(np.zeros(0, np.int64), np.zeros((0, 4), np.int64), np.zeros(0, np.int64))

    @staticmethod
    def together(parts: Sequence["_Pairs"]) -> "_Pairs":
        """The sums by code, codes in order."""
        codes, counts, rows = (np.concatenate(kind) for kind in zip(*((p.codes, p.counts, p.rows) for p in parts), strict=True))
        if not len(codes):
            return _Pairs.none()
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        return _Pairs(codes[starts], np.add.reduceat(counts[order], starts), np.minimum.reduceat(rows[order], starts))

    def from_level(self, level: int) -> "_Pairs":
        """Without the rows of lower levels, which are the last bits of the codes."""
        kept = (self.codes & ((1 << LEVEL_BITS) - 1)) >= level
        return _Pairs(self.codes[kept], self.counts[kept], self.rows[kept])


def levels_of(rows: Codes) -> Codes:
    """The level of each row, by its number: the zeros at the end of its hash, of which at most ``LEVELS - 1`` count."""
    ends = hashed(rows) | np.uint64(1 << (LEVELS - 1))
    lowest = ends & (~ends + np.uint64(1))
    return np.log2(lowest.astype(np.float64)).astype(np.int64)


@dataclass
class Confusions:
    """Counts of ordered pairs of classes: rows labelled with the first that name the second.

    Only pairs that occur are kept. Of rows with several labels, a pair counts if the first is a label that is missing from the
    set, and the second is in the set without being a label.

    If the pairs are more than :data:`MOST_PAIRS`, they are counted among some of the rows: one in 2, 4, 8, …, chosen by a hash
    of its number. So the counts of rows in several parts, merged in any order, are those of all rows together.

    Args:
        classes: number of classes.
        skipped: rows whose set has more than :data:`MOST_LABELS` labels, of which only the most probable label counts.
        of_sets: whether rows came with sets; without them, what a row names is its most probable label.
    """

    classes: int
    skipped: int = 0
    of_sets: bool = False
    _level: int = 0  # rows of lower levels are left out
    _known: _Pairs = field(default_factory=lambda: _Pairs.none())
    _waiting: list[_Pairs] = field(default_factory=list)  # what was not merged yet
    _own: Codes = field(init=False)  # by level, (levels, 2, C)

    def __post_init__(self) -> None:
        # Few classes cannot have too many pairs: their rows need no levels.
        self._own = np.zeros((LEVELS if self.classes**2 > MOST_PAIRS else 1, 2, self.classes), np.int64)

    @property
    def every(self) -> int:
        """Pairs are counted among one row in so many; 1 if among all."""
        self._merge_waiting()
        return 1 << self._level

    @property
    def own(self) -> Codes:
        """The number of rows with each class, and of those among them that name it, int64 (2, C)."""
        self._merge_waiting()
        found: Codes = self._own[self._level :].sum(0)
        return found

    def add(self, probs: Probs, sets: Sets | None, target: Target, first_row: int = 0) -> None:
        """Add a block of rows, whose numbers start at ``first_row``."""
        sets = None if sets is None else sets.cpu()
        self.of_sets |= sets is not None
        target = target.cpu()
        named = top_k(1).sets(probs).cpu() if sets is None else sets
        levels = np.minimum(levels_of(np.arange(first_row, first_row + len(target))), len(self._own) - 1)
        for level in np.unique(levels).tolist():
            rows = torch.from_numpy(levels == level)
            self._own[level] += class_hits(named[rows], target[rows]).flip(0).long().numpy()
        if sets is not None:
            large = count_rows(sets) > MOST_LABELS
            self.skipped += int(large.sum())
            sets = sets & ~large[:, None]
        if is_single_label(target):
            numbers, codes, kinds = _of_single(probs, sets, target, self.classes)
        elif sets is None:
            return
        else:
            numbers, codes = _instead(sets, target, self.classes)
            kinds = np.tile(np.array([1, 0, 0, 1]), (len(codes), 1))
        codes = (codes << LEVEL_BITS) | levels[numbers]
        self._wait(_Pairs(codes, kinds, numbers + first_row + LATER * (kinds[:, MISTAKEN] == 0)))

    def merge(self, other: "Confusions") -> None:
        """Add the counts of other rows."""
        if self.classes != other.classes:
            raise InputError(f"confusions: expected those of {self.classes} classes, got {other.classes}")
        self.skipped += other.skipped
        self.of_sets |= other.of_sets
        self._own += other._own
        self._level = max(self._level, other._level)
        for pairs in (other._known, *other._waiting):
            self._wait(pairs)

    def _wait(self, pairs: _Pairs) -> None:
        """Merge these with the others once they are as many: so each is merged a few times, however many blocks there are."""
        self._waiting.append(pairs)
        if sum(len(one.codes) for one in self._waiting) > max(AT_ONCE, len(self._known.codes)):
            self._merge_waiting()

    def _merge_waiting(self) -> None:
        if not self._waiting:
            return
        self._known, self._waiting = _Pairs.together([self._known, *self._waiting]).from_level(self._level), []
        while len(self._known.codes) > MOST_PAIRS and self._level < len(self._own) - 1:
            self._level += 1
            self._known = self._known.from_level(self._level)

    @property
    def _pairs(self) -> _Pairs:
        """What is counted of each pair, levels together."""
        self._merge_waiting()
        return _Pairs.together([replace(self._known, codes=self._known.codes >> LEVEL_BITS)])

    def packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The same as numbers that JSON holds, and arrays of few bytes; for :meth:`unpacked`."""
        self._merge_waiting()
        known, own = self._known, np.flatnonzero(self._own)
        later = known.rows >= LATER
        arrays = {"codes": steps(known.codes), "rows": narrow(known.rows - LATER * later), "later": np.packbits(later)}
        arrays |= {f"counts.{place}": narrow(column) for place, column in enumerate(known.counts.T)}
        arrays |= {"own.places": steps(own), "own.counts": narrow(self._own.ravel()[own])}
        return {"classes": self.classes, "skipped": self.skipped, "of_sets": self.of_sets, "level": self._level}, arrays

    @staticmethod
    def unpacked(plain: dict[str, Any], arrays: Mapping[str, Array]) -> "Confusions":
        """The counts that :meth:`packed` gave."""
        codes = np.cumsum(arrays["codes"], dtype=np.int64)
        later = np.unpackbits(arrays["later"], count=len(codes)).astype(np.int64)
        counts = np.stack([arrays[f"counts.{place}"].astype(np.int64) for place in range(4)], 1)
        found = Confusions(plain["classes"], plain["skipped"], plain["of_sets"], plain["level"])
        found._known = _Pairs(codes, counts, arrays["rows"].astype(np.int64) + LATER * later)
        found._own.ravel()[np.cumsum(arrays["own.places"], dtype=np.int64)] = arrays["own.counts"]
        return found

    def pairs(self, most: int = 12) -> list[ConfusedPair]:
        """The pairs with the most confused rows, both directions together; ties by lower numbers of classes."""
        known = self._pairs
        own, other = known.codes // self.classes, known.codes % self.classes
        both, where = np.unique(np.minimum(own, other) * self.classes + np.maximum(own, other), return_inverse=True)
        totals = np.zeros((len(both), 4), np.int64)
        np.add.at(totals, where, known.counts)
        best = np.argsort(-totals[:, CONFUSED], kind="stable")[:most]
        return [self._pair(known, int(both[place]), totals[place]) for place in best]

    def _pair(self, known: _Pairs, code: int, total: Codes) -> ConfusedPair:
        one, two = divmod(code, self.classes)
        found = [self._at(known, one, two), self._at(known, two, one)]  # rows of one that name two, and the reverse
        if found[1][0] > found[0][0]:
            one, two, found = two, one, found[::-1]
        rows = tuple(row for count, row in found if count)
        return ConfusedPair(one, two, int(total[CONFUSED]), int(total[SHARED]), int(total[MISTAKEN]), rows)

    def _at(self, known: _Pairs, own: int, other: int) -> tuple[int, int]:
        """How many rows of one class name the other, and the first of them, of those that are mistaken if there are any."""
        place = int(np.searchsorted(known.codes, own * self.classes + other))
        if place == len(known.codes) or known.codes[place] != own * self.classes + other:
            return 0, -1
        return int(known.counts[place, CONFUSED]), int(known.rows[place]) % LATER

    def most_confused(self, most: int) -> list[int]:
        """The classes with the most confused rows, their own and those that name them, by number."""
        totals, known = np.zeros(self.classes, np.int64), self._pairs
        for side in (known.codes // self.classes, known.codes % self.classes):
            np.add.at(totals, side, known.counts[:, CONFUSED])
        best = np.argsort(-totals, kind="stable")[:most]
        return sorted(int(label) for label in best if totals[label])

    def held(self, labels: Sequence[int]) -> npt.NDArray[np.float64]:
        """For these classes, how many rows of each have each other in their set; without sets, as most probable label."""
        places = {label: place for place, label in enumerate(labels)}
        table = np.zeros((len(labels), len(labels)))
        column, known = HELD if self.of_sets else MISTAKEN, self._pairs
        own, other = known.codes // self.classes, known.codes % self.classes
        chosen = np.isin(own, labels) & np.isin(other, labels)
        for first, second, count in zip(own[chosen], other[chosen], known.counts[chosen, column], strict=True):
            table[places[int(first)], places[int(second)]] = count
        return table

    def shares(self, labels: Sequence[int]) -> npt.NDArray[np.float64]:
        """For these classes, the share of the rows of each that have each of them in their set, as :meth:`held` counts."""
        counts, own = self.held(labels), self.own
        np.fill_diagonal(counts, own[1, labels])
        return np.asarray(counts / np.maximum(own[0, labels], 1)[:, None])


def _of_single(probs: Probs, sets: Sets | None, target: Tensor, classes: int) -> tuple[Codes, Codes, Codes]:
    """Row numbers, codes and counts of the pairs of rows with one label each."""
    best = first_largest(probs).squeeze(1).cpu()
    wrong = (best != target).nonzero().squeeze(1)
    if sets is None:
        sets = torch.zeros(len(target), classes, dtype=torch.bool)
    rows, others = sets.nonzero(as_tuple=True)
    covered = sets.gather(1, target[:, None]).squeeze(1)
    apart = others != target[rows]
    rows, others = rows[apart], others[apart]
    in_sets = torch.stack(
        [torch.ones_like(rows), covered[rows].long(), (best[rows] == others).long(), torch.ones_like(rows)], 1
    )
    alone = wrong[~sets[wrong, best[wrong]]]  # mistakes that are not in the set
    only_mistaken = torch.tensor([0, 0, 1, 1]).expand(len(alone), 4)
    rows, others = torch.cat([rows, alone]), torch.cat([others, best[alone]])
    codes = target[rows] * classes + others
    return rows.numpy(), codes.numpy(), torch.cat([in_sets, only_mistaken]).numpy()


def _instead(sets: Sets, target: Tensor, classes: int) -> tuple[Codes, Codes]:
    """Row numbers and codes of the labels that are missing from a set, with each label that is in it and should not be."""
    missed, false = target & ~sets, sets & ~target
    rows, labels = missed.nonzero(as_tuple=True)
    number = count_rows(false)
    starts = number.cumsum(0) - number
    others = false.nonzero(as_tuple=True)[1]
    times = number[rows]
    places = torch.arange(int(times.sum())) - (times.cumsum(0) - times).repeat_interleave(times)
    codes = labels.repeat_interleave(times) * classes + others[starts[rows].repeat_interleave(times) + places]
    return rows.repeat_interleave(times).numpy(), codes.numpy()
