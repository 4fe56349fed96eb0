"""Datasets of other libraries, row by row: map-style torch datasets and tables of Hugging Face ``datasets``."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.column_names import USUAL_NAMES
from shortlist.data.array_inputs import array_inputs
from shortlist.data.dataset import Split
from shortlist.data.foreign_classes import labels_and_classes, stored_column
from shortlist.data.foreign_pictures import ForeignPictures, StoredLabels, is_image
from shortlist.data.pictures import Pictures
from shortlist.errors import InputError
from shortlist.tensors import as_tensor
from shortlist.words import quoted, shown

MISSING = -1  # how Hugging Face marks rows whose label is withheld
LEAVE_OUT = "leave such rows out, or give all rows without labels"
COMPARED = 10  # rows whose label is compared with the one that is stored for them, before any picture is asked for


@dataclass(frozen=True, eq=False)
class GivenRows:
    """The rows of one split as they were given, before their labels are encoded.

    Args:
        split: the rows; its target is ignored.
        labels: as they were given; None if there are none.
        classes: the names of the classes, where the data have them.
        superclasses: the name of the superclass of each of these classes.
    """

    split: Split
    labels: Any | None
    classes: Sequence[str] | None = None
    superclasses: Sequence[str] | None = None


def rows_of_torch_dataset(dataset: Any) -> GivenRows:
    """The rows of a map-style dataset of (input, label) pairs, or of inputs alone.

    Labels come from ``targets`` or ``labels`` if the dataset has them, so that no picture is decoded for its label, and if they
    are those of some rows spread over the dataset; every picture that is read later is compared too. Class names come from
    ``classes``; those of the parts of a ``ConcatDataset`` are matched by name.

    Args:
        dataset: with ``__len__`` and ``__getitem__``.
    """
    if hasattr(dataset, "tensors"):  # a TensorDataset
        return _rows_of_tensors(dataset.tensors)
    count = len(dataset)
    first = dataset[0] if count else ()
    read_input, read_label = _readers(first)
    ids = [_id_of(dataset, row) for row in range(count)]
    if count and _is_row_of_features(read_input(first)):
        rows = [dataset[row] for row in range(count)]
        inputs: Pictures | Tensor = array_inputs([as_tensor(read_input(row)) for row in rows])
        labels: Sequence[Any] | None = None if read_label is None else [read_label(row) for row in rows]
    else:
        stored = None if read_label is None else _trusted_labels(dataset, read_label)
        inputs = ForeignPictures(dataset, read_input, ids, labels=stored)
        if count:
            inputs.decode(0)  # an unsupported form is refused now rather than in the middle of training
        if stored is not None:
            labels = stored.values
        else:
            labels = None if read_label is None else [read_label(dataset[row]) for row in range(count)]
    return GivenRows(Split(inputs, None, ids), *labels_and_classes(dataset, labels))


def _rows_of_tensors(tensors: Sequence[Tensor]) -> GivenRows:
    if len(tensors) > 2:
        raise InputError(f"dataset: expected (inputs, labels) or inputs alone, got {len(tensors)} tensors a row")
    ids = [str(row) for row in range(len(tensors[0]))]
    return GivenRows(Split(array_inputs(tensors[0], ids), None, ids), tensors[1] if len(tensors) == 2 else None)


def _itself(row: Any) -> Any:
    return row


def _readers(row: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any] | None]:
    """Functions that take the input and the label out of a row like this one."""
    if isinstance(row, Mapping):
        image = _column(list(row), "path", lambda name: is_image(row[name]))
        if image is None:
            raise InputError(f"dataset: expected rows with an image, got {quoted(list(row))}")
        label = _column([name for name in row if name != image], "label")
        return itemgetter(image), None if label is None else itemgetter(label)
    if isinstance(row, tuple | list) and row and not _is_row_of_features(row):
        return itemgetter(0), itemgetter(1) if len(row) > 1 else None
    return _itself, None


def _is_row_of_features(example: Any) -> bool:
    if isinstance(example, Tensor | np.ndarray):
        return example.ndim == 1
    return isinstance(example, list | tuple) and bool(example) and isinstance(example[0], int | float)


def _trusted_labels(dataset: Any, read_label: Callable[[Any], Any]) -> StoredLabels | None:
    """The labels that the dataset keeps, if they are those of its rows as far as some of them tell; else None."""
    found = _stored_labels(dataset)
    if found is None or len(found) != len(dataset):
        return None
    stored = StoredLabels(found, read_label)
    for place in np.unique(np.linspace(0, len(found) - 1, COMPARED).round().astype(int)).tolist() if found else ():
        try:
            row = dataset[place]
        except OSError:  # a damaged picture, which is reported when it is asked for
            continue
        if not stored.agree(place, row):
            return None
    return stored


def _stored_labels(dataset: Any) -> list[Any] | None:
    if hasattr(dataset, "dataset") and hasattr(dataset, "indices"):  # a Subset
        within = _stored_labels(dataset.dataset)
        return None if within is None else [within[int(row)] for row in dataset.indices]
    if hasattr(dataset, "datasets"):  # a ConcatDataset
        parts = [_stored_labels(part) for part in dataset.datasets]
        return None if any(part is None for part in parts) else [label for part in parts for label in part or ()]
    stored = stored_column(dataset)
    if stored is None or _has_own_index(stored):
        return None
    transform = getattr(dataset, "target_transform", None)
    return list(stored) if transform is None else [transform(label) for label in stored]


def _has_own_index(stored: Any) -> bool:
    """Whether this is a pandas series whose value at a number need not be the one in that place, as rows were moved."""
    return hasattr(stored, "iloc") and [*stored.index] != [*range(len(stored))]


def _id_of(dataset: Any, row: int) -> str:
    """The path of the picture where the dataset knows it, else its number."""
    if hasattr(dataset, "indices") and hasattr(dataset, "dataset"):
        return _id_of(dataset.dataset, int(dataset.indices[row]))
    samples = getattr(dataset, "samples", None)
    if isinstance(samples, list) and row < len(samples) and isinstance(samples[row], tuple | list):
        path = samples[row][0]
        return str(path) if isinstance(path, str | os.PathLike) else str(row)
    return str(row)


def rows_of_hugging_face(table: Any) -> GivenRows:
    """The rows of a Hugging Face ``datasets`` table with an image column and, where there is one, a label column.

    The image column is the first of type ``Image``, else one with a usual name (image, img, picture, …). The label column is
    the first of type ``ClassLabel``, or a list of it, else one with a usual name (label, labels, class, …).

    Args:
        table: with ``features`` and ``column_names``, whose rows are dictionaries.
    """
    names, kinds = list(table.column_names), dict(table.features or {})
    images = _column(names, "path", lambda name: type(kinds.get(name)).__name__ == "Image")
    if images is None:
        raise InputError(f"dataset: expected a column of images, got {quoted(names)}")
    labels = _column([name for name in names if name != images], "label", lambda name: _names_of(kinds.get(name)) is not None)
    ids = [str(row) for row in range(len(table))]
    pictures = ForeignPictures(table, itemgetter(images), ids, one_reader=not _is_plain_table(table))
    if ids:
        pictures.decode(0)
    rows = Split(pictures, None, ids)
    if labels is None:
        return GivenRows(rows, None)
    written = [label.tolist() if hasattr(label, "tolist") else label for label in table[labels]]
    classes = _names_of(kinds.get(labels))
    if classes is None:
        return GivenRows(rows, written)
    if all(label in (None, MISSING, [], [MISSING]) for label in written) and any(label != [] for label in written):
        return GivenRows(rows, None, classes)  # withheld
    if any(isinstance(label, list | tuple) for label in written):
        return GivenRows(rows, [_names_at(numbers, classes, row) for row, numbers in enumerate(written)], classes)
    return GivenRows(rows, written, classes)


def _names_at(numbers: Any, classes: Sequence[str], row: int) -> list[str]:
    """The names of the classes with these numbers."""
    if not isinstance(numbers, list | tuple):
        raise InputError(
            f"labels: expected a list of class numbers in every row, got {shown(numbers)} in row {row}: {LEAVE_OUT}"
        )
    wrong = [label for label in numbers if not isinstance(label, int) or not 0 <= label < len(classes)]
    if wrong:
        hint = f": {LEAVE_OUT}" if wrong[0] in (None, MISSING) else ""
        last = len(classes) - 1
        raise InputError(f"labels: expected class numbers from 0 to {last}, got {shown(wrong[0])} in row {row}{hint}")
    return [classes[label] for label in numbers]


def _is_plain_table(table: Any) -> bool:
    """Whether this is a table of ``datasets`` itself, which several may read, without functions of the user's."""
    form = getattr(table, "format", None)
    return type(table).__module__.startswith("datasets.") and isinstance(form, Mapping) and form.get("type") != "custom"


def _column(names: Sequence[str], role: str, typed: Callable[[str], bool] | None = None) -> str | None:
    by_type = None if typed is None else next((name for name in names if typed(name)), None)
    return by_type or next((name for name in names if name.lower() in USUAL_NAMES[role]), None)


def _names_of(kind: Any) -> list[str] | None:
    """The class names of a ``ClassLabel`` column, or of a column of lists of them."""
    names = getattr(kind, "names", None) or getattr(getattr(kind, "feature", None), "names", None)
    return None if names is None else [str(name) for name in names]


def is_hugging_face(given: Any) -> bool:
    """Whether this behaves like a table of Hugging Face ``datasets``."""
    return hasattr(given, "features") and hasattr(given, "column_names") and is_map_style(given)


def is_map_style(given: Any) -> bool:
    """Whether rows can be asked for by number, and counted."""
    return (
        hasattr(given, "__getitem__") and hasattr(given, "__len__") and not isinstance(given, torch.utils.data.IterableDataset)
    )
