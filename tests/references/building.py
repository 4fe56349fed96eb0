"""A benchmark by the letter: counts found by counting up in fractions, the inequality of classes by its definition."""

from fractions import Fraction


def ceiling(share, things):
    """The least whole number that is not below the share of so many things; the share is the decimal that was typed."""
    share, found = Fraction(str(share)), 0
    while found < share * things:
        found += 1
    return found


def divided(rows, share):
    """Training, validation and test rows of a class with so many rows."""
    held_out = ceiling(share, rows)
    return [rows - 2 * held_out, held_out, held_out]


def lorenz(counts):
    """The share of everything that the rarest 0, 1, … classes hold, as fractions."""
    counts = sorted(Fraction(count) for count in counts)
    return [sum(counts[:number], Fraction(0)) / sum(counts) for number in range(len(counts) + 1)]


def gini(counts):
    """Half the relative mean absolute difference: Σ_i Σ_j |x_i - x_j| / (2 n Σ x)."""
    counts = [Fraction(count) for count in counts]
    differences = sum(abs(one - other) for one in counts for other in counts)
    return differences / (2 * len(counts) * sum(counts))


def share_of_rarest(counts, share):
    """What the rarest classes hold, the last of them counted by the part of it that the share takes."""
    left = Fraction(str(share)) * len(counts)
    held = Fraction(0)
    for count in sorted(Fraction(count) for count in counts):
        part = min(Fraction(1), left)
        held += part * count
        left -= part
    return held / sum(Fraction(count) for count in counts)
