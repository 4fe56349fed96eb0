"""From a tree to a plan for probabilities: simplified, then split on shared labels until all parts are independent.

The probability of *and*, *or* and *at least* is simple if no label occurs in two of their parts. If one does, the tree is split
on it (Boole, Laws of Thought, 1854, chapter V; Shannon 1938): it is *a* and the tree with a true, or *not a* and the tree with
a false. Before that, what an *and* makes certain is substituted in its other parts, so that ``a and (a or b)`` is ``a``, and
``a and not a`` is never true. After all splits a tree is constant if and only if no assignment of its labels changes it.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from shortlist.errors import InputError
from shortlist.retrieval.plans import (
    OPPOSITE,
    All,
    Constant,
    If,
    Joint,
    Literal,
    QueryPlan,
    Some,
    Tally,
    everything,
    join,
    order,
    parts_of,
    reversed_bits,
    tally,
)
from shortlist.retrieval.tree import And, Condition, Count, Label, Node, Not, Of, Or

MOST_COUPLED = 12
MOST_WORK = 100_000  # labels visited while splitting: about a second
MOST_COUNTED = 100_000  # labels in all counts of a query that cannot be merged
Range: TypeAlias = tuple[tuple[float, int], tuple[float, int]]


class CoupledError(InputError):
    """The parts of a query share more labels than can be split on.

    Attributes:
        labels: positions of the shared labels.
    """

    def __init__(self, sentence: str, labels: Sequence[int]) -> None:
        super().__init__(f"{sentence}; ask for less at a time")
        self.labels = labels

    @classmethod
    def of_labels(cls, labels: Sequence[int]) -> "CoupledError":
        """The error for a query in which these labels occur repeatedly."""
        limit = f"expected {MOST_COUPLED} at most" if len(labels) > MOST_COUPLED else "they split it into too many cases"
        return cls(
            f"{len(labels)} labels occur in several places of this query, which depend on each other through them: {limit}",
            labels,
        )


def simplified(node: Node, classes: int) -> QueryPlan:
    """Turn a tree into a plan, with certain facts substituted and constants folded; its parts may still share labels.

    >>> simplified(And((Label(0), Or((Label(0), Label(1))))), classes=2)
    Literal(position=0, present=True)
    """
    raw = _positive(node, classes, True)
    _check_counts(raw, classes)
    return _settled(raw, _Facts())


def is_never_true(node: Node, classes: int) -> bool:
    """Whether a tree simplifies to false; counts alone are decided without visiting their labels.

    >>> is_never_true(And((Count(">", 3), Count("<", 2))), classes=10_000)
    True
    """
    raw = _positive(node, classes, True)
    if isinstance(raw, Tally) and raw.parts is _every_label(classes):
        return False  # tally made it constant otherwise
    return _settled(raw, _Facts()) == Constant(False)


def expanded(plan: QueryPlan) -> QueryPlan:
    """Split a simplified plan until its parts are independent everywhere.

    Raises:
        CoupledError: more than ``MOST_COUPLED`` labels would have to be split on.

    >>> either, neither = And((Label(0), Label(1))), And((Not(Label(0)), Label(2)))
    >>> expanded(simplified(Or((either, neither)), classes=3))
    If(position=0, yes=Literal(position=1, present=True), no=Literal(position=2, present=True))
    """
    return _Expansion().expand(plan)


# Negations pushed down to labels ---------------------------------------------------------------------------------------------


def _positive(node: Node, classes: int, wanted: bool) -> QueryPlan:
    """The tree (or its negation, unless ``wanted``) with negations at labels only."""
    match node:
        case Label(position):
            return Literal(position, wanted)
        case Condition(position, sign, threshold):
            return node if wanted else Condition(position, OPPOSITE[sign], threshold)
        case Not(part):
            return _positive(part, classes, not wanted)
        case And(parts) | Or(parts):
            joint = All if isinstance(node, And) == wanted else Some
            return _with_counts_merged(joint, [_positive(part, classes, wanted) for part in parts])
        case Count(sign, number):
            allowed = _counts(sign, number, classes)
            return _count(allowed if wanted else everything(classes) - allowed, _every_label(classes))
        case Of(least, most, parts):
            allowed = sum(1 << s for s in range(len(parts) + 1) if (least <= s <= most) == wanted)
            return Tally(allowed, tuple(_positive(part, classes, True) for part in parts))


@functools.lru_cache(maxsize=4)
def _every_label(classes: int) -> tuple[Literal, ...]:
    """What *count* counts: the same object for every count of a query, which makes merging them cheap."""
    return tuple(Literal(position, True) for position in range(classes))


def _counts(sign: str, number: int, classes: int) -> int:
    """The counts that satisfy a comparison, as bits."""
    number = min(number, classes + 1)
    below, all_counts = everything(number) >> 1, everything(classes)
    equal = (1 << number) & all_counts
    bits = {"<": below, "<=": below | equal, "=": equal, ">=": all_counts & ~below, ">": all_counts & ~(below | equal)}
    return bits[sign] & all_counts


def _count(allowed: int, parts: tuple[QueryPlan, ...]) -> QueryPlan:
    return Constant(allowed != 0) if allowed in (0, everything(len(parts))) else Tally(allowed, parts)


def _with_counts_merged(joint: Joint, parts: Iterable[QueryPlan]) -> QueryPlan:
    """All or some of the parts, with all counts of the same labels as one: ``count >= 1 and count <= 3``.

    This comes before the ends of a count become *some* and *all*, and before anything visits the labels one by one.
    """
    counts: dict[int, Tally] = {}
    others: list[QueryPlan] = []
    for part in parts:
        for piece in part.parts if isinstance(part, joint) else (part,):
            if isinstance(piece, Tally):
                before = counts.get(id(piece.parts), piece).allowed
                counts[id(piece.parts)] = Tally(_both(joint, before, piece.allowed), piece.parts)
            else:
                others.append(piece)
    return join(joint, [*others, *(_count(one.allowed, one.parts) for one in counts.values())])


def _both(joint: Joint, first: int, second: int) -> int:
    return first & second if joint is All else first | second


def _check_counts(raw: QueryPlan, classes: int) -> None:
    """Refuse counts in so many places that visiting their labels would take seconds: they share all labels anyway."""
    places, waiting = 0, [raw]
    while waiting:
        plan = waiting.pop()
        if isinstance(plan, Tally) and plan.parts is _every_label(classes):
            places += 1
        else:
            waiting += parts_of(plan)
    if places > 1 and places * classes > MOST_COUNTED:
        raise CoupledError(f"this query counts all {classes:,} labels in {places} places that cannot be merged", range(classes))


# Certain facts, substituted everywhere ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Facts:
    """Labels that are known to be present or absent, and known ranges of probabilities.

    A range lies between two cuts; the cuts (t, 0) and (t, 1) are just below and just above t, so that ``>= t`` starts at the
    former and ``> t`` at the latter.
    """

    labels: dict[int, bool] = field(default_factory=dict)
    ranges: dict[int, Range] = field(default_factory=dict)

    def value(self, unit: Literal | Condition) -> bool | None:
        """Whether a label or condition is true, if that is known; otherwise None."""
        if isinstance(unit, Literal):
            known = self.labels.get(unit.position)
            return None if known is None else known == unit.present
        (low, high), (least, most) = self.ranges.get(unit.position, ((0.0, 0), (1.0, 1))), _cuts(unit)
        if max(low, least) >= min(high, most):
            return False
        return True if least <= low and high <= most else None

    def assuming(self, unit: Literal | Condition, value: bool) -> "_Facts":
        """These facts, and that a label or condition has this value."""
        if isinstance(unit, Literal):
            return _Facts({**self.labels, unit.position: unit.present == value}, self.ranges)
        if not value:
            unit = Condition(unit.position, OPPOSITE[unit.sign], unit.threshold)
        (low, high), (least, most) = self.ranges.get(unit.position, ((0.0, 0), (1.0, 1))), _cuts(unit)
        return _Facts(self.labels, {**self.ranges, unit.position: (max(low, least), min(high, most))})


def _cuts(condition: Condition) -> Range:
    """The range of probabilities that meet a condition."""
    t = condition.threshold
    below, above = (0.0, 0), (1.0, 1)
    return {">": ((t, 1), above), ">=": ((t, 0), above), "<": (below, (t, 0)), "<=": (below, (t, 1))}[condition.sign]


def _settled(plan: QueryPlan, facts: _Facts) -> QueryPlan:
    """Simplify a plan, given these facts."""
    match plan:
        case Literal() | Condition():
            known = facts.value(plan)
            return plan if known is None else Constant(known)
        case All(parts) | Some(parts):
            return _joined(type(plan), parts, facts)
        case Tally(allowed, parts):
            made = tally(allowed, [_settled(part, facts) for part in parts])
            return _joined(type(made), made.parts, facts) if isinstance(made, All | Some) else made
    return plan


def _joined(joint: Joint, parts: Sequence[QueryPlan], facts: _Facts) -> QueryPlan:
    """All or some of the parts: each single label or condition is a fact for all other parts (for *some*: its negation)."""
    units: dict[QueryPlan, None] = {}
    rest, again = list(parts), True
    while again:
        again, waiting = False, []
        for part in rest:
            part = _settled(part, facts)
            for piece in part.parts if isinstance(part, joint) else (part,):
                if isinstance(piece, Constant):
                    if piece.value == (joint is Some):
                        return piece
                elif isinstance(piece, Literal | Condition):
                    again, units[piece] = True, None
                    facts = facts.assuming(piece, joint is All)
                else:
                    waiting.append(piece)
        rest, simpler = _merged(joint, waiting)
        again = again or simpler
    return join(joint, [*sorted(units, key=order), *rest])


def _merged(joint: Joint, parts: Iterable[QueryPlan]) -> tuple[list[QueryPlan], bool]:
    """Drop repeated parts and merge those that count the same things: ``(a or b) and not (a and b)`` is *exactly 1*.

    Also returns whether a merged part became something simpler than a tally.
    """
    different = list(dict.fromkeys(parts))
    sizes = Counter(len(parts_of(part)) for part in different)
    allowed: dict[tuple[QueryPlan, ...], int] = {}
    members: dict[tuple[QueryPlan, ...], list[QueryPlan]] = {}
    others: list[QueryPlan] = []
    for part in different:
        if sizes[len(parts_of(part))] == 1 or (view := _as_count(part)) is None:
            others.append(part)
        else:
            counted, bits = view
            allowed[counted] = _both(joint, allowed.get(counted, bits), bits)
            members.setdefault(counted, []).append(part)
    alone = [own[0] for own in members.values() if len(own) == 1]
    merged = [tally(allowed[counted], counted) for counted, own in members.items() if len(own) > 1]
    kept = sorted([*others, *alone], key=lambda part: isinstance(part, Tally))
    return [*kept, *merged], not all(isinstance(part, Tally) for part in merged)


def _as_count(plan: QueryPlan) -> tuple[tuple[QueryPlan, ...], int] | None:
    """What a plan counts, and the counts that it allows, as bits; None if it is no count.

    *All* and *some* of literals are counts at the ends of the scale. Literals are sorted by label, and negated together if
    the first one is negative, so that ``a or b`` and ``not a or not b`` count the same.
    """
    if not isinstance(plan, All | Some | Tally):
        return None
    number = len(plan.parts)
    literals = [part for part in plan.parts if isinstance(part, Literal)]
    if len(literals) < number:
        return (plan.parts, plan.allowed) if isinstance(plan, Tally) else None
    ends = {All: 1 << number, Some: everything(number) - 1}
    allowed = plan.allowed if isinstance(plan, Tally) else ends[type(plan)]
    counted = sorted(literals, key=lambda literal: (literal.position, not literal.present))
    if not counted[0].present:
        counted = [Literal(literal.position, not literal.present) for literal in counted]
        allowed = reversed_bits(allowed, number)
    return tuple(counted), allowed


# Splitting on shared labels --------------------------------------------------------------------------------------------------


class _Expansion:
    """Expands plans; equal plans are expanded once."""

    def __init__(self) -> None:
        self.known: dict[QueryPlan, QueryPlan] = {}
        self.work = 0
        self.coupled: list[int] = []  # the shared labels of the outermost plan that is being split

    def expand(self, plan: QueryPlan) -> QueryPlan:
        if not isinstance(plan, All | Some | Tally):
            return plan
        if plan not in self.known:
            self.known[plan] = self._expanded(plan)
        return self.known[plan]

    def _expanded(self, plan: All | Some | Tally) -> QueryPlan:
        groups = _coupled_groups(plan.parts)
        if len(groups) == len(plan.parts):
            made = [self.expand(part) for part in plan.parts]
            return tally(plan.allowed, made) if isinstance(plan, Tally) else join(type(plan), made)
        if len(groups) == 1 or isinstance(plan, Tally):
            return self._split(plan)
        joint = type(plan)
        return join(joint, [self.expand(joint(group) if len(group) > 1 else group[0]) for group in groups])

    def _split(self, plan: All | Some | Tally) -> QueryPlan:
        """Split a plan on its most shared label."""
        occurrences = _occurrences(plan)
        repeated = sorted(position for position, times in occurrences.items() if times > 1)
        self.coupled = self.coupled or repeated
        self.work += occurrences.total()
        if len(repeated) > MOST_COUPLED or self.work > MOST_WORK:
            raise CoupledError.of_labels(self.coupled)
        shared = Counter(position for part in plan.parts for position in _occurrences(part))
        position = min(shared, key=lambda position: (-shared[position], position))
        outermost = self.coupled is repeated
        yes, no = (self.expand(_settled(plan, _Facts({position: present}))) for present in (True, False))
        if outermost:
            self.coupled = []
        return _choice(position, yes, no)


def _choice(position: int, yes: QueryPlan, no: QueryPlan) -> QueryPlan:
    if yes == no:
        return yes
    for plan, other, present in ((yes, no, True), (no, yes, False)):
        if isinstance(other, Constant):
            literal = Literal(position, present != other.value)
            return join(Some if other.value else All, [literal, plan])
    return If(position, yes, no)


def _occurrences(plan: QueryPlan) -> Counter[int]:
    """How often each label occurs in a plan; conditions are constants for a row and do not couple parts."""
    if isinstance(plan, Literal):
        return Counter((plan.position,))
    found: Counter[int] = Counter()
    for part in parts_of(plan):
        if isinstance(part, Literal):
            found[part.position] += 1
        else:
            found.update(_occurrences(part))
    return found


def _coupled_groups(parts: Sequence[QueryPlan]) -> list[tuple[QueryPlan, ...]]:
    """Group the parts such that no label occurs in two groups, in the order of their first parts."""
    group_of: dict[int, int] = {}
    groups: dict[int, list[int]] = {}
    for index, part in enumerate(parts):
        labels = set(_occurrences(part))
        touched = sorted({group_of[label] for label in labels if label in group_of})
        own = touched[0] if touched else index
        members = groups.setdefault(own, [])
        for other in touched[1:]:
            members += groups.pop(other)
        members.append(index)
        for label, group in group_of.items() if len(touched) > 1 else ():
            if group in touched:
                group_of[label] = own
        group_of.update(dict.fromkeys(labels, own))
    return [tuple(parts[index] for index in sorted(members)) for members in groups.values()]
