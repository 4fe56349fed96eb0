"""Random numbers of randomised rules: one uniform number a row, which follows from the row and from the calibration rows.

Unless the user gives a generator, a randomised rule derives its numbers from a seed and the data. The numbers of the
calibration rows come from a hash of the seed and of all these rows with their labels, so that calibrations on different rows
are independent and one calibration can be repeated. (A fixed sequence instead would be the same in every calibration, and
coverage on average over calibrations would not be what was asked for.) That hash is made of a sum over rows, and the draw of a
row follows from it and the number of the row: rows in different places are hashed and drawn where they are. The number of a new
row comes from its own scores and from another part of that hash, which is saved with the rule: a row gets the same set in any
batch, and its number is independent of those of the calibration rows. Scores rather than probabilities, because the same score
may become a probability that differs in its last digit, depending on the length of the batch. Where only the calibration is
randomised, new rows draw nothing: the whole probability of a label is taken away, whatever the draw would have been.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from shortlist.tensors import Probs, Target, blocks_of, is_single_label

GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15, the increment of splitmix64, as a signed number
FIRST, SECOND = -4658895280553007687, -7723592293110705685  # its two multipliers


class Digest(NamedTuple):
    """What calibration rows contribute to the seed of their draws; digests of different rows are merged in any order.

    Args:
        total: the sum of the hashes of the rows with their labels, modulo 2⁶⁴.
        end: the largest number of a row, plus one.
    """

    total: int = 0
    end: int = 0

    def merge(self, other: "Digest") -> "Digest":
        """The digest of the rows of both."""
        return Digest((self.total + other.total) % 2**64, max(self.end, other.end))


def digest_of(probs: Probs, target: Target, numbers: Tensor) -> Digest:
    """The digest of these rows.

    Args:
        probs: (N, C).
        target: their labels.
        numbers: the number of each row among all calibration rows, int64 (N,).
    """
    if not len(probs):
        return Digest()
    labels = target if is_single_label(target) else row_hashes(target.to(torch.float64))
    hashes = _mixed(row_hashes(probs) + _mixed((labels + 1) * GOLDEN))
    return Digest(int(hashes.sum()) % 2**64, int(numbers.max()) + 1)


class CalibrationDraws(NamedTuple):
    """The draws of calibration rows: the share of its own probability that is taken away from each label of a row.

    Args:
        seed: of these draws.
        seed_of_new_rows: the seed of the rows to come, int64 ().
        listed: the draw of every row by its number, float64, where they come from the user's generator.
    """

    seed: int
    seed_of_new_rows: Tensor
    listed: Tensor | None = None

    @staticmethod
    def of(digest: Digest, seed: int, generator: torch.Generator | None) -> "CalibrationDraws":
        """The draws once the digest of all rows is known.

        Args:
            digest: of all rows.
            seed: changes all draws.
            generator: where the draws come from, one after the other, instead of the seed and the rows.
        """
        hashed = hashlib.sha256(b"".join(number.to_bytes(8, "little") for number in (seed, digest.total, digest.end))).digest()
        own, following = (int.from_bytes(hashed[start : start + 8], "little") >> 1 for start in (0, 8))
        listed = None
        if generator is not None:
            listed = torch.rand(digest.end, generator=generator, dtype=torch.float64, device=generator.device).cpu()
        return CalibrationDraws(own, torch.tensor(following), listed)

    def shares(self, numbers: Tensor) -> Tensor:
        """A uniform number for each of these rows, float64 (N,).

        >>> CalibrationDraws(7, torch.tensor(1)).shares(torch.tensor([0, 1, 1]))
        tensor([0.3898, 0.0168, 0.0168], dtype=torch.float64)
        """
        return _uniform(_mixed((numbers + 1) * GOLDEN + self.seed)) if self.listed is None else self.listed[numbers.cpu()]


def row_hashes(values: Tensor) -> Tensor:
    """A hash of each row, int64 (N,): equal for equal rows, on any device and in any precision that holds them."""
    columns = _mixed(torch.arange(1, values.shape[1] + 1, device=values.device) * GOLDEN) | 1
    sums = torch.empty(len(values), dtype=torch.int64, device=values.device)
    for rows in blocks_of(values):
        bits = (values[rows].to(torch.float64) + 0.0).contiguous().view(torch.int64)  # adding 0 makes -0 and 0 one value
        # Numbers with few digits differ only in their leading bits, which a product modulo 2⁶⁴ would lose.
        sums[rows] = ((bits ^ _shifted(bits, 32)) * columns).sum(1)
    return _mixed(sums)


class RowDraws:
    """Draws for new rows: equal rows get different numbers, and how the rows are divided into blocks does not matter.

    Args:
        seed: the seed of the rows to come, int64 ().
        generator: where the draws come from, instead of the seed and the rows.

    >>> draws = RowDraws(torch.tensor(7))
    >>> draws(torch.tensor([[0.75, 0.25], [0.75, 0.25]])).squeeze(1)
    tensor([0.5756, 0.2315], dtype=torch.float64)
    >>> draws(torch.tensor([[0.5, 0.5], [0.75, 0.25]])).squeeze(1)
    tensor([0.6951, 0.1312], dtype=torch.float64)
    """

    def __init__(self, seed: Tensor, generator: torch.Generator | None = None):
        self._seed, self._generator = seed, generator
        self._earlier: list[Tensor] = []  # the keys of all rows so far in sorted runs, each more than twice the next

    def __call__(self, scores: Tensor) -> Tensor:
        """A uniform number for each row, float64 (N, 1)."""
        if self._generator is not None:
            shape = len(scores), 1
            drawn = torch.rand(shape, generator=self._generator, dtype=torch.float64, device=self._generator.device)
            return drawn.to(scores.device)
        keys = _mixed(row_hashes(scores) + self._seed.to(scores.device) * GOLDEN)
        drawn = _mixed(keys + self._occurrences(keys) * GOLDEN)
        return _uniform(drawn)[:, None]

    def _occurrences(self, keys: Tensor) -> Tensor:
        """How many equal keys come before each of them, in this block and in those before it."""
        ordered, order = keys.sort(stable=True)
        found = torch.empty_like(keys).scatter_(0, order, _equal_before(ordered))
        for run in self._earlier:
            found += torch.searchsorted(run, keys, right=True) - torch.searchsorted(run, keys)
        while self._earlier and len(self._earlier[-1]) <= 2 * len(ordered):
            ordered = torch.cat([self._earlier.pop(), ordered]).sort().values
        self._earlier.append(ordered)
        return found


class WholeShares:
    """In the place of draws: everything is taken away, so that the set of a row holds every set that a draw could give it.

    >>> WholeShares()(torch.tensor([[0.75, 0.25], [0.5, 0.5]])).squeeze(1)
    tensor([1., 1.], dtype=torch.float64)
    """

    def __call__(self, scores: Tensor) -> Tensor:
        """One for each row, float64 (N, 1)."""
        return torch.ones_like(scores[:, :1], dtype=torch.float64)


def _equal_before(ordered: Tensor) -> Tensor:
    """How many equal values come before each of these, which are in order."""
    places = torch.arange(len(ordered), device=ordered.device)
    fresh = torch.ones_like(ordered, dtype=torch.bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return places - torch.where(fresh, places, 0).cummax(0).values if len(ordered) else places


def _mixed(x: Tensor) -> Tensor:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014): every bit of the result depends on every bit of x."""
    x = (x ^ _shifted(x, 30)) * FIRST
    x = (x ^ _shifted(x, 27)) * SECOND
    return x ^ _shifted(x, 31)


def _uniform(x: Tensor) -> Tensor:
    """The leading 53 bits, as a number in [0, 1)."""
    return _shifted(x, 11).to(torch.float64).mul(2.0**-53)


def _shifted(x: Tensor, by: int) -> Tensor:
    """Unsigned shift to the right."""
    found: Tensor = (x >> by) & (2 ** (64 - by) - 1)
    return found


@contextmanager
def same_draws(generator: torch.Generator | None) -> Iterator[None]:
    """Inside, random numbers are drawn that will be drawn again afterwards: measuring changes no later answer."""
    state = None if generator is None else generator.get_state()
    try:
        yield
    finally:
        if generator is not None and state is not None:
            generator.set_state(state)
