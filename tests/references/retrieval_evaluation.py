"""Retrieval by combined queries, query by query and row by row, with scikit-learn's average precision."""

import itertools
import math

import numpy as np
from sklearn.metrics import average_precision_score


def every_query(classes, longest):
    """(present, absent), disjoint, something present."""
    for length in range(1, min(longest, classes) + 1):
        for labels in itertools.combinations(range(classes), length):
            for number in range(1, length + 1):
                for present in itertools.combinations(labels, number):
                    yield present, tuple(label for label in labels if label not in present)


def score(log_yes, log_no, present, absent):
    """Added up in the order of the labels, so that ties are the same to the last bit."""
    return np.array(
        [
            sum(yes[j] if j in present else no[j] for j in sorted(present + absent))
            for yes, no in zip(log_yes.tolist(), log_no.tolist(), strict=True)
        ]
    )


def satisfies(target, present, absent):
    return np.array([all(row[j] for j in present) and not any(row[j] for j in absent) for row in target], dtype=bool)


def average_precision(scores, right):
    """scikit-learn takes no infinite scores: what cannot be goes below everything else, tied."""
    return average_precision_score(right, np.where(np.isinf(scores), -1e300, scores))


def best(scores, n=10):
    """The rows a search would show: by score, then by row."""
    return sorted(range(len(scores)), key=lambda row: (-scores[row], row))[:n]


def answers(log_yes, log_no, target, longest=5):
    """What every satisfiable query gives: kind, average precision, precision at 10, (probability, right) of the best."""
    found = []
    for present, absent in every_query(target.shape[1], longest):
        right = satisfies(target, present, absent)
        if right.any():
            scores = score(log_yes, log_no, present, absent)
            shown = [(math.exp(scores[row]), bool(right[row])) for row in best(scores)]
            share = sum(correct for _, correct in shown) / len(shown)
            found.append(((len(present), len(absent)), average_precision(scores, right), share, shown))
    return found


def bins(shown, number=15):
    """[results, probabilities, right ones] of each bin [a, b), the last one closed."""
    table = [[0.0, 0.0, 0.0] for _ in range(number)]
    for probability, right in shown:
        place = max(i for i in range(number) if probability >= i / number)
        for column, value in enumerate((1, probability, right)):
            table[place][column] += value
    return table


def expected_calibration_error(table):
    return sum(abs(stated - right) for _, stated, right in table) / sum(results for results, _, _ in table)


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else math.nan


def combined_ratio(strata):
    """Ratio and standard error of strata (size, y, z), y and z one number for each query drawn; size None: all were."""
    sizes = [len(y) if size is None else size for size, y, _ in strata]
    top = sum(size * np.mean(y) for size, (_, y, _) in zip(sizes, strata, strict=True))
    bottom = sum(size * np.mean(z) for size, (_, _, z) in zip(sizes, strata, strict=True))
    ratio = top / bottom
    variance = sum(size**2 * np.var(np.array(y) - ratio * np.array(z), ddof=1) / len(y) for size, y, z in strata if size)
    return ratio, math.sqrt(variance) / bottom
