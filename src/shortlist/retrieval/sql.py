"""Queries as standard SQL over the columns of an index, for a database that reads the same files.

Labels appear in the SQL only as numbers in column names. Every step is a common table expression that adds columns to the
previous one: p and q of each label, then p and q of each part, by the sums of products of
:mod:`shortlist.retrieval.probability`. Counts are computed by halves, so that the number of steps is logarithmic in the number
of parts. Only ``CAST``, ``CASE``, ``EXP``, ``LN`` and arithmetic are used. The scores agree with
:meth:`shortlist.retrieval.query.Query.log_probability` to about ten digits, except that products below 1e-308 are 0 here: rows
whose *or*, *at least* or *count* is less probable than that are left out. Tested on DuckDB.
"""

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from shortlist.errors import InputError
from shortlist.retrieval.plans import All, Constant, If, Literal, QueryPlan, Some, Tally, max_state, reversed_bits
from shortlist.retrieval.query import Query, check_n
from shortlist.retrieval.tree import Condition, log_threshold

if TYPE_CHECKING:
    from shortlist.retrieval.index import Index

FAN = 8  # parts of an "and" or "or" in one expression
MOST_MENTIONS = 50_000  # references to columns in the expressions that count
T = TypeVar("T")
Value: TypeAlias = tuple[str, int]  # a column or a number, and the step after which it is available
HEAD = """-- score: natural logarithm of the probability of the whole query, labels taken as independent given the row.
-- yes_J and no_J: log η and log(1 - η) of label J in float32, so that close rows may change places.
-- Tested on DuckDB. For other engines, replace read_parquet(...) by a table over the same files.
"""


def to_sql(query: Query, n: int, source: str) -> str:
    """Write a query for the n most probable rows as a SQL statement.

    The result has the columns ``row``, ``id`` and ``score``, the natural logarithm of the probability. It has the rows with a
    probability above 0, the most probable first; ties are broken by lower ``row``.

    Args:
        query: the query.
        n: maximum number of rows.
        source: a table expression with the columns ``row``, ``id``, ``yes_0`` (log η of the label at position 0) and ``no_0``
            (log(1 - η)), and so on for each label of the query.

    >>> print(to_sql(Query.parse("fork and not knife", ["fork", "knife"]), 20, "scores"))
    WITH step_0 AS (
      SELECT
        "row",
        "id",
        CAST(yes_0 AS DOUBLE PRECISION) AS yes_0,
        CAST(no_1 AS DOUBLE PRECISION) AS no_1
      FROM scores
    ),
    scored AS (
      SELECT
        "row",
        "id",
        yes_0 + no_1 AS score
      FROM step_0
    )
    SELECT "row", "id", score
    FROM scored
    WHERE score > -1E300
    ORDER BY score DESC, "row"
    LIMIT 20
    """
    check_n(n)
    if query.exclusive:
        raise InputError("query: SQL is written for independent labels, and with this link each row has exactly one: use arrow")
    return _Statement(query.plan).text(n, source)


def parquet_source(paths: Sequence[str | os.PathLike[str]]) -> str:
    """Parquet files as a table expression of DuckDB, for :func:`to_sql`.

    >>> print(parquet_source(["scores/a.parquet", "scores/b's.parquet"]))
    read_parquet(['scores/a.parquet', 'scores/b''s.parquet'])
    """
    if not paths:
        raise InputError("paths: expected at least one file, got none")
    exact = (re.sub(r"[*?\[]", r"[\g<0>]", os.fspath(path)) for path in paths)  # a name must not act as a pattern
    return f"read_parquet([{', '.join(map(sql_string, exact))}])"


def sql_string(text: str) -> str:
    """A text as a SQL string literal, with its quotes doubled.

    >>> print(sql_string("it's"))
    'it''s'
    """
    if "\0" in text:
        raise InputError(f"text: expected no null characters, got {text!r}")
    return "'" + text.replace("'", "''") + "'"


def explained_sql(index: "Index", query: str | Query, n: int) -> str:
    """Write a query as SQL over the files of an index, with comments; deleted rows are excluded in it.

    Args:
        index: the index whose files it reads.
        query: the query.
        n: maximum number of rows.
    """
    asked = query if isinstance(query, Query) else Query.parse(query, index.classes, exclusive=index.exclusive)
    if asked.contradiction is not None:
        return "-- no row can satisfy the query\n"  # without the query's text: labels never become part of the SQL
    snapshot = index.snapshot
    source = parquet_source([segment.paths[0] for segment in snapshot.segments])
    if len(snapshot.deleted):
        deleted = parquet_source([index.path / str(snapshot.manifest.deleted)])
        source = f"(SELECT * FROM {source} WHERE row NOT IN (SELECT row FROM {deleted})) AS kept"
    return HEAD + to_sql(asked, n, source) + ";\n"


