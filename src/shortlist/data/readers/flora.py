"""The garden as a dataset with splits."""

from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from shortlist.data.dataset import Dataset, Split
from shortlist.data.flora.garden import Flora
from shortlist.data.flora.measurements import COLUMNS, PLANT_COLUMNS, QUALITY
from shortlist.data.flora.quadrats import MOST_PLANTS
from shortlist.data.pictures import PictureArray
from shortlist.errors import InputError
from shortlist.words import expected_one_of, shown

Kind: TypeAlias = Literal["specimens", "quadrats", "open-set", "measurements", "open-set-measurements", "plant-lists"]
MEASURED = ("measurements", "open-set-measurements")
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
    """Train, val and test pictures of a garden, or rows of a table, with the posterior of each.

    ``size`` and ``cache`` are for pictures; ``noise`` and ``spread`` for measurements, of all species or of an open set.
    ``"plant-lists"`` are quadrats as a table.

    >>> data = flora_dataset(Flora(species=8, genera=2), train=5, val=2, test=2, size=16)
    >>> len(data.splits["train"]), len(data.classes), len(set(data.superclasses))
    (5, 8, 2)
    """
    flora = flora or Flora()
    readings = _given(noise=noise, spread=spread)
    if readings and kind not in MEASURED:
        raise InputError(f"noise, spread: expected with kind 'measurements', got kind {kind!r}")
    if kind in (*MEASURED, "plant-lists"):
        pictures = _given(size=size, cache=cache)
        if pictures:
            raise InputError(f"{', '.join(pictures)}: expected with pictures, got kind {kind!r}")
        return _table(flora, kind, (train, val, test), readings)
    draw = {"specimens": flora.specimens, "quadrats": flora.quadrats, "open-set": flora.open_set}.get(kind)
    if draw is None:
        raise InputError(f"kind: {expected_one_of(kind, get_args(Kind))}; got {shown(kind)}")
    side = size if size is not None else (64 if kind == "quadrats" else 32)
    splits = {}
    for (name, seed), rows in zip(SPLIT_SEEDS.items(), (train, val, test), strict=True):
        images, target, posterior = draw(rows, seed=seed, size=side, cache=cache)
        ids = [f"{name}-{row}" for row in range(rows)]
        splits[name] = Split(PictureArray(images, ids), target, ids, posterior=posterior)
    return _named(flora, kind, splits)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _table(flora: Flora, kind: Kind, rows: tuple[int, int, int], options: dict[str, Any]) -> Dataset:
    """The garden as a table of features."""
    draws: dict[str, Any] = {
        "measurements": flora.measurements,
        "open-set-measurements": flora.open_set_measurements,
        "plant-lists": flora.plant_lists,
    }
    plants = [f"plant {place + 1}, {column}" for place in range(MOST_PLANTS) for column in PLANT_COLUMNS]
    columns = [*PLANT_COLUMNS, *plants] if kind == "plant-lists" else [*COLUMNS, QUALITY]
    splits = {}
    for (name, seed), number in zip(SPLIT_SEEDS.items(), rows, strict=True):
        features, target, posterior = draws[kind](number, seed=seed, **options)
        ids = [f"{name}-{row}" for row in range(number)]
        splits[name] = Split(features, target, ids, posterior=posterior, feature_names=columns)
    return _named(flora, kind, splits)


def _named(flora: Flora, kind: Kind, splits: dict[str, Split]) -> Dataset:
    """The splits with the species that have a label."""
    kept = flora.labelled().tolist() if kind.startswith("open-set") else range(len(flora.classes))
    classes, genera = ([names[place] for place in kept] for names in (flora.classes, flora.superclasses))
    return Dataset(f"Flora {kind}", classes, splits, genera)
