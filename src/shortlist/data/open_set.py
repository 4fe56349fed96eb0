"""Remove the labels of some classes, so that their rows have no label (open-set data)."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import whole
from shortlist.data.dataset import Dataset, Split
from shortlist.data.randomness import Purpose, random_ranks
from shortlist.errors import InputError
from shortlist.tensors import is_single_label


def unlabel(dataset: Dataset, per_superclass: int = 2, seed: int = 0) -> Dataset:
    """In each superclass so many classes lose their label: their rows stay, as rows that show nothing with a name.

    The target becomes bool (N, C') over the C' classes that keep their label, in their old order. A known posterior keeps
    their columns, and what its rows lack to 1 is the probability of none of them. Which classes lose their label depends on the
    seed and on the number of the class only.

    Args:
        dataset: with superclasses.
        per_superclass: how many classes of each superclass lose their label; at least one has to keep it.
        seed: of the choice of classes.

    >>> rows = Split(torch.zeros(4, 1), torch.arange(4), list("abcd"))
    >>> garden = Dataset("garden", ["bee", "fly", "oak", "elm"], {"train": rows}, ["animal", "animal", "tree", "tree"])
    >>> known = unlabel(garden, per_superclass=1)
    >>> known.classes, known.splits["train"].target.sum(1)
    (['bee', 'elm'], tensor([1, 0, 0, 1]))

    Liao, Gavves, Oh, Snoek, "Quasibinary classifier for images with zero and multiple labels", Table II (CIFAR60+40).
    """
    per_superclass = whole(0)("per_superclass", per_superclass)
    kept = _kept_classes(dataset, per_superclass, seed)
    names = kept.tolist()
    return replace(
        dataset,
        name=f"{dataset.name}, {len(names)} of {len(dataset.classes)} classes labelled",
        classes=[dataset.classes[label] for label in names],
        superclasses=None if dataset.superclasses is None else [dataset.superclasses[label] for label in names],
        splits={name: _relabelled(split, kept, len(dataset.classes)) for name, split in dataset.splits.items()},
        numbered=False,
    )


def _kept_classes(dataset: Dataset, per_superclass: int, seed: int) -> Tensor:
    """The classes that keep their label, ascending: all but those with the smallest random numbers of their superclass."""
    superclass = dataset.superclass_of.numpy()
    small = np.bincount(superclass).argmin()
    if np.bincount(superclass)[small] <= per_superclass:
        raise InputError(
            f"per_superclass: expected fewer than the classes of every superclass, got {per_superclass}, and "
            f"{dataset.superclass_names[small]!r} has {np.bincount(superclass)[small]}"
        )
    return torch.from_numpy(np.flatnonzero(random_ranks(superclass, seed, Purpose.OPEN_SET) >= per_superclass))


def _relabelled(split: Split, kept: Tensor, classes: int) -> Split:
    posterior = None if split.posterior is None else split.posterior[:, kept]
    labels = split.labels
    if not is_single_label(labels):
        return replace(split, target=labels[:, kept], posterior=posterior, classes=None)
    place = torch.full((classes,), -1)
    place[kept] = torch.arange(len(kept))
    label = place[labels]
    rows = (label >= 0).nonzero().squeeze(1)
    target = torch.zeros(len(split), len(kept), dtype=torch.bool)
    target[rows, label[rows]] = True
    return replace(split, target=target, posterior=posterior, classes=None)
