"""One pass over rows: what is looked for in each block, and what was found, which adds up in any order."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays, save as save_arrays
from torch import Tensor

from shortlist.errors import InputError
from shortlist.evaluation.confusion import Confusions
from shortlist.evaluation.galleries import Picker
from shortlist.evaluation.tallies import Tally
from shortlist.evaluation.tally import Block
from shortlist.predictions import Predictions
from shortlist.sets import SetRule
from shortlist.sets.fit_state import below
from shortlist.tensors import Probs

FORMAT = "shortlist-found/1"
HEADER, TALLY = "header", "tally"


@dataclass
class Found:
    """What a pass over some rows has found.

    Args:
        tally: totals.
        picker: of rows for galleries.
        confusions: of pairs of classes.
        kept: the probabilities of blocks, by the number of their first row, if all are needed.
    """

    tally: Tally
    picker: Picker
    confusions: Confusions
    kept: dict[int, Probs] = field(default_factory=dict)

    def merge(self, other: "Found") -> None:
        """Add what was found among other rows."""
        self.tally = self.tally.merge(other.tally)
        self.picker.merge(other.picker)
        self.confusions.merge(other.confusions)
        self.kept |= other.kept

    def to_bytes(self) -> bytes:
        """The same, but for what was kept, as the bytes of a safetensors file; for :meth:`from_bytes`."""
        parts = {"picker": self.picker.packed(), "confusions": self.confusions.packed()}
        header = {"format": FORMAT, **{name: plain for name, (plain, _) in parts.items()}}
        arrays = {f"{name}.{part}": array for name, (_, held) in parts.items() for part, array in held.items()}
        arrays |= {
            name: np.frombuffer(content, np.uint8)
            for name, content in ((HEADER, json.dumps(header).encode()), (TALLY, self.tally.to_bytes()))
        }
        content: bytes = save_arrays({name: np.ascontiguousarray(array) for name, array in arrays.items()})
        return content

    @staticmethod
    def from_bytes(content: bytes) -> "Found":
        """What :meth:`to_bytes` gave; nothing in it is executed."""
        try:
            arrays = load_arrays(content)
            header = json.loads(arrays.pop(HEADER).tobytes())
            if header["format"] != FORMAT:
                raise InputError(f"found: expected the format {FORMAT}, got {header['format']!r}")
            tally = Tally.from_bytes(arrays.pop(TALLY).tobytes())
            picker = Picker.unpacked(header["picker"], below("picker.", arrays))
            return Found(tally, picker, Confusions.unpacked(header["confusions"], below("confusions.", arrays)))
        except (SafetensorError, KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise InputError(f"found: expected what Found.to_bytes gave, got something else ({error!r})") from error

    @property
    def probs(self) -> list[Probs]:
        """The probabilities that were kept, in the order of the rows."""
        return [self.kept[start] for start in sorted(self.kept)]


@dataclass(frozen=True)
class Looking:
    """What a pass over rows looks for.

    Args:
        totals: their names.
        rule: whose sets are measured, if any.
        classes: the number of classes.
        probabilities: whether rows have probabilities, rather than scores alone.
        everything: whether rows for galleries and confused classes are looked for, rather than totals alone.
        keeps: whether all probabilities are kept.
        k: as in :class:`~shortlist.evaluation.tally.Block`, like the others.
        bins: see there.
        top_n: see there.
        shots: see there.
        groups: see there.
    """

    totals: tuple[str, ...]
    rule: SetRule | None
    classes: int
    probabilities: bool
    everything: bool
    keeps: bool
    k: int
    bins: int
    top_n: int | None
    shots: tuple[int, ...] | None
    groups: Tensor | None

    def nothing(self) -> Found:
        """What is found before the first row."""
        return Found(Tally(self.totals), Picker(self.classes, self.probabilities), Confusions(self.classes))

    @torch.no_grad()
    def at(
        self, blocks: Iterable[Predictions], first_row: int = 0, progress: Callable[[int], None] = lambda rows: None
    ) -> Found:
        """What these blocks of rows hold, whose numbers start at ``first_row``.

        Sums are over blocks: parts of all rows give the same to the last bit if they begin where a block of all begins.
        """
        found, rule = self.nothing(), self.rule
        sets_of = None if rule is None else rule.in_blocks()
        start = first_row
        for rows in blocks:
            probs = rows.plausibility()
            sets = None if sets_of is None or rule is None else sets_of(probs, rows.scores, rows.quality, rule.groups_in(rows))
            accepted = None if rule is None or rule.gate is None else rule.gate.accepts(probs, rows.quality)
            if self.everything:
                found.picker.add(probs, sets, rows.target, start)
                if rows.target is not None:
                    found.confusions.add(probs, sets, rows.target, start)
            block = Block(rows, probs, sets, self.k, self.bins, self.top_n, accepted, self.shots, self.groups)
            found.tally = found.tally.merge(Tally.of(block, self.totals, start))
            if self.keeps:
                found.kept[start] = probs
            start += len(rows)
            progress(found.tally.rows)
        return found
