"""What a query is evaluated by: plans without *not*, *count* or constants inside, and how such are put together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shortlist.retrieval.tree import Condition

OPPOSITE = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}


@dataclass(frozen=True, slots=True)
class Constant:
    """True of every row, or of none."""

    value: bool


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of true parts is one of those allowed: bit s of ``allowed`` says whether s is."""

    allowed: int
    parts: tuple["Plan", ...]


@dataclass(frozen=True, slots=True)
class If:
    """One plan where a label is present, another where it is absent."""

    position: int
    yes: "Plan"
    no: "Plan"


@dataclass(frozen=True, slots=True)
class All:
    """All parts are true."""

    parts: tuple["Plan", ...]


@dataclass(frozen=True, slots=True)
class Some:
    """One part at least is true."""

    parts: tuple["Plan", ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A label is present, or absent."""

    position: int
    present: bool


Plan: TypeAlias = Constant | Literal | Condition | All | Some | Tally | If
Joint: TypeAlias = type[All] | type[Some]


def parts_of(plan: Plan) -> tuple[Plan, ...]:
    """The plans directly below."""
    if isinstance(plan, If):
        return (plan.yes, plan.no)
    return plan.parts if isinstance(plan, All | Some | Tally) else ()


def join(joint: Joint, parts: Iterable[Plan]) -> Plan:
    """All or any of parts, constants folded and nested ones of the same kind opened.

    >>> join(All, [Literal(0, True), Constant(True)])
    Literal(position=0, present=True)
    """
    made: list[Plan] = []
    for part in parts:
        if isinstance(part, Constant):
            if part.value == (joint is Some):
                return part
        else:
            made += part.parts if isinstance(part, joint) else [part]
    if not made:
        return Constant(joint is All)
    return made[0] if len(made) == 1 else joint(tuple(made))


def tally(allowed: int, parts: Sequence[Plan]) -> Plan:
    """A tally with its constants counted off, or what is simpler: all, any, none.

    >>> tally(0b110, [Literal(0, True), Literal(1, True)])  # one or two of two
    Some(parts=(Literal(position=0, present=True), Literal(position=1, present=True)))
    """
    true = sum(isinstance(part, Constant) and part.value for part in parts)
    parts = tuple(part for part in parts if not isinstance(part, Constant))
    everything = (2 << len(parts)) - 1
    allowed = (allowed >> true) & everything
    if allowed in (0, everything):
        return Constant(allowed != 0)
    if allowed == 1 << len(parts):
        return join(All, parts)
    if allowed == everything - 1:
        return join(Some, parts)
    if allowed == 1:
        return join(All, map(negated, parts))
    if allowed == everything >> 1:
        return join(Some, map(negated, parts))
    return Tally(allowed, tuple(sorted(parts, key=order)) if all(isinstance(part, Literal) for part in parts) else parts)


def negated(plan: Plan) -> Plan:
    """What is true where a plan is false.

    >>> negated(All((Literal(0, True), Literal(1, False))))
    Some(parts=(Literal(position=0, present=False), Literal(position=1, present=True)))
    """
    match plan:
        case Constant(value):
            return Constant(not value)
        case Literal(position, present):
            return Literal(position, not present)
        case Condition(position, sign, threshold):
            return Condition(position, OPPOSITE[sign], threshold)
        case All(parts) | Some(parts):
            return join(Some if isinstance(plan, All) else All, map(negated, parts))
        case Tally(allowed, parts):
            return tally((2 << len(parts)) - 1 - allowed, parts)
        case If(position, yes, no):
            return If(position, negated(yes), negated(no))


def order(unit: Plan) -> tuple[int, int, int]:
    """Labels before conditions, labels present before those absent, and ascending: the order in which logarithms are added."""
    assert isinstance(unit, Literal | Condition)
    return (isinstance(unit, Condition), isinstance(unit, Literal) and not unit.present, unit.position)
