"""Watches and shifts, typed from their definitions in float64."""

import math

import numpy as np


def p_values(reference, values, uniforms):
    """Of each value, the share of all so far that are larger, and of a random part of its equals, itself included."""
    seen, found = list(reference), []
    for value, uniform in zip(values, uniforms, strict=True):
        seen.append(value)
        larger = sum(other > value for other in seen)
        found.append((larger + uniform * sum(other == value for other in seen)) / len(seen))
    return found


def capital(p_values):
    """Logarithm of the capital after each p-value: a mixture of a constant, lines, steps and forgetting histograms."""
    histograms = [(bins, memory) for bins in (8, 64) for memory in (200, 2000)]
    weights, total, path = [1 / 13] * 13, 0.0, []
    for t, p in enumerate(p_values):
        densities = [1.0, *(1 + slope * (2 * p - 1) for slope in (-1.0, -0.5, 0.5, 1.0))]
        for high in (2.0, 0.5):
            low = (1 - 0.1 * high) / 0.9
            densities += [high if p < 0.1 else low, high if p >= 0.9 else low]
        for bins, memory in histograms:
            held = [(min(int(old * bins), bins - 1), (1 - 1 / memory) ** (t - 1 - s)) for s, old in enumerate(p_values[:t])]
            own = sum(weight for place, weight in held if place == min(int(p * bins), bins - 1))
            densities.append(bins * (own + 1) / (sum(weight for _, weight in held) + bins))
        gained = [w * d for w, d in zip(weights, densities, strict=True)]
        total += math.log(sum(gained))
        share = 1 / (100 + t)
        weights = [(1 - share) * g / sum(gained) + share / 13 for g in gained]
        path.append(total)
    return path


def capital_against(error, missed):
    """Of the bet that the k-th label is missed with probability (misses so far + 1) / (k + 1), against a true error."""
    found, m = 0.0, 0
    for k, miss in enumerate(missed, start=1):
        guess = (m + 1) / (k + 1)
        found += math.log(guess / error if miss else (1 - guess) / (1 - error))
        m += miss
    return found


def capital_against_mean(mean, shares):
    """Of the even mixture of bets (g / mean)^x ((1 - g) / (1 - mean))^(1 - x) over all g, on shares x from 0 to 1."""
    guesses = (np.arange(5_000) + 0.5) / 5_000
    logs = sum(x * np.log(guesses / mean) + (1 - x) * np.log((1 - guesses) / (1 - mean)) for x in shares)
    return float(np.log(np.mean(np.exp(logs - logs.max()))) + logs.max())


def deciding(values, allowed):
    """The highest threshold at which no more than this share of these values of a row's labels is below; none misses none."""
    thresholds = [t for t in values if sum(value < t for value in values) <= allowed * len(values)]
    return max(thresholds, default=math.inf)


def expectation_maximisation(probs, old, steps=2000):
    """Saerens, Latinne, Decaestecker 2002: the new shares of the classes."""
    shares = np.array(old, float)
    for _ in range(steps):
        posterior = probs * shares / old
        posterior /= posterior.sum(1, keepdims=True)
        shares = posterior.mean(0)
    return shares


def black_box(probs, target, new, classes, soft):
    """Lipton, Wang, Smola 2018: shares over old shares solve C w = the mean answer on new rows."""

    def answers(rows):
        return rows if soft else np.eye(classes)[rows.argmax(1)]

    confusion = np.zeros((classes, classes))
    for answer, label in zip(answers(probs), target, strict=True):
        confusion[:, label] += answer / len(target)
    return np.linalg.solve(confusion, answers(new).mean(0))


def effective_with_missing(weights, missing):
    """Kish's number of rows, where a share of the whole weight lies on one row that is not there."""
    shares = [*((1 - missing) * weight / sum(weights) for weight in weights), missing]
    return sum(shares) ** 2 / sum(share**2 for share in shares)
