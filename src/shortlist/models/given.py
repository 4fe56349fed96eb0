"""What can be classified: files, bytes, images, arrays, data frames and splits, as pictures or a matrix of features."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data.dataset import Dataset, Split
from shortlist.data.pictures import PictureArray, Pictures, row_numbers
from shortlist.errors import InputError
from shortlist.models.input_spec import CHANNELS, InputSpec, check_finite_features
from shortlist.tensors import as_tensor, shape_of
from shortlist.words import quoted

if TYPE_CHECKING:
    from shortlist.data.decoding import Decoded

EXPECTED = "expected uint8 (N, 3, H, W) or (3, H, W), the path of a picture, a Pillow image, a list of those, or a split"


def as_source(given: Any, inputs: InputSpec) -> Pictures | Tensor:
    """Pictures, or features (N, D), from what was given.

    Args:
        given: for pictures uint8 (N, 3, H, W) or (3, H, W), a path, the bytes of a file, a Pillow image, a list of those, or
            :class:`~shortlist.data.Pictures`; for features numbers (N, D) or (D,), a list of rows, or a data frame; for both
            a :class:`~shortlist.data.Split`.
        inputs: what the network reads.

    >>> len(as_source(["oak.jpg", "elm.jpg"], InputSpec("pictures", 8, mean=(0, 0, 0), std=(1, 1, 1))))
    2
    """
    if isinstance(given, Dataset):
        raise InputError(
            f"expected rows to classify, got a dataset: choose a split, dataset.splits[…]: {quoted([*given.splits])}"
        )
    given = given.inputs if isinstance(given, Split) else given
    return _pictures(given) if inputs.is_pictures else _features(given, inputs.size)


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
        return PictureArray(_pixels(as_tensor(given, "images"), batch=True))
    if _is_one(given):
        return GivenPictures([given])
    if isinstance(given, Sequence):
        return GivenPictures(given)
    raise InputError(f"images: {EXPECTED}; got {type(given).__name__}")


def _is_one(item: Any) -> bool:
    """Whether this is one picture: a path, the bytes of a file, pixels, or a Pillow image."""
    return isinstance(item, str | os.PathLike | bytes | Tensor | np.ndarray) or _is_image(item)


def _is_image(item: Any) -> bool:
    from PIL import Image

    return isinstance(item, Image.Image)


def _pixels(images: Tensor, batch: bool) -> Tensor:
    """uint8 (N, 3, H, W) of one picture or many, or (3, H, W) of a single one."""
    whole = images[None] if images.ndim == 3 else images
    if images.dtype == torch.uint8 and whole.ndim == 4 and whole.shape[1] == CHANNELS and (batch or images.ndim == 3):
        return whole if batch else images
    hint = ""
    if images.ndim in (3, 4) and images.shape[-1] == CHANNELS:
        hint = ": channels come first, " + ("images.permute(2, 0, 1)" if images.ndim == 3 else "images.permute(0, 3, 1, 2)")
    elif images.is_floating_point():
        hint = ": expected bytes from 0 to 255, which the classifier standardises itself"
    raise InputError(f"images: expected uint8 {'(N, 3, H, W) or ' if batch else ''}(3, H, W), got {shape_of(images)}{hint}")


class GivenPictures(Pictures):
    """A list of pictures: paths, bytes of files, Pillow images, pixels ``uint8 (3, H, W)``.

    Paths are their own ids, the others are numbered.

    >>> GivenPictures(["oak.jpg", torch.zeros(3, 4, 4, dtype=torch.uint8)]).ids
    ['oak.jpg', '1']
    """

    def __init__(self, items: Sequence[Any], ids: Sequence[str] | None = None):
        wrong = next((place for place, item in enumerate(items) if not _is_one(item)), None)
        if wrong is not None:
            raise InputError(f"images: {EXPECTED}; got {type(items[wrong]).__name__} in place {wrong} of a list")
        self.items = items
        self.ids = [_called(item, place) for place, item in enumerate(items)] if ids is None else ids

    def decode(self, row: int, *, at_least: int | None = None) -> "Decoded":
        """The picture, opened or converted as needed."""
        from shortlist.data.decoding import decode, decode_image

        item = self.items[row]
        if isinstance(item, bytes):
            return decode(item, at_least=at_least)
        if isinstance(item, str | os.PathLike):
            return decode(Path(item), at_least=at_least)
        if _is_image(item):
            return decode_image(item)
        pixels = _pixels(as_tensor(item, f"image {self.ids[row]}"), batch=False)
        return PictureArray(pixels[None].cpu()).decode(0)

    def rows(self, rows: Tensor) -> "GivenPictures":
        """Only these rows, in this order."""
        chosen = row_numbers(rows).tolist()
        return GivenPictures([self.items[row] for row in chosen], [self.ids[row] for row in chosen])


def _called(item: Any, place: int) -> str:
    return os.fsdecode(item) if isinstance(item, str | os.PathLike) else str(place)
