"""Galleries: rows worth looking at, and why, chosen from probabilities, sets and labels in one pass over blocks.

Which rows are chosen depends on the rows alone, not on the blocks: ties go to the lower row number, and typical rows are those
with the smallest hash of their number.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from shortlist.evaluation.hashing import hashed
from shortlist.row_order import count_rows, first_largest
from shortlist.sets.lists import LabelList
from shortlist.tensors import Array, Probs, Sets, Target, is_single_label, pick

SHOWN = 8  # rows of a gallery
POOL = 64  # candidates kept of each kind, so that a few pairs of classes do not fill a gallery
SAME_PAIR = 2  # rows of a gallery with the same label and the same most probable label
CONFIDENT = 0.5  # probability from which a mistake is a confident one
SURE = 0.9  # probability of another label from which a given label is suspect
TYPICAL, WRONG, LARGEST, EMPTY, SUSPECT, CHANGED = "typical", "wrong", "largest", "empty", "suspect", "changed"
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Exhibit:
    """A row of a gallery.

    Args:
        row: its number.
        answer: its set as a list, with its id and labels.
        best: its most probable label.
        best_prob: the probability of that label.
        given_prob: the probability of its own label, for rows with one label.
        before: its set by the evaluation that this one is compared with.
    """

    row: int
    answer: LabelList
    best: str
    best_prob: float
    given_prob: float | None = None
    before: LabelList | None = None


@dataclass(frozen=True)
class Gallery:
    """Rows of one kind.

    Args:
        kind: ``typical``, ``wrong``, ``largest``, ``empty``, ``suspect`` or ``changed``.
        total: number of rows of this kind.
        exhibits: some of them.
    """

    kind: str
    total: int
    exhibits: Sequence[Exhibit]


@dataclass
class _Candidates:
    """The best rows of one kind so far, by decreasing key, ties by lower row number."""

    total: int = 0
    keys: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    rows: Rows = field(default_factory=lambda: np.zeros(0, np.int64))
    pairs: Rows = field(default_factory=lambda: np.zeros((0, 2), np.int64))  # label and most probable label

    def add(self, keys: npt.NDArray[np.float64], rows: Rows, pairs: Rows, total: int) -> None:
        """Add rows of this kind, of which there are ``total``."""
        self.total += total
        keys, rows = np.concatenate([self.keys, keys]), np.concatenate([self.rows, rows])
        best = np.lexsort((rows, -keys))[:POOL]
        self.keys, self.rows, self.pairs = keys[best], rows[best], np.concatenate([self.pairs, pairs])[best]

    def chosen(self, taken: set[int], most: int = SHOWN) -> list[int]:
        """The first rows that are not taken, few with the same label and the same most probable label."""
        found: list[int] = []
        seen: dict[tuple[int, int], int] = {}
        for row, (label, best) in zip(self.rows.tolist(), self.pairs.tolist(), strict=True):
            pair = (label, best)
            if row in taken or (label >= 0 and seen.get(pair, 0) == SAME_PAIR) or len(found) == most:
                continue
            seen[pair] = seen.get(pair, 0) + 1
            found.append(row)
        return found


@dataclass
class Picker:
    """Chooses the rows of the galleries while blocks of rows go by.

    Args:
        classes: number of classes.
        probabilities: whether values are probabilities, rather than scores without a link.
    """

    classes: int
    probabilities: bool
    _kinds: dict[str, _Candidates] = field(default_factory=dict)
    _smallest: int | None = None
    _largest: int = 0

    def add(self, probs: Probs, sets: Sets | None, target: Target | None, first_row: int = 0) -> None:
        """Add a block of rows, whose numbers start at ``first_row``."""
        rows = np.arange(first_row, first_row + len(probs))
        best = first_largest(probs)
        top = probs.gather(1, best).squeeze(1).double().cpu().numpy()
        own = target.cpu().numpy() if target is not None and is_single_label(target) else np.full(len(rows), -1)
        block = _Block(rows, np.stack([own, best.squeeze(1).cpu().numpy()], 1), self._kinds)
        block.offer(TYPICAL, -hashed(rows).astype(np.float64), np.ones(len(rows), bool))
        if sets is not None and len(rows):
            sizes = count_rows(sets).cpu().numpy()
            self._smallest = min(int(sizes.min()), self._smallest if self._smallest is not None else int(sizes.min()))
            self._largest = max(int(sizes.max()), self._largest)
            block.offer(LARGEST, sizes.astype(np.float64), sizes > 1)
            block.offer(EMPTY, top, sizes == 0)
        if target is not None:
            self._add_mistakes(block, probs, target, top)

    def _add_mistakes(self, block: "_Block", probs: Probs, target: Target, top: npt.NDArray[np.float64]) -> None:
        if not is_single_label(target):
            others = probs.masked_fill(target, -torch.inf).amax(1).double().cpu().numpy()
            block.offer(WRONG, others, others >= CONFIDENT if self.probabilities else np.isfinite(others))
            return
        given = pick(probs, target).double().cpu().numpy()
        wrong = block.pairs[:, 0] != block.pairs[:, 1]
        if not self.probabilities:
            block.offer(WRONG, top - given, wrong)
            return
        block.offer(WRONG, top, wrong & (top >= CONFIDENT))
        block.offer(SUSPECT, -given, wrong & (top >= SURE) & (given < suspect_below(self.classes)))

    def merge(self, other: "Picker") -> None:
        """Add what was found among other rows."""
        for kind, found in other._kinds.items():
            self._kinds.setdefault(kind, _Candidates()).add(found.keys, found.rows, found.pairs, found.total)
        sizes = [size for size in (self._smallest, other._smallest) if size is not None]
        self._smallest, self._largest = min(sizes, default=None), max(self._largest, other._largest)

    def packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The same as numbers that JSON holds, and arrays; for :meth:`unpacked`."""
        plain = {"classes": self.classes, "probabilities": self.probabilities, "sizes": (self._smallest, self._largest)}
        kinds = dict(sorted(self._kinds.items()))
        parts = ("keys", "rows", "pairs")
        arrays = {f"{kind}.{part}": getattr(found, part) for kind, found in kinds.items() for part in parts}
        return plain | {"totals": {kind: found.total for kind, found in kinds.items()}}, arrays

    @staticmethod
    def unpacked(plain: dict[str, Any], arrays: Mapping[str, Array]) -> "Picker":
        """The picker that :meth:`packed` gave."""
        kinds = {
            kind: _Candidates(total, *(arrays[f"{kind}.{part}"] for part in ("keys", "rows", "pairs")))
            for kind, total in plain["totals"].items()
        }
        return Picker(plain["classes"], plain["probabilities"], kinds, *plain["sizes"])

    def chosen(self) -> dict[str, tuple[int, list[int]]]:
        """For each kind with any rows, their number and those chosen; no row is in two galleries, the typical ones aside."""
        taken: set[int] = set()
        found: dict[str, tuple[int, list[int]]] = {}
        for kind in (TYPICAL, SUSPECT, WRONG, LARGEST, EMPTY):
            candidates = self._kinds.get(kind)
            if candidates is None or (kind == LARGEST and self._smallest == self._largest):
                continue
            rows = candidates.chosen(set() if kind == TYPICAL else taken)
            if rows:
                found[kind] = (candidates.total, rows)
                taken.update(rows if kind != TYPICAL else ())
        return found


