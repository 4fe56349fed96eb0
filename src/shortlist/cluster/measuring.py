"""Fits, evaluations and lists of sets by the workers of a cluster: the same as in one process, to the last bit."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from shortlist.cluster.pooling import Pool
from shortlist.cluster.rows import Rows, block_rows, ranges
from shortlist.evaluation import Evaluation, measure as measure_here
from shortlist.evaluation.looking import Found, Looking
from shortlist.predictions import Predictions
from shortlist.row_order import count_rows
from shortlist.sets import FitState, SetRule
from shortlist.sets.batches import Batches
from shortlist.sets.lists import LabelList, lists_of

Range = tuple[int, int]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class _Answering:
    """A job: what a range of rows answers to a round of a fit."""

    rows: Rows
    rule: SetRule
    asked: bytes

    def __call__(self, task: Range) -> bytes:
        return self.rule.summary(FitState.from_bytes(self.asked), self.rows.part(*task), first_row=task[0]).to_bytes()


def fit(pool: Pool, rule: SetRule, rows: Rows | Predictions, *, progress: Progress = lambda rows: None) -> SetRule:
    """Fit a rule as :meth:`SetRule.fit` does; only counts of values travel.

    Args:
        pool: workers.
        rule: is fitted in place, and returned.
        rows: calibration rows.
        progress: callback, called with the number of rows read so far; every round starts from 0.
    """
    rows = rows if isinstance(rows, Rows) else Rows.of(rows)
    sample = rows.sample() if len(rows) else None
    if sample is not None:
        rule.check_reads(sample)
    state = rule.first_round(None if sample is None else Batches(sample).sample())
    while not state.done:
        answer: FitState | None = None
        for _, part in pool.each(_Answering(rows, rule, state.to_bytes()), ranges(len(rows), pool.size)):
            one = FitState.from_bytes(part)
            answer = one if answer is None else answer.merge(one)
            progress(answer.rows)
        if answer is None:  # a round without rows: the rule says what it expected
            answer = rule.summary(state, rows.part(0, 0))
        state = rule.next_round(answer)
    return rule.fit_from(state, sample)


@dataclass(frozen=True)
class _Measuring:
    """A job: what is found among a range of rows."""

    rows: Rows
    looking: Looking

    def __call__(self, task: Range) -> bytes:
        return self.looking.at(self.rows.part(*task).blocks(), task[0]).to_bytes()


def measure(
    pool: Pool,
    rows: Rows | Predictions,
    rule: SetRule | None = None,
    *,
    progress: Progress = lambda rows: None,
    **keywords: Any,
) -> Evaluation:
    """Measure sets and probabilities as :func:`shortlist.evaluation.measure` does.

    Args:
        pool: workers.
        rows: to measure on.
        rule: fitted, or one that needs no fit; None measures the probabilities alone.
        progress: callback, called with the number of rows done.
        **keywords: as for that function.
    """
    rows = rows if isinstance(rows, Rows) else Rows.of(rows)

    def across(looking: Looking) -> Found:
        found = looking.nothing()
        # Sums are over blocks: they are the same to the last bit if no block is cut.
        for _, part in pool.each(_Measuring(rows, looking), ranges(len(rows), pool.size, block_rows(rows.classes))):
            found.merge(Found.from_bytes(part))
            progress(found.tally.rows)
        return found

    return measure_here(rows.whole(), rule, across=across, **keywords)


@dataclass(frozen=True)
class _Listing:
    """A job: the sets of a range of rows."""

    rows: Rows
    rule: SetRule

    def __call__(self, task: Range) -> list[tuple[Tensor, list[LabelList]]]:
        return [(count_rows(sets), lists) for sets, lists in lists_of(self.rows.part(*task), self.rule)]


def list_sets(pool: Pool, rows: Rows | Predictions, rule: SetRule) -> Iterator[tuple[Tensor, list[LabelList]]]:
    """The sizes and lists of the sets of all rows, a block at a time, in order.

    Args:
        pool: workers.
        rows: to make sets for.
        rule: fitted, or one that needs no fit.
    """
    rows = rows if isinstance(rows, Rows) else Rows.of(rows)
    whole = rows.whole()
    rule.check_reads(whole)
    rule.check_origin(whole)
    for blocks in pool.in_order(_Listing(rows, rule), ranges(len(rows), pool.size)):
        yield from blocks
