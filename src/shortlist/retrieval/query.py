"""A query bound to the labels of an index: what it asks, whether it can be true, and how probable it is for each row."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shortlist.class_names import check_listed
from shortlist.errors import InputError
from shortlist.retrieval import tree as trees
from shortlist.retrieval.exclusive import Outcomes, log_probability as exclusive_log_probability, named, outcomes
from shortlist.retrieval.expansion import CoupledError, expanded, is_never_true, simplified
from shortlist.retrieval.language import parse
from shortlist.retrieval.plans import All, Constant, Literal, QueryPlan
from shortlist.retrieval.probability import Columns, Floats, log_probability
from shortlist.retrieval.tokens import QueryError
from shortlist.retrieval.tree import And, Bools, Condition, Count, Label, Node, Not, Sides

PresentAndAbsent = tuple[tuple[int, ...], tuple[int, ...]]

LONGEST_TEXT = 80  # characters of a query in a message
MOST_PARTS, MOST_VISITED = 100, 300_000  # parts compared in pairs, and labels visited by that: well below a second
NO_COMBINATION = "no combination of labels satisfies all of it"


class Reason(NamedTuple):
    """A label of a query in a row: its name, whether it is wanted present, absent or (None) either, and its probability."""

    label: str
    wanted: bool | None
    probability: float


@dataclass(frozen=True)
class Query:
    """A query of the labels of an index.

    Args:
        text: as it was typed.
        tree: its syntax tree, with labels by position.
        classes: names of all labels, by position.
        exclusive: whether each row has exactly one label, as with a softmax; otherwise labels are independent given the row.

    >>> query = Query.parse("fork and not knife", ["fork", "knife", "spoon"])
    >>> query.labels, query.conjunction
    ((0, 1), ((0,), (1,)))
    >>> log_yes, log_no = {0: np.log([0.9]), 1: np.log([0.2])}, {0: np.log([0.1]), 1: np.log([0.8])}
    >>> np.exp(query.log_probability(log_yes, log_no))
    array([0.72])
    """

    text: str
    tree: Node
    classes: tuple[str, ...]
    exclusive: bool = False

    @classmethod
    def parse(cls, text: str, classes: Sequence[str], *, exclusive: bool = False) -> "Query":
        """Parse a query.

        Args:
            text: in the language of :mod:`shortlist.retrieval.language`.
            classes: names of all labels, by position.
            exclusive: whether each row has exactly one label.

        Raises:
            QueryError: the text is not a query of these labels; the message has a caret below the place of the error.
        """
        check_listed("classes", classes)
        tree, places = parse(text, classes)
        query = cls(text, tree, tuple(classes), exclusive)
        if exclusive:
            return query
        try:
            query.plan  # noqa: B018 (computed now, so that errors are raised here and not during a search)
        except CoupledError as error:
            there = min((places[label] for label in error.labels if label in places), default=0)
            raise QueryError(str(error), text, there) from None
        return query

    @cached_property
    def plan(self) -> QueryPlan:
        """The query as a plan whose parts are independent of each other, from which probabilities are computed."""
        return expanded(self._simplified)

    @cached_property
    def _simplified(self) -> QueryPlan:
        return simplified(self.tree, len(self.classes))

    @cached_property
    def labels(self) -> tuple[int, ...]:
        """Positions of the labels that the query depends on, ascending; all labels if it contains a *count* of several."""
        if self.exclusive:
            return tuple(sorted({*named(self.tree), *(position for position, _ in self.conditions)})) or (0,)
        return tuple(sorted(trees.positions(self.tree, len(self.classes))))

    @cached_property
    def required(self) -> PresentAndAbsent:
        """Labels that must be present, and labels that must be absent, for the query to be true.

        The score of a row is at most Σ log η of the former plus Σ log(1 - η) of the latter.
        """
        if self.exclusive:
            return self.outcomes.required
        literals = [part for part in self._conjuncts if isinstance(part, Literal)]
        present, absent = ([part.position for part in literals if part.present is there] for there in (True, False))
        return tuple(sorted(present)), tuple(sorted(absent))

    @cached_property
    def conjunction(self) -> PresentAndAbsent | None:
        """Labels present and labels absent, if the query asks for nothing else; otherwise None."""
        if self.exclusive:
            return None
        return self.required if all(isinstance(part, Literal) for part in self._conjuncts) else None

    @property
    def _conjuncts(self) -> tuple[QueryPlan, ...]:
        return self._simplified.parts if isinstance(self._simplified, All) else (self._simplified,)

    @cached_property
    def conditions(self) -> tuple[tuple[int, float], ...]:
        """(label, threshold) of every comparison of a probability, such as ``fork > 0.8``, each pair once."""
        pairs = {(leaf.position, leaf.threshold) for leaf in trees.leaves(self.tree) if isinstance(leaf, Condition)}
        return tuple(sorted(pairs))

    @cached_property
    def contradiction(self) -> str | None:
        """Why no row can satisfy the query, whatever its labels; None if a row may.

        >>> Query.parse("fork and not fork", ["fork"]).contradiction
        'fork and not fork: fork cannot be both present and absent'
        """
        if self.exclusive:
            return self._exclusive_contradiction
        if self.plan != Constant(False):
            return None
        return f"{textwrap.shorten(self.text, LONGEST_TEXT, placeholder=' …')}: {why_never(self.tree, self.classes)}"

    @property
    def always(self) -> bool:
        """Whether every row satisfies the query, whatever its labels: ``fork or not fork``."""
        return self.outcomes.always if self.exclusive else self.plan == Constant(True)

    @cached_property
    def outcomes(self) -> Outcomes:
        """For rows with exactly one label: which labels make the query true."""
        return outcomes(self.tree, len(self.classes))

    @property
    def _exclusive_contradiction(self) -> str | None:
        if not self.outcomes.never:
            return None
        return f"{textwrap.shorten(self.text, LONGEST_TEXT, placeholder=' …')}: each row of this index has exactly one label"

    def log_probability(self, log_yes: Columns, log_no: Columns, sides: Sides | None = None) -> Floats:
        """Natural logarithm of the probability that the query is true of each row, float64 (n,).

        Labels are taken as independent given the row, or as exclusive; under that assumption the value is exact. (For
        exclusive labels, give the columns of all labels.)

        Args:
            log_yes: log η of the labels of the query, by position, float32 or float64 (n,); -inf is allowed.
            log_no: log(1 - η), likewise.
            sides: what :meth:`sides` gives, if exact log odds are known; by default conditions are decided by log η.
        """
        if self.exclusive:
            return exclusive_log_probability(self.tree, len(self.classes), log_yes, log_no, sides)
        return log_probability(self.plan, log_yes, log_no, sides)

    def sides(self, odds: NDArray[Any], *, single: bool) -> Sides:
        """On which side of the thresholds of its conditions the probabilities of rows are.

        Args:
            odds: exact log odds of all labels, float64 (n, C).
            single: whether the rows may have been given by their probabilities in float32.
        """
        return {pair: trees.side_of(pair[1], odds[:, pair[0]], single=single) for pair in self.conditions}

    def undecided(self, log_yes: Columns) -> Bools:
        """Rows for which float32 cannot decide whether they meet a condition of the query; none in float64."""
        answer = np.zeros(len(next(iter(log_yes.values()))), np.bool_)
        for leaf in trees.leaves(self.tree):
            if isinstance(leaf, Condition):
                answer |= trees.undecided(leaf, log_yes[leaf.position])
        return answer

    def holds(self, target: NDArray[Any], log_yes: Columns | None = None) -> Bools:
        """Whether rows with these true labels satisfy the query.

        Args:
            target: labels of each row, bool (n, C).
            log_yes: log η of the labels in conditions such as ``fork > 0.8``.
        """
        given = np.asarray(target)
        if given.ndim != 2 or given.shape[1] != len(self.classes) or given.dtype != np.bool_:
            raise InputError(f"target: expected bool (n, {len(self.classes)}), got {given.dtype} {given.shape}")
        return trees.holds(self.tree, given, log_yes or {})

    def explain(self, row_probs: Mapping[int, float] | Sequence[float] | NDArray[Any]) -> list[Reason]:
        """Why a row was found: each label of the query, whether it is wanted, and its probability.

        If the query has a *count*, the labels with a probability of at least 0.5 follow, the most probable first.

        Args:
            row_probs: η of the row, by position.

        >>> Query.parse("fork and not knife", ["fork", "knife"]).explain([0.75, 0.25])
        [Reason(label='fork', wanted=True, probability=0.75), Reason(label='knife', wanted=False, probability=0.25)]
        """
        wishes = trees.wishes(self.tree)
        if any(isinstance(leaf, Count) for leaf in trees.leaves(self.tree)):
            others = [j for j in range(len(self.classes)) if j not in wishes and row_probs[j] >= 0.5]
            wishes.update(dict.fromkeys(sorted(others, key=lambda j: (-row_probs[j], j))))
        return [Reason(self.classes[j], wanted, float(row_probs[j])) for j, wanted in wishes.items()]

    def canonical(self) -> str:
        """A text that parses to an equal tree.

        >>> Query.parse("NOT(a  Or 'b c')", ["a", "b c"]).canonical()
        'not (a or "b c")'
        """
        return trees.text_of(self.tree, self.classes)


def check_n(n: Any) -> None:
    """Check a number of results. Searching must not import torch, as :mod:`shortlist.checks` does."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise InputError(f"n: expected a whole number from 1, got {n!r}")


