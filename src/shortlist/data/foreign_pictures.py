"""Pictures of other libraries' datasets, and the labels that come with them."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from shortlist.data.array_inputs import pixels
from shortlist.data.pictures import PictureArray, Pictures, row_numbers
from shortlist.errors import InputError
from shortlist.tensors import as_tensor, shape_of
from shortlist.words import shown

if TYPE_CHECKING:
    from shortlist.data.decoding import Decoded


@dataclass(frozen=True, eq=False)
class StoredLabels:
    """Labels that a dataset keeps beside its rows, which should be those that it gives with them.

    Args:
        values: the label of each row of the dataset.
        read: takes the label out of a row.
    """

    values: Sequence[Any]
    read: Callable[[Any], Any]

    def agree(self, place: int, row: Any) -> bool:
        """Whether the label stored for this place is the one that came with the row."""
        try:
            return bool(np.array_equal(np.asarray(self.values[place]), np.asarray(self.read(row))))
        except (TypeError, ValueError):
            return False

    def check(self, place: int, row: Any, name: str) -> None:
        """Raise an error unless they agree."""
        if not self.agree(place, row):
            raise InputError(
                f"row {name}: expected {shown(self.values[place])}, the label that the dataset keeps for it in targets or "
                f"labels, got {shown(self.read(row))} with the picture: make them agree, or remove that attribute, so that "
                "labels are read with the rows"
            )


class ForeignPictures(Pictures):
    """Pictures of another library's dataset; each is read when it is asked for.

    A dataset may read from one open file, or keep what it read last: torch never asks it for two rows at once, and gives every
    worker process a copy only if the user wants workers. So one thread reads it here, unless it is known to allow more.

    Args:
        dataset: gives a row for a row number.
        read_input: takes the picture out of a row: a Pillow image, an array of pixels, a path or the bytes of a file.
        ids: the name of each row.
        places: the row numbers of these pictures in the dataset; all by default.
        labels: compared with the label of every row that is read.
        one_reader: whether only one thread may ask for rows; by default unless the dataset is known to allow more.
    """

    def __init__(
        self,
        dataset: Any,
        read_input: Callable[[Any], Any],
        ids: Sequence[str],
        places: Sequence[int] | None = None,
        *,
        labels: StoredLabels | None = None,
        one_reader: bool | None = None,
    ):
        self.dataset, self.read_input, self.ids, self.labels = dataset, read_input, ids, labels
        self.places = range(len(ids)) if places is None else places
        self.one_reader = not allows_many_readers(dataset) if one_reader is None else one_reader

    def decode(self, row: int, *, at_least: int | None = None) -> "Decoded":
        """Read the picture from the dataset."""
        from shortlist.data.decoding import PictureError, decode, decode_image

        try:
            found = self.dataset[self.places[row]]
        except OSError as error:  # what Pillow raises over a damaged file
            raise PictureError(str(error).partition("\n")[0] or type(error).__name__) from error
        if self.labels is not None:
            self.labels.check(self.places[row], found, self.ids[row])
        picture = self.read_input(found)
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
        return ForeignPictures(self.dataset, self.read_input, ids, places, labels=self.labels, one_reader=self.one_reader)


def is_image(item: Any) -> bool:
    """Whether this is a Pillow image; Pillow is not imported to find out."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(item, module.Image)


def allows_many_readers(dataset: Any) -> bool:
    """Whether several threads and processes may ask this dataset for rows at once.

    Those may that open a file for each row: torchvision's folders of pictures, unless a loader or a transform is the user's;
    lists whose items are not Pillow images, which are read from their file when they are first used; and subsets and
    concatenations of these.
    """
    if isinstance(dataset, list | tuple):
        return not any(map(_holds_image, dataset))
    written_by = _written_by(getattr(type(dataset), "__getitem__", None))
    if written_by == "torch.utils.data.dataset" and hasattr(dataset, "datasets"):
        return all(map(allows_many_readers, dataset.datasets))
    if written_by == "torch.utils.data.dataset" and hasattr(dataset, "indices"):
        return allows_many_readers(dataset.dataset)
    own = (getattr(dataset, name, None) for name in ("loader", "transform", "target_transform"))
    return written_by == "torchvision.datasets.folder" and all(part is None or _of_torchvision(part) for part in own)


def _holds_image(row: Any) -> bool:
    items = row.values() if isinstance(row, Mapping) else row if isinstance(row, list | tuple) else (row,)
    return any(map(is_image, items))


def _of_torchvision(part: Any) -> bool:
    return (_written_by(part) or _written_by(type(part))).startswith("torchvision.")


def _written_by(thing: Any) -> str:
    return str(getattr(thing, "__module__", None) or "")
