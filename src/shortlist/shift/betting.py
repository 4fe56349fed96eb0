"""Bets against exchangeability: capital that grows only if p-values are not uniform.

A conformal p-value is the share of all rows so far that are at least as strange as the newest one, ties broken at random. If
rows are exchangeable, these numbers are independent and uniform, whatever is called strange (Vovk, Nouretdinov,
Gammerman, "Testing exchangeability on-line", 2003). Capital that is multiplied by a density at each of them, chosen before it
is seen, is then a martingale: it ever reaches 1/δ with probability at most δ (Ville's inequality).
"""

import numpy as np

from shortlist.tensors import Array

SLOPES = np.array([-1.0, -0.5, 0.5, 1.0])  # of straight densities, the jumps of Vovk et al. 2021
FINE, COARSE = 64, 8  # bins of histograms
MEMORIES = np.array([200.0, 2000.0])  # rows that a histogram looks back on
EDGE = 0.1  # the share of p-values at either end
EDGES = np.array([2.0, 0.5])  # densities there of experts that bet on the ends
REST = (1 - EDGE * EDGES) / (1 - EDGE)  # elsewhere
EXPERTS = 1 + len(SLOPES) + 2 * len(EDGES) + 2 * len(MEMORIES)
EARLY = 100  # rows
PARTS = ("capital", "peak", "lowest", "since", "weights", "counts", "totals")


class Bets:
    """Capital bet on several series of p-values side by side.

    The density is a mixture of experts: one that never bets, straight lines (the simple jumper of Vovk, Petej, Nouretdinov,
    Ahlberg, Carlsson, Gammerman, "Retrain or not retrain: conformal test martingales for change-point detection", 2021), steps
    that bet on the tenth at either end, and histograms of the p-values so far, which forget (plug-in martingales of Fedorova,
    Gammerman, Nouretdinov, Vovk, 2012). After row t, a share 1 / (100 + t) of the weight is spread evenly again, so that a
    change is noticed whenever it comes.

    Args:
        series: how many.

    Attributes:
        capital: natural logarithm of the capital of each series, (S,), 0 at the start.
        peak: the largest it has been.
        lowest: the smallest.
        since: the number of the row after which the capital was the smallest: about where a change began.
    """

    def __init__(self, series: int):
        self.rows = 0
        self.capital, self.peak, self.lowest = np.zeros((3, series))
        self.since = np.zeros(series, np.int64)
        self.weights = np.full((EXPERTS, series), 1 / EXPERTS)
        self.counts = np.zeros((len(MEMORIES), series, FINE))
        self.totals = np.zeros(len(MEMORIES))

    def densities(self, p_values: Array) -> Array:
        """The density of each expert at these p-values, (E, S); each integrates to 1."""
        series, bins = np.arange(len(p_values)), _bins(p_values)
        fine = self.counts[:, series, bins]
        coarse = self.counts.reshape(len(MEMORIES), -1, COARSE, FINE // COARSE)[:, series, bins // (FINE // COARSE)].sum(-1)
        return np.concatenate(
            [
                np.ones((1, len(p_values))),
                1 + SLOPES[:, None] * (2 * p_values - 1),
                np.where(p_values < EDGE, EDGES[:, None], REST[:, None]),
                np.where(p_values >= 1 - EDGE, EDGES[:, None], REST[:, None]),
                (coarse + 1) / (self.totals / COARSE + 1)[:, None],
                (fine + 1) / (self.totals / FINE + 1)[:, None],
            ]
        )

    def bet(self, p_values: Array) -> None:
        """Bet on the next p-value of every series, (S,)."""
        gained = self.weights * self.densities(p_values)
        total = gained.sum(0)
        self.capital = self.capital + np.log(total)
        share = 1 / (EARLY + self.rows)
        self.weights = (1 - share) * gained / total + share / EXPERTS
        self.counts *= (1 - 1 / MEMORIES)[:, None, None]
        self.counts[:, np.arange(len(p_values)), _bins(p_values)] += 1
        self.totals = self.totals * (1 - 1 / MEMORIES) + 1
        self.rows += 1
        self.peak = np.maximum(self.peak, self.capital)
        lower = self.capital < self.lowest
        self.lowest = np.where(lower, self.capital, self.lowest)
        self.since = np.where(lower, self.rows, self.since)

    def state(self) -> dict[str, Array]:
        """Everything, as arrays by name."""
        return {"rows": np.array([self.rows]), **{name: getattr(self, name) for name in PARTS}}

    def restore(self, state: dict[str, Array]) -> None:
        """Take what :meth:`state` gave."""
        for name, own in self.state().items():
            if state[name].shape != own.shape or state[name].dtype != own.dtype or not np.isfinite(state[name]).all():
                raise ValueError(f"{name} has another shape or values that are not finite")
        self.rows = int(state["rows"][0])
        for name in PARTS:
            setattr(self, name, state[name].copy())


def _bins(p_values: Array) -> Array:
    found: Array = np.minimum((p_values * FINE).astype(np.int64), FINE - 1)
    return found


class Ranks:
    """Places of whole numbers among all that came before, for conformal p-values; memory does not grow with the rows.

    Args:
        size: numbers are from 0 to ``size - 1``.
    """

    def __init__(self, size: int):
        self.counts = np.zeros(size, np.int64)

    def add(self, values: Array) -> None:
        """Take rows that are not tested."""
        self.counts += np.bincount(values, minlength=len(self.counts))

    def p_value(self, value: int, uniform: float) -> float:
        """Take one row; the share of all rows, this one included, with a larger number, and of a random part of its equals."""
        self.counts[value] += 1
        larger, equal = self.counts[value + 1 :].sum(), self.counts[value]
        return float((larger + uniform * equal) / self.counts.sum())
