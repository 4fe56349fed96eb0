"""Draws of the k-th largest noised score that complete the noise only of classes that can be the k-th.

A normal number is the quantile of a uniform one, and a uniform one can be drawn digit by digit. So, for each row: choose a
level that slightly more than k noised scores are expected to exceed (``aim.py``); draw the leading 8 bits of the uniform number
of every class, which for most classes already show that they stay below the level; draw the remaining bits of the others. If k
of them exceed the level, the k-th largest of all is the k-th largest of them. If not (a few rows out of a thousand), the other
classes of that row are drawn as well, from the numbers that rule them out. Whatever the level, the distribution is that of the
plain draw.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shortlist.operators.aim import DIGITS, aim
from shortlist.operators.plain_draws import plain_top_draws
from shortlist.tensors import Array, Scores, row_blocks, uncompiled

# Scores looked at together: few enough that the digits of one draw stay near the processor, and that memory is used again from
# draw to draw instead of being asked from the system; many enough that the fixed cost of a block counts little.
BLOCK_SCORES = 5 * 2**16
SAMPLE = 2**16  # entries that tell whether few of them are true
NARROW = 512  # rows up to this width are sorted faster than partitioned
# The words that complete a digit, and how many of their bits are left out: with 8 + 16 and 8 + 45 bits, every sum is exact.
FURTHER = {"float32": ("u2", 0), "float64": ("u8", 19)}


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
    for rows in row_blocks(len(scores), scores.shape[1], BLOCK_SCORES):
        block = _Block(scores[rows], k, epsilon, stream)
        places[rows], shifts[rows] = block.draw(samples)
        hard = block.hard + rows.start
        if len(hard):
            places[hard], shifts[hard] = plain_top_draws(scores[hard], k, epsilon, samples, False, generator)
    return places, shifts


class _Look(NamedTuple):
    """A first look at all draws of a block.

    Args:
        hits: int64, the places in the block (row · C + class) whose digits do not rule them out, one draw after the other, and
            one more, so that there always is one.
        digits: uint8, the leading digits there.
        edges: int64, where the hits of each row of each draw begin, and the end of the last.
    """

    hits: Array
    digits: Array
    edges: Array


class _Block:
    """A block of rows with their levels and, for each class, the largest leading digit with which it can exceed the level."""

    def __init__(self, scores: Scores, k: int, epsilon: float, stream: np.random.SFC64):
        self.scores, self.k, self.epsilon, self.stream = scores.numpy(), k, epsilon, stream
        self.level, self.last_digits, self.hard = aim(scores, k, epsilon)

    def draw(self, samples: int) -> tuple[Tensor, Tensor]:
        """All draws of these rows."""
        rows, classes = self.scores.shape
        look = self._look(samples)
        noise = self._noise(look.digits)
        values = self.scores.reshape(-1).take(look.hits)
        values += noise
        ranked = _padded(values[:-1], look.edges, self.k)
        best = _kth_largest(ranked, self.k)
        found = look.edges[:-1] + (ranked == best[:, None]).argmax(1)
        missing = ~(best.reshape(samples, rows) > self.level.reshape(-1))
        missing[:, self.hard] = False
        short = np.flatnonzero(missing)
        np.minimum(found, len(noise) - 1, out=found)  # where fewer than k were found at all
        places, shifts = look.hits.take(found) % classes, noise.take(found)
        at_once = max(1, BLOCK_SCORES // 4 // classes)
        for start in range(0, len(short), at_once):
            some = short[start : start + at_once]
            places[some], shifts[some] = self._draw_in_full(some, look, noise)
        return torch.from_numpy(places.reshape(samples, rows).T), torch.from_numpy(shifts.reshape(samples, rows).T)

    def _look(self, samples: int) -> _Look:
        size, classes = self.scores.size, self.scores.shape[1]
        starts = np.arange(0, size, classes)
        marks = np.zeros(8 * -(-size // 8), bool)
        hits, digits, edges = [], [], []
        end = 0
        for _ in range(samples):
            drawn = self.stream.random_raw(len(marks) // 8).view(np.uint8)
            np.less_equal(drawn[:size], self.last_digits, out=marks[:size])
            places = _true_places(marks)
            hits.append(places)
            digits.append(drawn.take(places))
            edges.append(places.searchsorted(starts) + end)
            end += len(places)
        last = np.zeros(1, np.uint8)
        return _Look(np.concatenate((*hits, [0])), np.concatenate((*digits, last)), np.concatenate((*edges, [end])))

    def _noise(self, digits: Array) -> Array:
        """Normal numbers whose uniform numbers begin with these digits; digit 0 is the upper tail."""
        kind, unused = FURTHER[self.scores.dtype.name]
        words = self._words(len(digits), kind)
        words = (words >> unused if unused else words).astype(self.scores.dtype)
        # The centres of as many intervals of this length as there are words, between 1 and -1: the ends would be infinite.
        step = 2 / DIGITS * 0.5 ** (8 * np.dtype(kind).itemsize - unused)
        leading = (1 - step / 2 - 2 / DIGITS * np.arange(DIGITS)).astype(self.scores.dtype)
        return self._quantiles(torch.from_numpy(leading.take(digits)).sub_(torch.from_numpy(words), alpha=step))

    def _words(self, number: int, kind: str) -> Array:
        """Random words of this kind."""
        size = np.dtype(kind).itemsize
        return self.stream.random_raw(-(-number * size // 8)).view(kind)[:number]

    def _quantiles(self, centred: Tensor) -> Array:
        """The noise of numbers between -1 and 1, in place."""
        noise: Array = centred.erfinv_().mul_(math.sqrt(2) * self.epsilon).numpy()
        return noise

    def _draw_in_full(self, draws: Array, look: _Look, known: Array) -> tuple[Array, Array]:
        """Complete the draws in which fewer than k exceed the level; numbers drawn before are kept."""
        rows, classes = self.scores.shape
        own = draws % rows
        ruled_out = self.last_digits.reshape(rows, classes)[own] + 1.0  # the digits that would do so begin here
        words = self._words(draws.size * classes, f"u{self.scores.itemsize}").reshape(ruled_out.shape)
        uniform = (ruled_out + (DIGITS - ruled_out) * (words * 0.5 ** (8 * words.itemsize))) / DIGITS
        # The end would be infinite; the closest number to it is beyond five standard deviations in float32.
        limit = 1 - np.finfo(self.scores.dtype).eps / 2
        centred = torch.from_numpy((1 - 2 * uniform).astype(self.scores.dtype))
        noise = self._quantiles(centred.clamp_(-limit, limit))
        for line, row, draw in zip(noise, own, draws, strict=True):
            hits = slice(look.edges[draw], look.edges[draw + 1])
            line[look.hits[hits] - row * classes] = known[hits]
        values = self.scores[own] + noise
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
