"""What is done to data before an arm trains on them."""

from dataclasses import replace

import torch

from shortlist.claims.training import Change
from shortlist.data import Dataset
from shortlist.data.dataset import Split

SHARES = {"train": 0.6, "val": 0.15, "test": 0.25}
BACKGROUND = "none of these"


def redivided(dataset: Dataset, seed: int) -> Dataset:
    """All rows of a table, divided anew for every seed, so that an interval over seeds holds chance in the rows too."""
    parts = list(dataset.splits.values())
    whole = Split(
        torch.cat([part.inputs for part in parts if isinstance(part.inputs, torch.Tensor)]),
        torch.cat([part.labels for part in parts]),
        [f"{place}-{name}" for place, part in enumerate(parts) for name in part.ids],
    )
    order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(seed))
    sizes = [round(share * len(whole)) for share in list(SHARES.values())[:-1]]
    cuts = order.split([*sizes, len(whole) - sum(sizes)])
    return replace(dataset, splits={name: whole.rows(rows) for name, rows in zip(SHARES, cuts, strict=True)})


def with_background(dataset: Dataset, seed: int) -> Dataset:
    """Rows with one label or none as rows with one label: those with none belong to one more class."""
    classes = [*dataset.classes, BACKGROUND]
    splits = {}
    for name, split in dataset.splits.items():
        labels = split.labels
        target = torch.where(labels.any(1), labels.int().argmax(1), len(dataset.classes))
        splits[name] = Split(split.inputs, target, split.ids)
    return Dataset(dataset.name, classes, splits)


CHANGES: dict[str, Change] = {"redivided": redivided, "background": with_background}
