"""Rules fitted on rows that count by weights, or by votes, in fractions: every threshold is tried."""

from fractions import Fraction

import numpy as np

from tests.references import sets as ref


def exact(values):
    return [Fraction(float(value)) for value in values]


def shares_of(target, classes):
    """The share of each label of a row: its votes, or the same for each of its labels; none in a row without labels."""
    target = np.asarray(target)
    if target.ndim == 1:
        target = np.eye(classes)[target]
    return [[Fraction(float(one)) / Fraction(float(row.sum())) if row.sum() else Fraction(0) for one in row] for row in target]


def missed(probs, target, cut):
    """The share of its labels that each row misses with {p ≥ cut}."""
    shares = shares_of(target, probs.shape[1])
    return [sum(share for p, share in zip(row, own, strict=True) if p < cut) for row, own in zip(probs, shares, strict=True)]


def risk_cut(probs, target, weights, new, alpha):
    """The highest threshold at which the weighted loss, with that of a new row that misses everything, is at most α."""
    weights, new, alpha = exact(weights), Fraction(float(new)), Fraction(str(alpha))
    total = sum(weights) + new
    for cut in [np.inf, *sorted(set(probs.ravel().tolist()), reverse=True)]:
        if sum(w * loss for w, loss in zip(weights, missed(probs, target, cut), strict=True)) + new <= alpha * total:
            return cut
    return -np.inf


def quantile(scores, target, weights, new, alpha):
    """The weighted quantile of the scores at the labels; with votes each label counts by its share."""
    shares = shares_of(target, scores.shape[1])
    pairs = [(i, j) for i in range(len(scores)) for j in range(scores.shape[1]) if shares[i][j]]
    counted = [Fraction(float(weights[i])) * shares[i][j] for i, j in pairs]
    return ref.weighted_quantile([scores[i, j] for i, j in pairs], counted, new, alpha)


def class_quantiles(scores, target, weights, new, alpha):
    shares = shares_of(target, scores.shape[1])
    found = []
    for label in range(scores.shape[1]):
        own = [i for i in range(len(scores)) if shares[i][label]]
        counted = [Fraction(float(weights[i])) * shares[i][label] for i in own]
        found.append(ref.weighted_quantile([scores[i, label] for i in own], counted, new, alpha))
    return np.array(found)


def interpolated_cuts(probs, target, weights, new, alpha, weight):
    per_class = -class_quantiles(-probs, target, weights, new, alpha)
    common = -quantile(-probs, target, weights, new, alpha)
    return weight * np.maximum(per_class, 0) + (1 - weight) * max(common, 0)


def label_gain(right, returned, positives, objective, level):
    """How good a threshold is that returns this weight, this part of it with the label; None if it does not do."""
    if not right:
        return None
    if objective == "f1":
        return 2 * right / (returned + positives)
    if objective == "recall":
        return 1 if right / positives >= Fraction(str(level)) else None
    return right if right / returned >= Fraction(str(level)) else None


def label_cuts(probs, target, weights, objective, level=None):
    """One threshold a label: every value of a row that counts is tried, the highest of the best, half way to the next below."""
    target = np.asarray(target)
    marks = shares_of(target, probs.shape[1])
    if target.dtype == bool:
        marks = [[Fraction(int(mark)) for mark in row] for row in target]
    counted, cuts = exact(weights), []
    for j in range(probs.shape[1]):
        rows = [(float(probs[i, j]), counted[i], counted[i] * marks[i][j]) for i in range(len(probs)) if counted[i]]
        positives, best, kept = sum(own for _, _, own in rows), None, np.inf
        for cut in sorted({value for value, _, _ in rows}, reverse=True):
            returned = sum(weight for value, weight, _ in rows if value >= cut)
            gain = label_gain(sum(own for value, _, own in rows if value >= cut), returned, positives, objective, level)
            if gain is not None and (best is None or gain > best):
                best, kept = gain, cut
        below = max((value for value, _, _ in rows if value < kept), default=kept)
        middle = (kept + below) / 2
        cuts.append(-np.inf if objective == "recall" and not positives else middle if middle > below else kept)
    return np.array(cuts)


def worth(weights):
    """Kish's effective number of rows."""
    weights = exact(weights)
    return sum(weights) ** 2 / sum(w * w for w in weights)


def gate_level(probs, without, weights, refuse):
    """The first of the largest probabilities of rows without a label up to which there is this share of their weight."""
    rows = np.flatnonzero(without)
    return ref.weighted_quantile(
        [max(probs[i]) for i in rows], [weights[i] for i in rows], max(weights), 1 - Fraction(str(refuse))
    )


def p_values(scores, target, weights, new, asked):
    """The share of weight at least as extreme, that of the new row included, for each label of each new row."""
    shares, total = shares_of(target, scores.shape[1]), Fraction(0)
    pairs = []
    for i, row in enumerate(shares):
        for j, share in enumerate(row):
            pairs.append((scores[i, j], Fraction(float(weights[i])) * share))
            total += pairs[-1][1]
    found = np.empty(asked.shape)
    for i, row in enumerate(asked):
        own = Fraction(float(new[i]))
        for j, score in enumerate(row):
            found[i, j] = (own + sum(w for value, w in pairs if value >= score)) / (own + total)
    return found
