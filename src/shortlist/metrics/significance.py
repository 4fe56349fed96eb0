"""A test of calibration: can the gaps between probability and frequency be chance?"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.metrics.answers import Answer, like_input
from shortlist.metrics.binned_pairs import row_residuals, rows_in_bins
from shortlist.metrics.calibration import NO_CLASSES, TOP_N, Over, check_definition, usual_pairs
from shortlist.metrics.inputs import checked
from shortlist.tensors import is_single_label, row_blocks
from shortlist.words import understands

DRAWS = 999
ROUNDING = 1e-9  # relative: sums of the same numbers in another order count as equal
SUM_ROUNDING = 1e-3  # by how much probabilities of a row, in half precision, may exceed 1 in sum


class CalibrationTest(NamedTuple):
    """Result of :func:`calibration_test`.

    Args:
        statistic: Σ over bins of (right - expected)² / Σ p (1 - p); infinite if an outcome of probability 0 occurred.
        p_value: from 1 / (draws + 1) to 1; below α in a share α of all samples at most, if the probabilities are calibrated.
    """

    statistic: Any
    p_value: Any


@understands(n_bins="bins", num_bins="bins", num_classes=NO_CLASSES, top_k=TOP_N)
@like_input
def calibration_test(
    probs: Any, target: Any, *, bins: int = 15, over: Over | None = None, draws: int = DRAWS, seed: int = 0
) -> Answer:
    """Test whether labels follow the probabilities; a small p-value means that they do not.

    The statistic is that of Hosmer and Lemeshow with fixed bins, ``T = Σ_b (O_b - E_b)² / V_b``, where of the pairs in bin b
    ``O_b`` are right, ``E_b = Σ p`` and ``V_b = Σ p (1 - p)``. Its distribution under the null hypothesis is simulated rather
    than taken from a χ² table, which is wrong where bins hold few pairs or the pairs of a row depend on each other. The p-value
    is ``(1 + #{T_draw ≥ T}) / (1 + draws)``.

    - One label a row, or only the top label of each row: labels are drawn anew from the probabilities, one label a row, which
      makes the test exact ("consistency resampling").
    - Several labels a row and several pairs: what a row's labels have to do with each other is not known, and drawing them
      independently rejects calibrated probabilities too often where labels occur together. Instead the sign of all residuals
      of a row is flipped at random, which keeps any dependence within rows (the wild bootstrap clustered by row). This is
      accurate for large N; it was found so from N = 100.

    Args:
        probs: (N, C).
        target: int64 (N,) or bool (N, C).
        bins: number of bins of equal width.
        over: which pairs count, as in :func:`~shortlist.metrics.calibration_error`: by default the top label of each row for
            one label a row, all pairs for several.
        draws: number of simulated samples; the smallest possible p-value is 1 / (draws + 1).
        seed: of the simulation.

    Returns:
        A named tuple of statistic and p-value; NaN without rows.

    >>> probs = torch.full((200, 1), 0.5)
    >>> right = torch.arange(200)[:, None]
    >>> calibration_test(probs, right % 2 == 0).p_value.item()
    1.0
    >>> calibration_test(probs, right % 4 == 0)
    CalibrationTest(statistic=tensor(50., dtype=torch.float64), p_value=tensor(0.0010, dtype=torch.float64))

    Hosmer, Lemeshow, "Goodness of fit tests for the multiple logistic regression model", 1980; Bröcker, Smith, "Increasing the
    reliability of reliability diagrams", 2007; Vaicenavicius et al., "Evaluating model calibration in classification", 2019;
    Cameron, Gelbach, Miller, "Bootstrap-based improvements for inference with clustered errors", 2008.
    """
    check_definition("expected", bins, "width", over)
    bins, draws, seed = int(bins), whole(1)("draws", draws), whole(0)("seed", seed)
    probs, target = checked(probs, target, "probabilities")
    over = usual_pairs(target) if over is None else over
    rows = rows_in_bins(probs, target, bins, over).cpu()
    residuals, variance = row_residuals(probs, target, bins, over).cpu(), rows[3].sum(0)
    if is_single_label(target) or over in ("top", 1) or probs.shape[1] == 1:
        return resampled_test(rows[1], residuals, variance, draws, seed)
    return flipped_test(residuals, variance, draws, seed)


def resampled_test(expected: Tensor, residuals: Tensor, variance: Tensor, draws: int = DRAWS, seed: int = 0) -> CalibrationTest:
    """The exact test, of rows in which at most one pair can be right: its bin is drawn by the expected numbers of the row.

    Args:
        expected: Σ p of the pairs of each row in each bin, (N, bins).
        residuals: right pairs less expected, (N, bins).
        variance: Σ p (1 - p) of each bin, (bins,).
        draws: number of simulated samples.
        seed: of the simulation.
    """
    excess = expected.sum(1)
    if len(excess) and float(excess.max()) > 1 + SUM_ROUNDING:
        raise InputError(
            f"probs: expected rows that sum to 1, since each has one label; got a sum of {float(excess.max()):.4g} in row "
            f"{int(excess.argmax())}: use over='top', or give the target as bool (N, C)"
        )
    if (settled := _settled(residuals, draws)) is not None:
        return settled
    random = np.random.default_rng(seed)
    counts = np.zeros((draws, len(variance)))
    for rows in row_blocks(len(expected), draws):
        shares = expected[rows].numpy()
        ends = shares.cumsum(1)
        place, row = shares.T.nonzero()  # by bin; of the top label alone, each row has one
        bins, starts = np.unique(place, return_index=True)
        drawn = random.random((draws, len(shares)))[:, row]
        hits = (drawn < ends[row, place]) & (drawn >= (ends - shares)[row, place])
        if len(bins):
            counts[:, bins] += np.add.reduceat(hits, starts, axis=1, dtype=np.int64)
    return _compared(residuals, torch.from_numpy(counts) - expected.sum(0), variance)


def flipped_test(residuals: Tensor, variance: Tensor, draws: int = DRAWS, seed: int = 0) -> CalibrationTest:
    """The test that keeps any dependence within rows, by random signs of rows; arguments as of :func:`resampled_test`."""
    if (settled := _settled(residuals, draws)) is not None:
        return settled
    random = np.random.default_rng(seed)
    flipped = np.zeros((draws, len(variance)))
    for rows in row_blocks(len(residuals), draws):
        part = residuals[rows].numpy()
        size = len(part) * draws
        bits = np.unpackbits(np.frombuffer(random.bytes(-(-size // 8)), np.uint8), count=size).reshape(draws, len(part))
        flipped += (2.0 * bits - 1.0) @ part
    return _compared(residuals, torch.from_numpy(flipped), variance)


def _compared(residuals: Tensor, drawn: Tensor, variance: Tensor) -> CalibrationTest:
    """The statistic, and the share of draws that reach it."""
    statistic = _statistic(residuals.sum(0), variance)
    reached = (_statistic(drawn, variance) >= statistic * (1 - ROUNDING)).sum()
    return CalibrationTest(statistic, (1.0 + reached.double()) / (1 + len(drawn)))


def _statistic(sums: Tensor, variance: Tensor) -> Tensor:
    return torch.where(variance > 0, sums * sums / variance, 0.0).sum(-1)  # no variance: nothing but the certain happened


def _settled(residuals: Tensor, draws: int) -> CalibrationTest | None:
    """The result where nothing needs to be simulated: without rows, or if an outcome of probability 0 occurred."""
    values = (torch.nan, torch.nan) if not len(residuals) else (torch.inf, 1 / (draws + 1))
    if len(residuals) and residuals.isfinite().all():
        return None
    return CalibrationTest(*torch.tensor(values, dtype=torch.float64))