@dataclass(frozen=True)
class _Block:
    """The rows of a block, and the candidates that they are offered to."""

    rows: Rows
    pairs: Rows
    kinds: dict[str, _Candidates]

    def offer(self, kind: str, keys: npt.NDArray[np.float64], which: npt.NDArray[np.bool_]) -> None:
        if which.any():
            self.kinds.setdefault(kind, _Candidates()).add(keys[which], self.rows[which], self.pairs[which], int(which.sum()))


def suspect_below(classes: int) -> float:
    """The probability below which a given label is suspect: a tenth of that of a blind guess."""
    return 0.1 / classes


def galleries_of(picker: Picker, show: Callable[[Tensor], list[Exhibit]]) -> tuple[Gallery, ...]:
    """The galleries, with what is to be shown of each row.

    Args:
        picker: that has seen all rows.
        show: row numbers → exhibits.
    """
    chosen = picker.chosen()
    every = sorted({row for _, rows in chosen.values() for row in rows})
    shown = {exhibit.row: exhibit for exhibit in show(torch.tensor(every, dtype=torch.int64))} if every else {}
    found = []
    for kind, (total, rows) in chosen.items():
        exhibits = [shown[row] for row in rows]
        if kind == TYPICAL:
            exhibits.sort(key=lambda one: (len(one.answer.labels), one.row))
        found.append(Gallery(kind, total, exhibits))
    return tuple(found)
