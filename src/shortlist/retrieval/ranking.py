"""The n best of the rows that an engine names, by their exact log odds."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from shortlist.retrieval.engines import Candidates
from shortlist.retrieval.parquet import Floats, RowNumbers
from shortlist.retrieval.query import Query
from shortlist.retrieval.segments import logs_of_odds
from shortlist.retrieval.snapshot import ExactRows, Snapshot
from shortlist.retrieval.ties import UNKNOWN

RANKED_AT_ONCE = 16_384  # candidates; there are seldom more than a few dozen
Place: TypeAlias = tuple[ExactRows, int]  # where the exact log odds of a row are


@dataclass(frozen=True)
class Ranked:
    """A row that was found.

    Args:
        row: its number.
        score: log P(query).
        exact: rows that were looked up together.
        place: its place among them.
    """

    row: int
    score: float
    exact: ExactRows
    place: int


def ranked(snapshot: Snapshot, query: Query, n: int, found: Candidates, damaged: list[str] | None) -> list[Ranked]:
    """The n best candidates whose probability is not 0, best first; ties by lower row number.

    Of candidates that are known to have the same probability one is looked up, and then those that are among the n best.

    Args:
        snapshot: where the rows are.
        query: what is asked.
        n: the largest number of rows.
        found: the candidates.
        damaged: list to which damaged groups are appended, whose rows are then left out; by default they raise.
    """
    order = np.argsort(found.rows)
    rows = found.rows[order]
    first = np.arange(len(rows)) if found.alike is None else _first_places(found.alike[order])
    scores, held = _looked_up(snapshot, query, n, rows, np.unique(first), damaged)
    scores = scores[first]
    best = np.lexsort((rows, -scores))[:n]
    best = best[scores[best] > -np.inf]
    missing = np.array([row for row in rows[best].tolist() if row not in held], dtype=np.int64)
    if len(missing):
        held |= _places(snapshot.exact(missing, damaged))
    return [
        Ranked(row, score, *held[row])
        for row, score in zip(rows[best].tolist(), scores[best].tolist(), strict=True)
        if row in held
    ]


def _first_places(alike: RowNumbers) -> RowNumbers:
    """For each row the place of the first one that is known to have the same probability, which may be itself.

    >>> _first_places(np.array([4, UNKNOWN, 4, UNKNOWN]))
    array([0, 1, 0, 3])
    """
    places = np.arange(len(alike))
    own = np.where(alike == UNKNOWN, -1 - places, alike)
    _, firsts, which = np.unique(own, return_index=True, return_inverse=True)
    return np.asarray(firsts[which])


def _looked_up(
    snapshot: Snapshot, query: Query, n: int, rows: RowNumbers, places: RowNumbers, damaged: list[str] | None
) -> tuple[Floats, dict[int, Place]]:
    """Scores of the rows at these places, -inf elsewhere, and where the exact log odds of the best n of them are."""
    scores = np.full(len(rows), -np.inf)
    best = np.zeros(0, dtype=np.int64)
    held: dict[int, Place] = {}
    for few in np.array_split(places, max(1, -(-len(places) // RANKED_AT_ONCE))):
        exact = snapshot.exact(rows[few], damaged)
        if not len(exact.rows):
            continue
        log_yes, log_no = (dict(enumerate(part.T)) for part in logs_of_odds(exact.odds))
        sides = query.sides(exact.odds, single=snapshot.single)
        scores[np.searchsorted(rows, exact.rows)] = query.log_probability(log_yes, log_no, sides)
        left = np.concatenate([best, few])
        best = left[np.lexsort((left, -scores[left]))[:n]]
        known = held | _places(exact)
        held = {row: known[row] for row in rows[best].tolist() if row in known}
    return scores, held


def _places(exact: ExactRows) -> dict[int, Place]:
    return {row: (exact, place) for place, row in enumerate(exact.rows.tolist())}
