"""How large sets turned out, and whether new rows shift that beyond chance."""

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

# Two-sided: a warning that comes without cause once in a thousand evaluations.
CHANCE = 0.001
# Sizes are skewed: with fewer rows their mean is too far from normal for that.
ENOUGH = 30


@dataclass(frozen=True)
class SizeSummary:
    """Mean and variance of the sizes of some sets."""

    rows: int
    mean: float
    variance: float

    @staticmethod
    def of(counts: Tensor) -> "SizeSummary":
        """From the number of sets of size 0, 1, 2, …"""
        counts = counts.double()
        sizes = torch.arange(len(counts), dtype=torch.float64)
        rows = counts.sum()
        mean = (counts * sizes).sum() / rows
        variance = (counts * (sizes - mean) ** 2).sum() / (rows - 1).clamp(min=1)
        return SizeSummary(int(rows), float(mean), float(variance))

    def record(self) -> dict[str, float]:
        """The three numbers by name."""
        return asdict(self)

    def shift_from(self, calibrated: "SizeSummary") -> str | None:
        """A sentence where the mean size differs from the calibrated one by more than chance; None where it does not."""
        if min(self.rows, calibrated.rows) < ENOUGH:
            return None
        # If the source is the same so is the variance: few new rows borrow that of the many calibration rows.
        pooled = _pooled(self, calibrated)
        error = math.sqrt(pooled * (1 / self.rows + 1 / calibrated.rows))
        gap = self.mean - calibrated.mean
        chance = 1.0 if gap == 0 else 0.0 if error == 0 else math.erfc(abs(gap) / error / math.sqrt(2))
        if chance >= CHANCE:
            return None
        shown = f"= {chance:.1g}" if chance > 1e-9 else "< 1e-9"
        return (
            f"sets hold {self.mean:.4g} labels on average on these {self.rows} rows and {calibrated.mean:.4g} on the "
            f"{calibrated.rows} calibration rows: more than chance (p {shown}); are the two from the same source?"
        )


def _pooled(one: SizeSummary, other: SizeSummary) -> float:
    freedom = one.rows + other.rows - 2
    return ((one.rows - 1) * one.variance + (other.rows - 1) * other.variance) / max(1, freedom)
