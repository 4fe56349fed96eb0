"""Every picture of a dataset opened once: which cannot be read, and which are on both sides of a split."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from shortlist.data.dataset import Dataset, Split
from shortlist.data.duplicates import fingerprints, near_duplicates, warn_straddling
from shortlist.data.loading import UNREADABLE, Loaded, picture_batches
from shortlist.data.problems import Problem
from shortlist.errors import InputError

PRINT_SIZE = 32  # pixels, enough for a fingerprint


@dataclass(frozen=True, eq=False)
class Inspection:
    """What opening every picture showed.

    Args:
        prints: the fingerprint of each picture that can be read, by id.
        problems: the pictures that cannot be read, and remarks on those that are unusual.
    """

    prints: dict[str, int]
    problems: list[Problem]

    @property
    def unreadable(self) -> list[Problem]:
        """The pictures that cannot be read."""
        return [problem for problem in self.problems if problem.kind == UNREADABLE]


def inspect_pictures(dataset: Dataset, *, progress: Callable[[int], None] | None = None) -> Inspection:
    """Open every picture of every split.

    Args:
        dataset: of pictures.
        progress: told how many pictures are done.
    """
    found = Inspection({}, [])
    done = 0
    for split in dataset.splits.values():
        for batch, ids in _batches(dataset.name, split):
            found.problems.extend(batch.problems)
            found.prints.update(zip(ids, fingerprints(batch.images).tolist(), strict=True))
            done += batch.asked
            if progress is not None:
                progress(done)
    return found


def warn_duplicates(dataset: Dataset, prints: dict[str, int]) -> Tensor:
    """Warn once if pictures of one split look like pictures of another; the rows, as :func:`warn_straddling` gives them."""
    known = [(name, identity) for name, split in dataset.splits.items() for identity in split.ids if identity in prints]
    found = near_duplicates(np.array([prints[identity] for _, identity in known], np.uint64))
    return warn_straddling(found, [name for name, _ in known], [identity for _, identity in known])


def _batches(name: str, split: Split) -> Iterator[tuple[Loaded, list[str]]]:
    if isinstance(split.inputs, Tensor):
        raise InputError(f"{name}: expected pictures, got a table of {split.inputs.shape[1]} features")
    for batch in picture_batches(split.inputs, size=PRINT_SIZE, fit="stretch"):
        yield batch, [split.ids[row] for row in batch.rows.tolist()]
