"""Which rows each step takes: a function of the seed and the step, the same however many processes share the batch."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from shortlist.data.randomness import Purpose, words
from shortlist.errors import InputError


def derived_seed(seed: int, purpose: Purpose, number: int) -> int:
    """A seed of its own for number ``number`` of a purpose."""
    return int(words(seed, purpose, number, 1, 1)[0, 0]) >> 1


@dataclass(frozen=True)
class MicroBatch:
    """The rows of one process in one micro-batch.

    Args:
        rows: their numbers, int64 (m,).
        start: their place in the rows that all processes have in this micro-batch together.
        together: how many those are.
    """

    rows: Tensor
    start: int
    together: int


@dataclass(frozen=True)
class StepSampler:
    """The rows of every step, in an order drawn anew for every pass over the data.

    A step takes ``batch_size`` rows; what is left at the end of a pass is left out, and comes up in another. The rows of a
    micro-batch lie side by side over the processes, so that processes divide a batch and never change it.

    >>> plan = StepSampler(rows=10, batch_size=4, seed=0)
    >>> plan.steps_per_pass, [len(part.rows) for part in plan.step(0, process=1, processes=2)]
    (2, [2])
    """

    rows: int
    batch_size: int
    seed: int
    accumulate: int = 1
    epoch_rows: int | None = None

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InputError("expected rows to train on, got none")
        if self.accumulate > self.size:
            raise InputError(f"accumulate: expected at most the {self.size} rows of a step, got {self.accumulate}")

    @property
    def size(self) -> int:
        """Rows of a step: the batch size, or all rows where there are fewer."""
        return min(self.batch_size, self.rows)

    @property
    def steps_per_pass(self) -> int:
        """Steps until every row (but a rest smaller than a batch) has been taken once."""
        return self.rows // self.size

    @property
    def steps_per_epoch(self) -> int:
        """Steps that count as an epoch."""
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
        """Those of steps ``first`` to ``end``."""
        for step in range(first, end):
            yield self.step(step, process, processes)


@lru_cache(maxsize=2)
def _order(seed: int, turn: int, rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(derived_seed(seed, Purpose.TRAINING_ORDER, turn))
    return torch.randperm(rows, generator=generator)
