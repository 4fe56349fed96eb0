"""What can be classified: files, bytes, images, arrays, data frames, splits and torch datasets, as pictures or features."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data.adapters import as_split
from shortlist.data.array_inputs import pixels
from shortlist.data.dataset import Dataset, Split
from shortlist.data.feature_names import frame_labels
from shortlist.data.foreign_pictures import ForeignPictures, is_image
from shortlist.data.foreign_rows import is_hugging_face
from shortlist.data.pictures import PictureArray, Pictures
from shortlist.data.readers.columns import describes_rows
from shortlist.errors import InputError
from shortlist.models.input_spec import InputSpec, check_finite_features
from shortlist.tensors import as_tensor, shape_of
from shortlist.words import quoted

EXPECTED = "expected pixels (N, 3, H, W) or (3, H, W), the path of a picture, a Pillow image, a list of those, or a split"


def as_source(given: Any, inputs: InputSpec) -> Pictures | Tensor:
    """Pictures, or features (N, D), from what was given; columns with names are put in the order of the network's by name.

    Args:
        given: for pictures uint8 (N, 3, H, W) or (3, H, W), a path, the bytes of a file, a Pillow image, a list of those, or
            :class:`~shortlist.data.Pictures`; for features numbers (N, D) or (D,), a list of rows, or a data frame; for both
            a :class:`~shortlist.data.Split`, a map-style torch dataset or a Hugging Face table. Pixels may have other usual
            forms, see :func:`~shortlist.data.as_dataset`.
        inputs: what the network reads.

    >>> len(as_source(["oak.jpg", "elm.jpg"], InputSpec("pictures", 8, mean=(0, 0, 0), std=(1, 1, 1))))
    2
    """
    if isinstance(given, Dataset):
        raise InputError(
            f"expected rows to classify, got a dataset: choose a split, dataset.splits[…]: {quoted([*given.splits])}"
        )
    given = as_split(given) if is_foreign_dataset(given) else given
    names = given.feature_names if isinstance(given, Split) else ()
    given = given.inputs if isinstance(given, Split) else given
    if inputs.is_pictures:
        return _pictures(given)
    order = inputs.columns_of(names)
    features = _features(_known_columns(given, inputs), inputs.size if order is None else len(names))
    return features if order is None else features[:, order]


def is_foreign_dataset(given: Any) -> bool:
    """Whether this is a torch dataset of rows, with labels or without, or a table of Hugging Face ``datasets``."""
    if isinstance(given, list | tuple):  # of (picture, label) pairs
        return bool(given) and isinstance(given[0], tuple) and bool(given[0]) and _is_picture(given[0][0])
    return isinstance(given, torch.utils.data.Dataset) or is_hugging_face(given)


def _known_columns(given: Any, inputs: InputSpec) -> Any:
    """The columns of a data frame with names that the network reads, in its order; columns that describe rows are left out."""
    labels, known = frame_labels(given), set(inputs.feature_names)
    if not labels:
        return given
    names = [str(label) for label in labels]
    kept = [place for place, name in enumerate(names) if name in known or not known or not describes_rows(name, names)]
    order = inputs.columns_of([names[place] for place in kept])
    if order is None and len(kept) == len(names):
        return given
    return given[[labels[kept[place]] for place in (range(len(kept)) if order is None else order)]]


def _features(given: Any, number: int) -> Tensor:
    if isinstance(given, Pictures):
        raise InputError(f"features: expected numbers (N, {number}), got pictures")
    features = as_tensor(given, "features")
    features = features[None] if features.ndim == 1 else features
    features = features if features.is_floating_point() else features.float()
    if features.ndim != 2 or features.shape[1] != number:
        raise InputError(f"features: expected numbers (N, {number}), got {shape_of(features)}")
    check_finite_features(features)
    return features


def _pictures(given: Any) -> Pictures:
    if isinstance(given, Pictures):
        return given
    if isinstance(given, Tensor | np.ndarray):
        images = as_tensor(given, "images")
        images = images[None] if images.ndim == 3 else images
        if images.ndim != 4:
            raise InputError(f"images: {EXPECTED}; got {shape_of(images)}")
        return PictureArray(pixels(images, "images"))
    if _is_picture(given):
        return _listed_pictures([given])
    if isinstance(given, Sequence):
        return _listed_pictures(given)
    raise InputError(f"images: {EXPECTED}; got {type(given).__name__}")


def _is_picture(item: Any) -> bool:
    """Whether this is one picture: a path, the bytes of a file, pixels, or a Pillow image."""
    return isinstance(item, str | os.PathLike | bytes | Tensor | np.ndarray) or is_image(item)


def _listed_pictures(items: Sequence[Any]) -> ForeignPictures:
    """The pictures of a list; paths are their own ids, the others are numbered."""
    wrong = next((row for row, item in enumerate(items) if not _is_picture(item)), None)
    if wrong is not None:
        raise InputError(f"images: {EXPECTED}; got {type(items[wrong]).__name__} at position {wrong} of a list")
    ids = [os.fsdecode(item) if isinstance(item, str | os.PathLike) else str(row) for row, item in enumerate(items)]
    return ForeignPictures(items, _itself, ids)


def _itself(row: Any) -> Any:
    return row
