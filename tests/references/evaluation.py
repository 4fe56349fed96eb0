"""Galleries, confusions and paired differences, row by row in plain Python."""

import math


def hashed(row):
    """The hash of a row number that typical rows are chosen by: splitmix64."""
    mask = 2**64 - 1
    z = (row * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def first_best(row):
    return max(range(len(row)), key=lambda j: (row[j], -j))


def suspects(probs, target):
    """Rows whose label is ten times less probable than a blind guess while another has at least 0.9, least probable first."""
    found = []
    for i, (row, y) in enumerate(zip(probs, target, strict=True)):
        best = first_best(row)
        if best != y and row[best] >= 0.9 and row[y] < 0.1 / len(row):
            found.append((row[y], i))
    return [i for _, i in sorted(found)]


def confident_mistakes(probs, target):
    rows = enumerate(zip(probs, target, strict=True))
    found = [(-max(row), i) for i, (row, y) in rows if first_best(row) != y and max(row) >= 0.5]
    return [i for _, i in sorted(found)]


def confusion_counts(probs, sets, target):
    """(label, other) → rows [held, shared, mistaken, confused] and the first of them, mistaken ones before others."""
    counts, example = {}, {}
    for i, (row, held, y) in enumerate(zip(probs, sets, target, strict=True)):
        for j in range(len(row)):
            if j == y:
                continue
            best = first_best(row) == j
            if held[j] or best:
                count = counts.setdefault((y, j), [0, 0, 0, 0])
                count[0] += bool(held[j])
                count[1] += bool(held[j] and held[y])
                count[2] += best
                count[3] += 1
                example.setdefault((y, j), []).append((not best, i))
    return counts, {pair: min(rows)[1] for pair, rows in example.items()}


def instead_counts(sets, target):
    """(missing label, wrong label) → rows, with several labels a row."""
    counts = {}
    for held, labels in zip(sets, target, strict=True):
        for i in range(len(held)):
            for j in range(len(held)):
                if labels[i] and not held[i] and held[j] and not labels[j]:
                    counts[i, j] = counts.get((i, j), 0) + 1
    return counts


def paired_difference(first, second, weights):
    """Ratio of sums of differences and weights, and its standard error."""
    total = sum(weights)
    value = sum(b - a for a, b in zip(first, second, strict=True)) / total
    squares = sum((b - a - value * w) ** 2 for a, b, w in zip(first, second, weights, strict=True))
    return value, math.sqrt(squares) / total


def superclass_answers(probs, sets, target, groups):
    wrong = kept = several = one = right = 0
    for row, held, y in zip(probs, sets, target, strict=True):
        best = first_best(row)
        wrong += best != y
        kept += best != y and groups[best] == groups[y]
        inside = {groups[j] for j in range(len(row)) if held[j]}
        if sum(held) > 1:
            several += 1
            one += len(inside) == 1
            right += inside == {groups[y]}
    return [wrong, kept, several, one, right, len(target)]