class _Statement:
    """The columns of each step, and the column of each value."""

    def __init__(self, plan: QueryPlan) -> None:
        self.plan = plan
        self.logs: dict[str, None] = {}  # the columns that are read
        self.steps: list[dict[str, str]] = []
        self.known: dict[tuple[int, bool], Value] = {}
        self.mentions = 0

    def text(self, n: int, source: str) -> str:
        parts = self.plan.parts if isinstance(self.plan, All) else (self.plan,)
        wanted = [part for part in parts if isinstance(part, Condition)]
        where = [f"{self._log(part.position, True)} {part.sign} {_limit(part)}" for part in wanted]
        scores = [self._score(part) for part in parts if not isinstance(part, Condition)]
        if self.plan == Constant(False):
            where = ["1 = 0"]
        columns = [
            '"row"',
            '"id"',
            *(f"CAST({name} AS DOUBLE PRECISION) AS {name}" for name in sorted(self.logs, key=_by_number)),
        ]
        tables = [_table("step_0", columns, source, "")]
        for number, step in enumerate(self.steps):
            added = [f"{expression} AS {name}" for name, expression in step.items()]
            tables.append(_table(f"step_{number + 1}", [f"step_{number}.*", *added], f"step_{number}", ""))
        score = _sum(scores) or "CAST(0 AS DOUBLE PRECISION)"
        columns = ['"row"', '"id"', f"{score} AS score"]
        tables.append(_table("scored", columns, f"step_{len(self.steps)}", " AND ".join(where)))
        ending = f'SELECT "row", "id", score\nFROM scored\nWHERE score > -1E300\nORDER BY score DESC, "row"\nLIMIT {n}'
        return "WITH " + ",\n".join(tables) + "\n" + ending

    def _score(self, plan: QueryPlan) -> str:
        """log P(true) as an expression over the last step; NULL if the probability is 0."""
        if isinstance(plan, Literal):
            return self._log(plan.position, plan.present)
        if isinstance(plan, Constant):
            return "CAST(0 AS DOUBLE PRECISION)"
        (p, _), (q, _) = self._value(plan, True), self._value(plan, False)
        # log(1 - q) to full precision: with u = 1 - q as rounded, log(u) / (u - 1) hardly depends on the rounding.
        near_one = f"WHEN 1 - {q} = 1 THEN -{q} WHEN {p} > 0.5 THEN LN(1 - {q}) * {q} / (1 - (1 - {q}))"
        return f"CASE {near_one} WHEN {p} > 0 THEN LN({p}) END"

    def _log(self, position: int, present: bool) -> str:
        name = f"{'yes' if present else 'no'}_{position}"
        self.logs[name] = None
        return name

    def _value(self, plan: QueryPlan, side: bool) -> Value:
        """The column of P(true), or of P(false), of a plan."""
        key = (id(plan), side)
        if key not in self.known:
            self.known[key] = self._made(plan, side)
        return self.known[key]

    def _made(self, plan: QueryPlan, side: bool) -> Value:
        match plan:
            case Constant(value):
                return ("1E0" if value == side else "0E0"), 0
            case Literal(position, present):
                return self._label(position, present == side)
            case Condition(position, sign):
                column = self._log(position, True)
                yes, no = ("1E0", "0E0") if side else ("0E0", "1E0")
                return self._column(f"CASE WHEN {column} {sign} {_limit(plan)} THEN {yes} ELSE {no} END", [])
            case If(position, yes, no):
                (p, a), (q, b) = self._label(position, True), self._label(position, False)
                (left, c), (right, d) = self._value(yes, side), self._value(no, side)
                return self._column(f"{p} * {left} + {q} * {right}", [a, b, c, d])
            case Tally():
                return self._tally(plan, side)
            case All(parts) | Some(parts):
                if isinstance(plan, All) == side:
                    return self._product([self._value(part, side) for part in parts])
                return self._one([(self._value(part, side), self._value(part, not side)) for part in parts])[0]

    def _label(self, position: int, present: bool) -> Value:
        """η or 1 - η: the smaller from its own logarithm, the larger as 1 minus the smaller."""
        name = f"{'p' if present else 'q'}_{position}"
        if not self.steps or name not in self.steps[0]:
            own, other = self._log(position, present), self._log(position, not present)
            smaller = f"{own} < {other}" if present else f"{own} <= {other}"
            self._column(f"CASE WHEN {smaller} THEN EXP({own}) ELSE 1 - EXP({other}) END", [], name)
        return name, 1

    def _column(self, expression: str, after: Sequence[int], name: str = "") -> Value:
        """Add a column to the first step in which everything that it needs is available."""
        step = max(after, default=0)
        while len(self.steps) <= step:
            self.steps.append({})
        name = name or f"v_{sum(map(len, self.steps))}"
        self.steps[step][name] = expression
        return name, step + 1

    def _product(self, values: Sequence[Value]) -> Value:
        """P(all) of independent parts."""
        return _in_groups(values, lambda group: self._column(" * ".join(name for name, _ in group), [at for _, at in group]))

    def _one(self, pairs: Sequence[tuple[Value, Value]]) -> tuple[Value, Value]:
        """P(some) and P(none) of independent parts, from p and q of each: p₁ + q₁ (p₂ + q₂ (p₃ + …))."""

        def some_and_none(group: Sequence[tuple[Value, Value]]) -> tuple[Value, Value]:
            expression = group[-1][0][0]
            for (p, _), (q, _) in reversed(group[:-1]):
                expression = f"{p} + {q} * {_bracketed(expression)}"
            some = self._column(expression, [at for pair in group for _, at in pair])
            whole = len(group) == len(pairs)  # its complement is not needed
            return some, some if whole else self._product([q for _, q in group])

        return _in_groups(pairs, some_and_none)

    def _tally(self, tally: Tally, side: bool) -> Value:
        """P(the number of true parts is allowed), or not allowed, from the distributions of halves of the parts."""
        last, upward = max_state(tally)
        allowed = tally.allowed if upward else reversed_bits(tally.allowed, len(tally.parts))
        state = [[self._value(part, not upward), self._value(part, upward)] for part in tally.parts]
        while len(state) > 1:
            pairs = [self._both(left, right, last) for left, right in zip(state[::2], state[1::2], strict=False)]
            state = pairs + state[len(pairs) * 2 :]
        for which in (True, False):
            chosen = [value for s, value in enumerate(state[0]) if (allowed >> s & 1) == which]
            self.known[id(tally), which] = self._column(_sum([name for name, _ in chosen]), [at for _, at in chosen])
        return self.known[id(tally), side]

    def _both(self, left: list[Value], right: list[Value], last: int) -> list[Value]:
        """The distribution of the sum of two counts; ``last`` stands for that many or more."""
        size = len(left) + len(right) - 1
        levels = [at for _, at in left + right]
        made = []
        for s in range(min(size, last + 1)):
            terms = [f"{a} * {right[s - i][0]}" for i, (a, _) in enumerate(left) if 0 <= s - i < len(right)]
            if s == last:  # that many or more: any number on the right if the left has as many already
                tails = {i: [b for b, _ in right[max(0, last - i) :]] for i in range(len(left))}
                terms = [f"{left[i][0]} * {_bracketed(_sum(tail))}" for i, tail in tails.items() if tail and i < last]
                terms += [a for a, _ in left[last:]]
            self.mentions += sum(term.count("_") for term in terms)
            made.append(self._column(_sum(terms), levels))
        if self.mentions > MOST_MENTIONS:
            raise InputError(
                "query: counting this many labels makes more SQL than engines accept: count fewer, or use the engine arrow"
            )
        return made


