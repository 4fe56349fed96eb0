"""Who searches: an engine names the rows that may be among the best, and the index looks at those few again, exactly.

The searched file holds logarithms rounded to float32, so sums of them may order near neighbours wrongly. How wrongly is known:
each is off by at most 2⁻²⁴ of itself, and all are ≤ 0, so a sum of k is off by at most k + 1 times that. An engine gives every
row within :func:`margin` of the n-th best, which is n rows and seldom one more.
"""

import math
from dataclasses import dataclass, field
from typing import Protocol

from shortlist.errors import InputError
from shortlist.retrieval.query import Query
from shortlist.retrieval.segments import Rows
from shortlist.retrieval.snapshot import Snapshot

UNIT = 2.0**-24  # of float32
TINY = 1e-37  # where float32 has fewer digits
SAFETY = 2  # two rows err, in two directions


@dataclass
class Candidates:
    """Rows that may be among the best.

    Args:
        rows: their numbers, int64 (m,), in no order.
        groups: groups of rows that there are.
        read: groups that were read; the others could not hold anything as good.
        damaged: what could not be read, and was left out because that was asked for.
    """

    rows: Rows
    groups: int = 0
    read: int = 0
    damaged: list[str] = field(default_factory=list)


class Engine(Protocol):
    """Something that can find the best rows of a snapshot."""

    name: str

    def candidates(self, snapshot: Snapshot, query: Query, n: int, *, skip_damaged: bool) -> Candidates:
        """All rows that may be among the n most probable ones, and whose probability is not 0."""


def margin(query: Query, score: float) -> float:
    """How far below this score another row may be and still be the better one.

    The probability of a query is a sum over the ways to satisfy it, each a product of η or 1 - η of its labels, of which there
    are at most 2ᵐ for m labels. Ways that are e⁻⁴⁰ / 2ᵐ times less probable than all together do not count, and the logarithm
    of any other is at most that of the whole plus 40 + m log 2 in size, and errs by a share of that. A conjunction can be
    satisfied in one way. Where the query is nearly certain the same holds of the probability that it is false, which is all
    that its score is.
    """
    labels, size = len(query.labels), abs(score)
    if query.conjunction is not None:
        return SAFETY * (labels + 2) * UNIT * size + TINY
    if size == 0:
        return TINY
    rest = labels * math.log(2) + 40
    certain = (max(size, -math.log(size)) + rest) * 2 * size
    return SAFETY * (labels + 2) * UNIT * min(size + rest, certain) + TINY


def find_engine(name: str) -> Engine:
    """The engine of this name: ``arrow`` reads the files itself, ``duckdb`` sends SQL to DuckDB."""
    if name == "arrow":
        from shortlist.retrieval.arrow_engine import ArrowEngine

        return ArrowEngine()
    if name == "duckdb":
        from shortlist.retrieval.duckdb_engine import DuckDBEngine

        return DuckDBEngine()
    raise InputError(f"engine: expected arrow or duckdb, got {name!r}")
