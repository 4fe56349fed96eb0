"""Queries about rows that have exactly one label, as with a softmax: labels exclude each other.

A row then has one of C outcomes, and the probability of a query is the sum of those for which it is true:

    P(query) = Σ_j η_j [the query is true of a row whose only label is j]

Labels that a query does not name are alike to it, so that of theirs only the sum counts, 1 - Σ η_j over the others. *count* is
always 1, ``a and b`` is never true, ``a or b`` has the probability η_a + η_b, and ``not a`` that of all other labels.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import InputError
from shortlist.retrieval.tree import SIGNS, And, Bools, Condition, Count, Label, Node, Not, Of, Or, Sides, leaves, meets

Floats: TypeAlias = NDArray[np.float64]
Truth: TypeAlias = bool | Bools | None  # for all rows, for each row, or unknown before the rows are
Met: TypeAlias = Callable[[Condition], Truth]
ANOTHER = -1  # the outcome that is none of the labels of the query


@dataclass(frozen=True)
class Outcomes:
    """The outcomes that a query tells apart, and whether it is true for them, as far as that is known without any row.

    Args:
        true: labels that make the query true.
        false: labels that make it false.
        open: labels of which that depends on conditions, such as ``fork > 0.8``.
        another: whether any other label makes it true; None if that depends on conditions.
    """

    true: tuple[int, ...]
    false: tuple[int, ...]
    open: tuple[int, ...]
    another: bool | None

    @property
    def never(self) -> bool:
        """Whether no label makes the query true."""
        return not self.true and not self.open and self.another is False

    @property
    def always(self) -> bool:
        """Whether every label does."""
        return not self.false and not self.open and self.another is True

    @property
    def required(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A label that must be present, or one that must be absent: the probability of that bounds that of the query."""
        if self.another is False and len(self.true) + len(self.open) == 1:
            return (*self.true, *self.open), ()
        return (), self.false[:1]


def named(tree: Node) -> tuple[int, ...]:
    """The labels that a query names, without those that it only compares with a threshold; ascending."""
    return tuple(sorted({leaf.position for leaf in leaves(tree) if isinstance(leaf, Label)}))


def outcomes(tree: Node, classes: int) -> Outcomes:
    """What a query says about each outcome.

    >>> outcomes(Or((Label(0), Label(1))), classes=3)
    Outcomes(true=(0, 1), false=(), open=(), another=False)
    """
    found: dict[Truth, list[int]] = {True: [], False: [], None: []}
    labels = named(tree)
    for label in labels:
        found[_plain(_truth(tree, label, _unknown))].append(label)
    another = _plain(_truth(tree, ANOTHER, _unknown)) if len(labels) < classes else False
    return Outcomes(tuple(found[True]), tuple(found[False]), tuple(found[None]), another)


def log_probability(tree: Node, classes: int, log_yes: Any, log_no: Any, sides: Sides | None = None) -> Floats:
    """Natural logarithm of the probability that a query is true of each row, float64 (n,).

    With the columns of all labels, sums have only positive terms and keep all digits. With those of the query alone, the
    probability of all other labels is 1 minus theirs, which has an absolute error of a few units in the last place.

    Args:
        tree: the query.
        classes: the number of labels.
        log_yes: log η of the labels of the query, or of all labels, by position, (n,); -inf is allowed.
        log_no: log(1 - η), likewise.
        sides: of the thresholds of conditions, int8 (n,), if more is known of them than log η.

    >>> probs = np.array([[0.545, 0.071, 0.384]])
    >>> yes, no = (dict(enumerate(np.log(part).T)) for part in (probs, 1 - probs))
    >>> np.exp(log_probability(Or((Label(0), Label(1))), 3, yes, no)).round(3)
    array([0.616])
    """
    rows = len(next(iter(log_yes.values())))
    labels = named(tree)
    missing = [label for label in labels if label not in log_yes or label not in log_no]
    if missing:
        raise InputError(f"log_yes, log_no: expected the columns of labels {list(labels)}, got none of {missing}")

    def met(condition: Condition) -> Truth:
        return meets(condition, log_yes[condition.position], sides)

    logs: tuple[list[Floats], list[Floats]] = ([], [])
    for label in labels:
        _add(logs, log_yes[label].astype(np.float64), _truth(tree, label, met))
    if len(labels) < classes:
        _add(logs, _log_of_others(labels, classes, log_yes, log_no), _truth(tree, ANOTHER, met))
    true, false = (_log_sum(side, rows) for side in logs)
    with np.errstate(divide="ignore"):  # certain of the opposite: log 0
        near_one = np.log1p(-np.minimum(np.exp(false), 1.0))
    return np.where(true > math.log(0.5), near_one, true)


