"""Splits by the letter: shares as fractions, rows and groups one after the other."""

import math
from fractions import Fraction


def apportion(rows, shares, behind=None):
    """Largest remainder; a split below one row gets one, and the rest is divided anew among the others.

    Ties go to the split that is furthest behind, then to the first.
    """
    shares = [Fraction(str(share)) for share in shares]
    behind = behind or [0] * len(shares)
    if rows < len(shares):
        counts = [0] * len(shares)
        for _ in range(rows):
            best = max((shares[s], behind[s], -s) for s in range(len(shares)) if counts[s] == 0)
            counts[-best[2]] = 1
        return counts
    small = [s for s in range(len(shares)) if rows * shares[s] < 1]
    if small:
        others = [s for s in range(len(shares)) if s not in small]
        mass = sum(shares[s] for s in others)
        found = apportion(rows - len(small), [shares[s] / mass for s in others], [behind[s] for s in others])
        return [1 if s in small else found[others.index(s)] for s in range(len(shares))]
    counts = [math.floor(rows * share) for share in shares]
    while sum(counts) < rows:
        counts[-max((rows * shares[s] - counts[s], behind[s], -s) for s in range(len(shares)))[2]] += 1
    return counts


def wanted_counts(sizes, shares):
    """The rows of each class for each split, one class after the other."""
    shares = [Fraction(str(share)) for share in shares]
    wanted = []
    for size in sizes:
        behind = [sum(sizes[: len(wanted)]) * shares[s] - sum(counts[s] for counts in wanted) for s in range(len(shares))]
        wanted.append(apportion(size, shares, behind))
    return wanted


def ceil_counts(rows, share):
    """Training, validation and test rows of a class, the ceiling found by counting up."""
    share, held_out = Fraction(str(share)), 0
    while held_out < share * rows:
        held_out += 1
    return [rows - 2 * held_out, held_out, held_out]


def place_groups(target, groups, shares):
    """The split of each group, the largest first (no two of one size): where there is room and the sum of squares is least."""
    labels = sorted(set(target))
    wanted = dict(zip(labels, wanted_counts([target.count(label) for label in labels], shares), strict=True))
    have = {label: [0] * len(shares) for label in labels}
    rows = [sum(wanted[label][split] for label in labels) for split in range(len(shares))]
    place = {}
    for group in sorted(set(groups), key=lambda group: -groups.count(group)):
        own = [label for label, owner in zip(target, groups, strict=True) if owner == group]
        costs = []
        for split in range(len(shares)):
            after = {label: [have[label][s] + (s == split) * own.count(label) for s in range(len(shares))] for label in labels}
            squares = sum((after[label][s] - wanted[label][s]) ** 2 for label in labels for s in range(len(shares)))
            full = rows[split] < len(own) / 2
            costs.append((full, squares, -rows[split], split))
        split = min(costs)[3]
        for label in own:
            have[label][split] += 1
        rows[split] -= len(own)
        place[group] = split
    return place


def iterative_stratification(target, shares):
    """Sechidis et al. 2011, algorithm 1, a row at a time; ties of both desires go to the first split."""
    rows, labels = range(len(target)), range(target.shape[1])
    desire = [[share * target[:, label].sum() for share in shares] for label in labels]
    total = [share * len(target) for share in shares]
    side = [None] * len(target)
    while True:
        left = {label: [row for row in rows if side[row] is None and target[row, label]] for label in labels}
        left = {label: own for label, own in left.items() if own}
        if not left:
            break
        label = min(left, key=lambda label: len(left[label]))
        for row in left[label]:
            split = max(range(len(shares)), key=lambda s: (desire[label][s], total[s], -s))
            side[row] = split
            total[split] -= 1
            for own in labels:
                if target[row, own]:
                    desire[own][split] -= 1
    for row in rows:
        if side[row] is None:
            side[row] = max(range(len(shares)), key=lambda s: (total[s], -s))
            total[side[row]] -= 1
    return side


def clusters(rows, pairs):
    """The lowest row that a chain of pairs leads to."""
    lowest = list(range(rows))
    changed = True
    while changed:
        changed = False
        for one, other in pairs:
            low = min(lowest[one], lowest[other])
            changed |= lowest[one] != low or lowest[other] != low
            lowest[one] = lowest[other] = low
    return lowest
