"""The garden as a dataset with splits."""

from pathlib import Path
from typing import Any, Literal, TypeAlias

from shortlist.data.dataset import Dataset, Split
from shortlist.data.flora.garden import Flora
from shortlist.data.flora.measurements import COLUMNS, QUALITY
from shortlist.data.pictures import PictureArray
from shortlist.errors import InputError

Kind: TypeAlias = Literal["specimens", "quadrats", "open-set", "measurements"]
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
    noise: float | None = None,
    spread: float | None = None,
) -> Dataset:
    """Train, val and test pictures of a garden, or rows of ``"measurements"``, with the posterior of each.

    ``size`` and ``cache`` are for pictures, ``noise`` and ``spread`` for :meth:`Flora.measurements`.

    >>> data = flora_dataset(Flora(species=8, genera=2), train=5, val=2, test=2, size=16)
    >>> len(data.splits["train"]), len(data.classes), len(set(data.superclasses))
    (5, 8, 2)
    """
    flora = flora or Flora()
    if kind == "measurements":
        return _table(flora, (train, val, test), _given(noise=noise, spread=spread), _given(size=size, cache=cache))
    if _given(noise=noise, spread=spread):
        raise InputError(f"noise, spread: expected with kind 'measurements', got kind {kind!r}")
    draw = {"specimens": flora.specimens, "quadrats": flora.quadrats, "open-set": flora.open_set}.get(kind)
    if draw is None:
        raise InputError(f"kind: expected 'specimens', 'quadrats', 'open-set' or 'measurements', got {kind!r}")
    side = size if size is not None else (64 if kind == "quadrats" else 32)
    splits = {}
    for (name, seed), rows in zip(SPLIT_SEEDS.items(), (train, val, test), strict=True):
        images, target, posterior = draw(rows, seed=seed, size=side, cache=cache)
        ids = [f"{name}-{row}" for row in range(rows)]
        splits[name] = Split(PictureArray(images, ids), target, ids, posterior=posterior)
    kept = flora.labelled().tolist() if kind == "open-set" else range(len(flora.classes))
    classes, genera = ([names[place] for place in kept] for names in (flora.classes, flora.superclasses))
    return Dataset(f"Flora {kind}", classes, splits, genera)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _table(flora: Flora, rows: tuple[int, int, int], options: dict[str, Any], pictures: dict[str, Any]) -> Dataset:
    """The garden as a table of features."""
    if pictures:
        raise InputError(f"{', '.join(pictures)}: expected with pictures, got kind 'measurements'")
    splits = {}
    for (name, seed), number in zip(SPLIT_SEEDS.items(), rows, strict=True):
        features, target, posterior = flora.measurements(number, seed=seed, **options)
        ids = [f"{name}-{row}" for row in range(number)]
        splits[name] = Split(features, target, ids, posterior=posterior, feature_names=[*COLUMNS, QUALITY])
    return Dataset("Flora measurements", flora.classes, splits, flora.superclasses)
