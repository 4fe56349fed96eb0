"""How large sets are, and whether new rows change that by more than chance."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from shortlist.checks import number, whole
from shortlist.errors import InputError
from shortlist.words import shown

# Level of the two-sided test: one false alarm in a thousand evaluations.
CHANCE = 0.001
# Sizes are skewed: with fewer rows, their mean is too far from normal for the test.
ENOUGH = 30


@dataclass(frozen=True)
class SizeSummary:
    """The number of rows, and the mean and variance of the sizes of their sets."""

    rows: int
    mean: float
    variance: float

    @staticmethod
    def of(counts: Tensor) -> "SizeSummary":
        """The summary of ``counts[s]`` sets of each size s = 0, 1, 2, …"""
        counts = counts.double()
        sizes = torch.arange(len(counts), dtype=torch.float64)
        rows = counts.sum()
        mean = (counts * sizes).sum() / rows
        variance = (counts * (sizes - mean) ** 2).sum() / (rows - 1).clamp(min=1)
        return SizeSummary(int(rows), float(mean), float(variance))

    def record(self) -> dict[str, float]:
        """The three numbers by name."""
        return asdict(self)

    @staticmethod
    def from_record(record: Any) -> "SizeSummary":
        """The summary that :meth:`record` wrote."""
        if not isinstance(record, dict) or record.keys() != {"rows", "mean", "variance"}:
            raise InputError(f"calibrated: expected rows, mean and variance, got {shown(record)}")
        mean, variance = (number(least=0)(f"calibrated: {name}", record[name]) for name in ("mean", "variance"))
        return SizeSummary(whole(1)("calibrated: rows", record["rows"]), float(mean), float(variance))

    def shift_from(self, calibrated: "SizeSummary") -> str | None:
        """A sentence if the mean size differs from the one on the calibration rows by more than chance; otherwise None."""
        if min(self.rows, calibrated.rows) < ENOUGH:
            return None
        # Rows from the same source have the same variance, so it is estimated from both samples together.
        pooled = _pooled(self, calibrated)
        error = math.sqrt(pooled * (1 / self.rows + 1 / calibrated.rows))
        gap = self.mean - calibrated.mean
        chance = 1.0 if gap == 0 else 0.0 if error == 0 else math.erfc(abs(gap) / error / math.sqrt(2))
        if chance >= CHANCE:
            return None
        value = f"= {chance:.1g}" if chance > 1e-9 else "< 1e-9"
        return (
            f"sets hold {self.mean:.4g} labels on average on these {self.rows} rows and {calibrated.mean:.4g} on the "
            f"{calibrated.rows} calibration rows: more than chance (p {value}); are the two from the same source?"
        )


def _pooled(one: SizeSummary, other: SizeSummary) -> float:
    freedom = one.rows + other.rows - 2
    return ((one.rows - 1) * one.variance + (other.rows - 1) * other.variance) / max(1, freedom)
