"""Inputs with their labels, in splits: what every reader returns and training takes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from shortlist.checks import check_labels
from shortlist.data.pictures import Pictures, row_numbers
from shortlist.data.problems import Problem
from shortlist.errors import InputError
from shortlist.tensors import Target, is_single_label, shape_of

TRAIN = "train"
ALL = "all"  # the one split of what has none


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Rows of inputs and their labels.

    Args:
        inputs: pictures, or features ``float (N, D)``.
        target: ``int64 (N,)``, one label a row, or ``bool (N, C)``, any number of labels a row.
        ids: what a person calls each row.
        groups: which rows belong together (one plant, one observer) and should stay on one side of a split.
        posterior: the probability of each class given the input, where it is known.
    """

    inputs: Pictures | Tensor
    target: Target
    ids: Sequence[str]
    groups: Sequence[str] | None = None
    posterior: Tensor | None = None

    def __post_init__(self) -> None:
        if (self.target.dtype, self.target.ndim) not in ((torch.int64, 1), (torch.bool, 2)):
            raise InputError(f"target: expected int64 (N,) or bool (N, C), got {shape_of(self.target)}")
        n = len(self.target)
        for name in ("inputs", "ids", "groups", "posterior"):
            part = getattr(self, name)
            if part is not None and len(part) != n:
                raise InputError(f"{name}: expected one for each of the {n} rows of target, got {len(part)}")

    def __len__(self) -> int:
        return len(self.target)

    def __repr__(self) -> str:
        kind = f"{self.inputs.shape[1]} features" if isinstance(self.inputs, Tensor) else "pictures"
        return f"Split({len(self):,} rows, {kind}, {_label_kind(self.target)})"

    def rows(self, rows: Tensor) -> "Split":
        """Only these rows, by number or by a mask, in this order."""
        rows = row_numbers(rows)
        chosen = rows.tolist()
        return Split(
            self.inputs[rows] if isinstance(self.inputs, Tensor) else self.inputs.rows(rows),
            self.target[rows],
            [self.ids[row] for row in chosen],
            None if self.groups is None else [self.groups[row] for row in chosen],
            None if self.posterior is None else self.posterior[rows],
        )

    def with_target(self, target: Target) -> "Split":
        """The same rows with other labels, and so without a posterior."""
        return replace(self, target=target, posterior=None)

    def counts(self, classes: int) -> Tensor:
        """How many rows carry each label, int64 (C,)."""
        if is_single_label(self.target):
            return torch.bincount(self.target, minlength=classes)
        return self.target.sum(0)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Splits by name, with the names of the classes and of their superclasses.

    Args:
        name: what to call it.
        classes: the name of each class, in the order of the labels.
        splits: by name, ``"train"`` among them where there is one.
        superclasses: the name of the superclass of each class (genus, coarse label), or None.
        reference: the publication to cite.
        problems: what was odd about the files it came from.

    >>> features, target = torch.zeros(3, 2), torch.tensor([0, 1, 1])
    >>> garden = Dataset("garden", ["oak", "elm"], {"train": Split(features, target, ["a", "b", "c"])})
    >>> garden.train_counts
    tensor([1, 2])
    """

    name: str
    classes: Sequence[str]
    splits: Mapping[str, Split]
    superclasses: Sequence[str] | None = None
    reference: str = ""
    problems: Sequence[Problem] = ()

    def __post_init__(self) -> None:
        if self.superclasses is not None and len(self.superclasses) != len(self.classes):
            raise InputError(
                f"superclasses: expected one for each of the {len(self.classes)} classes, got {len(self.superclasses)}"
            )
        for name, split in self.splits.items():
            if not is_single_label(split.target) and split.target.shape[1] != len(self.classes):
                raise InputError(
                    f"split {name}: expected a target of {len(self.classes)} classes, got {shape_of(split.target)}"
                )
            check_labels(split.target, len(self.classes))

    def __repr__(self) -> str:
        splits = ", ".join(f"{name} {len(split):,}" for name, split in self.splits.items())
        above = f" in {len(self.superclass_names):,} superclasses" if self.superclasses else ""
        return f"Dataset({self.name!r}, {len(self.classes):,} classes{above}; {splits})"

    @property
    def multi_label(self) -> bool:
        """Whether a row may have any number of labels."""
        return any(not is_single_label(split.target) for split in self.splits.values())

    @property
    def train_counts(self) -> Tensor:
        """How many training rows carry each label, int64 (C,); of all splits where none is called train."""
        chosen = [self.splits[TRAIN]] if TRAIN in self.splits else list(self.splits.values())
        counts = torch.zeros(len(self.classes), dtype=torch.int64)
        for split in chosen:
            counts += split.counts(len(self.classes))
        return counts

    @property
    def superclass_names(self) -> list[str]:
        """The superclasses, each once, in order of first appearance."""
        return list(dict.fromkeys(self.superclasses or ()))

    @property
    def superclass_of(self) -> Tensor:
        """The number of the superclass of each class, int64 (C,)."""
        if self.superclasses is None:
            raise InputError(f"{self.name} has no superclasses")
        number = {name: place for place, name in enumerate(self.superclass_names)}
        return torch.tensor([number[name] for name in self.superclasses])

    def with_splits(self, splits: Mapping[str, Split]) -> "Dataset":
        """The same classes with other splits."""
        return replace(self, splits=splits)


def _label_kind(target: Target) -> str:
    return "one label a row" if is_single_label(target) else "any number of labels a row"


def classes_without_rows(splits: Mapping[str, Split], classes: Sequence[str], same_classes: bool = True) -> Iterator[Problem]:
    """Classes that hold no row; and those that hold none in some split, where every split ought to hold every class.

    Splits without a label at all are left aside.
    """
    counts = {name: split.counts(len(classes)) for name, split in splits.items()}
    counts = {name: count for name, count in counts.items() if count.any()}
    somewhere = torch.stack([count == 0 for count in counts.values()]).any(0) if counts else torch.ones(len(classes)).bool()
    for label in somewhere.nonzero()[:, 0].tolist():
        there = [name for name, count in counts.items() if count[label]]
        if not there:
            yield Problem("empty class", classes[label], "has no row")
        elif same_classes:
            absent = [name for name in counts if name not in there]
            yield Problem(
                "class missing from a split", classes[label], f"is in {', '.join(there)} and not in {', '.join(absent)}"
            )
