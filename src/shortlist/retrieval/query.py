"""A query bound to the labels of an index: what it asks, whether it can be true, and how probable it is of each row."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import InputError
from shortlist.retrieval import tree as trees
from shortlist.retrieval.expansion import CoupledError, expanded, simplified
from shortlist.retrieval.language import QueryError, parse
from shortlist.retrieval.plans import All, Constant, Literal, QueryPlan
from shortlist.retrieval.probability import Columns, Floats, log_probability
from shortlist.retrieval.reasons import why_never
from shortlist.retrieval.tree import Bools, Condition, Count, Node

Split = tuple[tuple[int, ...], tuple[int, ...]]


class Reason(NamedTuple):
    """A label of a query in a row: its name, whether it is wanted present, absent or (None) either, and its probability."""

    label: str
    wanted: bool | None
    probability: float


@dataclass(frozen=True)
class Query:
    """A tree of labels by position, and the names of the classes.

    Args:
        text: as it was typed.
        tree: what it means.
        classes: the names of all labels, by position.

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

    @classmethod
    def parse(cls, text: str, classes: Sequence[str]) -> "Query":
        """The query of a text.

        Args:
            text: in the language of :mod:`shortlist.retrieval.language`.
            classes: the names of all labels, by position.

        Raises:
            QueryError: the text is no query of these labels; the message has a caret under the place.
        """
        tree, places = parse(text, classes)
        query = cls(text, tree, tuple(classes))
        try:
            query.plan  # noqa: B018 (made now, so that a query that is made can be asked)
        except CoupledError as error:
            there = min((places[label] for label in error.labels if label in places), default=0)
            raise QueryError(str(error), text, there) from None
        return query

    @cached_property
    def plan(self) -> QueryPlan:
        """The tree made ready for probabilities, its parts independent of each other."""
        return expanded(self.tree, len(self.classes))

    @cached_property
    def labels(self) -> tuple[int, ...]:
        """The positions of all labels that the query names, ascending; of all classes where it counts them."""
        return tuple(sorted(trees.positions(self.tree, len(self.classes))))

    @cached_property
    def required(self) -> Split:
        """Labels without which, and labels with which, the query is never true: (present, absent).

        No row is more probable than Σ log η of the one plus Σ log(1 - η) of the other.
        """
        plan = simplified(self.tree, len(self.classes))
        parts = plan.parts if isinstance(plan, All) else (plan,)
        literals = [part for part in parts if isinstance(part, Literal)]
        present, absent = ([part.position for part in literals if part.present is there] for there in (True, False))
        return tuple(sorted(present)), tuple(sorted(absent))

    @cached_property
    def conjunction(self) -> Split | None:
        """Labels present and labels absent, if the query asks for nothing else; otherwise None."""
        plan = simplified(self.tree, len(self.classes))
        parts = plan.parts if isinstance(plan, All) else (plan,)
        return self.required if all(isinstance(part, Literal) for part in parts) else None

    @cached_property
    def conditions(self) -> tuple[tuple[int, float], ...]:
        """The labels whose probabilities the query compares, and with what, each pair once."""
        pairs = {(leaf.position, leaf.threshold) for leaf in trees.written(self.tree) if isinstance(leaf, Condition)}
        return tuple(sorted(pairs))

    @cached_property
    def contradiction(self) -> str | None:
        """Why no row can satisfy the query, whatever its labels; None if one may.

        >>> Query.parse("fork and not fork", ["fork"]).contradiction
        'fork and not fork: fork cannot be both present and absent'
        """
        if self.plan != Constant(False):
            return None
        return f"{textwrap.shorten(self.text, 80, placeholder=' …')}: {why_never(self.tree, self.classes)}"

    @property
    def always(self) -> bool:
        """Whether every row satisfies the query, whatever its labels: ``fork or not fork``."""
        return self.plan == Constant(True)

    def log_probability(self, log_yes: Columns, log_no: Columns) -> Floats:
        """The natural logarithm of the probability that the query is true of each row, float64 (n,).

        Labels are taken as independent given the row; under that the value is exact.

        Args:
            log_yes: log η of the labels of the query, by position, float32 or float64 (n,); -inf is allowed.
            log_no: log(1 - η), likewise.
        """
        return log_probability(self.plan, log_yes, log_no)

    def undecided(self, log_yes: Columns) -> Bools:
        """Rows of which float32 cannot tell whether they meet a condition of the query; none in float64."""
        answer = np.zeros(len(next(iter(log_yes.values()))), np.bool_)
        for leaf in trees.written(self.tree):
            if isinstance(leaf, Condition):
                answer |= trees.undecided(leaf, log_yes[leaf.position])
        return answer

    def holds(self, target: NDArray[Any], log_yes: Columns | None = None) -> Bools:
        """Whether rows with these true labels satisfy the query.

        Args:
            target: which labels each row has, bool (n, C).
            log_yes: log η of the labels that conditions such as ``fork > 0.8`` are about.
        """
        given = np.asarray(target)
        if given.ndim != 2 or given.shape[1] != len(self.classes) or given.dtype != np.bool_:
            raise InputError(f"target: expected bool (n, {len(self.classes)}), got {given.dtype} {given.shape}")
        return trees.holds(self.tree, given, log_yes or {})

    def explain(self, row_probs: Mapping[int, float] | Sequence[float] | NDArray[Any]) -> list[Reason]:
        """Why a row was found: each label that the query names once, whether it is wanted, and its probability.

        A query that counts labels names none by that; those that are more probable than not follow, the most probable first.

        Args:
            row_probs: η of the row, by position.

        >>> Query.parse("fork and not knife", ["fork", "knife"]).explain([0.75, 0.25])
        [Reason(label='fork', wanted=True, probability=0.75), Reason(label='knife', wanted=False, probability=0.25)]
        """
        wishes = trees.wishes(self.tree)
        if any(isinstance(leaf, Count) for leaf in trees.written(self.tree)):
            others = [j for j in range(len(self.classes)) if j not in wishes and row_probs[j] >= 0.5]
            wishes.update(dict.fromkeys(sorted(others, key=lambda j: (-row_probs[j], j))))
        return [Reason(self.classes[j], wanted, float(row_probs[j])) for j, wanted in wishes.items()]

    def canonical(self) -> str:
        """A text that parses back to an equal tree.

        >>> Query.parse("NOT(a  Or 'b c')", ["a", "b c"]).canonical()
        'not (a or "b c")'
        """
        return trees.text_of(self.tree, self.classes)
