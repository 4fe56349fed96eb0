"""Rows: predictions as the workers of a cluster open them, each for itself, and the ranges that they read."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.cluster.worker import opened
from shortlist.errors import InputError
from shortlist.links import Link
from shortlist.predictions import Predictions
from shortlist.tensors import BLOCK_ENTRIES, Array

RANGES_PER_WORKER = 4  # so that workers which are slower, or come later, do not keep the others waiting


@dataclass(frozen=True, eq=False)
class Rows:
    """Predictions that any process can open.

    Args:
        key: different for all.
        open_it: opens them.
        chosen: the numbers of the rows among them, int64; None for all.
    """

    key: str
    open_it: Callable[[], Predictions]
    chosen: Array | None = None

    @staticmethod
    def at(path: str | Path, **keywords: Any) -> "Rows":
        """Those of a file or a folder of parts, which every machine of the cluster must see under this path.

        Args:
            path: as for :meth:`Predictions.load`, made absolute.
            **keywords: as for that function.
        """
        where = path if isinstance(path, str) and "://" in path else Path(path).absolute()
        return Rows(uuid.uuid4().hex, partial(Predictions.load, where, **keywords))

    @staticmethod
    def of(predictions: Predictions) -> "Rows":
        """Those in memory, which are sent to every machine once."""
        # As numpy arrays, which workers map rather than copy.
        arrays = {name: _numpy(getattr(predictions, name)) for name in ("scores", "target", "quality", "train_counts")}
        names = ("classes", "link", "ids", "superclasses", "network_digest", "columns")
        fields = arrays | {name: getattr(predictions, name) for name in names}
        return Rows(uuid.uuid4().hex, partial(Predictions, **fields))

    def only(self, chosen: Tensor) -> "Rows":
        """These rows, by number."""
        numbers = chosen.numpy() if self.chosen is None else self.chosen[chosen.numpy()]
        return replace(self, key=uuid.uuid4().hex, chosen=numbers)

    def linked(self, link: Link | None) -> "Rows":
        """The same rows with another link."""
        return replace(self, key=uuid.uuid4().hex, open_it=partial(_linked, self.open_it, link))

    def part(self, first: int, last: int) -> Predictions:
        """A range of the rows; what they are in stays open in this process."""
        every = opened(self.key, self.open_it)
        return every.rows(slice(first, last) if self.chosen is None else torch.from_numpy(self.chosen[first:last]))

    def whole(self) -> Predictions:
        """All rows, as this process opens them; an error if there are none."""
        if not len(self):
            raise InputError("rows: expected some, got none")
        every = opened(self.key, self.open_it)
        return every if self.chosen is None else self.part(0, len(self))

    def __len__(self) -> int:
        return len(opened(self.key, self.open_it)) if self.chosen is None else len(self.chosen)

    def sample(self) -> Predictions:
        """The first block of the rows."""
        return self.part(0, min(len(self), block_rows(self.classes)))

    @property
    def classes(self) -> int:
        """The number of classes."""
        return opened(self.key, self.open_it).num_classes


def _linked(open_it: Callable[[], Predictions], link: Link | None) -> Predictions:
    return open_it().with_link(link)


def _numpy(values: Tensor | None) -> Array | None:
    return None if values is None else values.cpu().numpy()


def block_rows(classes: int) -> int:
    """Rows of a block of :meth:`Predictions.blocks`."""
    return max(1, BLOCK_ENTRIES // max(1, classes))


def ranges(rows: int, workers: int, step: int = 1) -> Iterator[tuple[int, int]]:
    """Ranges of rows, a few for each worker, which begin at multiples of ``step``.

    >>> list(ranges(9, 1, step=2))
    [(0, 4), (4, 8), (8, 9)]
    """
    length = step * max(1, -(-rows // (step * workers * RANGES_PER_WORKER)))
    for start in range(0, rows, length):
        yield start, min(start + length, rows)
