"""Open every picture of a dataset once: which cannot be read, and which are on both sides of a split."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shortlist.data.dataset import Dataset
from shortlist.data.duplicates import fingerprints, near_duplicates, warn_straddling
from shortlist.data.loading import UNREADABLE, picture_batches
from shortlist.data.problems import Problem
from shortlist.errors import InputError
from shortlist.tensors import Array

PRINT_SIZE = 32  # pixels, enough for a fingerprint


@dataclass(frozen=True, eq=False)
class Inspection:
    """The result of opening every picture.

    Args:
        prints: the fingerprint of each row of each split, uint64 (N,); 0 for a picture that cannot be read.
        readable: whether each row of each split can be read, bool (N,).
        problems: the pictures that cannot be read, and remarks on those that are unusual.
    """

    prints: Mapping[str, Array]
    readable: Mapping[str, Tensor]
    problems: Sequence[Problem]

    @property
    def unreadable(self) -> list[Problem]:
        """The pictures that cannot be read."""
        return [problem for problem in self.problems if problem.kind == UNREADABLE]


def inspect_pictures(dataset: Dataset, *, progress: Callable[[int], None] | None = None) -> Inspection:
    """Open every picture of every split.

    Args:
        dataset: of pictures.
        progress: callback, called with the number of pictures done.
    """
    prints = {name: np.zeros(len(split), np.uint64) for name, split in dataset.splits.items()}
    readable = {name: torch.zeros(len(split), dtype=torch.bool) for name, split in dataset.splits.items()}
    problems: list[Problem] = []
    done = 0
    for name, split in dataset.splits.items():
        if isinstance(split.inputs, Tensor):
            raise InputError(f"{dataset.name}: expected pictures, got a table of {split.inputs.shape[1]} features")
        for batch in picture_batches(split.inputs, size=PRINT_SIZE, fit="stretch"):
            problems += batch.problems
            prints[name][batch.rows.numpy()] = fingerprints(batch.images).numpy()
            readable[name][batch.rows] = True
            done += batch.asked
            if progress is not None:
                progress(done)
    return Inspection(prints, readable, problems)


def warn_duplicates(dataset: Dataset, prints: Mapping[str, Array]) -> Tensor:
    """Warn once if pictures of one split look like pictures of another; the rows, as :func:`warn_straddling` gives them.

    Args:
        dataset: with its splits.
        prints: the fingerprint of each row of each split.
    """
    every = np.concatenate([prints[name] for name in dataset.splits])
    sides = [name for name, split in dataset.splits.items() for _ in range(len(split))]
    ids = [identity for split in dataset.splits.values() for identity in split.ids]
    return warn_straddling(near_duplicates(every), sides, ids)
