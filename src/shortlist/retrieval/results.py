"""What a search found: rows, the most probable first, and how the search went."""

import math
from dataclasses import dataclass, field
from typing import Any

from shortlist.retrieval.query import Query, Reason


@dataclass(frozen=True)
class Result:
    """A row that was found.

    Args:
        row: its number in the index.
        id: its name.
        score: the natural logarithm of the probability that the whole query is true of it.
        why: the labels of the query, with their probabilities.
        path: of its picture, where the index knows it.
        thumbnail: a small JPEG of it, where the index has one.
    """

    row: int
    id: str
    score: float
    why: tuple[Reason, ...] = ()
    path: str | None = None
    thumbnail: bytes | None = field(default=None, repr=False)

    @property
    def probability(self) -> float:
        """That the whole query is true of it, labels taken as independent given the row."""
        return math.exp(self.score)

    def to_json(self) -> dict[str, Any]:
        """Everything but the picture, as JSON holds it."""
        why = [{"label": each.label, "wanted": each.wanted, "probability": each.probability} for each in self.why]
        path = {} if self.path is None else {"path": self.path}
        return {"row": self.row, "id": self.id, "score": self.score, "probability": self.probability, **path, "why": why}


class Results(list[Result]):
    """The rows that were found, the most probable first; of equal ones the lower row number.

    Args:
        results: the rows.
        query: what was asked.
        note: why nothing was found, where the query itself says so.
        groups: groups of rows in the index.
        read: groups that had to be read.
        damaged: what could not be read and was left out.
    """

    def __init__(
        self,
        results: list[Result],
        query: Query,
        *,
        note: str | None = None,
        groups: int = 0,
        read: int = 0,
        damaged: list[str] | None = None,
    ):
        super().__init__(results)
        self.query, self.note, self.groups, self.read, self.damaged = query, note, groups, read, damaged or []
