"""A tree made ready for probabilities: simplified, then split on shared labels until all parts are independent.

The probability of *and*, *or* and *at least* is simple where no label occurs in two of their parts. Where one does, the tree is
split on it (Boole, Laws of Thought, 1854, chapter V; Shannon 1938): it is *a* and the tree where a is true, or *not a* and the
tree where a is false. What is certain inside an *and* is put into its other parts first, so ``a and (a or b)`` is ``a``, and
``a and not a`` is never true. After all splits a tree is constant if and only if no assignment of its labels changes it.
"""

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
    Plan,
    Some,
    Tally,
    join,
    order,
    parts_of,
    tally,
)
from shortlist.retrieval.tree import SIGNS, And, Condition, Count, Label, Node, Not, Of, Or

MOST_COUPLED = 12
MOST_WORK = 100_000  # labels looked at while splitting: about a second
Range: TypeAlias = tuple[tuple[float, int], tuple[float, int]]


class CoupledError(InputError):
    """More labels occur in several places than can be split on; ``labels`` are their positions."""

    def __init__(self, labels: Sequence[int]) -> None:
        limit = f"expected {MOST_COUPLED} at most" if len(labels) > MOST_COUPLED else "they split it into too many cases"
        super().__init__(
            f"{len(labels)} labels occur in several places of this query, which depend on each other through them: {limit}; "
            "ask for less at a time"
        )
        self.labels = labels


def simplified(node: Node, classes: int) -> Plan:
    """The tree with what is certain put in everywhere, and constants gone; its parts may still share labels.

    >>> simplified(And((Label(0), Or((Label(0), Label(1))))), classes=2)
    Literal(position=0, present=True)
    """
    return _settled(_positive(node, classes, True), _Facts())


def expanded(node: Node, classes: int) -> Plan:
    """The tree as a plan whose parts are everywhere independent.

    Raises:
        CoupledError: more than ``MOST_COUPLED`` labels would have to be split on.

    >>> either, neither = And((Label(0), Label(1))), And((Not(Label(0)), Label(2)))
    >>> expanded(Or((either, neither)), classes=3)
    If(position=0, yes=Literal(position=1, present=True), no=Literal(position=2, present=True))
    """
    return _Expansion().expand(simplified(node, classes))


# A tree without "not" but at labels ------------------------------------------------------------------------------------------


def _positive(node: Node, classes: int, wanted: bool) -> Plan:
    """The tree, or what it is not, with negations at labels only."""
    match node:
        case Label(position):
            return Literal(position, wanted)
        case Condition(position, sign, threshold):
            return node if wanted else Condition(position, OPPOSITE[sign], threshold)
        case Not(part):
            return _positive(part, classes, not wanted)
        case And(parts) | Or(parts):
            joint = All if isinstance(node, And) == wanted else Some
            return joint(tuple(_positive(part, classes, wanted) for part in parts))
        case Count(sign, number):
            allowed = sum(1 << s for s in range(classes + 1) if SIGNS[sign](s, number) == wanted)
            return Tally(allowed, tuple(Literal(position, True) for position in range(classes)))
        case Of(least, most, parts):
            allowed = sum(1 << s for s in range(len(parts) + 1) if (least <= s <= most) == wanted)
            return Tally(allowed, tuple(_positive(part, classes, True) for part in parts))


# What is certain, put in everywhere ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Facts:
    """Labels that are known to be present or absent, and between which cuts probabilities are known to lie.

    The cuts (t, 0) and (t, 1) lie just below and just above t, so that ``>= t`` starts at the one and ``> t`` at the other.
    """

    labels: dict[int, bool] = field(default_factory=dict)
    ranges: dict[int, Range] = field(default_factory=dict)

    def value(self, unit: Literal | Condition) -> bool | None:
        """Whether it is true, if that is known."""
        if isinstance(unit, Literal):
            known = self.labels.get(unit.position)
            return None if known is None else known == unit.present
        (low, high), (least, most) = self.ranges.get(unit.position, ((0.0, 0), (1.0, 1))), _cuts(unit)
        if max(low, least) >= min(high, most):
            return False
        return True if least <= low and high <= most else None

    def assuming(self, unit: Literal | Condition, value: bool) -> "_Facts":
        """These facts, and that a label or condition is true, or false."""
        if isinstance(unit, Literal):
            return _Facts({**self.labels, unit.position: unit.present == value}, self.ranges)
        if not value:
            unit = Condition(unit.position, OPPOSITE[unit.sign], unit.threshold)
        (low, high), (least, most) = self.ranges.get(unit.position, ((0.0, 0), (1.0, 1))), _cuts(unit)
        return _Facts(self.labels, {**self.ranges, unit.position: (max(low, least), min(high, most))})


