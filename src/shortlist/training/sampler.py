"""Which rows each step takes: a function of the seed and the step, whatever the number of processes."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from shortlist.data.randomness import Purpose, words
from shortlist.errors import InputError


def derived_seed(seed: int, purpose: Purpose, number: int) -> int:
    """A seed for the use ``number`` of a purpose, independent of all others."""
    return int(words(seed, purpose, number, 1, 1)[0, 0]) >> 1


@dataclass(frozen=True)
class MicroBatch:
    """The rows of one process in one micro-batch.

    Args:
        rows: their row numbers, int64 (m,).
        start: their position among the rows of all processes in this micro-batch.
        total: the number of rows of all processes in this micro-batch.
    """

    rows: Tensor
    start: int
    total: int


@dataclass(frozen=True)
class StepSampler:
    """The rows of every step, shuffled again for every pass over the data.

    A step takes ``batch_size`` rows; an incomplete batch at the end of a pass is dropped. Processes divide the rows of a
    micro-batch among them, so the batch is the same for any number of processes.

    Args:
        rows: number of training rows.
        batch_size: rows of a step.
        seed: seed of the order.
        accumulate: micro-batches per step.
        epoch_rows: rows that count as an epoch; by default all.

    >>> sampler = StepSampler(rows=10, batch_size=4, seed=0)
    >>> sampler.steps_per_pass, [len(part.rows) for part in sampler.step(0, process=1, processes=2)]
    (2, [2])
    """

    rows: int
    batch_size: int
    seed: int
    accumulate: int = 1
    epoch_rows: int | None = None

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InputError("rows: expected at least one row to train on, got 0")
        if self.accumulate > self.size:
            raise InputError(f"accumulate: expected at most the {self.size} rows of a step, got {self.accumulate}")

    @property
    def size(self) -> int:
        """Rows of a step: the batch size, or all rows if there are fewer."""
        return min(self.batch_size, self.rows)

    @property
    def steps_per_pass(self) -> int:
        """Steps of one pass over the data."""
        return self.rows // self.size

    @property
    def steps_per_epoch(self) -> int:
        """Steps of an epoch."""
        return self.steps_per_pass if self.epoch_rows is None else max(1, self.epoch_rows // self.size)

    def step(self, step: int, process: int = 0, processes: int = 1) -> list[MicroBatch]:
        """The micro-batches of one process in one step."""
        turn, place = divmod(step, self.steps_per_pass)
        batch = _order(self.seed, turn, self.rows)[place * self.size : (place + 1) * self.size]
        parts = []
        for micro in batch.tensor_split(self.accumulate):
            mine = micro.tensor_split(processes)
            parts.append(MicroBatch(mine[process], sum(len(part) for part in mine[:process]), len(micro)))
        return parts

    def steps(self, first: int, end: int, process: int = 0, processes: int = 1) -> Iterator[list[MicroBatch]]:
        """The micro-batches of one process in steps ``first`` to ``end - 1``."""
        for step in range(first, end):
            yield self.step(step, process, processes)


@lru_cache(maxsize=2)
def _order(seed: int, turn: int, rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(derived_seed(seed, Purpose.TRAINING_ORDER, turn))
    return torch.randperm(rows, generator=generator)
