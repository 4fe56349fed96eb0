"""Every rule, row by row in float64; ranks and sizes in fractions. Calibration rows first, then the rows to answer."""

import hashlib
import math
from fractions import Fraction

import numpy as np
from scipy import stats


def ranked(row):
    """The labels of a row by decreasing value, ties by lower index."""
    return sorted(range(len(row)), key=lambda j: (-row[j], j))


def from_lists(lists, classes):
    sets = np.zeros((len(lists), classes), bool)
    for i, labels in enumerate(lists):
        for j in labels:
            sets[i, j] = True
    return sets


def top_k(probs, k):
    return from_lists([ranked(row)[:k] for row in probs], probs.shape[1])


def threshold(probs, p):
    return from_lists([[j for j, value in enumerate(row) if value >= p] for row in probs], probs.shape[1])


def mass(probs, alpha):
    """The fewest labels, most probable first, whose sum reaches 1 - alpha; all of them where no sum does."""
    lists = []
    for row in probs:
        labels, total = [], 0.0
        for j in ranked(row):
            if total >= float(1 - Fraction(str(alpha))):
                break
            labels.append(j)
            total += row[j]
        lists.append(labels)
    return from_lists(lists, probs.shape[1])


def half_up(number):
    return math.floor(number + Fraction(1, 2))


def average_k_cut(values, k):
    """λ and whether a value equal to it is in; then how many are in and how many were wanted."""
    n, classes = values.shape
    wanted = half_up(Fraction(str(k)) * n)
    ordered = sorted(values.ravel().tolist(), reverse=True)
    if wanted <= 0:
        return np.inf, False, 0, wanted
    if wanted >= n * classes:
        return -np.inf, True, n * classes, wanted
    upper, lower = ordered[wanted - 1], ordered[wanted]
    if upper > lower:
        middle = (upper + lower) / 2
        return (middle if middle > lower else upper), True, wanted, wanted
    above, tied = sum(v > upper for v in ordered), sum(v == upper for v in ordered)
    if abs(above + tied - wanted) < abs(above - wanted):
        return upper, True, above + tied, wanted
    return upper, False, above, wanted


def average_k(calibration, probs, k, prior=None):
    prior = np.ones(probs.shape[1]) if prior is None else prior
    cut, closed, _, _ = average_k_cut(calibration / prior, k)
    values = probs / prior
    return values >= cut if closed else values > cut


def conformal_rank(n, alpha):
    return math.ceil((n + 1) * (1 - Fraction(str(alpha))))


def conformal_quantile(scores, alpha):
    """The ⌈(n+1)(1-α)⌉-th smallest, infinite where there is none."""
    rank = conformal_rank(len(scores), alpha)
    return sorted(scores)[rank - 1] if rank <= len(scores) else np.inf


def lac_scores(probs, prior=None):
    """-p, which orders as 1 - p does and loses no digits."""
    return -probs


def pas_scores(probs, prior):
    return -(probs / prior)


def aps_scores(probs, prior=None, penalty=0.0, k_reg=0):
    """Mass up to and with each label, and the penalty for each rank beyond k_reg."""
    scores = np.empty(probs.shape)
    for i, row in enumerate(probs):
        total = 0.0
        for place, j in enumerate(ranked(row)):
            total += row[j]
            scores[i, j] = total + penalty * max(0, place + 1 - k_reg)
    return scores


def raps_scores(probs, prior=None):
    return aps_scores(probs, penalty=0.01, k_reg=2)


def errors_allowed(n, alpha, delta):
    """The largest m with P(at most m of n rows err) ≤ δ if each errs with α, in fractions; -1 if there is none."""
    alpha, delta, probability = Fraction(str(alpha)), Fraction(str(delta)), Fraction(0)
    for m in range(n + 1):
        probability += math.comb(n, m) * alpha**m * (1 - alpha) ** (n - m)
        if probability > delta:
            return m - 1
    return n


