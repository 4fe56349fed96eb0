"""Draws of the k-th largest noised score that complete the noise only of classes that can be the k-th.

A normal number is the quantile of a uniform one, and a uniform one can be drawn digit by digit. So, for each row: choose a
level that slightly more than k noised scores are expected to exceed; draw the leading 8 bits of the uniform number of every
class, which for most classes already show that they stay below the level; draw the remaining bits of the others. If k of them
exceed the level, the k-th largest of all is the k-th largest of them. If not (about one row in a hundred), the remaining bits
of all classes of that row are drawn. Whatever the level, the distribution is that of the plain draw.
"""

import math
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from shortlist.operators.level import LAWS, solve_level
from shortlist.operators.plain_draws import plain_top_draws
from shortlist.tensors import Array, Scores, row_blocks, uncompiled

# Entries processed at once: the bits of all samples then stay in the processor's cache.
CACHED_ENTRIES = 2**19
DIGITS = 256


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
    # Numpy generates random bytes ten times faster than torch; torch's generator gives the seed.
    stream = np.random.Generator(np.random.SFC64(torch.randint(2**62, (2,), generator=generator).tolist()))
    for rows in row_blocks(len(scores), scores.shape[1], CACHED_ENTRIES):
        block = _Block(scores[rows], k, epsilon)
        places[rows], shifts[rows] = block.draw(samples, stream)
        hard = block.hard + rows.start
        if len(hard):
            places[hard], shifts[hard] = plain_top_draws(scores[hard], k, epsilon, samples, False, generator)
    return places, shifts


