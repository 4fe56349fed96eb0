"""Random numbers by place: number j of row i for a seed and a purpose, whatever else is drawn.

Philox is counter-based (Salmon et al., 2011) and its raw output is the same on every machine and in every version of numpy, so
row i does not depend on how many rows are drawn, nor on where a block of rows begins.
"""

import enum
from collections.abc import Iterator

import numpy as np

from shortlist.errors import InputError
from shortlist.tensors import Array

WORDS_PER_STEP = 4  # 64-bit numbers that one step of the counter gives
LARGEST_SEED = 2**63 - 1


class Purpose(enum.IntEnum):
    """What random numbers are for; each has a stream of its own. The numbers are part of the format: never reuse one."""

    SPECIES = 1
    OBSERVATION = 2
    POSE = 3
    PLOT = 4
    PLANTS = 5
    PLOT_POSE = 6
    GRAIN = 7
    UNLABELLED = 8
    LABEL_NOISE = 9
    OPEN_SET = 10
    SUPERCLASSES = 11
    TRAINING_ORDER = 12
    AUGMENTATION = 13
    TRAINING_STEP = 14
    LOSS_STATE = 15
    LONG_TAIL = 16
    MINI_TEST = 17
    READINGS = 18


def check_seed(seed: int, name: str = "seed") -> int:
    """A seed is a whole number from 0 to 2^63 - 1."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed <= LARGEST_SEED:
        raise InputError(f"{name}: expected a whole number from 0 to 2^63 - 1, got {str(seed)[:40]}")
    return int(seed)


def words(seed: int, purpose: Purpose, start: int, rows: int, width: int) -> Array:
    """Rows ``start`` to ``start + rows`` of a stream of ``width`` random words a row, uint64 (rows, width)."""
    steps = -(-width // WORDS_PER_STEP)
    stream = np.random.Philox(key=np.array([check_seed(seed), purpose], np.uint64))
    stream.advance(start * steps)
    return stream.random_raw(rows * steps * WORDS_PER_STEP).reshape(rows, steps * WORDS_PER_STEP)[:, :width]


def uniforms(seed: int, purpose: Purpose, start: int, rows: int, width: int) -> Array:
    """As :func:`words`, as numbers in [0, 1) with 53 random bits, float64 (rows, width).

    >>> whole = uniforms(7, Purpose.POSE, 0, 10, 6)
    >>> bool((uniforms(7, Purpose.POSE, 4, 2, 6) == whole[4:6]).all())
    True
    """
    return (words(seed, purpose, start, rows, width) >> np.uint64(11)) * 2.0**-53


def random_ranks(groups: Array, seed: int, purpose: Purpose) -> Array:
    """The place of each row among those of its group in random order, from 0, int64 (N,): to keep so many rows of each.

    Args:
        groups: the number of each row's group (N,).
        seed: of the order.
        purpose: what it is for.

    >>> random_ranks(np.array([3, 3, 5, 3]), 0, Purpose.LONG_TAIL)
    array([2, 0, 0, 1])
    """
    order = np.lexsort((words(seed, purpose, 0, len(groups), 1)[:, 0], groups))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.searchsorted(groups[order], groups[order])
    return rank


def categories(uniform: Array, cumulative: Array) -> Array:
    """The category that each uniform number falls into, by the cumulative probabilities of its row (or of all rows).

    >>> categories(np.array([0.1, 0.5, 0.99]), np.array([0.5, 0.75, 1.0]))
    array([0, 1, 2])
    """
    # The last edge is left out: rounding may leave it below 1.
    if cumulative.ndim == 1:
        return np.searchsorted(cumulative[:-1], uniform, side="right")
    found: Array = (uniform[..., None] >= cumulative[..., :-1]).sum(-1)
    return found


class Draws:
    """A stream of random choices, for what is made once."""

    def __init__(self, seed: int, purpose: Purpose):
        self.numbers = self._endless(seed, purpose)

    @staticmethod
    def _endless(seed: int, purpose: Purpose) -> Iterator[float]:
        row = 0
        while True:
            yield from uniforms(seed, purpose, row, 1, 256)[0].tolist()
            row += 1

    def below(self, end: int) -> int:
        """A whole number from 0 to ``end`` - 1."""
        return int(next(self.numbers) * end)

    def shuffled(self, count: int) -> list[int]:
        """The numbers from 0 to ``count`` - 1 in random order."""
        order = list(range(count))
        for place in range(count - 1, 0, -1):
            other = self.below(place + 1)
            order[place], order[other] = order[other], order[place]
        return order
