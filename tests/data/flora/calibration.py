"""A calibration test with a proven false-alarm rate.

Given what is seen, a claimed probability says how often an event happens. Over independent rows the surplus, how often it did
happen less the sum of its probabilities, then has mean 0 and variance Σ p (1 - p), and by Bernstein's inequality

    P(|surplus| ≥ t) ≤ 2 exp(-t² / (2 (variance + t / 3))),

for any number of rows and however small the probabilities are. An alarm is a surplus beyond the t for which this is FALSE_ALARM
over the number of events watched: a right posterior raises any alarm at all with a probability below FALSE_ALARM.
"""

import math
from dataclasses import dataclass

import numpy as np

FALSE_ALARM = 1e-6
# Finer toward 0 and 1, where little variance makes small errors visible.
FINE = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05]
EDGES = np.array([*FINE, *np.arange(1, 10) / 10, *(1 - np.array(FINE[::-1]))])
BINS = len(EDGES) + 1
RANKS = 3
FULL_WEIGHT = 0.005  # the variance up to which a row has its full weight


@dataclass(frozen=True)
class Watched:
    """Events, summed over rows: how often each happened, how often it should have, and the variance of that."""

    observed: np.ndarray
    expected: np.ndarray
    variance: np.ndarray

    def __add__(self, other):
        """The same events over the rows of both."""
        return Watched(self.observed + other.observed, self.expected + other.expected, self.variance + other.variance)

    def excess(self):
        """The largest surplus as a multiple of the one that raises an alarm."""
        level = math.log(2 * len(self.observed) / FALSE_ALARM)
        bound = level / 3 + np.sqrt(level**2 / 9 + 2 * level * self.variance)
        return float((np.abs(self.observed - self.expected) / bound).max())


def together(*parts):
    return Watched(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("observed", "expected", "variance")))


def in_bins(bins, count, happened, rows, probs):
    """One event a row with its probability, summed by bin; a row stands for so many ``rows``, ``happened`` times."""
    sums = (happened, rows * probs, rows * probs * (1 - probs))
    return Watched(*(np.bincount(bins, values, count) for values in sums))


def weighed(happened, rows, probs):
    """One event a row, all rows in one sum that is sensitive to one small shift of all probabilities.

    For that the best weights are one over the variance; bounded here, so that no row outweighs the others, and scaled to 1.
    """
    weight = FULL_WEIGHT / np.maximum(probs * (1 - probs), FULL_WEIGHT)
    sums = (happened @ weight, rows @ (weight * probs), rows @ (weight**2 * probs * (1 - probs)))
    return Watched(*(np.array([part]) for part in sums))


def by_rank(probs, happened, rows):
    """That the label is the first, second, third most probable one: by its probability, and all in one."""
    parts = []
    ranks = min(RANKS, probs.shape[1])
    largest = np.argpartition(-probs, ranks - 1, axis=1)[:, :ranks]
    order = np.take_along_axis(largest, np.argsort(-np.take_along_axis(probs, largest, axis=1), axis=1), axis=1)
    for label in order.T[:, :, None]:
        p, hits = (np.take_along_axis(part, label, axis=1)[:, 0] for part in (probs, happened))
        parts += [in_bins(np.searchsorted(EDGES, p), BINS, hits, rows, p), weighed(hits, rows, p)]
    return together(*parts)


def by_class(probs, happened, rows):
    """That it is this class."""
    return Watched(happened.sum(0), rows @ probs, rows @ (probs * (1 - probs)))


def by_probability_of_the_truth(probs, counts):
    """That the one true label has a probability in this bin: given what is seen, as likely as the labels in it together."""
    rows = counts.sum(1)
    bins = np.searchsorted(EDGES, probs)
    place = (np.arange(len(probs))[:, None] * BINS + bins).ravel()
    together_in_bin = np.bincount(place, probs.ravel(), len(probs) * BINS).reshape(-1, BINS)
    variance = rows @ (together_in_bin * (1 - together_in_bin).clip(0))
    return Watched(np.bincount(bins.ravel(), counts.ravel(), BINS), rows @ together_in_bin, variance)


def by_confidence_in_the_truth(probs, counts):
    """The mean probability of the truth, Σ p² given what is seen (no event, but between 0 and 1 like one)."""
    rows, mean = counts.sum(1), (probs**2).sum(1)
    variance = rows @ ((probs**3).sum(1) - mean**2).clip(0)
    return Watched(np.array([(counts * probs).sum()]), np.array([rows @ mean]), np.array([variance]))


def of_one_label(probs, counts):
    """All that is watched where each row has one label; ``counts`` says how often what was seen came with each label."""
    rows = counts.sum(1)
    parts = by_rank(probs, counts, rows), by_class(probs, counts, rows)
    return together(*parts, by_probability_of_the_truth(probs, counts), by_confidence_in_the_truth(probs, counts))


def of_many_labels(probs, target):
    """All that is watched where a row has any number of labels, which need not be independent of each other."""
    rows = np.ones(len(probs))
    return together(by_rank(probs, target, rows), by_class(probs, target, rows))