def pac_conformal(scores_of, calibration, target, probs, alpha, delta):
    """Without ties: as many calibration rows lie beyond the threshold as are allowed to err."""
    scores = scores_of(calibration)
    own = sorted(scores[i, target[i]] for i in range(len(target)))
    allowed = errors_allowed(len(own), alpha, delta)
    return scores_of(probs) <= (own[len(own) - allowed - 1] if allowed >= 0 else np.inf)


def risk_p_value(total, n, alpha):
    """Hoeffding-Bentkus: how likely so small a total loss of n rows is, at most, if the expected loss is α or more."""
    mean = min(total / n, alpha)
    divergence = (mean * math.log(mean / alpha) if mean else 0.0) + (1 - mean) * math.log((1 - mean) / (1 - alpha))
    return min(math.exp(-n * divergence), math.e * stats.binom.cdf(math.ceil(total), n, alpha))


def pac_recall(calibration, target, probs, alpha, delta):
    """The highest of all values whose total miss rate is small enough; every label if there is none."""
    cut = -np.inf
    for value in sorted(set(calibration[target].tolist())):
        losses = [(row[marks] < value).mean() if marks.any() else 0.0 for row, marks in zip(calibration, target, strict=True)]
        if risk_p_value(sum(losses), len(losses), alpha) <= delta:
            cut = value
    return probs >= cut


MASK, GOLDEN = 2**64 - 1, 0x9E3779B97F4A7C15


def splitmix(x):
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def row_hash(row):
    total = 0
    for j, value in enumerate(row, 1):
        bits = int(np.float64(value).view(np.uint64))
        total += (bits ^ bits >> 32) * (splitmix(j * GOLDEN & MASK) | 1)
    return splitmix(total & MASK)


def calibration_shares(probs, target, seed=0):
    """One number of [0, 1) for each row, keyed by the seed, by all rows with their labels, and by the number of the row."""
    total = sum(
        splitmix((row_hash(row) + splitmix((int(y) + 1) * GOLDEN & MASK)) & MASK) for row, y in zip(probs, target, strict=True)
    )
    parts = [number.to_bytes(8, "little") for number in (seed, total & MASK, len(probs))]
    own = int.from_bytes(hashlib.sha256(b"".join(parts)).digest()[:8], "little") >> 1
    return np.array([(splitmix(((i + 1) * GOLDEN + own) & MASK) >> 11) / 2**53 for i in range(len(probs))])


def randomised_calibration(scores_of, classwise=False):
    """Scores of both sides: a share of its own probability is taken away from a calibration label, all of it from a new one."""

    def sets(calibration, target, probs, alpha):
        drawn = scores_of(calibration) - calibration_shares(calibration, target)[:, None] * calibration
        whole = scores_of(probs) - probs
        if classwise:
            return whole <= class_quantiles(drawn, target, alpha)
        return whole <= conformal_quantile([drawn[i, target[i]] for i in range(len(target))], alpha)

    return sets


def p_values(scores, target, asked):
    """(1 + the number of scores at the labels that are at least as large) / (n + 1), for each score of a new row."""
    own = [scores[i, y] for i, y in enumerate(target)]
    return [(1 + sum(value >= score for value in own)) / (len(own) + 1) for score in asked]


def chosen_rows(n):
    """The fifth of n rows that a penalty is chosen on: by one number of [0, 1) for each, which follows from its place alone."""
    return np.array([(splitmix(((i + 1) * GOLDEN + 0x5EED) & MASK) >> 11) / 2**53 < 0.2 for i in range(n)])


def tuned_penalty(probs, target, alpha):
    """The penalty of a grid with the smallest sets on these rows, and the conformal quantile of the ranks of their labels."""
    places = [ranked(row).index(y) + 1 for row, y in zip(probs, target, strict=True)]
    k_reg, sizes = int(conformal_quantile(places, alpha)), {}
    for penalty in (0.001, 0.01, 0.1, 0.2, 0.5):
        scores = aps_scores(probs, penalty=penalty, k_reg=k_reg)
        cut = conformal_quantile([scores[i, y] for i, y in enumerate(target)], alpha)
        sizes[penalty] = (scores <= cut + 1e-12).sum()
    return min(sizes, key=lambda penalty: (sizes[penalty], penalty)), k_reg


