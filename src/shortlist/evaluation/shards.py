"""Evaluations from parts of a folder that are measured separately and merged in any order."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

from shortlist.errors import InputError
from shortlist.evaluation.evaluation import Evaluation
from shortlist.evaluation.looking import Found, Looking
from shortlist.evaluation.measuring import measure
from shortlist.predictions import Predictions, ShardedPredictions
from shortlist.sets import SetRule
from shortlist.tensors import BLOCK_ENTRIES

Span: TypeAlias = tuple[int, int]  # the first row, and the first after the last
Over: TypeAlias = Callable[[Callable[[Span], Found], Sequence[Span]], Iterable[Found]]


def evaluate_shards(shards: ShardedPredictions, rule: SetRule | None = None, *, over: Over = map, **options: Any) -> Evaluation:
    """What :func:`measure` finds, to the last bit, from parts that are measured separately and merged in any order.

    Args:
        shards: a folder of parts, as :meth:`Predictions.load` opens it.
        rule: as in :func:`measure`.
        over: applies a function to each of some spans of rows, in any order; ``map`` by default, one after the other.
        options: all others of :func:`measure`.
    """
    if not isinstance(shards, ShardedPredictions):
        raise InputError(f"shards: expected predictions in a folder of parts, got {type(shards).__name__}: use measure")

    def across(looking: Looking) -> Found:
        found = looking.nothing()
        for part in over(partial(_found, looking, shards), spans_of(shards, [len(shard) for shard in shards.shards])):
            found.merge(part)
        return found

    return measure(shards, rule, across=across, **options)


def spans_of(predictions: Predictions, sizes: Sequence[int]) -> list[Span]:
    """The rows that are measured with each shard: those of the blocks that begin in it.

    A block that two shards share is measured with the first, so that sums over blocks do not depend on where shards end.

    Args:
        predictions: all rows.
        sizes: the number of rows of each shard.
    """
    step, rows = _rows_of_a_block(predictions), len(predictions)
    found, start = [], 0
    for size in sizes:
        first, last = (min(-(-end // step) * step, rows) for end in (start, start + size))
        start += size
        if first < last:
            found.append((first, last))
    return found


def _rows_of_a_block(predictions: Predictions) -> int:
    return max(1, BLOCK_ENTRIES // max(1, predictions.num_classes))


def _found(looking: Looking, predictions: Predictions, span: Span) -> Found:
    step, (start, stop) = _rows_of_a_block(predictions), span
    blocks = (predictions.rows(slice(first, min(first + step, stop))) for first in range(start, stop, step))
    return looking.at(blocks, start)