def _cuts(condition: Condition) -> Range:
    """The probabilities that meet a condition."""
    t = condition.threshold
    below, above = (0.0, 0), (1.0, 1)
    return {">": ((t, 1), above), ">=": ((t, 0), above), "<": (below, (t, 0)), "<=": (below, (t, 1))}[condition.sign]


def _settled(plan: Plan, facts: _Facts) -> Plan:
    """A plan under these facts."""
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


def _joined(joint: Joint, parts: Sequence[Plan], facts: _Facts) -> Plan:
    """All or any of the parts: each single label or condition is certain (or certainly not) for all the others."""
    units: dict[Plan, None] = {}
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


def _merged(joint: Joint, parts: Iterable[Plan]) -> tuple[list[Plan], bool]:
    """Equal parts once, and how many of the same things are true said once (``count >= 3 and count < 6``).

    Also whether a tally became something simpler by that.
    """
    allowed: dict[tuple[Plan, ...], int] = {}
    others: dict[Plan, None] = {}
    for part in parts:
        if isinstance(part, Tally):
            before = allowed.get(part.parts, part.allowed)
            allowed[part.parts] = before & part.allowed if joint is All else before | part.allowed
        else:
            others[part] = None
    tallies = [tally(bits, counted) for counted, bits in allowed.items()]
    return [*others, *tallies], not all(isinstance(tally, Tally) for tally in tallies)


# Splitting on shared labels --------------------------------------------------------------------------------------------------


class _Expansion:
    """Plans that were met before are expanded once."""

    def __init__(self) -> None:
        self.known: dict[Plan, Plan] = {}
        self.work = 0
        self.coupled: list[int] = []  # the labels of the outermost plan that is being split

    def expand(self, plan: Plan) -> Plan:
        if not isinstance(plan, All | Some | Tally):
            return plan
        if plan not in self.known:
            self.known[plan] = self._expanded(plan)
        return self.known[plan]

    def _expanded(self, plan: All | Some | Tally) -> Plan:
        groups = _coupled_groups(plan.parts)
        if len(groups) == len(plan.parts):
            made = [self.expand(part) for part in plan.parts]
            return tally(plan.allowed, made) if isinstance(plan, Tally) else join(type(plan), made)
        if len(groups) == 1 or isinstance(plan, Tally):
            return self._split(plan)
        joint = type(plan)
        return join(joint, [self.expand(joint(group) if len(group) > 1 else group[0]) for group in groups])

    def _split(self, plan: All | Some | Tally) -> Plan:
        """The plan with its most shared label present, and with it absent."""
        occurrences = _occurrences(plan)
        repeated = sorted(position for position, times in occurrences.items() if times > 1)
        self.coupled = self.coupled or repeated
        self.work += occurrences.total()
        if len(repeated) > MOST_COUPLED or self.work > MOST_WORK:
            raise CoupledError(self.coupled)
        shared = Counter(position for part in plan.parts for position in _occurrences(part))
        position = min(shared, key=lambda position: (-shared[position], position))
        outermost = self.coupled is repeated
        yes, no = (self.expand(_settled(plan, _Facts({position: present}))) for present in (True, False))
        if outermost:
            self.coupled = []
        return _choice(position, yes, no)


def _choice(position: int, yes: Plan, no: Plan) -> Plan:
    if yes == no:
        return yes
    for plan, other, present in ((yes, no, True), (no, yes, False)):
        if isinstance(other, Constant):
            literal = Literal(position, present != other.value)
            return join(Some if other.value else All, [literal, plan])
    return If(position, yes, no)


def _occurrences(plan: Plan) -> Counter[int]:
    """How often each label stands in a plan; conditions are true or false for a row and couple nothing."""
    if isinstance(plan, Literal):
        return Counter((plan.position,))
    found: Counter[int] = Counter()
    for part in parts_of(plan):
        if isinstance(part, Literal):
            found[part.position] += 1
        else:
            found.update(_occurrences(part))
    return found


def _coupled_groups(parts: Sequence[Plan]) -> list[tuple[Plan, ...]]:
    """The parts in groups such that no label occurs in two of them, in the order of their first parts."""
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
