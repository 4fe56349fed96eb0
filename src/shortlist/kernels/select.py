"""The m-th largest of all values of a stream, exactly, on the device that holds them; ``selection.py`` has the plain form."""

from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

BLOCK = 4096
PROGRAMS = 528  # four for each processor of a large GPU
FIRST_DIGIT = 8  # counted by each program for itself, as most values share a few of these
DIGIT = 12
COPIES = 2  # of the counts of a further digit, so that fewer programs add to the same place
STATE_ROOM = 16  # int64 numbers: a prefix and a rank for each round


class Round(NamedTuple):
    """One pass over the values: which digit it counts.

    Args:
        shift: the bits below the digit.
        digit: the bits of the digit.
        copies: the number of histograms, which are added up when they are read.
        start: where they begin in the workspace.
    """

    shift: int
    digit: int
    copies: int
    start: int

    @property
    def end(self) -> int:
        """Where they end."""
        return self.start + (self.copies << self.digit)


def rounds_of(dtype: torch.dtype) -> list[Round]:
    """The passes for values of this dtype: one for half precision, three for float32, six for float64.

    >>> [(one.shift, one.digit) for one in rounds_of(torch.float32)]
    [(24, 8), (12, 12), (0, 12)]
    """
    bits = 8 * dtype.itemsize
    if bits == 16:
        return [Round(0, bits, 1, STATE_ROOM)]
    rounds = [Round(bits - FIRST_DIGIT, FIRST_DIGIT, 1, STATE_ROOM)]
    while rounds[-1].shift:
        digit = min(DIGIT, rounds[-1].shift)
        rounds.append(Round(rounds[-1].shift - digit, digit, COPIES, rounds[-1].end))
    return rounds


class Ranked(NamedTuple):
    """The result of a search, as keys: unsigned integers in the order of the floats.

    Args:
        upper: the key of the m-th largest value.
        lower: the key of the next one.
        above: how many values are above the m-th largest.
        equal: how many are equal to it, itself included.
    """

    upper: int
    lower: int
    above: int
    equal: int


class DigitSearch:
    """Finds the m-th largest value and the next, one pass over all values for each round.

    :meth:`count` is called with every block of values in each round, :meth:`look_for` before the second round, as m need not be
    known earlier, and :meth:`next_round` before each further one. Only :meth:`found` waits for the device.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device):
        self.bits, self.device = 8 * dtype.itemsize, device
        self.rounds, self.round = rounds_of(dtype), 0
        self.workspace = torch.zeros(self.rounds[-1].end, dtype=torch.int64, device=device)
        self.below = torch.full((1,), torch.iinfo(torch.int64).min, dtype=torch.int64, device=device)
        self.wanted = 0

    def look_for(self, m: int) -> None:
        """Look for the m-th largest value, 0 < m < the number of values."""
        self.wanted = m
        self.workspace[1].fill_(m)

    def next_round(self) -> None:
        """All values have been counted in this round."""
        self.round += 1

    @property
    def complete(self) -> bool:
        """Whether this round is the last."""
        return self.round == len(self.rounds) - 1

    def count(self, values: Tensor) -> None:
        """Count the digit of this round in a block of values."""
        flat = values.detach().to(self.device).contiguous().view(-1)
        entries = flat.numel()
        if not entries:
            return
        repeats = max(1, -(-entries // (BLOCK * PROGRAMS)))
        grid = (-(-entries // (BLOCK * repeats)),)
        with torch.cuda.device(self.device) if flat.is_cuda else nullcontext():
            self._launch(grid, flat, entries, repeats)

    def _launch(self, grid: tuple[int], flat: Tensor, entries: int, repeats: int) -> None:
        from shortlist.kernels.device.select import count_digit, count_first_digit

        current = self.rounds[self.round]
        counts = self.workspace[current.start : current.end]
        if current.digit == FIRST_DIGIT and self.round == 0:
            count_first_digit[grid](flat, entries, repeats, counts, self.bits, FIRST_DIGIT, BLOCK, num_warps=8)
            return
        earlier = self.rounds[max(0, self.round - 1)]
        count_digit[grid](
            flat,
            entries,
            repeats,
            self.workspace,
            self.workspace[earlier.start :],
            counts,
            self.below,
            BITS=self.bits,
            ROUND=self.round,
            SHIFT=current.shift,
            DIGIT=current.digit,
            EARLIER_DIGIT=earlier.digit,
            EARLIER_COPIES=earlier.copies,
            COPIES=current.copies,
            BLOCK=BLOCK,
            num_warps=8,
        )

    def found(self) -> Ranked:
        """The result, after the last round."""
        from shortlist.kernels.device.select import read_ranks

        last = self.rounds[-1]
        results = torch.empty(7, dtype=torch.int64, device=self.device)
        counts = self.workspace[last.start :]
        with torch.cuda.device(self.device) if results.is_cuda else nullcontext():
            read_ranks[(1,)](self.workspace, counts, self.below, results, self.round, last.digit, last.copies, num_warps=8)
        prefix, digit, following, below, above, equal, rank = results.tolist()
        upper, lower = ((prefix << last.digit | part) % 2**self.bits for part in (digit, following))
        if following < 0:
            lower = below + 2**63 if self.bits == 64 else below
        return Ranked(upper, lower, self.wanted - rank + above, equal)
