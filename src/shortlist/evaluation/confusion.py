"""Which classes are confused: counts of pairs of classes that share sets or mistakes, kept sparse, from one pass over rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from shortlist.metrics.accuracy import class_hits
from shortlist.row_order import count_rows, first_largest
from shortlist.sets import top_k
from shortlist.tensors import Probs, Sets, Target, is_single_label

MOST_LABELS = 50  # larger sets name so many classes that they say little about two of them, and would take most of the time
MOST_PAIRS = 2**22  # pairs kept; beyond that the rarest are dropped
Codes = npt.NDArray[np.int64]
HELD, SHARED, MISTAKEN, CONFUSED = range(4)
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


@dataclass
class Confusions:
    """Counts of ordered pairs of classes: rows labelled with the first that name the second.

    Only pairs that occur are kept. Of rows with several labels, a pair counts if the first is a label that is missing from the
    set, and the second is in the set without being a label.

    Args:
        classes: number of classes.
        skipped: rows whose set has more than :data:`MOST_LABELS` labels, of which only the most probable label counts.
        lost: how many rows the count of a pair may lack, because rare pairs were dropped on the way.
        of_sets: whether rows came with sets; without them, what a row names is its most probable label.
        own: int64 (2, C), the number of rows with each class, and of those among them that name it.
    """

    classes: int
    skipped: int = 0
    lost: int = 0
    of_sets: bool = False
    own: Codes = field(init=False)
    _codes: Codes = field(default_factory=lambda: np.zeros(0, np.int64))
    _counts: Codes = field(default_factory=lambda: np.zeros((0, 4), np.int64))
    _example: Codes = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        self.own = np.zeros((2, self.classes), np.int64)

    def add(self, probs: Probs, sets: Sets | None, target: Target, first_row: int = 0) -> None:
        """Add a block of rows, whose numbers start at ``first_row``."""
        sets = None if sets is None else sets.cpu()
        self.of_sets |= sets is not None
        named = top_k(1).sets(probs).cpu() if sets is None else sets
        self.own += class_hits(named, target.cpu()).flip(0).long().numpy()
        if sets is not None:
            large = count_rows(sets) > MOST_LABELS
            self.skipped += int(large.sum())
            sets = sets & ~large[:, None]
        if is_single_label(target):
            rows, codes, kinds = _of_single(probs, sets, target.cpu(), self.classes)
        elif sets is None:
            return
        else:
            rows, codes = _instead(sets, target.cpu(), self.classes)
            kinds = np.tile(np.array([1, 0, 0, 1]), (len(codes), 1))
        self._merge(codes, kinds, rows + first_row + LATER * (kinds[:, MISTAKEN] == 0))

    def merge(self, other: "Confusions") -> None:
        """Add the counts of other rows."""
        self.skipped += other.skipped
        self.lost += other.lost
        self.of_sets |= other.of_sets
        self.own += other.own
        self._merge(other._codes, other._counts, other._example)

    def _merge(self, codes: Codes, counts: Codes, rows: Codes) -> None:
        codes = np.concatenate([self._codes, codes])
        counts, rows = np.concatenate([self._counts, counts]), np.concatenate([self._example, rows])
        self._codes, where = np.unique(codes, return_inverse=True)
        self._counts = np.stack([np.bincount(where, column, len(self._codes)) for column in counts.T], 1).astype(np.int64)
        self._example = np.full(len(self._codes), np.iinfo(np.int64).max)
        np.minimum.at(self._example, where, rows)
        if len(self._codes) > MOST_PAIRS:
            self._drop_rarest()

    def _drop_rarest(self) -> None:
        """Keep the most frequent half of what fits; the others may have been seen up to ``lost`` times."""
        confused = self._counts[:, CONFUSED]
        bound = int(np.partition(confused, -(MOST_PAIRS // 2))[-(MOST_PAIRS // 2)])
        kept = confused > bound
        self.lost += bound
        self._codes, self._counts, self._example = self._codes[kept], self._counts[kept], self._example[kept]

    def pairs(self, most: int = 12) -> list[ConfusedPair]:
        """The pairs with the most confused rows, both directions together; ties by lower numbers of classes."""
        own, other = self._codes // self.classes, self._codes % self.classes
        both, where = np.unique(np.minimum(own, other) * self.classes + np.maximum(own, other), return_inverse=True)
        totals = np.stack([np.bincount(where, column, len(both)) for column in self._counts.T], 1).astype(np.int64)
        best = np.argsort(-totals[:, CONFUSED], kind="stable")[:most]
        return [self._pair(int(both[place]), totals[place]) for place in best]

    def _pair(self, code: int, total: Codes) -> ConfusedPair:
        one, two = divmod(code, self.classes)
        found = [self._at(one, two), self._at(two, one)]  # rows of one that name two, and the reverse
        if found[1][0] > found[0][0]:
            one, two, found = two, one, found[::-1]
        rows = tuple(row for count, row in found if count)
        return ConfusedPair(one, two, int(total[CONFUSED]), int(total[SHARED]), int(total[MISTAKEN]), rows)

    def _at(self, own: int, other: int) -> tuple[int, int]:
        """How many rows of one class name the other, and the first of them, of those that are mistaken if there are any."""
        place = int(np.searchsorted(self._codes, own * self.classes + other))
        if place == len(self._codes) or self._codes[place] != own * self.classes + other:
            return 0, -1
        return int(self._counts[place, CONFUSED]), int(self._example[place]) % LATER

    def most_confused(self, most: int) -> list[int]:
        """The classes with the most confused rows, their own and those that name them, by number."""
        totals = np.zeros(self.classes, np.int64)
        for side in (self._codes // self.classes, self._codes % self.classes):
            np.add.at(totals, side, self._counts[:, CONFUSED])
        best = np.argsort(-totals, kind="stable")[:most]
        return sorted(int(label) for label in best if totals[label])

    def held(self, labels: Sequence[int]) -> npt.NDArray[np.float64]:
        """For these classes, how many rows of each have each other in their set; without sets, as most probable label."""
        places = {label: place for place, label in enumerate(labels)}
        table = np.zeros((len(labels), len(labels)))
        column = HELD if self.of_sets else MISTAKEN
        own, other = self._codes // self.classes, self._codes % self.classes
        chosen = np.isin(own, labels) & np.isin(other, labels)
        for first, second, count in zip(own[chosen], other[chosen], self._counts[chosen, column], strict=True):
            table[places[int(first)], places[int(second)]] = count
        return table

    def shares(self, labels: Sequence[int]) -> npt.NDArray[np.float64]:
        """For these classes, the share of the rows of each that have each of them in their set, as :meth:`held` counts."""
        counts = self.held(labels)
        np.fill_diagonal(counts, self.own[1, labels])
        return np.asarray(counts / np.maximum(self.own[0, labels], 1)[:, None])


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
