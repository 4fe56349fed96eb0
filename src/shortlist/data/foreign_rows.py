"""Datasets of other libraries, row by row: map-style torch datasets and tables of Hugging Face ``datasets``."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from shortlist.column_names import USUAL_NAMES
from shortlist.data.array_inputs import array_inputs, pixels
from shortlist.data.dataset import Split
from shortlist.data.foreign_classes import labels_and_classes, stored_column
from shortlist.data.pictures import PictureArray, Pictures, row_numbers
from shortlist.errors import InputError
from shortlist.tensors import as_tensor, shape_of
from shortlist.words import quoted

if TYPE_CHECKING:
    from shortlist.data.decoding import Decoded

MISSING = -1  # how Hugging Face marks rows whose label is withheld


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


class ForeignPictures(Pictures):
    """Pictures of another library's dataset; each is read when it is asked for.

    Args:
        dataset: gives a row for a row number.
        read_input: takes the picture out of a row: a Pillow image, an array of pixels, a path or the bytes of a file.
        ids: the name of each row.
        places: the row numbers of these pictures in the dataset; all by default.
    """

    def __init__(self, dataset: Any, read_input: Callable[[Any], Any], ids: Sequence[str], places: Sequence[int] | None = None):
        self.dataset, self.read_input, self.ids = dataset, read_input, ids
        self.places = range(len(ids)) if places is None else places

    def decode(self, row: int, *, at_least: int | None = None) -> "Decoded":
        """Read the picture from the dataset."""
        from shortlist.data.decoding import PictureError, decode, decode_image

        try:
            picture = self.read_input(self.dataset[self.places[row]])
        except OSError as error:  # what Pillow raises over a damaged file
            raise PictureError(str(error).partition("\n")[0] or type(error).__name__) from error
        if picture is None:
            raise PictureError("there is no picture")
        if isinstance(picture, Mapping):  # a picture that Hugging Face has not decoded
            picture = picture.get("bytes") or picture.get("path") or b""
        if isinstance(picture, str | os.PathLike):
            return decode(Path(picture), at_least=at_least)
        if isinstance(picture, bytes):
            return decode(picture, at_least=at_least)
        if is_image(picture):
            return decode_image(picture)
        values = as_tensor(picture, f"row {self.ids[row]}")
        if values.ndim == 2:  # a grey picture
            values = values[None]
        if values.ndim != 3:
            raise InputError(f"row {self.ids[row]}: expected a picture (3, H, W) or (H, W, 3), got {shape_of(values)}")
        return PictureArray(pixels(values[None], f"row {self.ids[row]}")).decode(0)

    def rows(self, rows: Tensor) -> "ForeignPictures":
        """Only these rows, in this order."""
        chosen = row_numbers(rows).tolist()
        ids, places = [self.ids[row] for row in chosen], [self.places[row] for row in chosen]
        return ForeignPictures(self.dataset, self.read_input, ids, places)


def is_image(item: Any) -> bool:
    """Whether this is a Pillow image; Pillow is not imported to find out."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(item, module.Image)


def rows_of_torch_dataset(dataset: Any) -> GivenRows:
    """The rows of a map-style dataset of (input, label) pairs, or of inputs alone.

    Labels come from ``targets`` or ``labels`` if the dataset has them, so that no picture is decoded for its label; class names
    come from ``classes``; those of the parts of a ``ConcatDataset`` are matched by name.

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
        labels = None if read_label is None else [read_label(row) for row in rows]
    else:
        inputs = ForeignPictures(dataset, read_input, ids)
        if count:
            inputs.decode(0)  # an unsupported form is refused now rather than in the middle of training
        labels = None if read_label is None else _labels_of(dataset, first, read_label)
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


def _labels_of(dataset: Any, first: Any, read_label: Callable[[Any], Any]) -> Any:
    """The labels without reading the inputs where that is possible; else every row is read once."""
    found = _stored_labels(dataset)
    if found is not None and len(found) == len(dataset) and _same(found[0], read_label(first)):
        return found
    return [read_label(dataset[row]) for row in range(len(dataset))]


def _stored_labels(dataset: Any) -> list[Any] | None:
    if hasattr(dataset, "dataset") and hasattr(dataset, "indices"):  # a Subset
        within = _stored_labels(dataset.dataset)
        return None if within is None else [within[int(row)] for row in dataset.indices]
    if hasattr(dataset, "datasets"):  # a ConcatDataset
        parts = [_stored_labels(part) for part in dataset.datasets]
        return None if any(part is None for part in parts) else [label for part in parts for label in part or ()]
    stored = stored_column(dataset)
    if stored is None:
        return None
    transform = getattr(dataset, "target_transform", None)
    return list(stored) if transform is None else [transform(label) for label in stored]


def _same(one: Any, other: Any) -> bool:
    """Whether a stored label is the one that the dataset gives with the row."""
    try:
        return bool(np.array_equal(np.asarray(one), np.asarray(other)))
    except (TypeError, ValueError):
        return False


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
    pictures = ForeignPictures(table, itemgetter(images), ids)
    if ids:
        pictures.decode(0)
    rows = Split(pictures, None, ids)
    if labels is None:
        return GivenRows(rows, None)
    written, classes = list(table[labels]), _names_of(kinds.get(labels))
    if classes is not None and written and isinstance(written[0], list | tuple):
        return GivenRows(rows, [[classes[label] for label in several] for several in written], classes)
    withheld = bool(written) and classes is not None and all(label == MISSING for label in written)
    return GivenRows(rows, None if withheld else written, classes)


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
