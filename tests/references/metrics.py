"""Every metric as a loop over rows, labels, bins or queries, in float64."""

import itertools
import math
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from tests.references import sets as rules
from tests.references.sets import labels_of, marks_of


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else math.nan


def class_accuracies(sets, target):
    """Share of the rows with each label whose set holds it; NaN for a class that is absent."""
    hits = [[] for _ in range(sets.shape[1])]
    for i in range(len(sets)):
        for j in labels_of(target, i):
            hits[j].append(float(sets[i, j]))
    return [mean(values) for values in hits], [value for values in hits for value in values]


def coverage(sets, target, average="micro"):
    by_class, everything = class_accuracies(sets, target)
    if average == "none":
        return np.array(by_class)
    return mean(everything) if average == "micro" else mean(a for a in by_class if not math.isnan(a))


def shot_coverage(sets, target, train_counts, edges=None):
    by_class, _ = class_accuracies(sets, target)
    if edges is not None:
        bounds = list(zip([-1, *edges], [*edges, math.inf], strict=True))
        names = [f"{low + 1}-{high}" if high < math.inf else f"{low + 1}+" for low, high in bounds]
        shares = [
            [a for a, n in zip(by_class, train_counts, strict=True) if low < n <= high and a == a] for low, high in bounds
        ]
        return {name: mean(values) for name, values in zip(names, shares, strict=True)}
    groups = {"few": [], "medium": [], "many": []}
    for accuracy, count in zip(by_class, train_counts, strict=True):
        if not math.isnan(accuracy):
            groups["few" if count < 20 else "medium" if count <= 100 else "many"].append(accuracy)
    return {name: mean(values) for name, values in groups.items()}


def superclass_coverage(sets, target, superclasses, average="micro"):
    names = list(dict.fromkeys(superclasses))
    above = np.array([[any(row[j] for j, own in enumerate(superclasses) if own == name) for name in names] for row in sets])
    marks = np.array([[any(superclasses[j] == name for j in labels_of(target, i)) for name in names] for i in range(len(sets))])
    single = np.ndim(target) == 1
    return coverage(above, marks.argmax(1) if single else marks, average)


def shot_group_records(probs, sets, target, train_counts, edges=None):
    """Counts, macro coverage, macro top-1 accuracy and mean set size of each shot group, one row at a time."""
    single = np.ndim(target) == 1
    bounds = [(low + 1, high) for low, high in itertools.pairwise([-1, *edges, math.inf])] if edges else []
    names = [f"{low}-{high}" if high < math.inf else f"{low}+" for low, high in bounds] or ["few", "medium", "many"]
    records = []
    for name, (low, high) in zip(names, bounds or [(0, 19), (20, 100), (101, math.inf)], strict=True):
        members = [j for j, n in enumerate(train_counts) if low <= n <= high]
        rows = [i for i in range(len(probs)) if any(j in members for j in labels_of(target, i))]
        owners = {j: [i for i in rows if j in labels_of(target, i)] for j in members}
        owners = {j: found for j, found in owners.items() if found}
        record = {"group": name, "classes": len(members), "present": len(owners), "rows": len(rows)}
        if sets is not None:
            record["macro_coverage" if single else "macro_recall"] = mean(
                mean(float(sets[i, j]) for i in found) for j, found in owners.items()
            )
        if single:
            record["macro_top1"] = mean(
                mean(float(rules.ranked(probs[i])[0] == j) for i in found) for j, found in owners.items()
            )
        if sets is not None:
            record["size"] = mean(sum(map(bool, sets[i])) for i in rows)
        records.append(record)
    return records


def superclass_top1(probs, target, superclasses):
    """Share of rows whose superclass is the first with the largest summed probability."""
    right = []
    for i, row in enumerate(probs):
        sums = {}
        for p, name in zip(row, superclasses, strict=True):
            sums[name] = sums.get(name, 0.0) + float(p)
        right.append(float(max(sums, key=sums.get) == superclasses[int(target[i])]))
    return mean(right)


def superclasses_in_set(sets, superclasses):
    return mean(len({superclasses[j] for j in np.flatnonzero(row)}) for row in sets)


def answers_of_nodes(sets, superclasses):
    """Shares of the sets that are one class, all of one superclass, and every class."""
    kinds = []
    for row in sets:
        labels = set(np.flatnonzero(row).tolist())
        within = [{j for j, own in enumerate(superclasses) if own == name} for name in set(superclasses)]
        if len(labels) == 1:
            kinds.append("class")
        elif len(labels) == len(superclasses):
            kinds.append("everything")
        else:
            kinds.append("superclass" if labels in within else "other")
    return [kinds.count(kind) / len(kinds) for kind in ("class", "superclass", "everything")]


