"""Smooth calibration error: a calibration error without bins, whose bandwidth follows from the data."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.metrics.answers import Answer, like_input
from shortlist.metrics.calibration import NO_CLASSES, TOP_N, Over, check_definition, pairs, usual_pairs
from shortlist.metrics.inputs import checked
from shortlist.tensors import Array, Probs, Target
from shortlist.words import understands

# Residuals are kept as coefficients of cos(kπp), k = 0, 1, …: a reflected Gaussian only scales them, so that they add up
# over batches and do not depend on the bandwidth. These are enough for bandwidths from NARROWEST on.
COEFFICIENTS = 2049
NARROWEST = 0.001
CELLS = 4096  # of [0, 1], in each of which a pair is written as a Taylor series about the middle
TERMS = 12  # of that series
POINTS = 8192  # where the smoothed residual is looked at for changes of sign
SMALLEST_SCALE = 9.0  # kπσ from which exp(-(kπσ)² / 2) is below the precision of the sums
NOISE = 1e-14  # share of the largest smoothed residual below which it is rounding
RESOLUTION = 1e-14  # of the error, an absolute number


@understands(num_classes=NO_CLASSES, top_k=TOP_N)
@like_input
def smooth_calibration_error(probs: Any, target: Any, *, over: Over | None = None) -> Answer:
    """Smooth ECE: the mean absolute residual after smoothing by a Gaussian whose bandwidth is the error itself.

    The residuals y - p of the pairs are smoothed over [0, 1] by a Gaussian of bandwidth σ that is reflected at 0 and 1:
    r(t) = Σ K_σ(t, p) (y - p) / n. The error at bandwidth σ is ∫ |r(t)| dt, which falls with σ; the smooth ECE is the σ that
    equals it. There are no bins to choose, and small changes of the probabilities change it little.

    Errors are resolved down to 0.001: below, the result is the error at that bandwidth, which is at most the smooth ECE.

    Args:
        probs: (N, C).
        target: int64 (N,) or bool (N, C).
        over: which pairs count, as in :func:`~shortlist.metrics.calibration_error`: by default the top label of each row for
            one label a row, all pairs for several.

    >>> probs, target = torch.tensor([[0.75, 0.25], [0.75, 0.25]], dtype=torch.float64), torch.tensor([0, 0])
    >>> smooth_calibration_error(probs, target)
    tensor(0.2500, dtype=torch.float64)

    Błasiok, Nakkiran, "Smooth ECE: principled reliability diagrams via kernel smoothing", 2023.
    """
    check_definition("expected", 1, "width", over)
    probs, target = checked(probs, target, "probabilities")
    return smooth_error(residual_sums(probs, target, usual_pairs(target) if over is None else over))


def residual_sums(probs: Probs, target: Target, over: Over) -> Tensor:
    """Σ (y - p) cos(kπp) over the pairs for k = 0, 1, …, and the number of pairs: float64 (2050,)."""
    confidence, outcome = pairs(probs, target, over)
    p = confidence.detach().double().cpu().numpy()
    residual = outcome.double().cpu().numpy() - p
    cell = np.minimum((p * CELLS).astype(np.int64), CELLS - 1)
    offset, power = p - (cell + 0.5) / CELLS, residual
    sums = np.zeros(COEFFICIENTS, complex)
    turns = 1j * math.pi * np.arange(COEFFICIENTS)
    factor = np.exp(turns / (2 * CELLS))  # of the middle of the first cell
    for term in range(TERMS):
        moments = np.bincount(cell, power, CELLS)
        # Σ over cells of moment · exp(ikπ · middle), of which the real part is wanted in the end.
        sums += factor * np.conj(np.fft.rfft(moments, 2 * CELLS)[:COEFFICIENTS])
        factor = factor * turns / (term + 1)
        power = power * offset
    return torch.from_numpy(np.append(sums.real, float(len(p)))).to(probs.device)


def smooth_error(sums: Tensor) -> Tensor:
    """The smooth ECE of the sums of :func:`residual_sums`; NaN without pairs."""
    count = float(sums[-1])
    found = _fixed_point(sums[:-1].cpu().numpy() / count) if count else math.nan
    return torch.tensor(found, dtype=torch.float64, device=sums.device)


def _fixed_point(coefficients: Array) -> float:
    """The error at the bandwidth that equals it, by false position: the error falls as the bandwidth grows, so that what
    they differ by bounds how far off both are."""
    low, high = NARROWEST, 1.0
    above, below = error_at(coefficients, low) - low, error_at(coefficients, high) - high
    if above <= 0:
        return above + low
    while True:
        bandwidth = (below * low - above * high) / (below - above)
        off = error_at(coefficients, bandwidth) - bandwidth
        if abs(off) <= RESOLUTION or not low < bandwidth < high:
            return off + bandwidth
        # The end that stays is given half its weight (Dowell, Jarratt, 1971), so that neither stays for long.
        if off > 0:
            low, above, below = bandwidth, off, below / 2
        else:
            high, below, above = bandwidth, off, above / 2


def error_at(coefficients: Array, bandwidth: float) -> float:
    """∫ |r(t)| dt at this bandwidth: between changes of sign, differences of the antiderivative of r."""
    orders = math.pi * np.arange(COEFFICIENTS)
    orders = orders[orders * bandwidth < SMALLEST_SCALE]
    scaled = coefficients[: len(orders)] * np.exp(-((orders * bandwidth) ** 2) / 2)
    values = (
        np.fft.irfft(scaled, 2 * POINTS)[: POINTS + 1] * 2 * POINTS
    )  # r(t) = c_0 + 2 Σ c_k cos(kπt) at multiples of 1 / POINTS
    sizes = np.abs(values)
    clear = np.flatnonzero(sizes > NOISE * sizes.max())  # where no pairs are, only the sign of rounding changes
    changes = np.flatnonzero((values[clear[:-1]] < 0) != (values[clear[1:]] < 0))
    before, after = clear[changes], clear[changes + 1]
    # Between points that are so near each other r is a line: what that moves a root by counts squared.
    roots = (before + (after - before) * values[before] / (values[before] - values[after])) / POINTS
    ends = np.concatenate([[0.0], roots, [1.0]])
    areas = scaled[0] * ends + np.sin(ends[:, None] * orders[1:]) @ (2 * scaled[1:] / orders[1:])
    return float(np.abs(np.diff(areas)).sum())
