"""Results of a retrieval evaluation: metrics with their intervals, overall, by length and by kind of query."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.metrics.calibration import Norm, bin_error
from shortlist.query_rankings.sampling import NORMAL_95, Stratum, estimate
from shortlist.query_rankings.totals import BINS


@dataclass(frozen=True)
class QueryScores:
    """Metrics of the queries of one length or kind, or of all queries.

    Args:
        map: mean average precision over the queries that some row satisfies.
        error: standard error of the map, 0 if all queries were asked.
        precision_at_10: mean share of right rows among the top 10.
        precision_error: its standard error.
        queries: number of queries that some row satisfies; an estimate if they were sampled.
        asked: number of those that were ranked.
        exact: whether all queries were asked.
        bins: for 15 bins of stated probability of equal width: number of top-10 results, sum of their stated probabilities,
            and number of right results. A sampled query is weighted by the number of queries it represents.
        length: number of present and absent labels; None for all lengths.
        present: number of labels that must be present; None for any number.
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
        """Lower end of the 95 % interval of the map (normal approximation)."""
        return max(0.0, self.map - NORMAL_95 * self.error)

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval of the map."""
        return min(1.0, self.map + NORMAL_95 * self.error)

    @property
    def precision_low(self) -> float:
        """Lower end of the 95 % interval of the precision at 10."""
        return max(0.0, self.precision_at_10 - NORMAL_95 * self.precision_error)

    @property
    def precision_high(self) -> float:
        """Upper end of the 95 % interval of the precision at 10."""
        return min(1.0, self.precision_at_10 + NORMAL_95 * self.precision_error)

    @property
    def table(self) -> Tensor:
        """The bins as a float64 tensor (3, 15): results, summed probabilities, right results."""
        return torch.tensor(self.bins, dtype=torch.float64).t().contiguous()

    def calibration_error(self, norm: Norm = "expected") -> float:
        """Calibration error of the stated probabilities of the top 10 results of every query, over the bins."""
        return float(bin_error(self.table, norm))


@dataclass(frozen=True)
class RetrievalScores:
    """Metrics of retrieval by combined queries: overall, by length, and by kind of query.

    Args:
        overall: over all queries.
        by_length: one entry for each length from 1.
        by_kind: one entry for each pair of numbers of present and absent labels.
        rows: number of rows that were ranked.
        classes: number of labels.
        seed: seed of the samples.
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
        """95 % interval of the map; both ends equal the map if all queries were asked."""
        return self.overall.low, self.overall.high

    @property
    def calibration_error(self) -> float:
        """Expected calibration error of the top 10 results of every query."""
        return self.overall.calibration_error()

    @property
    def unseen(self) -> tuple[tuple[int, int], ...]:
        """(present, absent) of the sampled kinds for which no drawn query is satisfied by any row.

        If such queries exist they are rare; the metrics are those of the other kinds.
        """
        return tuple(
            (kind.present, kind.length - kind.present)
            for kind in self.by_kind
            if not kind.exact and not kind.asked and kind.present is not None and kind.length is not None
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON types, with intervals; NaN becomes None."""
        found: dict[str, Any] = _plain(asdict(self))
        for scores, record in zip(self._all(), [found["overall"], *found["by_length"], *found["by_kind"]], strict=True):
            ends = (scores.low, scores.high, scores.precision_low, scores.precision_high, scores.calibration_error())
            names = ("low", "high", "precision_low", "precision_high", "calibration_error")
            record.update(_plain(dict(zip(names, ends, strict=True))))
        return found

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "RetrievalScores":
        """Restore the scores from what :meth:`to_json` returned."""
        try:
            by_length, by_kind = (tuple(map(_scores, record[name])) for name in ("by_length", "by_kind"))
            numbers = (int(record[name]) for name in ("rows", "classes", "seed"))
            return cls(_scores(record["overall"]), by_length, by_kind, *numbers)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"record: expected what RetrievalScores.to_json returns, got one without {error}") from error

    def _all(self) -> list[QueryScores]:
        return [self.overall, *self.by_length, *self.by_kind]


def scores_of(strata: Sequence[Stratum], length: int | None = None, present: int | None = None) -> QueryScores:
    """Combine several kinds of queries into one set of metrics."""
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
    """Convert tuples to lists and NaN to None, for JSON."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
