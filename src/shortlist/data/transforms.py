"""Crops, flips, sizes and standardisation of whole batches of pictures (N, C, H, W), on the CPU or a GPU.

Every picture of a batch gets a crop or flip of its own, drawn and done at once for all of them. uint8 in, uint8 out, except
from :func:`normalize`; floating point keeps its dtype. Randomness comes from ``generator``, which lives on the device of the
pictures, or, without one, from torch's global state. Each function has a module of the same name with the same parameters;
the module takes the generator when it is made, because ``torch.nn.Sequential`` hands on nothing but pictures. Modules are
as random in ``eval`` as in ``train``: what is done to test pictures is another sequence.

>>> seeded = torch.Generator().manual_seed(0)
>>> augment = nn.Sequential(RandomCrop(32, padding=4, generator=seeded), RandomFlip(generator=seeded), Normalize(0.5, 0.25))
>>> augment(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).unique()
tensor([-2.])
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from shortlist.checks import share, whole
from shortlist.errors import InputError
from shortlist.tensors import check_tensor, row_blocks, shape_of, working

Size: TypeAlias = int | tuple[int, int]
Range: TypeAlias = tuple[float, float]
Channels: TypeAlias = float | Sequence[float] | Tensor

AREA: Range = (0.08, 1.0)  # Szegedy et al. 2015, sec. 6
RATIO: Range = (3 / 4, 4 / 3)  # the same
AT_ONCE = 2**19  # entries, 2 MB in float32: measured, smaller than elsewhere because several temporaries go with them
TRIES = 10  # boxes drawn for a picture before the central one is taken


def random_crop(images: Tensor, size: Size, padding: int = 0, *, generator: torch.Generator | None = None) -> Tensor:
    """A window of this size from each picture, every place equally likely, after ``padding`` zeros on each side.

    Args:
        images: uint8 or floating point (N, C, H, W).
        size: height and width of the window, or one number for both.
        padding: pixels of zeros added on all four sides first; 4 for 32 × 32 pictures in He et al. 2016, sec. 4.2.
        generator: where the randomness comes from.

    >>> picture = torch.arange(1, 5, dtype=torch.uint8).view(1, 1, 2, 2)
    >>> random_crop(picture, 2, padding=1, generator=torch.Generator().manual_seed(0)).tolist()
    [[[[0, 3], [0, 0]]]]
    """
    _check_images(images, generator)
    height, width = _size(size)
    padding = whole(0)("padding", padding)
    padded = nn.functional.pad(images, (padding,) * 4) if padding else images
    _check_fits(padded, height, width)
    top, left = (
        torch.randint(room - extent + 1, (len(images),), generator=generator, device=images.device)
        for room, extent in zip(padded.shape[2:], (height, width), strict=True)
    )
    return windows(padded, top, left, height, width)


def center_crop(images: Tensor, size: Size) -> Tensor:
    """The window of this size in the middle; where the border is odd, the smaller half of it is above and on the left.

    >>> center_crop(torch.arange(5.0).expand(1, 1, 3, 5), (1, 2))
    tensor([[[[1., 2.]]]])
    """
    _check_images(images)
    height, width = _size(size)
    _check_fits(images, height, width)
    top, left = (images.shape[2] - height) // 2, (images.shape[3] - width) // 2
    return images[:, :, top : top + height, left : left + width]


def random_flip(images: Tensor, probability: float = 0.5, *, generator: torch.Generator | None = None) -> Tensor:
    """Each picture, left and right exchanged with this probability.

    >>> random_flip(torch.tensor([[[[1, 2, 3]]]], dtype=torch.uint8), probability=1.0).tolist()
    [[[[3, 2, 1]]]]
    """
    _check_images(images, generator)
    probability = share("probability", probability)
    return flip_rows(images, torch.rand(len(images), generator=generator, device=images.device) < probability)


def flip_rows(images: Tensor, flips: Tensor) -> Tensor:
    """These pictures, bool (N,), with left and right exchanged, the others as they are."""
    flips, mirrored = flips.view(-1, 1, 1, 1), images.flip(3)
    if images.dtype != torch.uint8:
        return torch.where(flips, mirrored, images)
    # Bits of one or the other by a mask: four times as fast as a choice between bytes, which has no vector form.
    return mirrored.bitwise_xor_(images).bitwise_and_(flips.to(torch.uint8) * 255).bitwise_xor_(images)


def resize(images: Tensor, size: Size) -> Tensor:
    """All pictures in this size, both sides stretched as needed; bilinear, over a wider triangle where a side shrinks.

    >>> resize(torch.tensor([[[[0.0, 4.0]]]]), (1, 4))
    tensor([[[[0., 1., 3., 4.]]]])
    """
    _check_images(images)
    boxes = torch.zeros(len(images), 4, dtype=torch.int64, device=images.device)
    boxes[:, 2], boxes[:, 3] = images.shape[2:]
    return resized_crop(images, boxes, size)


def random_resized_crop(
    images: Tensor, size: Size, scale: Range = AREA, ratio: Range = RATIO, *, generator: torch.Generator | None = None
) -> Tensor:
    """A random box of each picture, brought to one size: :func:`random_boxes`, then :func:`resized_crop`.

    Args:
        images: uint8 or floating point (N, C, H, W).
        size: height and width of the result, or one number for both.
        scale: the least and the largest area of the box, as a share of the picture.
        ratio: the least and the largest width of the box over its height.
        generator: where the randomness comes from.

    >>> pictures = torch.full((2, 3, 20, 30), 7, dtype=torch.uint8)
    >>> random_resized_crop(pictures, 8).unique()
    tensor([7], dtype=torch.uint8)

    Szegedy et al., "Going deeper with convolutions", 2015, sec. 6.
    """
    _check_images(images, generator)
    return resized_crop(images, random_boxes(images, scale, ratio, generator=generator), size)


def random_boxes(
    images: Tensor, scale: Range = AREA, ratio: Range = RATIO, *, generator: torch.Generator | None = None
) -> Tensor:
    """A box for each picture, (top, left, height, width) in whole pixels, int64 (N, 4).

    Of an area ``A`` uniform between ``scale`` of the picture's and a ratio ``r`` whose logarithm is uniform between those of
    ``ratio``, ``width = √(A r)`` and ``height = √(A / r)``, rounded; the first of ten draws that fits into the picture, at a
    place uniform among all. Where none fits, the largest central box whose ratio is within ``ratio``.
    """
    _check_images(images, generator)
    (least, most), (narrow, wide) = _range(scale, "scale", most=1.0), _range(ratio, "ratio")
    count, (tall, broad) = len(images), images.shape[2:]

    def draw(*shape: int) -> Tensor:
        return torch.rand(count, *shape, dtype=torch.float64, generator=generator, device=images.device)

    area = (least + (most - least) * draw(TRIES)) * (tall * broad)
    aspect = (math.log(narrow) + math.log(wide / narrow) * draw(TRIES)).exp()
    height, width = (area / aspect).sqrt().round(), (area * aspect).sqrt().round()
    fits = (height >= 1) & (height <= tall) & (width >= 1) & (width <= broad)
    first, none = fits.int().argmax(1, keepdim=True), ~fits.any(1)
    central = max(1, min(tall, round(broad / narrow))), max(1, min(broad, round(tall * wide)))
    box = []
    for full, side, instead in ((tall, height, central[0]), (broad, width, central[1])):
        extent = torch.where(none, instead, side.gather(1, first).squeeze(1))
        corner = torch.where(none, (full - extent) / 2, draw() * (full - extent + 1)).floor()
        box.append((torch.minimum(corner, full - extent), extent))  # a draw just below 1 may round up to the end
    (top, height), (left, width) = box
    return torch.stack([top, left, height, width], dim=1).long()


def resized_crop(images: Tensor, boxes: Tensor, size: Size) -> Tensor:
    """A given box of each picture, brought to one size; bilinear, over a wider triangle where a side shrinks.

    Along each side, pixel ``i`` of the result is the mean of the box's pixels ``j``, weighted by ``(1 - |d| / max(1, s))₊``,
    where ``s`` is the box over the result and ``d = j + 1/2 - s (i + 1/2)`` the distance of the centres in pixels of the box
    (what "bilinear with antialiasing" is elsewhere). Pixels outside the box have no part in it. uint8 is rounded to the
    nearest, a half to the even number; half precision is computed in float32.

    Shape:
        images (N, C, H, W), boxes int64 (N, 4) of (top, left, height, width) within the pictures; (N, C, *size).

    >>> resized_crop(torch.tensor([[[[9.0, 1.0, 3.0, 5.0, 7.0]]]]), torch.tensor([[0, 1, 1, 4]]), (1, 2))
    tensor([[[[2.4286, 5.5714]]]])
    """
    _check_images(images)
    check_tensor(boxes, "boxes")
    height, width = _size(size)
    if boxes.dtype != torch.int64 or boxes.shape != (len(images), 4):
        raise InputError(f"boxes: expected int64 ({len(images)}, 4), got {shape_of(boxes)}")
    if 0 in images.shape[2:]:
        raise InputError(f"images: expected at least one pixel, got {shape_of(images)}")
    out = images.new_empty(*images.shape[:2], height, width)
    for rows in _blocks(images, (height, width)) if out.numel() else ():
        out[rows] = _resample(images[rows], boxes[rows], height, width)
    return out


def normalize(images: Tensor, mean: Channels, std: Channels, *, dtype: torch.dtype | None = None) -> Tensor:
    """``(images - mean) / std`` by channel, uint8 taken as 0 to 1.

    Args:
        images: uint8 or floating point (N, C, H, W).
        mean: one number, or one a channel, on the scale from 0 to 1.
        std: likewise, above 0.
        dtype: of the result, such as ``torch.float16``; without it float32 for uint8, and the dtype of the pictures else.

    >>> normalize(torch.tensor([[[[0, 255]]]], dtype=torch.uint8), mean=0.5, std=0.25)
    tensor([[[[-2.,  2.]]]])
    """
    _check_images(images)
    unit = 1.0 if images.is_floating_point() else 255.0
    exact = torch.float64 if images.dtype == torch.float64 else torch.float32
    center = _by_channel(_mean(mean), images, exact, "mean") * unit
    spread = _by_channel(_std(std), images, exact, "std") * unit
    kept = images.dtype if images.is_floating_point() else torch.float32
    out = torch.empty(images.shape, dtype=kept if dtype is None else _floating(dtype), device=images.device)
    for rows in _blocks(images, images.shape[2:]):
        out[rows] = images[rows].to(exact, copy=True).sub_(center).div_(spread)
    return out


class Transform(nn.Module):
    """The module form of a function on pictures: its parameters, kept, and handed to it with every batch."""

    def __init__(self, function: Callable[..., Tensor], **settings: Any):
        super().__init__()
        self.function, self.settings = function, settings

    def forward(self, images: Tensor) -> Tensor:
        """What the function makes of these pictures."""
        return self.function(images, **self.settings)

    def extra_repr(self) -> str:
        """The parameters, as they would be typed."""
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.items() if value is not None)


class RandomCrop(Transform):
    """Module form of :func:`random_crop`."""

    def __init__(self, size: Size, padding: int = 0, *, generator: torch.Generator | None = None):
        padding = whole(0)("padding", padding)
        super().__init__(random_crop, size=_size(size), padding=padding, generator=generator)


class CenterCrop(Transform):
    """Module form of :func:`center_crop`."""

    def __init__(self, size: Size):
        super().__init__(center_crop, size=_size(size))


class RandomFlip(Transform):
    """Module form of :func:`random_flip`."""

    def __init__(self, probability: float = 0.5, *, generator: torch.Generator | None = None):
        super().__init__(random_flip, probability=share("probability", probability), generator=generator)


class Resize(Transform):
    """Module form of :func:`resize`."""

    def __init__(self, size: Size):
        super().__init__(resize, size=_size(size))


class RandomResizedCrop(Transform):
    """Module form of :func:`random_resized_crop`."""

    def __init__(self, size: Size, scale: Range = AREA, ratio: Range = RATIO, *, generator: torch.Generator | None = None):
        scale, ratio = _range(scale, "scale", most=1.0), _range(ratio, "ratio")
        super().__init__(random_resized_crop, size=_size(size), scale=scale, ratio=ratio, generator=generator)


class Normalize(Transform):
    """Module form of :func:`normalize`."""

    def __init__(self, mean: Channels, std: Channels, *, dtype: torch.dtype | None = None):
        dtype = None if dtype is None else _floating(dtype)
        super().__init__(normalize, mean=_mean(mean), std=_std(std), dtype=dtype)


def _blocks(images: Tensor, size: Sequence[int]) -> Iterator[slice]:
    """Pictures worked on at once, in their own or in this size.

    On the CPU, temporaries stay near the processor, and below the size from which memory is fetched from the system anew.
    """
    columns = images.shape[1] * max(images.shape[2], size[0]) * max(images.shape[3], size[1])
    return row_blocks(len(images), columns, AT_ONCE if images.device.type == "cpu" else 128 * AT_ONCE)


def windows(images: Tensor, top: Tensor, left: Tensor, height: int, width: int) -> Tensor:
    """The window of each picture with this corner, int64 (N,) each.

    All windows of one row that the memory of the pictures holds are the rows of a view with stride 1; those wanted are
    copied from it as whole rows, which is several times faster than indexing pixels or slicing picture by picture.
    """
    count, channels, tall, broad = images.shape
    if not count * channels:
        return images.new_empty(count, channels, height, width)
    row = torch.arange(height, device=images.device) + top[:, None]
    plane = torch.arange(count * channels, device=images.device).view(count, channels, 1) * tall
    start = (plane + row[:, None]) * broad + left.view(-1, 1, 1)
    strips = images.reshape(-1).unfold(0, width, 1)
    return strips.index_select(0, start.view(-1)).view(count, channels, height, width)


def _resample(images: Tensor, boxes: Tensor, height: int, width: int) -> Tensor:
    """The boxes in their new size: first rows are averaged, then columns."""
    top, left, tall, broad = boxes.unbind(1)
    values = working(images) if images.is_floating_point() else images.float()
    rows = _mean_rows(values, top, tall, height)
    columns = _mean_rows(rows.transpose(2, 3), left, broad, width)
    if not images.is_floating_point():
        columns = columns.round_().to(images.dtype)  # weights sum to 1: between 0 and 255
    return columns.transpose(2, 3)


def _mean_rows(values: Tensor, start: Tensor, length: Tensor, size: int) -> Tensor:
    """Weighted means of rows, (N, C, size, W), as bags of rows: one pass over memory, whatever the number of weights."""
    count, channels, full, across = values.shape
    place, weight = _taps(start, length, size, full)
    plane = torch.arange(count * channels, device=values.device).view(count, channels, 1, 1) * full
    bags = plane + place[:, None]
    weights = weight.to(values.dtype)[:, None].expand_as(bags)
    taps = bags.shape[3]
    means = nn.functional.embedding_bag(
        bags.view(-1, taps), values.reshape(-1, across), mode="sum", per_sample_weights=weights.reshape(-1, taps)
    )
    return means.view(count, channels, size, across)


def _taps(start: Tensor, length: Tensor, size: int, full: int) -> tuple[Tensor, Tensor]:
    """The pixels that each pixel of the result is the mean of, and their weights, (N, size, taps) each."""
    taps = math.ceil(2 * max(1, full / size))  # for the longest box; shorter ones have weights of 0
    stride = length.double().view(-1, 1, 1) / size
    reach = stride.clamp(min=1)
    index = torch.arange(size, dtype=torch.float64, device=start.device).view(-1, 1)
    begin = start.view(-1, 1, 1)
    center = begin + stride * (index + 0.5)
    pixel = (center - reach + 0.5).floor().long().clamp(min=0) + torch.arange(taps, device=start.device)
    weight = (1 - (pixel + 0.5 - center).abs() / reach).clamp(min=0)
    weight = weight * ((pixel >= begin) & (pixel < begin + length.view(-1, 1, 1)))
    return pixel.clamp(max=full - 1), weight / weight.sum(2, keepdim=True)


def _check_images(images: Tensor, generator: torch.Generator | None = None) -> None:
    check_tensor(images, "images")
    if images.ndim != 4 or not (images.dtype == torch.uint8 or images.is_floating_point()):
        raise InputError(f"images: expected uint8 or floating point (N, C, H, W), got {shape_of(images)}")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise InputError(f"generator: expected a torch.Generator, got {type(generator).__name__}")
    if generator is not None and generator.device.type != images.device.type:
        raise InputError(f"generator: expected one on {images.device}, as the images are, got one on {generator.device}")


def _check_fits(images: Tensor, height: int, width: int) -> None:
    tall, broad = images.shape[2:]
    if height > tall or width > broad:
        raise InputError(f"size: expected a window within {tall} × {broad} pixels, got {height} × {width}; pad or resize first")


def _size(size: Size) -> tuple[int, int]:
    height, width = (size, size) if not isinstance(size, tuple | list) else size if len(size) == 2 else (0, 0)
    return whole(1)("size", height), whole(1)("size", width)


def _range(bounds: Range, name: str, most: float = math.inf) -> Range:
    try:
        low, high = (float(bound) for bound in bounds)
        fits = 0 < low <= high <= most and high < math.inf
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        limit = "" if most == math.inf else f" up to {most:g}"
        raise InputError(f"{name}: expected two numbers above 0{limit}, the lower first, got {str(bounds)[:60]}")
    return low, high


def _mean(values: Channels) -> tuple[float, ...]:
    """One number, or one a channel, as plain numbers: a module has then nothing to move or to cast."""
    try:
        flat = torch.as_tensor(values, dtype=torch.float64).flatten().tolist()
    except (TypeError, ValueError, RuntimeError, OverflowError):
        flat = []
    if not flat or not all(math.isfinite(value) for value in flat):
        raise InputError(f"mean and std: expected finite numbers, one or one a channel, got {str(values)[:60]}")
    return tuple(flat)


def _std(values: Channels) -> tuple[float, ...]:
    flat = _mean(values)
    if min(flat) <= 0:
        raise InputError(f"std: expected numbers above 0, got {values}")
    return flat


def _by_channel(numbers: Sequence[float], images: Tensor, dtype: torch.dtype, name: str) -> Tensor:
    """The numbers beside the channels of the pictures, filled in where they are: a copy to a GPU would wait for it."""
    if len(numbers) not in (1, images.shape[1]):
        raise InputError(f"{name}: expected 1 or {images.shape[1]} numbers, one a channel, got {len(numbers)}")
    return torch.cat([torch.full((1, 1, 1), number, dtype=dtype, device=images.device) for number in numbers])


def _floating(dtype: torch.dtype) -> torch.dtype:
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise InputError(f"dtype: expected a floating point one, got {dtype}")
    return dtype
