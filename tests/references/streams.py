"""Streams, typed from their definitions in float64: one row after the other, nothing shared with the library."""

import math

import numpy as np


def conformal_set(calibration, values, level):
    """The labels whose value is at most the ⌈(n + 1)(1 - level)⌉-th smallest calibration value."""
    n = len(calibration)
    rank = math.ceil(round((n + 1) * (1 - level), 9))
    if rank > n:
        return np.ones(len(values), bool)
    if rank < 1:
        return np.zeros(len(values), bool)
    return values <= sorted(calibration)[rank - 1]


def adaptive(calibration, values, target, alpha, step, window=None):
    """Gibbs and Candès 2021: the errors and the levels before each row. ``values`` (T, C), larger ones less plausible."""
    level, errors, levels = alpha, [], []
    kept = list(calibration) if window is None else list(calibration)[-window:]
    for row, label in zip(values, target, strict=True):
        error = not conformal_set(kept, row, level)[label]
        levels.append(level)
        errors.append(error)
        level += step * (alpha - error)
        if window is not None:
            kept = [*kept, row[label]][-window:]
    return np.array(errors), np.array(levels)


def mass_before(probs, penalty=0.0, k_reg=0):
    """For each label the total probability of the more probable labels of its row, and the penalty."""
    found = np.empty_like(probs)
    for row, own in zip(probs, found, strict=True):
        before, whole = 0.0, float(np.sort(row)[::-1].cumsum()[-1])
        for rank, label in enumerate(np.argsort(-row, kind="stable"), start=1):
            own[label] = before / whole + penalty * max(0, rank - k_reg)
            before += row[label]
    return found


def experts(p_values, alpha, steps, horizon=500):
    """Gibbs and Candès 2024, Algorithm 1: the mean of the levels before each row, given β of each row."""
    k = len(steps)
    sigma = 1 / (2 * horizon)
    square = ((1 - alpha) ** 2 * alpha**3 + alpha**2 * (1 - alpha) ** 3) / 3  # E loss² at a uniform β
    eta = math.sqrt((math.log(2 * k * horizon) + 1) / (horizon * square))
    levels, weights, means = [alpha] * k, [1.0] * k, []
    for beta in p_values:
        means.append(sum(w * a for w, a in zip(weights, levels, strict=True)) / sum(weights))
        new = []
        for i in range(k):
            loss = alpha * (beta - levels[i]) - min(0.0, beta - levels[i])
            new.append(weights[i] * math.exp(-eta * loss))
        total = sum(new)
        weights = [(1 - sigma) * w / total + sigma / k for w in new]
        levels = [a + g * (alpha - (a >= beta)) for a, g in zip(levels, steps, strict=True)]
    return np.array(means)


def p_value(calibration, value):
    """The share of calibration values, the new one included, that are at least as large."""
    return (sum(c >= value for c in calibration) + 1) / (len(calibration) + 1)


def average_size(probs, k, start, step, top=1.0):
    """The sizes of sets by a threshold that moves by ``step`` on the scale log(1 + q / start) / log(1 + top / start)."""
    place, sizes = math.log(2) / math.log(1 + top / start), []
    for row in probs:
        threshold = start * (math.exp(place * math.log(1 + top / start)) - 1)
        size = int((row >= threshold).sum()) if place <= 1 else 0
        sizes.append(size)
        place += step * (size - k)
    return np.array(sizes)
