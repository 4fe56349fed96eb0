"""Stratified samples of queries, where there are too many to ask them all, and estimates from them.

A stratum, or *kind* of query, is a number of present and a number of absent labels. Its *sampling frame* is what is drawn from:
where the label sets that occur in the rows can be listed, their combinations with any absent labels; elsewhere all
combinations. No row satisfies a query outside the frame, so the frame loses nothing, and few draws are wasted.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from shortlist.query_rankings.ranking import Bools, Floats, Ints
from shortlist.query_rankings.totals import KindTotals

# Label sets that are listed, counting each row separately; beyond that, labels are drawn without looking at the rows.
MOST_SETS = 2_000_000
NORMAL_95 = 1.959963984540054


@dataclass(frozen=True)
class Frame:
    """Sampling frame: the queries of one kind that may be drawn.

    Args:
        classes: number of labels.
        present: number of labels that a query asks for.
        absent: number of labels that it excludes.
        sets: (S, present), the label sets that occur in some row; None if any set may be drawn.
    """

    classes: int
    present: int
    absent: int
    sets: Ints | None

    @property
    def size(self) -> int:
        """Number of queries in the frame."""
        sets = math.comb(self.classes, self.present) if self.sets is None else len(self.sets)
        return int(sets * math.comb(self.classes - self.present, self.absent))

    def draw(self, number: int, generator: np.random.Generator) -> Ints:
        """Draw queries uniformly with replacement, as (number, length) columns in the order of the labels."""
        if self.sets is None:
            chosen = np.empty((number, 0), dtype=np.intp)
        else:
            chosen = self.sets[generator.integers(len(self.sets), size=number)]
        for place in range(chosen.shape[1], self.present + self.absent):
            chosen = _one_more(chosen, generator.integers(self.classes - place, size=number))
        return self._columns(chosen)

    def all(self) -> Ints:
        """Every query."""
        return self._columns(np.array(list(self._every()), dtype=np.intp).reshape(-1, self.present + self.absent))

    def _every(self) -> Iterator[tuple[int, ...]]:
        labels = range(self.classes)
        sets = itertools.combinations(labels, self.present) if self.sets is None else map(tuple, self.sets.tolist())
        for present in sets:
            for absent in itertools.combinations([label for label in labels if label not in present], self.absent):
                yield *present, *absent

    def _columns(self, labels: Ints) -> Ints:
        """Turn labels, the present ones first, into columns: 2j for present, 2j + 1 for absent."""
        columns = 2 * labels
        columns[:, self.present :] += 1
        return np.sort(columns, axis=1)


def _one_more(chosen: Ints, number: Ints) -> Ints:
    """Append one label: the one with index ``number`` among those not chosen yet."""
    for column in np.sort(chosen, axis=1).T:
        number = number + (number >= column)
    return np.column_stack([chosen, number])


def frame_of(marks: Bools, present: int, absent: int, most: int = MOST_SETS) -> Frame:
    """Sampling frame of a kind, given the labels of the rows, (N, C)."""
    return Frame(marks.shape[1], present, absent, sets_of_rows(marks, present, most))


def sets_of_rows(marks: Bools, size: int, most: int = MOST_SETS) -> Ints | None:
    """Sets of ``size`` labels that occur in some row, (S, size) in increasing order; None if there may be more than ``most``.

    >>> sets_of_rows(np.array([[True, True, False], [True, True, True]]), 2).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    classes = marks.shape[1]
    counts = marks.sum(1)
    numbers, rows = np.unique(counts[counts >= size], return_counts=True)
    listed = sum(n * math.comb(number, size) for number, n in zip(numbers.tolist(), rows.tolist(), strict=True))
    if listed > most or classes**size >= 2**63:
        return None
    powers = np.array([classes**place for place in reversed(range(size))], dtype=np.int64)
    found = [np.empty(0, dtype=np.int64)]
    for number in numbers.tolist():
        labels = np.nonzero(marks[counts == number])[1].reshape(-1, number)
        places = np.array(list(itertools.combinations(range(number), size)), dtype=np.intp)
        found.append(np.unique(labels[:, places] @ powers))  # each set as an integer in base C
    sets: Ints = (np.unique(np.concatenate(found))[:, None] // powers) % classes
    return sets


def shares(sizes: Sequence[int], number: int) -> list[int]:
    """Divide the draws of one length among its kinds: half equally, half by size; all queries if there are enough draws.

    >>> shares([10, 1000, 100_000], 600)
    [10, 102, 397]
    """
    total = sum(sizes)
    if total <= number:
        return list(sizes)
    kinds = sum(size > 0 for size in sizes)
    return [min(size, max(2, number // (2 * kinds) + number * size // (2 * total))) for size in sizes]


@dataclass(frozen=True)
class Stratum:
    """A kind of query: its frame size, and totals over the queries that were drawn."""

    present: int
    absent: int
    size: int
    kind: KindTotals

    @property
    def exact(self) -> bool:
        """Whether every query of the frame was asked."""
        return self.kind.drawn >= self.size

    @property
    def weight(self) -> float:
        """Number of queries that each drawn query represents."""
        return 1.0 if self.exact else self.size / self.kind.drawn


@dataclass(frozen=True)
class Estimate:
    """Mean over the satisfiable queries, its standard error, and the number of such queries."""

    mean: float
    error: float
    queries: float


def estimate(strata: Sequence[Stratum], moments: str) -> Estimate:
    r"""Estimate the mean over all satisfiable queries of several kinds from sums over the drawn ones.

    With z = 1 if a drawn query is satisfiable (else 0), y its value (0 if not), and n_a of N_a queries drawn of kind a,

    .. math:: R = \frac{\sum_a N_a \bar y_a}{\sum_a N_a \bar z_a}, \qquad
       \mathrm{Var}\, R ≈ \frac{\sum_a N_a^2 \, s_a^2(y - R z) / n_a}{(\sum_a N_a \bar z_a)^2},

    where kinds that were asked in full contribute no variance.

    Args:
        strata: the kinds.
        moments: attribute of the totals to average, ``precision`` or ``best``.

    Cochran, "Sampling Techniques", 1977, sections 6.11 and 6.13 (the combined ratio estimate).
    """
    sums: list[Floats] = [getattr(stratum.kind, moments) for stratum in strata]
    queries = sum(stratum.weight * stratum.kind.satisfied for stratum in strata)
    if not queries:
        return Estimate(math.nan, math.nan, 0.0)
    mean = sum(stratum.weight * float(own[0]) for stratum, own in zip(strata, sums, strict=True)) / queries
    variance = sum(_variance(stratum, own, mean) for stratum, own in zip(strata, sums, strict=True)) / queries**2
    return Estimate(mean, math.sqrt(variance), queries)


def _variance(stratum: Stratum, sums: Floats, mean: float) -> float:
    """``N² s²(y - R z) / n`` for one kind."""
    if stratum.exact:
        return 0.0
    n, satisfied = stratum.kind.drawn, stratum.kind.satisfied
    total = float(sums[0]) - mean * satisfied
    squares = float(sums[1]) - 2 * mean * float(sums[0]) + mean**2 * satisfied
    spread = max(0.0, squares - total**2 / n) / max(1, n - 1)
    return stratum.size**2 * spread / n
