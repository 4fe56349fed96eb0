"""The syntax tree of a query: labels, conditions on their probabilities, *and*, *or*, *not*, *at least … of* and *count*.

Nodes hold positions among the classes, not names. :func:`holds` defines what each node means for a row whose true labels are
known; :mod:`shortlist.retrieval.probability` computes the probability that it is true.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import InputError
from shortlist.retrieval.names import is_bare, quoted

SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}
Bools: TypeAlias = NDArray[np.bool_]
Sides: TypeAlias = Mapping[tuple[int, float], NDArray[np.int8]]  # of a label and a threshold, as `side_of` gives them

ROUNDING = 2.0**-49  # of log odds from 1 on a share, below an amount, by which two computations of them in float64 may differ
NEXT_TO_ONE = 1.25 * 2.0**-54  # by which a probability near 1 is rounded, half of its last digit, and by an exponential


@dataclass(frozen=True, slots=True)
class Label:
    """The label at a position is present."""

    position: int


@dataclass(frozen=True, slots=True)
class Condition:
    """The probability of a label is above (``>``, ``>=``) or below (``<``, ``<=``) a threshold: a fact about a row."""

    position: int
    sign: str
    threshold: float


@dataclass(frozen=True, slots=True)
class Not:
    """Its part is false."""

    part: "Node"


@dataclass(frozen=True, slots=True)
class And:
    """All parts are true."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part is true."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Of:
    """``least`` to ``most`` of the parts are true: *at least*, *at most* or *exactly* that many."""

    least: int
    most: int
    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Count:
    """The number of labels present, among all classes, satisfies a comparison."""

    sign: str
    number: int


