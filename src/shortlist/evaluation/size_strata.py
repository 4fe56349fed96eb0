"""Strata of set size: what was measured about the rows whose sets have the same number of labels, or nearly."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shortlist.metrics.binned_pairs import frequency_bands
from shortlist.metrics.strata import SIZE_EDGES, strata

ENOUGH = 20  # rows of a stratum, below which its coverage is mostly chance
EACH = 10  # the largest size up to which every size is a stratum of its own

DEFINITIONS = {
    "size": "number of labels in the set, from the first number to the second, both included",
    "rows": "number of rows with sets of this size",
    "share": "share of all rows",
    "coverage": "share of their labels that are in the set",
}


@dataclass(frozen=True)
class SizeStratum:
    """The rows whose sets have from ``low`` to ``high`` labels; :data:`DEFINITIONS` says what the numbers mean.

    Args:
        low: smallest size.
        high: largest size.
        rows: number of rows.
        share: of all rows.
        coverage: share of their labels in their set; NaN without labels.
        coverage_low: lower end of its 95 % Wilson interval, for independent labels.
        coverage_high: upper end.
    """

    low: int
    high: int
    rows: int
    share: float
    coverage: float
    coverage_low: float
    coverage_high: float

    @property
    def name(self) -> str:
        """The sizes in words: ``3``, ``4–10``."""
        return str(self.low) if self.low == self.high else f"{self.low}–{self.high}"

    def record(self) -> dict[str, Any]:
        """``size`` in words and the other numbers."""
        return {"size": self.name, **{name: value for name, value in vars(self).items() if name not in ("low", "high")}}


def size_strata(sizes: Tensor, hits: Tensor) -> list[SizeStratum]:
    """The strata that have rows: each size by itself if none is above ten, otherwise 0–1, 2–3, 4–10, 11–100 and so on.

    Args:
        sizes: number of rows with sets of size 0, 1, …, C.
        hits: labels in the sets of these rows, and their labels, (2, C + 1).
    """
    largest = int(sizes.nonzero().max()) if bool(sizes.any()) else 0
    edges = tuple(range(largest)) if largest <= EACH else tuple(edge for edge in SIZE_EDGES if edge < largest)
    table = strata(torch.cat([hits, sizes[None]]).cpu(), edges)
    bands = frequency_bands(torch.stack([table[1], table[1], table[0]]))
    bounds = zip([0, *(edge + 1 for edge in edges)], [*edges, largest], strict=True)
    found = []
    for (low, high), (covered, labels, rows), start, end in zip(
        bounds, table.T.tolist(), *(band.tolist() for band in bands), strict=True
    ):
        if rows:
            ends = (start, end) if labels else (math.nan, math.nan)
            share = covered / labels if labels else math.nan
            found.append(SizeStratum(low, high, int(rows), rows / float(sizes.sum()), share, *ends))
    return found
