"""The probability that a query is true of a row, with labels independent given the row: exact, and without cancellation.

For independent parts with probabilities p and q = 1 - p,

    P(all)  = p₁ p₂ … pₘ                      P(not all) = q₁ + p₁ (q₂ + p₂ (q₃ + …))
    P(some) = p₁ + q₁ (p₂ + q₂ (p₃ + …))      P(none)    = q₁ q₂ … qₘ
    P(s of the first i) = P(s of the first i - 1) qᵢ + P(s - 1 of the first i - 1) pᵢ

where the last is the Poisson-binomial distribution (Hong 2013, Computational Statistics & Data Analysis 59, section 2). Nothing
is subtracted: p and q are both computed, and the smaller of η and 1 - η is taken from its own logarithm. Both ends of the scale
therefore keep all digits, and rows for which a query is nearly certain are still ranked. A conjunction is the plain sum Σ log η
+ Σ log(1 - η). Rows so improbable that a product might underflow are computed again with sums of logarithms.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import InputError
from shortlist.retrieval.plans import All, Constant, If, Literal, QueryPlan, Some, Tally, max_state, parts_of, reversed_bits
from shortlist.retrieval.tree import Condition, Sides, meets

Floats: TypeAlias = NDArray[np.float64]
Columns: TypeAlias = Mapping[int, NDArray[Any]]

MOST_ROWS, LEAST_ROWS, MOST_VALUES = 8_192, 256, 2**21  # of a block: it stays in cache, and below 16 MB
VANISHING = 1e-200  # below which products might underflow


def log_probability(plan: QueryPlan, log_yes: Columns, log_no: Columns, sides: Sides | None = None) -> Floats:
    """Natural logarithm of the probability that a plan is true of each row, float64 (n,).

    Args:
        plan: with independent parts, from :func:`shortlist.retrieval.expansion.expanded`.
        log_yes: log η of each label that the plan needs, by position, float32 or float64 (n,); -inf is allowed.
        log_no: log(1 - η), likewise.
        sides: of the thresholds of conditions, int8 (n,), if more is known of them than log η.

    >>> either = Some((Literal(0, True), Literal(1, True)))
    >>> probs = np.array([0.5, 0.9])
    >>> np.exp(log_probability(either, {0: np.log(probs), 1: np.log(probs)}, {0: np.log(1 - probs), 1: np.log(1 - probs)}))
    array([0.75, 0.99])
    """
    sizes = {column.shape for columns in (log_yes, log_no) for column in columns.values()}
    if len(sizes) != 1 or len(next(iter(sizes))) != 1:
        raise InputError(f"log_yes, log_no: expected columns of one length, got the shapes {sorted(sizes)}")
    rows = next(iter(sizes))[0]
    used = _labels(plan)
    missing = sorted(position for position in used if position not in log_yes or position not in log_no)
    if missing:
        raise InputError(f"log_yes, log_no: expected the columns of labels {sorted(used)}, got none of {missing}")
    answer = np.empty(rows)
    step = _rows_at_once(plan)
    with np.errstate(divide="ignore", under="ignore"):  # log 0 = -inf is intended
        for start in range(0, rows, step):
            here = slice(start, start + step)
            yes, no = ({j: columns[j][here] for j in used} for columns in (log_yes, log_no))
            block = _Block(yes, no, len(answer[here]), sides=_of_rows(sides, here))
            answer[here] = block.log(plan)
    return answer


def rough_chances(plan: QueryPlan, log_yes: Columns, log_no: Columns, rows: int, side: bool) -> NDArray[np.float32]:
    """Probability that a plan is true of each row, or that it is false, in float32 (n,).

    Beside that of the logarithms, the relative error is a few units in the last place for each label and operation, as long as
    the probability is above 1e-37.

    Args:
        plan: as for :func:`log_probability`.
        log_yes: log η of the labels of the plan, by position, float32 (n,); of them only those that are needed are looked up.
        log_no: log(1 - η), likewise.
        rows: their number, n.
        side: whether the probability is that of being true.
    """
    answer = np.empty(rows, np.float32)
    step = 2 * _rows_at_once(plan)  # of half the bytes
    with np.errstate(under="ignore", over="ignore"):
        for start in range(0, rows, step):
            here = slice(start, start + step)
            block = _Block(Rows(log_yes, here), Rows(log_no, here), len(answer[here]), ROUGH)
            answer[here] = block.chance(plan, side)
    return answer


def _of_rows(sides: Sides | None, rows: "slice | NDArray[np.int64]") -> Sides | None:
    return None if sides is None else {key: column[rows] for key, column in sides.items()}


@dataclass(frozen=True)
class Rows(Mapping[int, NDArray[Any]]):
    """Some rows of columns, which are looked up when they are needed."""

    columns: Columns
    rows: slice | NDArray[np.int64]

    def __getitem__(self, position: int) -> NDArray[Any]:
        return self.columns[position][self.rows]

    def __iter__(self) -> Iterator[int]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def _rows_at_once(plan: QueryPlan) -> int:
    return min(MOST_ROWS, max(LEAST_ROWS, MOST_VALUES // max(1, _size(plan))))


def _nodes(plan: QueryPlan) -> dict[int, QueryPlan]:
    """Every node of a plan once; nodes may be shared."""
    found: dict[int, QueryPlan] = {}
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if id(node) not in found:
            found[id(node)] = node
            waiting += parts_of(node)
    return found


def _labels(plan: QueryPlan) -> set[int]:
    return {node.position for node in _nodes(plan).values() if isinstance(node, Literal | Condition | If)}


def _size(plan: QueryPlan) -> int:
    """Number of values that may be kept for each row."""
    return sum(2 + (max_state(node)[0] if isinstance(node, Tally) else 0) for node in _nodes(plan).values())


@dataclass(frozen=True)
class _Numbers:
    """Arithmetic on probabilities or on their logarithms: products, sums, one and zero."""

    times: np.ufunc
    plus: np.ufunc
    one: float
    zero: float
    kind: type[np.floating[Any]] = np.float64


PLAIN = _Numbers(np.multiply, np.add, 1.0, 0.0)
LOGARITHMS = _Numbers(np.add, np.logaddexp, 0.0, -np.inf)
ROUGH = _Numbers(np.multiply, np.add, 1.0, 0.0, np.float32)


@dataclass
class _Block:
    """A block of rows, and the values computed for it so far."""

    log_yes: Columns
    log_no: Columns
    rows: int
    numbers: _Numbers = PLAIN
    sides: Sides | None = None
    known: dict[tuple[int, bool], Floats] = field(default_factory=dict)

    def log(self, plan: QueryPlan) -> Floats:
        """log P(true)."""
        match plan:
            case Literal(position, present):
                return (self.log_yes if present else self.log_no)[position].astype(np.float64)
            case Constant() | Condition():
                return np.log(self.chance(plan, True))
            case All(parts):
                answer = self.log(parts[0])
                for part in parts[1:]:
                    answer += self.log(part)
                return answer
        return self._log(plan)

    def _log(self, plan: QueryPlan) -> Floats:
        yes = self.chance(plan, True)
        answer = np.log(yes)
        likely = yes > 0.5
        if likely.any():
            answer[likely] = np.log1p(-self.chance(plan, False)[likely])
        lost = np.flatnonzero(yes < VANISHING)
        if len(lost):
            yes_there, no_there = ({j: column[lost] for j, column in part.items()} for part in (self.log_yes, self.log_no))
            block = _Block(yes_there, no_there, len(lost), LOGARITHMS, _of_rows(self.sides, lost))
            answer[lost] = block.chance(plan, True)
        return answer

    def chance(self, plan: QueryPlan, side: bool) -> Floats:
        """P(plan is true), or P(plan is false), in the arithmetic of this block."""
        key = (id(plan), side)
        if key not in self.known:
            self.known[key] = self._chance(plan, side)
        return self.known[key]

    def _chance(self, plan: QueryPlan, side: bool) -> Floats:
        times, plus, one, zero = self.numbers.times, self.numbers.plus, self.numbers.one, self.numbers.zero
        match plan:
            case Constant(value):
                return np.full(self.rows, one if value == side else zero, self.numbers.kind)
            case Condition(position):
                return np.where(meets(plan, self.log_yes[position], self.sides) == side, one, zero).astype(self.numbers.kind)
            case Literal(position, present):
                return self._label(position, present == side)
            case If(position, yes, no):
                answer: Floats = plus(
                    times(self._label(position, True), self.chance(yes, side)),
                    times(self._label(position, False), self.chance(no, side)),
                )
                return answer
            case Tally():
                return self._tally(plan, side)
            case All(parts) | Some(parts):
                return self._every(parts, side) if isinstance(plan, All) == side else self._one(parts, side)

    def _label(self, position: int, present: bool) -> Floats:
        """η or 1 - η: the smaller from its own logarithm, the larger as 1 minus the smaller; roughly, each from its own."""
        key = (~position, present)  # ids are not negative
        if key not in self.known and self.numbers is ROUGH:
            self.known[key] = np.exp((self.log_yes if present else self.log_no)[position])
        if key not in self.known:
            yes, no = (columns[position].astype(np.float64) for columns in (self.log_yes, self.log_no))
            small = np.exp(np.minimum(yes, no))
            rarer = yes < no
            if self.numbers is PLAIN:
                pair = np.where(rarer, small, 1 - small), np.where(rarer, 1 - small, small)
            else:
                pair = np.where(rarer, yes, np.log1p(-small)), np.where(rarer, np.log1p(-small), no)
            self.known[~position, True], self.known[~position, False] = pair
        return self.known[key]

    def _every(self, parts: tuple[QueryPlan, ...], side: bool) -> Floats:
        """P(all parts are on this side)."""
        if self.numbers is ROUGH and all(isinstance(part, Literal) for part in parts):
            return np.exp(self._added_logs(parts, side))
        answer = self.chance(parts[0], side)
        for part in parts[1:]:
            answer = self.numbers.times(answer, self.chance(part, side))
        return answer

    def _added_logs(self, parts: tuple[QueryPlan, ...], side: bool) -> Floats:
        """log P(all of these labels are on this side)."""
        columns = [(self.log_yes if part.present == side else self.log_no)[part.position] for part in parts]  # type: ignore[union-attr]
        return functools.reduce(np.add, columns)

    def _one(self, parts: tuple[QueryPlan, ...], side: bool) -> Floats:
        """P(at least one part is on this side), from the last part to the first."""
        answer = self.chance(parts[-1], side)
        for part in reversed(parts[:-1]):
            others = self.numbers.times(self.chance(part, not side), answer)
            answer = self.numbers.plus(self.chance(part, side), others)
        return answer

    def _tally(self, tally: Tally, side: bool) -> Floats:
        """P(the number of true parts is allowed), or that it is not; both are stored."""
        last, upward = max_state(tally)
        allowed = tally.allowed if upward else reversed_bits(tally.allowed, len(tally.parts))
        state = np.full(
            (last + 1, self.rows), self.numbers.zero, self.numbers.kind
        )  # row s: P(s so far); the last row: P(that many or more)
        state[0] = self.numbers.one
        for index, part in enumerate(tally.parts):
            reach = min(index + 1, last)
            more = self.numbers.times(state[:reach], self.chance(part, upward))
            self.numbers.times(state[:reach], self.chance(part, not upward), out=state[:reach])
            self.numbers.plus(state[1 : reach + 1], more, out=state[1 : reach + 1])
        for which in (True, False):
            chosen = [s for s in range(last + 1) if (allowed >> s & 1) == which]
            # One after the other: numpy adds up a single row in another order than several.
            start = np.full(self.rows, self.numbers.zero, self.numbers.kind)
            self.known[id(tally), which] = functools.reduce(self.numbers.plus, state[chosen], start)
        return self.known[id(tally), side]