set_accuracy, shot_accuracy = coverage, shot_coverage  # the papers' names


def top_k_accuracy(probs, target, k, average="micro"):
    return coverage(rules.top_k(probs, k), target, average)


def average_k_accuracy(probs, target, k, calibration=None, prior=None, average="micro"):
    calibration = probs if calibration is None else calibration
    return coverage(rules.average_k(calibration, probs, k, prior), target, average)


def set_size(sets, target=None):
    return mean(sum(map(bool, row)) for row in sets)


def empty_rate(sets, target=None):
    return mean(float(not any(row)) for row in sets)


def set_precision(sets, target):
    marks = marks_of(target, sets.shape[1])
    return mean(float(marks[i, j]) for i, j in zip(*np.nonzero(sets), strict=True))


def mean_max_confidence(probs, target=None):
    return mean(max(row) for i, row in enumerate(probs) if target is None or not labels_of(target, i))


def row_numbers(probs, target, by):
    """For rows with a label and for rows without one: the largest probability, or that of any label at all."""
    value = max if by == "confidence" else lambda row: 1 - math.prod(1 - Fraction(p) for p in row)
    known = [value(row) for i, row in enumerate(probs) if labels_of(target, i)]
    return known, [value(row) for i, row in enumerate(probs) if not labels_of(target, i)]


def outlier_auroc(probs, target, by="confidence"):
    known, others = row_numbers(probs, target, by)
    return mean((a > b) + 0.5 * (a == b) for a in known for b in others)


def outlier_fpr(probs, target, tpr=0.95, by="confidence"):
    known, others = row_numbers(probs, target, by)
    if not known or not others:
        return math.nan
    passing = [t for t in known if 100 * sum(value >= t for value in known) >= round(100 * tpr) * len(known)]
    return mean(value >= max(passing) for value in others)


def confidence_pairs(probs, target, over):
    marks = marks_of(target, probs.shape[1])
    n = {"all": probs.shape[1], "top": 1}.get(over, over)
    return [(float(row[j]), bool(marks[i, j])) for i, row in enumerate(probs) for j in rules.ranked(row)[:n]]


def width_bins(pairs, bins):
    """Intervals [i/bins, (i+1)/bins), the last one closed."""
    table = [[] for _ in range(bins)]
    for confidence, outcome in pairs:
        place = max(i for i in range(bins) if confidence >= i / bins)
        table[place].append((confidence, outcome))
    return table


