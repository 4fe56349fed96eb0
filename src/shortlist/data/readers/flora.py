"""The garden as a dataset with splits."""

from pathlib import Path
from typing import Literal, TypeAlias

from shortlist.data.dataset import Dataset, Split
from shortlist.data.flora.garden import Flora
from shortlist.data.pictures import PictureArray
from shortlist.errors import InputError

Kind: TypeAlias = Literal["specimens", "quadrats", "open-set"]
# Each split has its own seed, so that no picture is in two splits.
SPLIT_SEEDS = {"train": 1, "val": 2, "test": 3}


def flora_dataset(
    flora: Flora | None = None,
    *,
    kind: Kind = "specimens",
    train: int = 20_000,
    val: int = 4_000,
    test: int = 4_000,
    size: int | None = None,
    cache: str | Path | None = None,
) -> Dataset:
    """Train, val and test pictures of a garden, with the posterior of each.

    >>> data = flora_dataset(Flora(species=8, genera=2), train=5, val=2, test=2, size=16)
    >>> len(data.splits["train"]), len(data.classes), len(set(data.superclasses))
    (5, 8, 2)
    """
    flora = flora or Flora()
    draw = {"specimens": flora.specimens, "quadrats": flora.quadrats, "open-set": flora.open_set}.get(kind)
    if draw is None:
        raise InputError(f"kind: expected 'specimens', 'quadrats' or 'open-set', got {kind!r}")
    side = size if size is not None else (64 if kind == "quadrats" else 32)
    splits = {}
    for (name, seed), rows in zip(SPLIT_SEEDS.items(), (train, val, test), strict=True):
        images, target, posterior = draw(rows, seed=seed, size=side, cache=cache)
        ids = [f"{name}-{row}" for row in range(rows)]
        splits[name] = Split(PictureArray(images, ids), target, ids, posterior=posterior)
    kept = flora.labelled().tolist() if kind == "open-set" else range(len(flora.classes))
    classes, genera = ([names[place] for place in kept] for names in (flora.classes, flora.superclasses))
    return Dataset(f"Flora {kind}", classes, splits, genera)
