"""Arrays as users have them → inputs of a split: pictures ``uint8 (N, 3, H, W)`` or features ``float32 (N, D)``."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shortlist.checks import check_finite
from shortlist.data.pictures import PictureArray, Pictures
from shortlist.errors import InputError
from shortlist.tensors import as_tensor, shape_of

EXPECTED = "expected features (N, D), or pictures as uint8 (N, 3, H, W) or (N, H, W, 3)"
CHANNELS = (1, 3)
VALUES_AT_ONCE = 2**24


def array_inputs(given: Any, ids: Sequence[str] | None = None, name: str = "X") -> Pictures | Tensor:
    """Pictures, or features ``float32 (N, D)``.

    Args:
        given: a tensor, an array, a data frame or a list of rows. With four dimensions it holds pictures: uint8, channels first
            or last, or floating point in [0, 1] if that is exactly k / 255. With two dimensions it holds features.
        ids: the name of each row.
        name: what messages call it.

    >>> array_inputs([[1, 2], [3, 4]])
    tensor([[1., 2.],
            [3., 4.]])
    >>> array_inputs(torch.zeros(2, 8, 8, 3, dtype=torch.uint8)).images.shape
    torch.Size([2, 3, 8, 8])
    """
    if isinstance(given, list | tuple) and given and isinstance(given[0], Tensor):
        given = _stacked(given, name)
    values = as_tensor(given, name).detach()
    if values.ndim == 4:
        return PictureArray(pixels(values, name).cpu(), ids)
    if values.ndim != 2 or values.is_complex():
        hint = ""
        if values.ndim == 3:
            hint = ": pictures need a channel dimension, such as X[:, None] for grey ones"
        elif values.ndim == 1:
            hint = ": for one feature give X[:, None]"
        raise InputError(f"{name}: {EXPECTED}, got {shape_of(values)}{hint}")
    features = values.to("cpu", torch.float32)
    check_finite(features, name)
    return features


def pixels(images: Tensor, name: str = "images") -> Tensor:
    """Pictures of any usual array form as ``uint8 (N, 3, H, W)``.

    Channels may come first or last, and grey pictures are repeated over three channels. Floating-point pictures are converted
    if that loses nothing: in [0, 1], and 255 times each value is a whole number up to the rounding of its dtype.

    Args:
        images: (N, C, H, W) or (N, H, W, C) with 1 or 3 channels.
        name: what messages call it.

    >>> pixels(torch.full((1, 1, 1, 2), 51 / 255)).flatten()
    tensor([51, 51, 51, 51, 51, 51], dtype=torch.uint8)
    """
    if images.shape[1] not in CHANNELS and images.shape[-1] in CHANNELS:
        images = images.movedim(-1, 1)
    if images.shape[1] not in CHANNELS:
        raise InputError(f"{name}: expected pictures with 1 or 3 channels, first or last, got {shape_of(images)}")
    if images.is_floating_point():
        images = _whole_pixels(images, name)
    if images.dtype != torch.uint8:
        raise InputError(f"{name}: expected pictures as uint8, from 0 to 255, got {shape_of(images)}")
    return images if images.shape[1] == 3 else images.expand(-1, 3, -1, -1)


def _whole_pixels(images: Tensor, name: str) -> Tensor:
    """Floating-point pictures as uint8, a block of rows at a time."""
    found = torch.empty(images.shape, dtype=torch.uint8)
    each = max(1, images[:1].numel())
    rounding = 255 * 2 * torch.finfo(images.dtype).eps
    for start in range(0, len(images), max(1, VALUES_AT_ONCE // each)):
        rows = slice(start, start + max(1, VALUES_AT_ONCE // each))
        block = images[rows].to("cpu", torch.float64) * 255
        nearest = block.round()
        if not bool(((nearest >= 0) & (nearest <= 255) & ((block - nearest).abs() <= rounding)).all()):
            low, high = (float(end) for end in torch.aminmax(images[rows]))
            raise InputError(
                f"{name}: expected pictures as uint8, or floating point in [0, 1] of which 255 times each value is a whole "
                f"number, got {images.dtype} from {low:.3g} to {high:.3g}: give the pictures before they are normalised, "
                "augmented or resized, as uint8 or as Pillow images; the network standardises them itself"
            )
        found[rows] = nearest.to(torch.uint8)
    return found


def _stacked(rows: Sequence[Tensor], name: str) -> Tensor:
    shapes = {tuple(row.shape) for row in rows}
    if len(shapes) > 1:
        raise InputError(f"{name}: expected rows of one shape, got {' and '.join(map(str, sorted(shapes)[:2]))}")
    return torch.stack(list(rows))