class _Block:
    """A block of rows with their levels and, for each class, the largest leading digit with which it can exceed the level."""

    def __init__(self, scores: Scores, k: int, epsilon: float):
        self.scores, self.k, self.epsilon = scores, k, epsilon
        self.level, self.last_digits, self.hard = self._aim()

    def _aim(self) -> tuple[Tensor, Array, Tensor]:
        """The levels, the largest digits, and the rows without a good level, which are drawn plainly."""
        rows, classes = self.scores.shape
        # With this many expected to exceed the level, fewer than k do so in a few rows out of a thousand.
        wanted = self.k + 3 * math.sqrt(self.k) + 2
        if wanted > 0.9 * classes:
            everything = np.full(rows * classes, DIGITS - 1, np.uint8)
            return self.scores.new_full((rows, 1), -math.inf), everything, torch.zeros(0, dtype=torch.int64)
        level, chance, hard = _aimed(self.scores, wanted, self.epsilon)
        chance[hard], level[hard] = -1.0, math.inf  # almost nothing is completed there
        # 256 Φ, slightly rounded up so that rounding excludes no class.
        digits = torch.add(chance.new_tensor(DIGITS / 2 + 1e-3), chance, alpha=DIGITS / 2, out=chance).clamp_(max=DIGITS - 1)
        return level, digits.to(torch.uint8).numpy().reshape(-1), hard

    def draw(self, samples: int, stream: np.random.Generator) -> tuple[Tensor, Tensor]:
        """All draws of these rows."""
        rows, classes = self.scores.shape
        looks = [self._look(stream) for _ in range(samples)]
        hits = np.concatenate([hit for _, hit, _ in looks])
        noise = self._noise(np.concatenate([seen for _, _, seen in looks]), stream)
        edges = _edges([hit for _, hit, _ in looks], rows, classes)
        ranked = _padded(torch.take(self.scores, torch.from_numpy(hits)).numpy() + noise, edges, self.k)
        best = np.partition(ranked, ranked.shape[1] - self.k, axis=1)[:, ranked.shape[1] - self.k]
        found = edges[:-1] + (ranked == best[:, None]).argmax(1)
        missing = ~(best.reshape(samples, rows) > self.level.numpy().reshape(-1))
        found[missing.reshape(-1)] = 0  # replaced below
        missing[:, self.hard.numpy()] = False
        short = np.flatnonzero(missing)
        places, shifts = np.append(hits, 0)[found] % classes, np.append(noise, noise.dtype.type(0))[found]
        at_once = max(1, CACHED_ENTRIES // classes)
        for start in range(0, len(short), at_once):
            some = short[start : start + at_once]
            digits = np.stack([looks[draw // rows][0].reshape(rows, classes)[draw % rows] for draw in some])
            known = [(hits[edges[draw] : edges[draw + 1]] % classes, noise[edges[draw] : edges[draw + 1]]) for draw in some]
            places[some], shifts[some] = self._draw_in_full(some % rows, digits, known, stream)
        return _by_row(places, rows), _by_row(shifts, rows)

    def _look(self, stream: np.random.Generator) -> tuple[Array, Array, Array]:
        """The leading digits of all classes, the places where they do not rule out the class, and the digits there."""
        size = len(self.last_digits)
        words = stream.integers(2**64 - 1, size=-(-size // 8), dtype=np.uint64, endpoint=True)
        digits = words.view(np.uint8)[:size]
        hits = np.flatnonzero(digits <= self.last_digits)
        return digits, hits, digits[hits]

    def _noise(self, digits: Array, random: np.random.Generator) -> Array:
        """Normal numbers whose uniform numbers begin with these digits; digit 0 is the upper tail."""
        kind = self.scores.numpy().dtype
        centred = random.random(len(digits), dtype=kind.type)
        centred += digits
        centred *= -2 / DIGITS
        centred += 1
        # The ends would be infinite; the closest number to them is beyond five standard deviations in float32.
        limit = 1 - np.finfo(kind).epsneg
        np.clip(centred, -limit, limit, out=centred)
        return torch.from_numpy(centred).erfinv_().mul_(math.sqrt(2) * self.epsilon).numpy()

    def _draw_in_full(
        self, rows: Array, digits: Array, known: list[tuple[Array, Array]], stream: np.random.Generator
    ) -> tuple[Array, Array]:
        """Complete the draws in which fewer than k exceed the level; numbers drawn before are kept."""
        noise = self._noise(digits.reshape(-1), stream).reshape(digits.shape)
        for line, (places, values) in zip(noise, known, strict=True):
            line[places] = values
        values = self.scores.numpy()[rows] + noise
        rank = values.shape[1] - self.k
        found = np.argpartition(values, rank, axis=1)[:, rank]
        return found, noise[np.arange(len(found)), found]


def _aimed(scores: Scores, wanted: float, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """A level for each row, (N, 1), ``erf`` of the distance of each score above it, and the rows without a good level.

    Those are rows whose noise is below the resolution of their scores, or that have fewer unmasked classes than wanted.
    """
    work = torch.empty_like(scores)  # fresh memory for each pass would cost as much as the pass
    level = _rough_level(scores, wanted, epsilon, work)
    chance = _chance(scores, level, epsilon, work)
    # Clustered scores are far from normal: with a level between clusters, too few would exceed it in every draw.
    off = _badly_aimed(chance, wanted)
    if len(off):
        unit = epsilon * LAWS["normal"].unit
        level[off] = unit * solve_level(scores[off] / unit, wanted, LAWS["normal"], tolerance=0.2)
        chance[off] = _chance(scores[off], level[off], epsilon, torch.empty_like(scores[off]))
        off = off[_badly_aimed(chance[off], wanted)]
    return level, chance, off


def _badly_aimed(chance: Tensor, wanted: float) -> Tensor:
    """The rows in which far fewer or far more than the wanted number are expected to exceed the level."""
    count = chance.sum(1).add_(chance.shape[1]).mul_(0.5)
    return (~((count >= 0.7 * wanted) & (count <= 3 * wanted))).nonzero().squeeze(1)  # NaN too


def _rough_level(scores: Scores, wanted: float, epsilon: float, work: Tensor) -> Tensor:
    """A level that about the wanted number of noised scores exceed, (N, 1): a normal guess, corrected once."""
    classes = scores.shape[1]
    reach = NormalDist().inv_cdf(1 - wanted / classes)
    mean = scores.mean(1, keepdim=True)
    square: Tensor = torch.linalg.vector_norm(scores, dim=1, keepdim=True).square_() / classes
    spread: Tensor = (square - mean * mean).clamp_(min=0).add_(epsilon**2).sqrt_()
    level = mean + reach * spread
    count = _chance(scores, level, epsilon, work).sum(1, keepdim=True).add_(classes).mul_(0.5)
    # At most so far that one class, or all but one, is above the level.
    share = (count / classes).clamp_(1 / classes, 1 - 1 / classes)
    corrected: Tensor = level + spread * (reach + torch.special.ndtri(share))
    return corrected


def _chance(scores: Scores, level: Tensor, epsilon: float, out: Tensor) -> Tensor:
    scale = math.sqrt(0.5) / epsilon
    return torch.add(-scale * level, scores, alpha=scale, out=out).erf_()


def _edges(hits: list[Array], rows: int, classes: int) -> Array:
    """The offsets at which each row of each draw begins among all hits, and the end of the last."""
    starts = np.arange(rows) * classes
    offsets = np.cumsum([0, *map(len, hits)])
    parts = [np.searchsorted(part, starts) + offset for part, offset in zip(hits, offsets[:-1], strict=True)]
    return np.concatenate([*parts, offsets[-1:]])


def _padded(values: Array, edges: Array, least: int) -> Array:
    """Ragged rows as a matrix, padded with -inf."""
    lengths = np.diff(edges)
    width = max(least, int(lengths.max(initial=0)))
    matrix = np.full((len(lengths), width), -np.inf, values.dtype)
    slots = np.arange(len(values))
    slots += np.repeat(np.arange(len(lengths)) * width - edges[:-1], lengths)
    matrix.reshape(-1)[slots] = values
    return matrix


def _by_row(draws: Array, rows: int) -> Tensor:
    return torch.from_numpy(draws.reshape(-1, rows).T.copy())
