"""Pictures by row number, in memory or in files. Each is decoded when it is used."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.tensors import shape_of

if TYPE_CHECKING:
    from shortlist.data.decoding import Decoded


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