def labels_of(target, i):
    return [int(target[i])] if target.ndim == 1 else [int(j) for j in np.flatnonzero(target[i])]


def conformal(scores_of, calibration, target, probs, alpha, prior=None):
    scores = scores_of(calibration, prior)
    quantile = conformal_quantile([scores[i, target[i]] for i in range(len(target))], alpha)
    return scores_of(probs, prior) <= quantile


def class_quantiles(scores, target, alpha):
    own = [[] for _ in range(scores.shape[1])]
    for i in range(len(scores)):
        for j in labels_of(target, i):
            own[j].append(scores[i, j])
    return np.array([conformal_quantile(values, alpha) for values in own])


def classwise(scores_of, calibration, target, probs, alpha, prior=None):
    return scores_of(probs, prior) <= class_quantiles(scores_of(calibration, prior), target, alpha)


def by_group(sets_of, groups, new_groups, least):
    """The sets of each group by themselves where it has enough rows, those of all rows elsewhere.

    ``sets_of`` gives the sets of all new rows from a selection of the calibration rows, bool (N,).
    """
    found = sets_of(np.ones(len(groups), bool))
    for name in set(groups):
        if name and (groups == name).sum() >= least:
            found[new_groups == name] = sets_of(groups == name)[new_groups == name]
    return found


def shrunk(own, common, n, m, lowest, highest):
    """A threshold n / (n + m) of the way from the common one to the own, which counts as finite, in fractions."""
    own, common = (Fraction(float(min(max(cut, lowest), highest))) for cut in (own, common))
    share = Fraction(int(n), int(n) + m)
    return float(share * own + (1 - share) * common)


def interpolated(calibration, target, probs, alpha, weight):
    scores = -calibration
    per_class = class_quantiles(scores, target, alpha)
    common = conformal_quantile([scores[i, target[i]] for i in range(len(target))], alpha)
    per_class, common = np.where(np.isinf(per_class), 0.0, per_class), min(common, 0.0)
    return -probs <= weight * per_class + (1 - weight) * common


def missed_shares(probs, target, cut):
    """The share of its labels that each row misses with {p ≥ cut}; 0 for a row without labels."""
    shares = []
    for i in range(len(probs)):
        labels = labels_of(target, i)
        missed = sum(probs[i, j] < cut for j in labels)
        shares.append(Fraction(int(missed), len(labels)) if labels else Fraction(0))
    return shares


def risk_cut(calibration, target, alpha):
    """The highest of all thresholds with (total loss + 1) / (n + 1) ≤ α; -inf where there is none."""
    n, alpha = len(calibration), Fraction(str(alpha))
    for cut in [np.inf, *sorted(set(calibration.ravel().tolist()), reverse=True)]:
        if (sum(missed_shares(calibration, target, cut)) + 1) / (n + 1) <= alpha:
            return cut
    return -np.inf


def risk_control(calibration, target, probs, alpha):
    return probs >= risk_cut(calibration, target, alpha)


def marks_of(target, classes):
    return target if target.ndim == 2 else np.eye(classes, dtype=bool)[target]


def label_kept(values, marks, objective, level=None):
    """Which calibration rows one label keeps, by trying every threshold at one of its values.

    F1: the best, the highest threshold among equals. Recall: the highest threshold that reaches the level. Precision: the
    most right rows at the level, the highest threshold among equals. None where nothing does.
    """
    best, kept = None, None
    for cut in sorted(set(values.tolist()), reverse=True):
        returned = values >= cut
        right, size, positives = int((returned & marks).sum()), int(returned.sum()), int(marks.sum())
        if objective == "f1":
            gain = Fraction(2 * right, size + positives) or None
        elif objective == "recall":
            gain = 1 if positives and Fraction(right, positives) >= Fraction(str(level)) else None
        else:
            gain = right if right and Fraction(right, size) >= Fraction(str(level)) else None
        if gain is not None and (best is None or gain > best):
            best, kept = gain, returned
    return kept


