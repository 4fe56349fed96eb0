"""Anybody's data → Dataset or Split: paths, arrays, torch datasets, Hugging Face tables, and our own."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.class_names import check_listed
from shortlist.data.array_inputs import array_inputs
from shortlist.data.class_lists import target_among
from shortlist.data.dataset import ALL, SPLIT_NAMES, Dataset, Split, usual_split_names
from shortlist.data.feature_names import names_in_frame
from shortlist.data.foreign_pictures import is_image
from shortlist.data.foreign_rows import (
    GivenRows,
    is_hugging_face,
    is_map_style,
    rows_of_hugging_face,
    rows_of_torch_dataset,
)
from shortlist.data.label_encoding import are_numbers, encode_labels
from shortlist.data.names import check_names
from shortlist.data.pictures import PictureFiles, Pictures
from shortlist.data.sources import open_dataset
from shortlist.errors import InputError
from shortlist.row_names import check_same_rows

EXPECTED = (
    "expected a path, a Dataset, a torch dataset of (input, label) pairs, a Hugging Face table, arrays X or (X, y), or a "
    "dictionary of these by split"
)


def as_dataset(
    given: Any, *, classes: Sequence[str] | None = None, name: str | None = None, require_labels: bool = True
) -> Dataset:
    """Turn data of almost any form into a :class:`~shortlist.data.Dataset`.

    ====================================== ==================================================================================
    a Dataset, a Split                     as it is
    a path, or a text for ``open_dataset`` opened
    ``(X, y)``, ``X``                      features (N, D), or pictures uint8 (N, 3, H, W) or (N, H, W, 3): tensors, arrays,
                                           lists, data frames; with labels or without
    a map-style torch dataset              of (picture or features, label) pairs, or of inputs alone; ``TensorDataset``,
                                           ``ImageFolder``, ``Subset``, a list of pairs
    a Hugging Face ``datasets`` table      with an image column and a label column
    a dictionary                           of any of these by split: ``{"train": …, "test": …}``
    ====================================== ==================================================================================

    Pictures of a torch dataset or a Hugging Face table are read when they are used. Their transforms should not change pixel
    values: pictures are Pillow images, uint8, or floating point in [0, 1] exactly as ``ToTensor`` makes them.

    Labels may be class names, which are sorted, or class numbers from 0, named by ``classes`` or by the dataset, else ``"0"``,
    ``"1"``, …; for any number of labels a row, lists of these or a bool array (N, C).

    Args:
        given: the data.
        classes: the class names, in the order of the labels. Labels of data that have class names are matched by name.
        name: the name of the dataset; by default that of what was given.
        require_labels: for a path, see :func:`~shortlist.data.open_dataset`.

    >>> dataset = as_dataset({"train": ([[1, 2], [3, 4]], ["oak", "elm"]), "test": ([[5, 6]], ["oak"])})
    >>> dataset, dataset.splits["test"].target
    (Dataset('data', 2 classes; train 2, test 1), tensor([1]))
    >>> as_dataset([[1, 2], [3, 4]]).splits["all"]
    Split(2 rows, 2 features, no labels)
    """
    check_listed("classes", classes)
    if _is_paths(given):
        given = open_dataset(given, require_labels=require_labels)
    if isinstance(given, Dataset):
        dataset = given if name is None else replace(given, name=name)
        return dataset if classes is None else _with_classes(dataset, classes)
    parts = _by_split(given) if isinstance(given, Mapping) else {ALL: given}
    return _assembled({split: _rows(part, split) for split, part in parts.items()}, classes, name or _name_of(given))


def as_split(given: Any, *, classes: Sequence[str] | None = None) -> Split:
    """Turn data of almost any form into one :class:`~shortlist.data.Split`, with labels or without.

    Args:
        given: as for :func:`as_dataset`; of several splits the test split is taken. A folder is all pictures below it, without
            labels.
        classes: the class names that the target refers to, in the order of the labels. Labels with names of their own are
            matched by name.

    >>> as_split(([[1.0], [2.0]], ["oak", "elm"]), classes=["oak", "ash", "elm"]).target
    tensor([0, 2])
    """
    check_listed("classes", classes)
    if isinstance(given, Split):
        return given if classes is None else given.with_classes(classes)
    (split,) = as_dataset(given, classes=classes, require_labels=False).only_split().splits.values()
    return split


def _is_paths(given: Any) -> bool:
    if isinstance(given, list | tuple) and given:
        return all(isinstance(item, str | os.PathLike) for item in given)
    return isinstance(given, str | os.PathLike)


def _name_of(given: Any) -> str:
    own = getattr(getattr(given, "info", None), "dataset_name", None)
    if isinstance(own, str) and own:
        return own
    plain = isinstance(given, Mapping | list | tuple | Tensor | np.ndarray | Split) or hasattr(given, "to_numpy")
    return "data" if plain else type(given).__name__


def _by_split(given: Mapping[Any, Any]) -> dict[str, Any]:
    """The parts by the usual names of splits: validation is val."""
    if not given:
        raise InputError(f"data: {EXPECTED}, got an empty dictionary")
    parts: dict[str, Any] = {}
    usual = usual_split_names(map(str, given))
    for key, part in given.items():
        split = SPLIT_NAMES.get(str(key).casefold(), usual[str(key)])
        if split in parts:
            raise InputError(f"data: expected one part for the split {split!r}, got another one as {key!r}")
        parts[split] = part
    return parts


def _rows(given: Any, name: str) -> GivenRows:
    """The rows of the split of this name."""
    if _is_paths(given):
        given = open_dataset(given, require_labels=isinstance(given, str | os.PathLike))
    if isinstance(given, Dataset):
        whole = given.only_split(name if name in given.splits else None)
        (split,) = whole.splits.values()
        return GivenRows(split, split.target, split.classes, whole.superclasses)
    if isinstance(given, Split):
        return GivenRows(given, given.target, given.classes)
    if isinstance(given, Pictures):
        return GivenRows(Split(given, None, given.ids), None)
    if isinstance(given, torch.utils.data.DataLoader):
        raise InputError(f"data: {EXPECTED}, got a DataLoader: give its dataset")
    if isinstance(given, tuple) and len(given) == 2 and not is_image(given[0]):
        return _rows_of_arrays(*given)
    if _is_array(given):
        return _rows_of_arrays(given, None)
    if is_hugging_face(given):
        return rows_of_hugging_face(given)
    if is_map_style(given) and not isinstance(given, str | bytes | Mapping):
        return rows_of_torch_dataset(given)
    hint = ": rows must be countable and available by number" if hasattr(given, "__iter__") else ""
    raise InputError(f"data: {EXPECTED}, got {type(given).__name__}{hint}")


def _is_array(given: Any) -> bool:
    """A tensor, an array, a data frame, or a list of rows of numbers."""
    if isinstance(given, Tensor | np.ndarray) or (hasattr(given, "to_numpy") and not hasattr(given, "column_names")):
        return True
    if not isinstance(given, list | tuple) or not given:
        return False
    first = given[0]
    if isinstance(first, Tensor | np.ndarray):
        return first.ndim == 1
    return isinstance(first, list | tuple) and bool(first) and all(isinstance(value, int | float) for value in first)


def _rows_of_arrays(inputs: Any, labels: Any | None) -> GivenRows:
    if _is_paths(inputs) and not isinstance(inputs, str | os.PathLike):
        paths = [os.fspath(path) for path in inputs]
        return GivenRows(Split(PictureFiles("", paths), None, paths), labels)
    if isinstance(inputs, list | tuple) and inputs and (is_image(inputs[0]) or getattr(inputs[0], "ndim", 1) > 1):
        return replace(rows_of_torch_dataset(inputs), labels=labels)
    if isinstance(inputs, Pictures):
        return GivenRows(Split(inputs, None, inputs.ids), labels)
    check_same_rows(inputs, labels, "labels")
    index = getattr(inputs, "index", None)  # of a data frame; a method of lists
    named = index is not None and not callable(index) and type(index).__name__ != "RangeIndex"
    found = array_inputs(inputs)
    ids = [str(row) for row in (index if named else range(len(found)))]  # type: ignore[union-attr]
    names = names_in_frame(inputs) if isinstance(found, Tensor) else []
    return GivenRows(Split(found, None, ids, feature_names=names), labels)


def _assembled(parts: Mapping[str, GivenRows], classes: Sequence[str] | None, name: str) -> Dataset:
    """The dataset of these parts, their labels numbered alike."""
    own = {tuple(part.classes) for part in parts.values() if part.classes}
    numbered = False
    if len(own) > 1 or (own and classes is not None):  # the same number may mean different classes: match them by name
        common = list(classes) if classes is not None else sorted({label for names in own for label in names})
        targets = [_target_by_name(part, common) for part in parts.values()]
    else:
        shared = list(own.pop()) if own else classes
        labels = [part.labels for part in parts.values()]
        targets, common = encode_labels(labels, shared)
        numbered = shared is None and are_numbers(labels)
    splits = {}
    for (split, part), target in zip(parts.items(), targets, strict=True):
        if target is not None and len(target) != len(part.split):
            raise InputError(f"split {split}: expected a label for each of the {len(part.split):,} rows, got {len(target):,}")
        same = not part.classes or list(part.classes) == common
        splits[split] = replace(part.split, target=target, classes=None, posterior=part.split.posterior if same else None)
    above = {
        label: name for part in parts.values() for label, name in zip(part.classes or (), part.superclasses or (), strict=False)
    }
    superclasses = [above[label] for label in common] if above and all(label in above for label in common) else None
    return Dataset(name, common, splits, superclasses, problems=list(check_names(common)), numbered=numbered)


def _target_by_name(part: GivenRows, classes: Sequence[str]) -> Tensor | None:
    if part.labels is None or not part.classes:
        return encode_labels([part.labels], classes)[0][0]
    (target,), names = encode_labels([part.labels], part.classes)
    return None if target is None else target_among(target, names, classes)


def _with_classes(dataset: Dataset, classes: Sequence[str]) -> Dataset:
    """The dataset with its labels numbered by other classes, matched by name; superclasses go along."""
    if list(classes) == list(dataset.classes):
        return dataset
    splits = {name: _among(split, classes) for name, split in dataset.splits.items()}
    above = dict(zip(dataset.classes, dataset.superclasses or (), strict=False))
    superclasses = [above[name] for name in classes] if all(name in above for name in classes) else None
    return replace(dataset, classes=list(classes), splits=splits, superclasses=superclasses, numbered=False)


def _among(split: Split, classes: Sequence[str]) -> Split:
    """As :meth:`Split.with_classes`, but rows do not have the labels of classes that are new to them."""
    if split.target is None or split.classes is None:
        return split.with_classes(classes)
    return split.with_target(target_among(split.target, split.classes, classes), classes)