def mass_bins(pairs, bins):
    """Ranks ⌊i·n/bins⌋ to ⌊(i+1)·n/bins⌋ by increasing confidence, tied confidences sharing their outcomes evenly."""
    shared = [(c, mean(float(o) for d, o in pairs if d == c)) for c, _ in sorted(pairs)]
    n = len(shared)
    return [shared[i * n // bins : (i + 1) * n // bins] for i in range(bins)]


def calibration_error(probs, target, norm="expected", bins=15, binning="width", over=None):
    over = over or ("top" if np.ndim(target) == 1 else "all")
    pairs = confidence_pairs(probs, target, over)
    table = [part for part in (width_bins if binning == "width" else mass_bins)(pairs, bins) if part]
    gaps = [abs(mean(c for c, _ in part) - mean(float(o) for _, o in part)) for part in table]
    if norm == "expected":
        return sum(gap * len(part) for gap, part in zip(gaps, table, strict=True)) / len(pairs)
    return mean(gaps) if norm == "average" else max(gaps)


def classwise_calibration_error(probs, target, norm="expected", bins=15, average="macro"):
    """The calibration error of each column by itself, as if it were a problem of one label."""
    marks = marks_of(target, probs.shape[1])
    columns = zip(probs.T, marks.T, strict=True)
    errors = [calibration_error(p[:, None], y[:, None], norm=norm, bins=bins, over="all") for p, y in columns]
    return np.array(errors) if average == "none" else mean(errors)


def smooth_error_at(pairs, bandwidth):
    """∫ |mean of K(t, p) (y - p)| dt with a Gaussian that is reflected at 0 and 1, image by image."""
    images = [(2 * turn + side * p, y - p) for p, y in pairs for turn in range(-4, 5) for side in (-1, 1)]
    places, residuals = np.array(images).T

    def area(t):  # the integral of the smoothed residual from -∞ to t
        return residuals @ ndtr((t - places) / bandwidth) / len(pairs)

    def smoothed(t):
        return residuals @ np.exp(-(((t - places) / bandwidth) ** 2) / 2) / len(pairs)

    grid = np.linspace(0, 1, 201)
    values = [smoothed(t) for t in grid]
    cells = [pair for pair in itertools.pairwise(zip(grid, values, strict=True)) if pair[0][1] * pair[1][1] < 0]
    ends = [0.0, *(brentq(smoothed, a, b, xtol=1e-15) for (a, _), (b, _) in cells), 1.0]
    return sum(abs(area(b) - area(a)) for a, b in itertools.pairwise(ends))


def smooth_calibration_error(probs, target, over=None):
    """The bandwidth at which the error equals it."""
    pairs = confidence_pairs(probs, target, over or ("top" if np.ndim(target) == 1 else "all"))
    if smooth_error_at(pairs, 1e-3) <= 1e-3:
        return smooth_error_at(pairs, 1e-3)
    return brentq(lambda width: smooth_error_at(pairs, width) - width, 1e-3, 1, xtol=1e-15)


def log_loss(probs, target):
    """Mean of -log p of the labels; with many labels of every pair, present or absent. Probability 0 costs 745."""
    marks = marks_of(target, probs.shape[1])
    costs = []
    for i, row in enumerate(probs):
        for j, p in enumerate(row):
            if marks[i, j] or np.ndim(target) == 2:
                chance = p if marks[i, j] else 1 - p
                costs.append(-math.log(chance) if chance > 0 else 745.0)
    return mean(costs)


def brier_score(probs, target):
    marks = marks_of(target, probs.shape[1])
    errors = [[(p - y) ** 2 for p, y in zip(row, own, strict=True)] for row, own in zip(probs, marks, strict=True)]
    return mean(sum(row) for row in errors) if np.ndim(target) == 1 else mean(e for row in errors for e in row)


def brier_decomposition(probs, target, bins=15):
    """The five parts of Stephenson, Coelho and Jolliffe of each class, from lists of the pairs in each bin."""
    found = []
    for column, marks in zip(probs.T, marks_of(target, probs.shape[1]).T, strict=True):
        pairs = [(float(p), float(y)) for p, y in zip(column, marks, strict=True)]
        alike = [[pair for pair in pairs if pair[0] == p] for p in sorted({p for p, _ in pairs})]
        table = alike if bins is None else [part for part in width_bins(pairs, bins) if part]
        n, base, parts = len(pairs), mean(y for _, y in pairs), [0.0] * 4
        for part in table:
            f, o = mean(p for p, _ in part), mean(y for _, y in part)
            parts[0] += len(part) * (f - o) ** 2 / n
            parts[1] += len(part) * (o - base) ** 2 / n
            parts[2] += sum((p - f) ** 2 for p, _ in part) / n
            parts[3] += 2 * sum((p - f) * (y - o) for p, y in part) / n
        found.append([mean((p - y) ** 2 for p, y in pairs), *parts[:2], base * (1 - base), *parts[2:]])
    names = ("brier", "reliability", "resolution", "uncertainty", "within_variance", "within_covariance")
    total = [sum(column) if np.ndim(target) == 1 else mean(column) for column in zip(*found, strict=True)]
    return dict(zip(names, total, strict=True))


def size_stratified_coverage(sets, target, edges=None, min_rows=1):
    sizes = [sum(map(bool, row)) for row in sets]
    bounds = [(s, s) for s in range(sets.shape[1] + 1)]
    if edges is not None:
        bounds = list(zip([0, *(edge + 1 for edge in edges)], [*edges, math.inf], strict=True))
    shares = []
    for low, high in bounds:
        rows = [i for i, size in enumerate(sizes) if low <= size <= high]
        hits = [float(sets[i, j]) for i in rows for j in labels_of(target, i)]
        shares += [mean(hits)] if hits and len(rows) >= min_rows else []
    return min(shares, default=math.nan)


def class_coverage_gap(sets, target, alpha):
    by_class, _ = class_accuracies(sets, target)
    return mean(abs(share - (1 - alpha)) for share in by_class if not math.isnan(share))


def lowest_slab(sets, target, features, share, vectors):
    """The lowest coverage of any slab {low ≤ features · v ≤ high} with the share of the rows, trying them all."""
    lowest = math.inf
    for v in vectors:
        places = [round(float(row @ v), 9) for row in features]
        for low, high in itertools.combinations_with_replacement(sorted(set(places)), 2):
            rows = [i for i, place in enumerate(places) if low <= place <= high]
            hits = [float(sets[i, j]) for i in rows for j in labels_of(target, i)]
            if len(rows) >= share * len(features) and hits:
                lowest = min(lowest, mean(hits))
    return lowest


def calibration_statistic(probs, target, bins, over):
    """Σ over bins of (right - expected)² / Σ p (1 - p)."""
    total = 0.0
    for part in width_bins(confidence_pairs(probs, target, over), bins):
        variance = sum(p * (1 - p) for p, _ in part)
        if variance > 0:
            total += sum(right - p for p, right in part) ** 2 / variance
    return total


def calibration_p_value(probs, target, bins, over):
    """The probability, over all ways to give every row one label, of a statistic as large: one label a row, few rows."""
    observed, mass = calibration_statistic(probs, target, bins, over), 0.0
    for labels in itertools.product(range(probs.shape[1]), repeat=len(probs)):
        if calibration_statistic(probs, np.array(labels), bins, over) >= observed - 1e-9:
            mass += math.prod(probs[row, label] for row, label in enumerate(labels))
    return mass


def flipped_p_value(probs, target, bins, over):
    """The share of all signs of rows whose statistic is as large."""
    n, parts = len(probs), [width_bins(confidence_pairs(probs[[i]], target[[i]], over), bins) for i in range(len(probs))]
    residuals = [[sum(right - p for p, right in part) for part in row] for row in parts]
    variance = [sum(p * (1 - p) for row in parts for p, _ in row[b]) for b in range(bins)]

    def statistic(signs):
        sums = [sum(s * row[b] for s, row in zip(signs, residuals, strict=True)) for b in range(bins)]
        return sum(total**2 / v for total, v in zip(sums, variance, strict=True) if v > 0)

    observed = statistic([1] * n)
    return mean(statistic(signs) >= observed - 1e-9 for signs in itertools.product([-1, 1], repeat=n))


def average_precision(scores, marks):
    """Mean over the positives of the precision of everything scored at least as high; NaN without positives."""
    precisions = []
    for own in scores[marks]:
        reach = scores >= own
        precisions.append((reach & marks).sum() / reach.sum())
    return mean(precisions)


def mean_average_precision(probs, target, axis="class", average="macro"):
    marks = marks_of(target, probs.shape[1])
    if average == "none":
        return np.array(
            [average_precision(*pair) if pair[1].any() else math.nan for pair in zip(probs.T, marks.T, strict=True)]
        )
    lines = zip(probs.T, marks.T, strict=True) if axis == "class" else zip(probs, marks, strict=True)
    return mean(average_precision(scores, own) for scores, own in lines if own.any())


def top_n_f1(probs, target, n=4):
    sets, marks = rules.top_k(probs, n), marks_of(target, probs.shape[1])
    values = []
    for j in range(probs.shape[1]):
        if marks[:, j].any():
            right = (sets[:, j] & marks[:, j]).sum()
            precision = right / sets[:, j].sum() if sets[:, j].any() else 0.0
            recall = right / marks[:, j].sum()
            values.append(2 * precision * recall / (precision + recall) if right else 0.0)
    return mean(values)


def retrieval_queries(classes, length):
    """Disjoint (present, absent) with at least one present label and this many in all."""
    labels = range(classes)
    for size in range(1, length + 1):
        for present in itertools.combinations(labels, size):
            others = [j for j in labels if j not in present]
            for absent in itertools.combinations(others, length - size):
                yield present, absent


def retrieval_by_length(probs, target, max_length=5):
    """The average precisions of all satisfiable queries, a list for each length."""
    marks, found = marks_of(target, probs.shape[1]), []
    with np.errstate(divide="ignore"):
        present_log, absent_log = np.log(probs), np.log1p(-probs)
    for length in range(1, min(max_length, probs.shape[1]) + 1):
        values = []
        for present, absent in retrieval_queries(probs.shape[1], length):
            truth = np.array([all(row[j] for j in present) and not any(row[j] for j in absent) for row in marks], bool)
            score = np.array(
                [sum(present_log[i, j] for j in present) + sum(absent_log[i, j] for j in absent) for i in range(len(probs))]
            )
            if truth.any():
                values.append(average_precision(score, truth))
        found.append(values)
    return found


def retrieval_map(probs, target, max_length=5):
    return mean(value for values in retrieval_by_length(probs, target, max_length) for value in values)


def size_accuracy(probs, target, cut):
    """Mean size and accuracy of the sets {p ≥ cut}."""
    sets = probs >= cut
    return set_size(sets), coverage(sets, target)
