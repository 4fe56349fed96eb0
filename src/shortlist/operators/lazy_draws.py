"""Draws of the k-th largest noised score that complete the noise only of classes that can be the k-th.

A normal number is the quantile of a uniform one, and a uniform one can be drawn digit by digit. So, for each row: choose a
level that slightly more than k noised scores are expected to exceed (``aim.py``); draw the leading 8 bits of the uniform number
of every class, which for most classes already show that they stay below the level; draw the remaining bits of the others. If k
of them exceed the level, the k-th largest of all is the k-th largest of them. If not (a few rows out of a thousand), the
remaining bits of all classes of that row are drawn. Whatever the level, the distribution is that of the plain draw.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shortlist.operators.aim import DIGITS, aim
from shortlist.operators.plain_draws import plain_top_draws
from shortlist.tensors import Array, Scores, row_blocks, uncompiled

# Digits drawn at once: 2 MB, so that they and what is found among them stay near the processor.
BLOCK_DIGITS = 2**21
SAMPLE = 2**16  # entries that tell whether few of them are true
NARROW = 512  # rows up to this width are sorted faster than partitioned


@uncompiled
def lazy_top_draws(
    scores: Scores, k: int, epsilon: float, samples: int, antithetic: bool, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """The index of the k-th largest noised score in each draw, (N, samples), and the noise there, epsilon included.

    Antithetic pairs need the noise of every class, so they are drawn plainly.
    """
    if antithetic:
        draws: tuple[Tensor, Tensor] = plain_top_draws(scores, k, epsilon, samples, antithetic, generator)
        return draws
    places = torch.empty(len(scores), samples, dtype=torch.int64)
    shifts = scores.new_empty(len(scores), samples)
    # Numpy generates random words several times faster than torch; torch's generator gives the seed.
    stream = np.random.SFC64(torch.randint(2**62, (2,), generator=generator).tolist())
    for rows in row_blocks(len(scores), scores.shape[1], BLOCK_DIGITS // samples):
        block = _Block(scores[rows], k, epsilon)
        places[rows], shifts[rows] = block.draw(samples, stream)
        hard = block.hard + rows.start
        if len(hard):
            places[hard], shifts[hard] = plain_top_draws(scores[hard], k, epsilon, samples, False, generator)
    return places, shifts


class _Look(NamedTuple):
    """A first look at all draws of a block. The places of all draws are numbered through: draw, row, class.

    Args:
        digits: uint8, the leading digits at all places.
        hits: int64, the places whose digits do not rule them out, and one past the last, so that there always is one.
        edges: int64, where the hits of each row of each draw begin, and the end of the last.
    """

    digits: Array
    hits: Array
    edges: Array


class _Block:
    """A block of rows with their levels and, for each class, the largest leading digit with which it can exceed the level."""

    def __init__(self, scores: Scores, k: int, epsilon: float):
        self.scores, self.k, self.epsilon = scores, k, epsilon
        self.level, self.last_digits, self.hard = aim(scores, k, epsilon)

    def draw(self, samples: int, stream: np.random.SFC64) -> tuple[Tensor, Tensor]:
        """All draws of these rows."""
        rows, classes = self.scores.shape
        look = self._look(samples, stream)
        noise = self._noise(look.digits.take(look.hits), stream)
        values = self.scores.numpy().reshape(-1).take(look.hits, mode="wrap")
        values += noise
        ranked = _padded(values[:-1], look.edges, self.k)
        best = _kth_largest(ranked, self.k)
        found = look.edges[:-1] + (ranked == best[:, None]).argmax(1)
        missing = ~(best.reshape(samples, rows) > self.level.reshape(-1))
        missing[:, self.hard] = False
        short = np.flatnonzero(missing)
        np.minimum(found, len(noise) - 1, out=found)  # where fewer than k were found at all
        places, shifts = look.hits[found] % classes, noise[found]
        at_once = max(1, BLOCK_DIGITS // classes // 8)
        for start in range(0, len(short), at_once):
            some = short[start : start + at_once]
            places[some], shifts[some] = self._draw_in_full(some, look, noise, stream)
        return torch.from_numpy(places.reshape(samples, rows).T), torch.from_numpy(shifts.reshape(samples, rows).T)

    def _look(self, samples: int, stream: np.random.SFC64) -> _Look:
        size = samples * len(self.last_digits)
        words = stream.random_raw(size // 8 + 1)  # at least one digit is left over
        marks = np.zeros(8 * len(words), bool)
        digits = words.view(np.uint8)
        shape = samples, len(self.last_digits)
        np.less_equal(digits[:size].reshape(shape), self.last_digits, out=marks[:size].reshape(shape))
        marks[size] = True
        hits = _true_places(marks)
        return _Look(digits, hits, np.searchsorted(hits, np.arange(0, size + 1, self.scores.shape[1])))

    def _noise(self, digits: Array, stream: np.random.SFC64) -> Array:
        """Normal numbers whose uniform numbers begin with these digits; digit 0 is the upper tail."""
        kind = self.scores.numpy().dtype
        words = stream.random_raw(-(-len(digits) * kind.itemsize // 8)).view(f"u{kind.itemsize}")
        centred: Array = words[: len(digits)].astype(kind)
        centred *= 0.5 ** (8 * kind.itemsize)
        centred += digits
        centred *= -2 / DIGITS
        centred += 1
        # The ends would be infinite; the closest number to them is beyond five standard deviations in float32.
        limit = 1 - torch.finfo(self.scores.dtype).eps / 2
        return torch.from_numpy(centred).clamp_(-limit, limit).erfinv_().mul_(math.sqrt(2) * self.epsilon).numpy()

    def _draw_in_full(self, draws: Array, look: _Look, known: Array, stream: np.random.SFC64) -> tuple[Array, Array]:
        """Complete the draws in which fewer than k exceed the level; numbers drawn before are kept."""
        rows, classes = self.scores.shape
        noise = self._noise(look.digits[(draws[:, None] * classes + np.arange(classes)).reshape(-1)], stream)
        noise = noise.reshape(len(draws), classes)
        for line, draw in zip(noise, draws, strict=True):
            own = slice(look.edges[draw], look.edges[draw + 1])
            line[look.hits[own] - draw * classes] = known[own]
        values = self.scores.numpy()[draws % rows] + noise
        rank = classes - self.k
        found = np.argpartition(values, rank, axis=1)[:, rank]
        return found, noise[np.arange(len(found)), found]


def _true_places(marks: Array) -> Array:
    """The places of the true entries among 8 n booleans.

    Numpy looks at each boolean, or jumps from one true entry to the next, which no processor can predict. Where few are true,
    it is faster to find the words of 8 that hold any first.
    """
    if np.count_nonzero(marks[:SAMPLE]) > 0.1 * min(SAMPLE, len(marks)):
        return np.flatnonzero(marks)
    words = marks.view(np.uint64)
    some = np.flatnonzero(words != 0)
    within = np.flatnonzero(words.take(some).view(bool))
    places = some.take(within >> 3)
    places <<= 3
    within &= 7
    places += within
    return places


def _padded(values: Array, edges: Array, least: int) -> Array:
    """Ragged rows as a matrix, padded with -inf."""
    lengths = np.diff(edges)
    width = max(least, int(lengths.max(initial=0)))
    matrix = np.full((len(lengths), width), -np.inf, values.dtype)
    matrix[np.arange(width) < lengths[:, None]] = values
    return matrix


def _kth_largest(matrix: Array, k: int) -> Array:
    rank = matrix.shape[1] - k
    ordered = np.sort(matrix, axis=1) if matrix.shape[1] <= NARROW else np.partition(matrix, rank, axis=1)
    kth: Array = ordered[:, rank]
    return kth