Node: TypeAlias = Label | Condition | Not | And | Or | Of | Count


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below."""
    if isinstance(node, And | Or | Of):
        return node.parts
    return (node.part,) if isinstance(node, Not) else ()


def leaves(node: Node) -> Iterator[Node]:
    """The labels, conditions and counts of a tree, from left to right."""
    below = children(node)
    if not below:
        yield node
    for part in below:
        yield from leaves(part)


def positions(node: Node, classes: int) -> set[int]:
    """Positions of the labels that a tree may depend on; all labels if it contains a *count*.

    >>> positions(And((Label(2), Not(Label(0)))), classes=4)
    {0, 2}
    """
    found: set[int] = set()
    for leaf in leaves(node):
        found.update(
            range(classes) if isinstance(leaf, Count) else [leaf.position] if isinstance(leaf, Label | Condition) else []
        )
    return found


def text_of(node: Node, classes: Sequence[str]) -> str:
    """Text that parses to an equal tree.

    >>> text_of(And((Or((Label(0), Label(1))), Not(Label(2)))), ["dog", "cat", "dining table"])
    '(dog or cat) and not "dining table"'
    """
    return _text(node, classes, 0)


def _text(node: Node, classes: Sequence[str], binding: int) -> str:
    """Text of a node, in brackets if it binds less than its surroundings (*or* 0, *and* 1, *not* 2)."""
    match node:
        case Label(position):
            return classes[position] if is_bare(classes[position]) else quoted(classes[position])
        case Condition(position, sign, threshold):
            return f"{_text(Label(position), classes, 0)} {sign} {threshold!r}"
        case Not(part):
            return f"not {_text(part, classes, 2)}"
        case Count(sign, number):
            return f"count {sign} {number}"
        case Of(least, most, parts):
            how = f"exactly {least}" if least == most else f"at most {most}" if least == 0 else f"at least {least}"
            return f"{how} of ({', '.join(_text(part, classes, 0) for part in parts)})"
        case And(parts) | Or(parts):
            own, word = (1, " and ") if isinstance(node, And) else (0, " or ")
            inside = word.join(_text(part, classes, own + 1) for part in parts)
            return f"({inside})" if own < binding else inside


def side_of(threshold: float, odds: NDArray[Any], *, single: bool = False) -> NDArray[np.int8]:
    """On which side of a threshold the probability of each row is: 1 above, -1 below, and 0 if it is the threshold.

    It is the threshold if it would be written as the same number: log odds are rounded, so that the last digits of a
    probability are not in them, and scores or probabilities may have been given in float32, where few decimals are exact.

    Args:
        threshold: a probability.
        odds: exact log odds of the rows, float64 (n,), or such as were float32; ±inf for probabilities of 0 and 1.
        single: whether the rows may have been given by their probabilities in float32.

    >>> probs = np.array([0.7, 0.8, 0.9])
    >>> side_of(0.8, np.log(probs / (1 - probs)))
    array([-1,  0,  1], dtype=int8)
    """
    own = _log_odds(threshold)
    found: NDArray[np.int8] = np.greater(odds, own).astype(np.int8) - np.less(odds, own).astype(np.int8)
    if not math.isfinite(own):
        return found
    slack = _slack(threshold)
    equal = (np.abs(odds - own) <= slack) | np.isin(odds, np.array([own - slack, own + slack], np.float32).astype(np.float64))
    written = float(np.float32(threshold))
    if single and np.finfo(np.float32).tiny <= written < 1:
        equal |= np.abs(odds - _log_odds(written)) <= _slack(written)
    found[equal] = 0
    return found


def _log_odds(probability: float) -> float:
    if probability <= 0 or probability >= 1:
        return -math.inf if probability <= 0 else math.inf
    return math.log(probability / (1 - probability))


def _slack(probability: float) -> float:
    """By how much log odds may differ from those of a probability that is written as the same number.

    By their own rounding, and by what they change where the probability is rounded: near 1 that is much.
    """
    return ROUNDING * max(1.0, abs(_log_odds(probability))) + NEXT_TO_ONE / (1 - probability)


def meets(condition: Condition, log_yes: NDArray[Any], sides: Sides | None = None) -> Bools:
    """Whether the probability of each row meets a condition.

    From logarithms alone the threshold is rounded to their precision, so that log 0.5 stored in float32 meets ``>= 0.5``.

    Args:
        condition: what is compared.
        log_yes: log η of each row.
        sides: on which side of the threshold it is, where exact log odds tell.

    >>> meets(Condition(0, ">", 0.8), np.log([0.7, 0.8, 0.9]))
    array([False, False,  True])
    """
    answer: Bools
    if sides is not None:
        answer = SIGNS[condition.sign](sides[condition.position, condition.threshold], 0)
        return answer
    threshold = np.asarray(log_threshold(condition), log_yes.dtype)
    answer = SIGNS[condition.sign](log_yes, threshold)
    return answer


def undecided(condition: Condition, log_yes: NDArray[Any]) -> Bools:
    """Whether the float32 probability of each row is so close to the threshold that the exact one may be on either side.

    Rounding changes a logarithm by at most 2⁻²⁴ of itself; four times that counts as close. So does what :func:`side_of` takes
    for the threshold: near 1 a probability in float32 is off by up to 2⁻²⁵.

    >>> undecided(Condition(0, ">", 0.8), np.log(np.array([0.7, 0.8, 0.9], np.float32)))
    array([False,  True, False])
    """
    threshold = log_threshold(condition)
    if log_yes.dtype.itemsize > 4 or threshold == -math.inf:
        return np.zeros(log_yes.shape, np.bool_)
    near: Bools = np.abs(log_yes - np.float32(threshold)) <= 2.0**-22 * abs(threshold) + 2.0**-23
    return near


def log_threshold(condition: Condition) -> float:
    """Logarithm of the threshold; -inf for 0."""
    return math.log(condition.threshold) if condition.threshold > 0 else -math.inf


def holds(node: Node, target: Bools, log_yes: Mapping[int, NDArray[Any]]) -> Bools:
    """Whether each row satisfies a tree, given its true labels.

    Args:
        target: labels of each row, bool (n, C).
        log_yes: log η of the labels in conditions.

    >>> holds(Of(1, 1, (Label(0), Label(1))), np.array([[True, False], [True, True]]), {})
    array([ True, False])
    """
    match node:
        case Label(position):
            return target[:, position]
        case Condition(position):
            if position not in log_yes:
                raise InputError(f"log_yes: expected log η of label {position}, whose probability the query compares")
            return meets(node, log_yes[position])
        case Not(part):
            return ~holds(part, target, log_yes)
        case Count(sign, number):
            counted: Bools = SIGNS[sign](target.sum(axis=1), number)
            return counted
        case And(parts) | Or(parts):
            join = np.logical_and if isinstance(node, And) else np.logical_or
            answer = holds(parts[0], target, log_yes)
            for part in parts[1:]:
                answer = join(answer, holds(part, target, log_yes))
            return answer
        case Of(least, most, parts):
            number_true = np.zeros(len(target), np.int64)
            for part in parts:
                number_true += holds(part, target, log_yes)
            return (number_true >= least) & (number_true <= most)


def wishes(node: Node, wanted: bool | None = True) -> dict[int, bool | None]:
    """What a tree wants of each label that it names: present, absent, or (None) either.

    >>> wishes(And((Label(0), Not(Label(1)), Of(1, 1, (Label(2), Label(3))))))
    {0: True, 1: False, 2: None, 3: None}
    """
    if isinstance(node, Label | Condition):
        upward = isinstance(node, Label) or node.sign in (">", ">=")
        return {node.position: wanted if upward or wanted is None else not wanted}
    if isinstance(node, Not):
        wanted = None if wanted is None else not wanted
    elif isinstance(node, Of):
        more, fewer = node.most == len(node.parts), node.least == 0
        wanted = None if wanted is None or more == fewer else wanted == more
    found: dict[int, bool | None] = {}
    for part in children(node):
        for position, wish in wishes(part, wanted).items():
            found[position] = wish if found.get(position, wish) == wish else None
    return found
