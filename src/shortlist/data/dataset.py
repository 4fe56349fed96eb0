"""Split and Dataset: rows of inputs with or without labels, in named splits. Every reader returns them, training takes them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from shortlist.checks import check_labels
from shortlist.class_names import check_listed, superclass_by_class
from shortlist.data.class_lists import target_among
from shortlist.data.feature_names import column_order, is_unnamed
from shortlist.data.pictures import Pictures, row_numbers
from shortlist.data.problems import Problem
from shortlist.errors import InputError
from shortlist.tensors import Target, is_single_label, shape_of
from shortlist.words import listed

InputKind: TypeAlias = Literal["pictures", "features"]
TRAIN, TEST = "train", "test"
ALL = "all"  # the name of the split of a dataset that is not divided
EMPTY_CLASS, MISSING_CLASS = "empty class", "class missing from a split"  # kinds of problems
# Usual names of splits, and what we call them.
SPLIT_NAMES = {
    "train": TRAIN,
    "training": TRAIN,
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": TEST,
    "testing": TEST,
}
# Names that mean these splits only if no other name in the data does.
LIKELY_SPLIT_NAMES = {
    "dev": "val",
    "development": "val",
    "eval": TEST,
    "evaluation": TEST,
    "holdout": TEST,
    "hold-out": TEST,
    "hold_out": TEST,
    "heldout": TEST,
}


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Rows of inputs, with their labels where these are known.

    Args:
        inputs: pictures, or features ``float (N, D)``.
        target: ``int64 (N,)``, one label a row; ``bool (N, C)``, any number of labels a row; or None for rows without labels.
        ids: the name of each row: a path, an id, a row number.
        groups: which rows belong together (one plant, one observer) and must stay on one side of a split.
        posterior: the probability of each class given the input, where it is known.
        feature_names: the name of each feature, where the inputs are features with names.
        columns: what else is known about each row, by name: its licence, the organ that it shows. Empty where it is unknown.
        classes: the names of the classes that the labels refer to, so that they can be matched with others; a dataset gives
            its own to its splits. None if they are not known: the numbers are then those of the classes the split is used with.
        open_classes: as for :class:`Dataset`.

    >>> Split(torch.zeros(2, 3), None, ["a", "b"])
    Split(2 rows, 3 features, no labels)
    """

    inputs: Pictures | Tensor
    target: Target | None
    ids: Sequence[str]
    groups: Sequence[str] | None = None
    posterior: Tensor | None = None
    feature_names: Sequence[str] = ()
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    classes: Sequence[str] | None = None
    open_classes: bool = False

    def __post_init__(self) -> None:
        for name in ("ids", "groups", "feature_names", "classes"):
            check_listed(name, getattr(self, name))
        for name, column in self.columns.items():
            check_listed(f"column {name!r}", column)
        if self.target is not None and (self.target.dtype, self.target.ndim) not in ((torch.int64, 1), (torch.bool, 2)):
            raise InputError(f"target: expected int64 (N,) or bool (N, C), got {shape_of(self.target)}")
        reference, n = ("inputs", len(self.inputs)) if self.target is None else ("target", len(self.target))
        parts = {name: getattr(self, name) for name in ("inputs", "ids", "groups", "posterior")}
        for name, part in {**parts, **{f"column {name!r}": column for name, column in self.columns.items()}}.items():
            if part is not None and len(part) != n:
                raise InputError(f"{name}: expected one for each of the {n} rows of {reference}, got {len(part)}")
        columns = self.inputs.shape[1] if isinstance(self.inputs, Tensor) else 0
        if self.feature_names and len(self.feature_names) != columns:
            raise InputError(f"feature_names: expected one for each of the {columns} features, got {len(self.feature_names)}")
        if self.classes is not None:
            self._check_labels(self.classes)

    def _check_labels(self, classes: Sequence[str]) -> None:
        """Raise an error unless the labels are among as many classes."""
        if self.target is None:
            return
        if not is_single_label(self.target) and self.target.shape[1] != len(classes):
            raise InputError(f"target: expected labels of {len(classes)} classes, got {shape_of(self.target)}")
        check_labels(self.target, len(classes))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        kind = f"{self.inputs.shape[1]} features" if isinstance(self.inputs, Tensor) else "pictures"
        return f"Split({len(self):,} rows, {kind}, {_label_kind(self.target)})"

    @property
    def input_kind(self) -> InputKind:
        """``"pictures"`` or ``"features"``."""
        return "features" if isinstance(self.inputs, Tensor) else "pictures"

    @property
    def labels(self) -> Target:
        """The target; an error where the rows have none."""
        if self.target is None:
            raise InputError(
                f"target: expected labels, got {len(self):,} rows without: rows without labels can be scored and classified, "
                "but not trained on, divided by class or evaluated"
            )
        return self.target

    def rows(self, rows: Tensor) -> "Split":
        """Only these rows, by number or by a mask, in this order."""
        rows = row_numbers(rows)
        chosen = rows.tolist()
        return replace(
            self,
            inputs=self.inputs[rows] if isinstance(self.inputs, Tensor) else self.inputs.rows(rows),
            target=None if self.target is None else self.target[rows],
            ids=[self.ids[row] for row in chosen],
            groups=None if self.groups is None else [self.groups[row] for row in chosen],
            posterior=None if self.posterior is None else self.posterior[rows],
            columns={name: [column[row] for row in chosen] for name, column in self.columns.items()},
        )

    def with_target(self, target: Target | None, classes: Sequence[str] | None = None) -> "Split":
        """The same rows with other labels, and so without a posterior.

        Args:
            target: the labels.
            classes: the names of the classes that they refer to; those of the split by default.
        """
        return replace(self, target=target, posterior=None, classes=self.classes if classes is None else classes)

    def with_classes(self, classes: Sequence[str]) -> "Split":
        """The same rows with their labels numbered by these classes, matched by name; see :func:`target_among`.

        Labels without names get these names. A label that is not among the classes is an error; so is, where rows may have
        several labels, a class that the split does not know, unless its classes are open.

        >>> rows = Split(torch.zeros(2, 1), torch.tensor([0, 1]), ["a", "b"], classes=["elm", "oak"])
        >>> rows.with_classes(["oak", "ash", "elm"]).target
        tensor([2, 0])
        """
        if self.classes is not None and list(self.classes) == list(classes):
            return self
        if self.target is None or self.classes is None:
            return replace(self, classes=classes)
        return self.with_target(target_among(self.target, self.classes, classes, need_all=not self.open_classes), classes)

    def with_features(self, names: Sequence[str]) -> "Split":
        """The same rows with these features in this order, matched by name; features without names get these names.

        >>> rows = Split(torch.tensor([[1.0, 2.0]]), None, ["a"], feature_names=["width", "height"])
        >>> rows.with_features(["height", "width"]).inputs
        tensor([[2., 1.]])
        """
        if list(names) == list(self.feature_names) or not isinstance(self.inputs, Tensor):
            return self
        order = column_order(self.feature_names, names)
        return replace(self, inputs=self.inputs if order is None else self.inputs[:, order], feature_names=tuple(names))

    def counts(self, classes: int) -> Tensor:
        """How many rows carry each label, int64 (C,)."""
        labels = self.labels
        return torch.bincount(labels, minlength=classes) if is_single_label(labels) else labels.sum(0)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Splits by name, with the names of the classes and of their superclasses.

    Args:
        name: the name of the dataset, for messages and reports.
        classes: the name of each class, in the order of the labels; may be empty where no row has a label.
        splits: by name, ``"train"`` among them where there is one. Labels of a split that knows its classes are matched with
            these by name.
        superclasses: the name of the superclass of each class (genus, coarse label), in the order of the classes or as a dict
            or series by class; None if there are none. A class whose name is missing (None, NaN) is its own superclass.
        reference: the publication to cite.
        problems: what the reader found wrong with the files.
        feature_names: the name of each feature, where the inputs are features with names; those of the first split with
            names by default. Every split gets its features in this order.
        notes: what was done to the data after reading, in sentences, such as which rows were left out on request.
        open_classes: whether the classes are those that the rows happen to have, as in a column of lists of labels, so that
            no row has any other class; otherwise, with several labels a row, nothing is known about other classes.
        numbered: whether the classes have no names but their numbers, ``"0"``, ``"1"``, …, which mean the classes of the data
            or of the classifier that the splits are used with.

    >>> features, target = torch.zeros(3, 2), torch.tensor([0, 1, 1])
    >>> garden = Dataset("garden", ["oak", "elm"], {"train": Split(features, target, ["a", "b", "c"])})
    >>> garden.train_counts, garden.input_kind
    (tensor([1, 2]), 'features')
    """

    name: str
    classes: Sequence[str]
    splits: Mapping[str, Split]
    superclasses: Sequence[str] | None = None
    reference: str = ""
    problems: Sequence[Problem] = ()
    feature_names: Sequence[str] = ()
    notes: Sequence[str] = ()
    open_classes: bool = False
    numbered: bool = False

    def __post_init__(self) -> None:
        for name in ("classes", "feature_names", "notes"):
            check_listed(name, getattr(self, name))
        object.__setattr__(self, "numbered", self.numbered and list(self.classes) == list(map(str, range(len(self.classes)))))
        if self.superclasses is not None:
            object.__setattr__(self, "superclasses", superclass_by_class(self.superclasses, self.classes))
        if self.superclasses is not None and len(self.superclasses) != len(self.classes):
            raise InputError(
                f"superclasses: expected one for each of the {len(self.classes)} classes, got {len(self.superclasses)}"
            )
        kinds = {split.input_kind for split in self.splits.values()}
        if len(kinds) > 1:
            raise InputError(f"{self.name}: expected the same kind of inputs in every split, got pictures and features")
        self._name_features()
        object.__setattr__(self, "splits", {name: self._with_names(name, split) for name, split in self.splits.items()})

    def _name_features(self) -> None:
        given = [self.feature_names, *(split.feature_names for split in self.splits.values())]
        names = next((names for names in given if not is_unnamed(names)), self.feature_names)
        if not names:
            return
        splits = {}
        for name, split in self.splits.items():
            try:
                splits[name] = split.with_features(names)
            except InputError as error:
                raise InputError(f"{self.name}, split {name}: {error}") from error
        object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "splits", splits)

    def _with_names(self, name: str, split: Split) -> Split:
        """The split with its labels numbered by the classes, which it then knows, unless they are only numbered."""
        try:
            found = split.with_classes(self.classes)
        except InputError as error:
            raise InputError(f"{self.name}, split {name}: {error}") from error
        if not self.numbered and found.open_classes == self.open_classes:
            return found
        return replace(found, classes=None if self.numbered else self.classes, open_classes=self.open_classes)

    def __repr__(self) -> str:
        splits = ", ".join(f"{name} {len(split):,}" for name, split in self.splits.items())
        above = f" in {len(self.superclass_names):,} superclasses" if self.superclasses else ""
        return f"Dataset({self.name!r}, {len(self.classes):,} classes{above}; {splits})"

    @property
    def input_kind(self) -> InputKind:
        """``"pictures"`` or ``"features"``, the same for every split."""
        return next((split.input_kind for split in self.splits.values()), "features")

    @property
    def multi_label(self) -> bool:
        """Whether a row may have any number of labels."""
        return any(split.target is not None and not is_single_label(split.target) for split in self.splits.values())

    @property
    def train_counts(self) -> Tensor:
        """How many training rows carry each label, int64 (C,); of all splits if none is called train."""
        chosen = [self.splits[TRAIN]] if TRAIN in self.splits else list(self.splits.values())
        counts = torch.zeros(len(self.classes), dtype=torch.int64)
        for split in chosen:
            if split.target is not None:
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

    def only_split(self, name: str | None = None, *, source: str | None = None) -> "Dataset":
        """The same dataset with one split: the one named, else ``"test"`` if there is one, else the only one.

        Args:
            name: the split.
            source: what messages call the dataset; its name by default.

        >>> rows = Split(torch.zeros(1, 2), None, ["a"])
        >>> list(Dataset("garden", [], {"val": rows, "test": rows}).only_split().splits)
        ['test']
        """
        chosen = name if name is not None else TEST if TEST in self.splits or len(self.splits) != 1 else next(iter(self.splits))
        if chosen not in self.splits:
            came = f"got {name!r}" if name is not None else f"and there is no {TEST}: name one"
            raise InputError(
                f"split: expected one of the splits of {source or self.name} ({listed(list(self.splits))}), {came}"
            )
        return self.with_splits({chosen: self.splits[chosen]})

    def check_labelled(self, splits: Collection[str] | None = None) -> None:
        """Raise an error if the rows of a split have no labels.

        Args:
            splits: the names of the splits that need labels; all by default.
        """
        for name, split in self.splits.items():
            if split.target is None and (splits is None or name in splits):
                raise InputError(
                    f"{self.name}: expected labels, got {len(split):,} rows without labels in {name}: rows "
                    "without labels can be classified, but not trained on, divided or evaluated"
                )


def usual_split_names(names: Iterable[str]) -> dict[str, str]:
    """What we call each of these splits: train, val or test if its name, in any case, means that; else its own name.

    Of several names with the same meaning the usual one is taken, then one of ``SPLIT_NAMES``, then one of
    ``LIKELY_SPLIT_NAMES``; the others keep their own names, as do two of the same kind.

    >>> usual_split_names(["Training", "dev", "holdout"])
    {'Training': 'train', 'dev': 'val', 'holdout': 'test'}
    >>> usual_split_names(["train", "val", "dev"])
    {'train': 'train', 'val': 'val', 'dev': 'dev'}
    """
    names = list(names)
    texts = {name.casefold() for name in names}
    chosen: dict[str, str] = {}
    for usual in dict.fromkeys(SPLIT_NAMES.values()):
        for known in ({usual: usual}, SPLIT_NAMES, LIKELY_SPLIT_NAMES):
            found = [text for text in texts if known.get(text) == usual]
            if len(found) == 1:
                chosen[found[0]] = usual
            if found:
                break
    return {name: chosen.get(name.casefold(), name) for name in names}


def _label_kind(target: Target | None) -> str:
    if target is None:
        return "no labels"
    return "one label a row" if is_single_label(target) else "any number of labels a row"


def classes_without_rows(splits: Mapping[str, Split], classes: Sequence[str], same_classes: bool = True) -> Iterator[Problem]:
    """Classes without a row; and, if every split should hold every class, classes that are missing from some split.

    Splits without any label are ignored.
    """
    counts = {name: split.counts(len(classes)) for name, split in splits.items() if split.target is not None}
    counts = {name: count for name, count in counts.items() if count.any()}
    somewhere = torch.stack([count == 0 for count in counts.values()]).any(0) if counts else torch.ones(len(classes)).bool()
    for label in somewhere.nonzero()[:, 0].tolist():
        there = [name for name, count in counts.items() if count[label]]
        if not there:
            yield Problem(EMPTY_CLASS, classes[label], "has no row")
        elif same_classes:
            absent = [name for name in counts if name not in there]
            yield Problem(MISSING_CLASS, classes[label], f"is in {', '.join(there)} and not in {', '.join(absent)}")