def per_label(calibration, target, objective, level=None):
    """The sets of the calibration rows; a label without positives is never in, or always for recall."""
    marks = marks_of(target, calibration.shape[1])
    sets = np.zeros(calibration.shape, bool)
    for j in range(calibration.shape[1]):
        kept = label_kept(calibration[:, j], marks[:, j], objective, level)
        sets[:, j] = (objective == "recall") if kept is None else kept
    return sets


def per_label_cuts(calibration, target, objective, level=None):
    """One threshold a label: half way between the lowest value that is kept and the next below it."""
    sets, marks = per_label(calibration, target, objective, level), marks_of(target, calibration.shape[1])
    cuts = []
    for values, kept, own in zip(calibration.T, sets.T, marks.T, strict=True):
        inside, outside = values[kept], values[~kept]
        lowest = -np.inf if not own.any() and kept.all() else inside.min() if inside.size else np.inf
        middle = (lowest + outside.max()) / 2 if inside.size and outside.size else lowest
        # Between neighbours there is no number: rounded to the lower one, the cut would let it in.
        cuts.append(lowest if outside.size and middle <= outside.max() else middle)
    return np.array(cuts)


def bounded(sets, plausible, least=0, most=None):
    """Row by row: the most plausible of what is in, filled up with the most plausible of what is not."""
    lists = []
    for row, values in zip(sets, plausible, strict=True):
        order = ranked(values)
        inside = [j for j in order if row[j]][:most]
        outside = [j for j in order if not row[j]]
        lists.append(inside + outside[: max(0, least - len(inside))])
    return from_lists(lists, sets.shape[1])


def row_number(row, by):
    """The largest probability, or the probability of any label."""
    if by == "confidence":
        return max(row)
    none = Fraction(1)
    for p in row:
        none *= 1 - Fraction(float(p))
    return 1 - none


def gated(calibration, target, new, refuse, sets_of, by="confidence"):
    """The sets of a rule fitted on the rows with a label that pass; empty for new rows that do not."""
    refused = sorted(row_number(row, by) for row, labels in zip(calibration, target, strict=True) if not labels.any())
    rank = math.ceil((len(refused) + 1) * Fraction(str(refuse)))
    level = refused[rank - 1]
    kept = [i for i in range(len(target)) if target[i].any() and row_number(calibration[i], by) > level]
    sets = np.array(sets_of(calibration[kept], target[kept]))
    for i, row in enumerate(new):
        if row_number(row, by) <= level:
            sets[i] = False
    return sets


def beta_cdf(x, first, second):
    """P(B ≤ x) for whole parameters: that at least ``first`` of ``first + second - 1`` uniform numbers are below x."""
    n = first + second - 1
    x = Fraction(x)
    return float(sum(math.comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(first, n + 1)))


def beta_binomial(rows, first, second):
    """P(K = k), k = 0 … rows: hits among ``rows`` draws with a probability that is itself Beta distributed, in fractions."""

    def beta(a, b):
        return Fraction(math.factorial(a - 1) * math.factorial(b - 1), math.factorial(a + b - 1))

    return [math.comb(rows, k) * beta(k + first, rows - k + second) / beta(first, second) for k in range(rows + 1)]


def weighted_quantile(scores, weights, new, alpha):
    """The smallest score up to which there is a share 1 - alpha of all weight, the new row's included; infinite if none."""
    weights = [weight if isinstance(weight, Fraction) else Fraction(float(weight)) for weight in weights]
    needed = (1 - Fraction(str(alpha))) * (sum(weights) + Fraction(float(new)))
    for score in sorted(set(scores)):
        if sum((weight for one, weight in zip(scores, weights, strict=True) if one <= score), Fraction(0)) >= needed:
            return score
    return np.inf
