"""Records of how well queries retrieve: numbers with their intervals, by length and by kind of query."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.metrics.calibration import Norm, bin_error
from shortlist.metrics.query_sampling import NORMAL_95, Stratum, estimate
from shortlist.metrics.query_tally import BINS


@dataclass(frozen=True)
class QueryScores:
    """What the queries of one length, of one kind, or all of them score.

    Args:
        map: mean average precision over the queries that some row satisfies.
        error: its standard error, 0 where all queries were asked.
        precision_at_10: the mean share of right rows among the best 10.
        precision_error: its standard error.
        queries: how many queries some row satisfies; estimated, where they were sampled.
        asked: how many of them were ranked.
        exact: whether all queries were asked.
        bins: by bin of stated probability, 15 of equal width: results among the best 10 of a query, the sum of their
            stated probabilities, and how many are right. Queries count alike, sampled ones for those they stand for.
        length: present and absent labels; None for all lengths.
        present: labels that must be present; None where it is any number of them.
    """

    map: float
    error: float
    precision_at_10: float
    precision_error: float
    queries: float
    asked: int
    exact: bool
    bins: tuple[tuple[float, float, float], ...]
    length: int | None = None
    present: int | None = None

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval of the mean average precision, by the normal law."""
        return max(0.0, self.map - NORMAL_95 * self.error)

    @property
    def high(self) -> float:
        """Upper end."""
        return min(1.0, self.map + NORMAL_95 * self.error)

    @property
    def precision_low(self) -> float:
        """Lower end of the 95 % interval of the precision at 10."""
        return max(0.0, self.precision_at_10 - NORMAL_95 * self.precision_error)

    @property
    def precision_high(self) -> float:
        """Upper end."""
        return min(1.0, self.precision_at_10 + NORMAL_95 * self.precision_error)

    @property
    def table(self) -> Tensor:
        """The bins as float64 (3, 15): results, summed probabilities, right results."""
        return torch.tensor(self.bins, dtype=torch.float64).t().contiguous()

    def calibration_error(self, norm: Norm = "expected") -> float:
        """The gap between stated probability and frequency over the bins, for the best 10 results of every query."""
        return float(bin_error(self.table, norm))


@dataclass(frozen=True)
class RetrievalScores:
    """How well all queries retrieve: over all, by length, and by kind.

    Args:
        overall: all queries together.
        by_length: one for each length from 1.
        by_kind: one for each number of present and absent labels.
        rows: how many were ranked.
        classes: how many labels could be asked for.
        seed: of the samples.
    """

    overall: QueryScores
    by_length: tuple[QueryScores, ...]
    by_kind: tuple[QueryScores, ...]
    rows: int
    classes: int
    seed: int

    @property
    def map(self) -> float:
        """Mean average precision over all queries that some row satisfies."""
        return self.overall.map

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95 % interval; both ends are the value where all queries were asked."""
        return self.overall.low, self.overall.high

    @property
    def calibration_error(self) -> float:
        """The expected calibration error of the best 10 results of every query."""
        return self.overall.calibration_error()

    @property
    def unseen(self) -> tuple[tuple[int, int], ...]:
        """(present, absent) of the kinds that were sampled without meeting a query that some row satisfies.

        If there are such queries they are too few to have been drawn, and the numbers are those of the others.
        """
        return tuple(
            (kind.present, kind.length - kind.present)
            for kind in self.by_kind
            if not kind.exact and not kind.asked and kind.present is not None and kind.length is not None
        )

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values, with intervals; what is no number is None."""
        found: dict[str, Any] = _plain(asdict(self))
        for scores, record in zip(self._all(), [found["overall"], *found["by_length"], *found["by_kind"]], strict=True):
            ends = (scores.low, scores.high, scores.precision_low, scores.precision_high, scores.calibration_error())
            names = ("low", "high", "precision_low", "precision_high", "calibration_error")
            record.update(_plain(dict(zip(names, ends, strict=True))))
        return found

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "RetrievalScores":
        """The scores that gave this record."""
        try:
            by_length, by_kind = (tuple(map(_scores, record[name])) for name in ("by_length", "by_kind"))
            numbers = (int(record[name]) for name in ("rows", "classes", "seed"))
            return cls(_scores(record["overall"]), by_length, by_kind, *numbers)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"retrieval scores: expected a record made by to_json, got one without {error}") from error

    def _all(self) -> list[QueryScores]:
        return [self.overall, *self.by_length, *self.by_kind]


def scores_of(strata: Sequence[Stratum], length: int | None = None, present: int | None = None) -> QueryScores:
    """The scores of several kinds of queries together."""
    found, best = (estimate(strata, moments) for moments in ("precision", "best"))
    bins = sum((stratum.weight * stratum.kind.bins for stratum in strata), np.zeros((3, BINS)))
    return QueryScores(
        found.mean,
        found.error,
        best.mean,
        best.error,
        found.queries,
        sum(stratum.kind.satisfied for stratum in strata),
        all(stratum.exact for stratum in strata),
        tuple((float(results), float(stated), float(right)) for results, stated, right in bins.T),
        length,
        present,
    )


def _scores(record: dict[str, Any]) -> QueryScores:
    numbers = [record[name] for name in ("map", "error", "precision_at_10", "precision_error")]
    average, error, precision, precision_error = (math.nan if value is None else float(value) for value in numbers)
    return QueryScores(
        average,
        error,
        precision,
        precision_error,
        float(record["queries"]),
        int(record["asked"]),
        bool(record["exact"]),
        tuple((float(results), float(stated), float(right)) for results, stated, right in record["bins"]),
        record["length"],
        record["present"],
    )


def _plain(value: Any) -> Any:
    """Lists for tuples, None for what is no number: JSON has neither."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
