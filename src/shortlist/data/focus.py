"""Sharpness of pictures: one number that is small where a picture is blurred or empty, for gates and for sorting."""

from typing import Any

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.tensors import as_tensor, row_blocks, shape_of

GREY = (299, 587, 114)  # thousandths of red, green and blue in the brightness that the eye sees (ITU-R BT.601)
SMALLEST, LARGEST = 3, 2900  # pixels of a side: with neighbours on all sides; without overflow of the sum of squares


def sharpness(images: Any) -> Tensor:
    """Variance of the Laplacian of the grey picture, float64 (N,): small for pictures that are blurred or empty.

    With the brightness ``g = 0.299 R + 0.587 G + 0.114 B`` of each pixel, from 0 to 255, and its Laplacian ``l = g(above) +
    g(below) + g(left) + g(right) - 4 g``, this is the variance of ``l`` over the pixels that have all four neighbours. It
    depends on the size of the picture: compare pictures of one size, such as those that a network reads. All sums are whole
    numbers, so every device and every batch gives the same number.

    Args:
        images: uint8 (N, 3, H, W), H and W from 3 to 2900.

    >>> stripes = torch.zeros(1, 3, 4, 6, dtype=torch.uint8)
    >>> stripes[..., ::2] = 10
    >>> sharpness(torch.cat([stripes, stripes // 2, torch.zeros_like(stripes)]))
    tensor([400., 100.,   0.], dtype=torch.float64)

    Pech-Pacheco, Cristóbal, Chamorro-Martínez, Fernández-Valdivia, "Diatom autofocusing in brightfield microscopy: a
    comparative study", ICPR 2000.
    """
    pictures = as_tensor(images, "images")
    if pictures.dtype != torch.uint8 or pictures.ndim != 4 or pictures.shape[1] != len(GREY):
        raise InputError(f"images: expected uint8 (N, 3, H, W), got {shape_of(pictures)}")
    if not all(SMALLEST <= side <= LARGEST for side in pictures.shape[2:]):
        raise InputError(f"images: expected sides from {SMALLEST} to {LARGEST} pixels, got {shape_of(pictures)}")
    found = [laplacian_variance(pictures[rows]) for rows in row_blocks(len(pictures), pictures[0:1].numel() or 1)]
    return torch.cat(found) if found else torch.empty(0, dtype=torch.float64, device=pictures.device)


def laplacian_variance(pictures: Tensor) -> Tensor:
    """The same for pictures that have been checked, without a branch on data."""
    red, green, blue = (share * pictures[:, place].int() for place, share in enumerate(GREY))
    grey = red + green + blue  # in thousandths
    neighbours = grey[:, :-2, 1:-1] + grey[:, 2:, 1:-1] + grey[:, 1:-1, :-2] + grey[:, 1:-1, 2:]
    values = (neighbours - 4 * grey[:, 1:-1, 1:-1]).long().flatten(1)
    number = values.shape[1]
    mean = values.sum(1).double() / number
    return ((values * values).sum(1).double() / number - mean * mean) / 1e6
