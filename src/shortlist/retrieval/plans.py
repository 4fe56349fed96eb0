"""Query plans: what probabilities are computed from. A plan has no *not* and no *count*, and no constants inside."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shortlist.retrieval.tree import Condition

OPPOSITE = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}


@dataclass(frozen=True, slots=True)
class Constant:
    """True of every row, or of no row."""

    value: bool


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of true parts is allowed: bit s of ``allowed`` is set if s true parts are."""

    allowed: int
    parts: tuple["QueryPlan", ...]


@dataclass(frozen=True, slots=True)
class If:
    """One plan if a label is present, another if it is absent."""

    position: int
    yes: "QueryPlan"
    no: "QueryPlan"


@dataclass(frozen=True, slots=True)
class All:
    """All parts are true."""

    parts: tuple["QueryPlan", ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one part is true."""

    parts: tuple["QueryPlan", ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A label is present, or absent."""

    position: int
    present: bool


QueryPlan: TypeAlias = Constant | Literal | Condition | All | Some | Tally | If
Joint: TypeAlias = type[All] | type[Some]


def parts_of(plan: QueryPlan) -> tuple[QueryPlan, ...]:
    """The plans directly below."""
    if isinstance(plan, If):
        return (plan.yes, plan.no)
    return plan.parts if isinstance(plan, All | Some | Tally) else ()


def join(joint: Joint, parts: Iterable[QueryPlan]) -> QueryPlan:
    """All or some of the parts, with constants folded and nested joints of the same kind flattened.

    >>> join(All, [Literal(0, True), Constant(True)])
    Literal(position=0, present=True)
    """
    made: list[QueryPlan] = []
    for part in parts:
        if isinstance(part, Constant):
            if part.value == (joint is Some):
                return part
        else:
            made += part.parts if isinstance(part, joint) else [part]
    if not made:
        return Constant(joint is All)
    return made[0] if len(made) == 1 else joint(tuple(made))


def tally(allowed: int, parts: Sequence[QueryPlan]) -> QueryPlan:
    """A tally with constants folded, or the equivalent *all* or *some* at the ends of the scale.

    >>> tally(0b110, [Literal(0, True), Literal(1, True)])  # one or two of two
    Some(parts=(Literal(position=0, present=True), Literal(position=1, present=True)))
    """
    true = sum(isinstance(part, Constant) and part.value for part in parts)
    parts = tuple(part for part in parts if not isinstance(part, Constant))
    most = everything(len(parts))
    allowed = (allowed >> true) & most
    if allowed in (0, most):
        return Constant(allowed != 0)
    if allowed == 1 << len(parts):
        return join(All, parts)
    if allowed == most - 1:
        return join(Some, parts)
    if allowed == 1:
        return join(All, map(negated, parts))
    if allowed == most >> 1:
        return join(Some, map(negated, parts))
    return Tally(allowed, tuple(sorted(parts, key=order)) if all(isinstance(part, Literal) for part in parts) else parts)


def everything(parts: int) -> int:
    """All counts from 0 to ``parts``, as bits.

    >>> bin(everything(2))
    '0b111'
    """
    return (2 << parts) - 1


def reversed_bits(allowed: int, parts: int) -> int:
    """The same set, counted in false parts instead of true ones.

    >>> bin(reversed_bits(0b011, 2))
    '0b110'
    """
    return int(f"{allowed:0{parts + 1}b}"[::-1], 2)


def max_state(tally: Tally) -> tuple[int, bool]:
    """The number of true parts from which on a tally no longer changes, or of false parts if that is smaller.

    Returns:
        The number, and whether it counts true parts.

    >>> parts = tuple(Literal(position, True) for position in range(5))
    >>> max_state(Tally(0b111100, parts)), max_state(Tally(0b110000, parts))  # 2 or more; 4 or more, so 2 false ones decide
    ((2, True), (2, False))
    """
    upward = last_change(tally.allowed, len(tally.parts))
    downward = last_change(reversed_bits(tally.allowed, len(tally.parts)), len(tally.parts))
    return (upward, True) if upward <= downward else (downward, False)


def last_change(allowed: int, parts: int) -> int:
    """The smallest s such that the counts from s on are all allowed, or all not allowed."""
    return (everything(parts) ^ allowed if allowed >> parts & 1 else allowed).bit_length()


def negated(plan: QueryPlan) -> QueryPlan:
    """The negation of a plan.

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
            return tally(everything(len(parts)) - allowed, parts)
        case If(position, yes, no):
            return If(position, negated(yes), negated(no))


def order(unit: QueryPlan) -> tuple[int, int, int]:
    """Sort key: labels before conditions, present before absent, then by position. Logarithms are added in this order."""
    assert isinstance(unit, Literal | Condition)
    return (isinstance(unit, Condition), isinstance(unit, Literal) and not unit.present, unit.position)