def _in_groups(values: Sequence[T], join: Callable[[Sequence[T]], T]) -> T:
    """Join values a few at a time, so that no expression is deeply nested."""
    while len(values) > 1:
        values = [join(values[i : i + FAN]) if i + 1 < len(values) else values[i] for i in range(0, len(values), FAN)]
    return values[0]


def _bracketed(expression: str) -> str:
    return f"({expression})" if " " in expression else expression


def _by_number(column: str) -> tuple[int, str]:
    """no_2 before yes_2 before no_10."""
    kind, _, number = column.partition("_")
    return int(number), kind


def _sum(terms: Sequence[str]) -> str:
    """A sum; long ones are nested by halves."""
    if len(terms) <= FAN:
        return " + ".join(terms)
    return f"({_sum(terms[: len(terms) // 2])}) + ({_sum(terms[len(terms) // 2 :])})"


def _limit(condition: Condition) -> str:
    """The logarithm of a threshold, rounded like the columns; log 0 becomes a number below all finite logarithms."""
    value = max(float(np.float32(log_threshold(condition))), -1e300)
    return f"{value!r}E0" if "e" not in repr(value) else repr(value)


def _table(name: str, columns: Sequence[str], source: str, where: str) -> str:
    condition = f"\n  WHERE {where}" if where else ""
    listed = ",\n    ".join(columns)
    return f"{name} AS (\n  SELECT\n    {listed}\n  FROM {source}{condition}\n)"