def _add(sides: tuple[list[Floats], list[Floats]], logs: Floats, truth: Truth) -> None:
    """Add an outcome to the side of the true ones, or of the false ones, or for each row to one of them."""
    if truth is True or truth is False:
        sides[not truth].append(logs)
    else:
        sides[0].append(np.where(np.asarray(truth), logs, -np.inf))
        sides[1].append(np.where(np.asarray(truth), -np.inf, logs))


def _log_sum(logs: Sequence[Floats], rows: int) -> Floats:
    """log Σ exp, without overflow or underflow."""
    if not logs:
        return np.full(rows, -np.inf)
    return functools.reduce(np.logaddexp, logs)


def _log_of_others(labels: Sequence[int], classes: int, log_yes: Any, log_no: Any) -> Floats:
    """The logarithm of the probability of any label that the query does not name."""
    if len(labels) == 1:
        return np.asarray(log_no[labels[0]], np.float64)
    if len(log_yes) == classes:
        own = set(labels)
        others = np.stack([log_yes[label] for label in range(classes) if label not in own]).astype(np.float64)
        top = others.max(axis=0)
        shift = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore", under="ignore"):
            return np.asarray(np.log(functools.reduce(np.add, np.exp(others - shift))) + shift)
    if not labels:
        return np.zeros(len(next(iter(log_yes.values()))))
    yes, no = (np.stack([part[label] for label in labels]).astype(np.float64) for part in (log_yes, log_no))
    best = yes.argmax(axis=0)
    columns = np.arange(yes.shape[1])
    yes[best, columns] = -np.inf  # the largest is taken from its own complement, which is exact
    with np.errstate(divide="ignore", under="ignore"):
        return np.asarray(np.log(np.maximum(np.exp(no[best, columns]) - functools.reduce(np.add, np.exp(yes)), 0.0)))


def _unknown(_: Condition) -> Truth:
    return None


def _plain(truth: Truth) -> bool | None:
    assert truth is None or isinstance(truth, bool)
    return truth


def _truth(node: Node, outcome: int, met: Met) -> Truth:
    """Whether a query is true of rows whose only label is this one."""
    match node:
        case Label(position):
            return position == outcome
        case Condition():
            return met(node)
        case Not(part):
            return _negated(_truth(part, outcome, met))
        case Count(sign, number):
            return bool(SIGNS[sign](1, number))
        case And(parts):
            return _every([_truth(part, outcome, met) for part in parts])
        case Or(parts):
            return _negated(_every([_negated(_truth(part, outcome, met)) for part in parts]))
        case Of(least, most, parts):
            return _within([_truth(part, outcome, met) for part in parts], least, most)


def _negated(truth: Truth) -> Truth:
    if truth is None or isinstance(truth, bool):
        return None if truth is None else not truth
    return ~truth


def _every(parts: Sequence[Truth]) -> Truth:
    """Whether all parts are true."""
    left = [part for part in parts if part is not True]
    if not left or any(part is False for part in left):
        return not left
    if any(part is None for part in left):
        return None
    return functools.reduce(np.logical_and, left)  # type: ignore[arg-type]


def _within(parts: Sequence[Truth], least: int, most: int) -> Truth:
    """Whether so many of the parts are true."""
    true, unknown = sum(part is True for part in parts), sum(part is None for part in parts)
    vectors = [part for part in parts if part is not None and not isinstance(part, bool)]
    if vectors:
        counts = true + np.sum(vectors, axis=0)
        return np.asarray((counts >= least) & (counts <= most))
    if unknown and not (true + unknown < least or true > most or (true >= least and true + unknown <= most)):
        return None
    return least <= true <= most if not unknown else true >= least and true + unknown <= most
