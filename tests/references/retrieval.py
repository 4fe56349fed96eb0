"""Queries by brute force: nested tuples, all 2^m assignments of the labels, probabilities as exact fractions.

A query is ("label", j), ("condition", j, sign, threshold), ("not", q), ("and", q, …), ("or", q, …), ("at least", k, q, …),
("at most", k, q, …), ("exactly", k, q, …) or ("count", sign, k).
"""

import itertools
import math
import operator
from fractions import Fraction

SIGNS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq}
HOW_MANY = {"at least": operator.ge, "at most": operator.le, "exactly": operator.eq}


def text(query, names):
    """The query as a person would type it, with all the brackets."""
    kind, *rest = query
    if kind == "label":
        return names[rest[0]]
    if kind == "condition":
        return f"{names[rest[0]]} {rest[1]} {rest[2]}"
    if kind == "count":
        return f"count {rest[0]} {rest[1]}"
    if kind == "not":
        return f"not ({text(rest[0], names)})"
    if kind in HOW_MANY:
        return f"{kind} {rest[0]} of ({', '.join(text(part, names) for part in rest[1:])})"
    return f" {kind} ".join(f"({text(part, names)})" for part in rest)


def true_of(query, labels, probs):
    """Whether a row with these labels (a tuple of bools) and probabilities satisfies the query."""
    kind, *rest = query
    if kind == "label":
        return labels[rest[0]]
    if kind == "condition":
        return SIGNS[rest[1]](probs[rest[0]], Fraction(rest[2]))
    if kind == "count":
        return SIGNS[rest[0]](sum(labels), rest[1])
    if kind == "not":
        return not true_of(rest[0], labels, probs)
    if kind in HOW_MANY:
        return HOW_MANY[kind](sum(true_of(part, labels, probs) for part in rest[1:]), rest[0])
    return (all if kind == "and" else any)(true_of(part, labels, probs) for part in rest)


def probability(query, probs):
    """P(query) for the probabilities of one row, as an exact fraction."""
    total = Fraction(0)
    for labels in itertools.product((False, True), repeat=len(probs)):
        if true_of(query, labels, probs):
            total += math.prod((p if present else 1 - p for p, present in zip(probs, labels, strict=True)), start=Fraction(1))
    return total


def exclusive_probability(query, probs):
    """P(query) where exactly one label is true: the sum over the C outcomes, as an exact fraction."""
    total = Fraction(0)
    for label, p in enumerate(probs):
        if true_of(query, tuple(place == label for place in range(len(probs))), probs):
            total += p
    return total


def log(value):
    """The natural logarithm of a fraction from 0 to 1, however small it is or however near to 1."""
    if value == 0:
        return -math.inf
    if value > Fraction(1, 2):
        return math.log1p(-float(1 - value))
    scale = max(0, value.denominator.bit_length() - value.numerator.bit_length())
    return math.log(float(value * 2**scale)) - scale * math.log(2)


def settled_from(logs, odds):
    """The smallest finite logarithm such that it and every larger one is that of rows with one log odds; inf if none is."""
    found = math.inf
    for value in sorted({log for log in logs if log > -math.inf}, reverse=True):
        if len({exact for log, exact in zip(logs, odds, strict=True) if log == value}) > 1:
            break
        found = value
    return found