# Why a query is never true ---------------------------------------------------------------------------------------------------


def why_never(tree: Node, classes: Sequence[str]) -> str:
    """Explain why no row satisfies a tree: the first of its parts that is never true, or the first two that exclude each other.

    >>> why_never(And((Condition(0, ">", 0.8), Condition(0, "<", 0.2))), ["fork"])
    'the probability of fork cannot be both > 0.8 and < 0.2'
    """
    parts = list(dict.fromkeys(_conjuncts(tree)))
    for part in parts:
        if is_never_true(part, len(classes)):
            return _alone(part, classes)
    visited = 0
    for index, second in enumerate(parts[:MOST_PARTS]):
        for first in parts[:index]:
            pair = And((first, second))
            visited += 0 if isinstance(first, Count) and isinstance(second, Count) else len(trees.positions(pair, len(classes)))
            if visited > MOST_VISITED:
                return NO_COMBINATION
            if is_never_true(pair, len(classes)):
                return _both(first, second, classes)
    return NO_COMBINATION


def _conjuncts(node: Node) -> Iterator[Node]:
    """The parts of nested *and*."""
    if isinstance(node, And):
        for part in node.parts:
            yield from _conjuncts(part)
    else:
        yield node


def _alone(part: Node, classes: Sequence[str]) -> str:
    match part:
        case Count():
            return f"there are {len(classes)} labels"
        case Condition(position, sign, threshold):
            return f"the probability of {classes[position]} is never {sign} {threshold}"
    return f"{_short(part, classes)} is never true"


def _both(first: Node, second: Node, classes: Sequence[str]) -> str:
    if isinstance(first, Condition) and isinstance(second, Condition):
        name, one, other = classes[first.position], f"{first.sign} {first.threshold}", f"{second.sign} {second.threshold}"
        return f"the probability of {name} cannot be both {one} and {other}"
    for plain, negated in ((first, second), (second, first)):
        if isinstance(plain, Label) and negated == Not(plain):
            return f"{classes[plain.position]} cannot be both present and absent"
    return f"{_short(first, classes)} and {_short(second, classes)} cannot both be true"


def _short(node: Node, classes: Sequence[str]) -> str:
    return textwrap.shorten(trees.text_of(node, classes), LONGEST_TEXT, placeholder=" …")
