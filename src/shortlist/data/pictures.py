"""Pictures by row number, in memory or in files. Each is decoded when it is used."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from shortlist.class_names import check_listed
from shortlist.errors import InputError
from shortlist.tensors import shape_of

if TYPE_CHECKING:
    from shortlist.data.decoding import Decoded

Box: TypeAlias = tuple[float, float, float, float]  # left, top, width and height, in pixels


def row_numbers(rows: Tensor) -> Tensor:
    """Rows given by number, or as a mask, by number.

    >>> row_numbers(torch.tensor([True, False, True]))
    tensor([0, 2])
    """
    return rows.nonzero()[:, 0] if rows.dtype == torch.bool else rows


def larger_side(size: int) -> int:
    """The side of the squares that windows of this size are cut from: ``⌈8/7 · size⌉``.

    >>> larger_side(224)
    256
    """
    return -(-size * 8 // 7)


class Pictures(ABC):
    """A sequence of pictures, each with an id."""

    ids: Sequence[str]
    one_reader = False  # whether only one thread of one process may decode them, as torch reads a dataset by default

    def __len__(self) -> int:
        return len(self.ids)

    @abstractmethod
    def decode(self, row: int, *, at_least: int | None = None) -> "Decoded":
        """One picture, in RGB and upright; raises :class:`~shortlist.data.PictureError` where that fails."""

    @abstractmethod
    def rows(self, rows: Tensor) -> "Pictures":
        """Only these rows, in this order."""


class PictureArray(Pictures):
    """Pictures of one size in memory, ``uint8 (N, 3, H, W)``.

    >>> PictureArray(torch.zeros(2, 3, 4, 4, dtype=torch.uint8)).ids
    ['0', '1']
    """

    def __init__(self, images: Tensor, ids: Sequence[str] | None = None):
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
            raise InputError(f"images: expected uint8 (N, 3, H, W), got {shape_of(images)}")
        self.images = images
        self.ids = [str(row) for row in range(len(images))] if ids is None else ids
        if len(self.ids) != len(images):
            raise InputError(f"ids: expected one for each of the {len(images)} pictures, got {len(self.ids)}")

    def decode(self, row: int, *, at_least: int | None = None) -> "Decoded":
        """The row itself."""
        from PIL import Image

        from shortlist.data.decoding import Decoded

        return Decoded(Image.fromarray(self.images[row].permute(1, 2, 0).contiguous().numpy()))

    def rows(self, rows: Tensor) -> "PictureArray":
        """Only these rows, in this order."""
        rows = row_numbers(rows)
        return PictureArray(self.images[rows], [self.ids[row] for row in rows.tolist()])


class PictureFiles(Pictures):
    """Picture files under one folder, named by their path below it."""

    def __init__(self, root: str | Path, paths: Sequence[str]):
        check_listed("paths", paths)
        self.root, self.ids = Path(root), paths

    def path(self, row: int) -> Path:
        """The path of the picture."""
        return self.root / self.ids[row]

    def decode(self, row: int, *, at_least: int | None = None) -> "Decoded":
        """The file, decoded."""
        from shortlist.data.decoding import decode

        return decode(self.path(row), at_least=at_least)

    def rows(self, rows: Tensor) -> "PictureFiles":
        """Only these rows, in this order."""
        return PictureFiles(self.root, [self.ids[row] for row in row_numbers(rows).tolist()])


class PictureBoxes(Pictures):
    """Parts of picture files, such as the persons in them; each part is stretched to a square, so that all of it is seen.

    Args:
        root: the folder that paths start from.
        paths: the file of each part; several parts may be of one file.
        boxes: left, top, width and height of each part, in pixels. What lies outside the picture is left off.

    >>> PictureBoxes("photos", ["a.jpg", "a.jpg"], [(0, 0, 5, 9), (6, 1, 4, 8)]).ids
    ['a.jpg[0,0,5,9]', 'a.jpg[6,1,4,8]']
    """

    def __init__(self, root: str | Path, paths: Sequence[str], boxes: Sequence[Box]):
        if len(boxes) != len(paths):
            raise InputError(f"boxes: expected one for each of the {len(paths)} paths, got {len(boxes)}")
        check_listed("paths", paths)
        self.root, self.paths, self.boxes = Path(root), paths, boxes
        self.ids = [box_id(path, box) for path, box in zip(paths, boxes, strict=True)]

    def path(self, row: int) -> Path:
        """The path of the file that the part is of."""
        return self.root / self.paths[row]

    def decode(self, row: int, *, at_least: int | None = None) -> "Decoded":
        """The part as a square, decoded at full resolution."""
        from PIL import Image

        from shortlist.data.decoding import Decoded, PictureError, decode

        decoded = decode(self.path(row))
        left, top, width, height = self.boxes[row]
        right, bottom = min(left + width, decoded.image.width), min(top + height, decoded.image.height)
        left, top = max(left, 0), max(top, 0)
        if not (right > left and bottom > top):
            raise PictureError("its box lies outside the picture")
        side = max(1, round(max(right - left, bottom - top)))
        square = decoded.image.resize((side, side), Image.Resampling.BILINEAR, box=(left, top, right, bottom))
        return Decoded(square, decoded.remark)

    def rows(self, rows: Tensor) -> "PictureBoxes":
        """Only these rows, in this order."""
        chosen = row_numbers(rows).tolist()
        return PictureBoxes(self.root, [self.paths[row] for row in chosen], [self.boxes[row] for row in chosen])


def box_id(path: str, box: Box) -> str:
    """The name of a part of a picture.

    >>> box_id("a.jpg", (0, 1.5, 2, 3))
    'a.jpg[0,1.5,2,3]'
    """
    return f"{path}[{','.join(f'{number:g}' for number in box)}]"
