"""Crops, flips and sizes of whole batches against one picture at a time, in torch and in Pillow.

Every contender starts from uint8 in memory and ends with one tensor; what differs is who loops over the pictures.
"""

from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor, nn

from benchmarks.harness import compare
from shortlist.data.transforms import (
    Normalize,
    RandomCrop,
    RandomFlip,
    random_boxes,
    random_resized_crop,
)

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SETTINGS = ((512, 32, 32, 4), (64, 256, 224, 0))  # pictures, their side, that of the result, padding


def run() -> None:
    torch.empty(2**25 - 2**20, dtype=torch.uint8).fill_(1)  # any process that trains has freed as much: no more page faults
    for count, side, size, padding in SETTINGS:
        images = torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        pictures = [Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()) for image in images]
        _crop_and_flip(images, pictures, size, padding)
        _resized_crop(images, pictures, size)


def _crop_and_flip(images: Tensor, pictures: list[Image.Image], size: int, padding: int) -> None:
    generator = torch.Generator().manual_seed(0)
    crop, flip = RandomCrop(size, padding, generator=generator), RandomFlip(generator=generator)
    single, half = Normalize(MEAN, STD), Normalize(MEAN, STD, dtype=torch.float16)
    mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
    room = images.shape[3] + 2 * padding - size + 1

    def draws() -> Any:
        corners = torch.randint(room, (2, len(images)), generator=generator).tolist()
        return zip(*corners, (torch.rand(len(images), generator=generator) < 0.5).tolist(), strict=True)

    def torch_alone() -> Tensor:
        done = []
        for image, (top, left, mirror) in zip(images, draws(), strict=True):
            part = nn.functional.pad(image, (padding,) * 4)[:, top : top + size, left : left + size]
            part = part.flip(2) if mirror else part
            done.append((part.float() / 255 - mean) / std)
        return torch.stack(done)

    def pillow_alone() -> Tensor:
        done = []
        for picture, (top, left, mirror) in zip(pictures, draws(), strict=True):
            part = (ImageOps.expand(picture, padding) if padding else picture).crop((left, top, left + size, top + size))
            part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirror else part
            done.append((torch.from_numpy(np.array(part)).permute(2, 0, 1).float() / 255 - mean) / std)
        return torch.stack(done)

    compare(
        "transforms",
        f"{len(images)} × {size} px, crop, flip, standardise",
        {
            "shortlist": lambda: single(flip(crop(images))),
            "shortlist, half precision": lambda: half(flip(crop(images))),
            "torch, picture by picture": torch_alone,
            "Pillow, picture by picture": pillow_alone,
        },
        rounds=15,
        warm=True,
    )


def _resized_crop(images: Tensor, pictures: list[Image.Image], size: int) -> None:
    generator = torch.Generator().manual_seed(0)

    def torch_alone(exact: bool) -> Tensor:
        done = []
        for image, (top, left, height, width) in zip(images, random_boxes(images, generator=generator).tolist(), strict=True):
            part = image[None, :, top : top + height, left : left + width]
            part = part.float() if exact else part
            done.append(nn.functional.interpolate(part, (size, size), mode="bilinear", antialias=True)[0])
        return torch.stack(done).round_().to(torch.uint8) if exact else torch.stack(done)

    def pillow_alone() -> Tensor:
        done = []
        for picture, (top, left, height, width) in zip(
            pictures, random_boxes(images, generator=generator).tolist(), strict=True
        ):
            part = picture.crop((left, top, left + width, top + height)).resize((size, size), Image.Resampling.BILINEAR)
            done.append(torch.from_numpy(np.array(part)).permute(2, 0, 1))
        return torch.stack(done)

    compare(
        "transforms",
        f"{len(images)} × {size} px, resized crop",
        {
            "shortlist": lambda: random_resized_crop(images, size, generator=generator),
            "torch, picture by picture": lambda: torch_alone(exact=True),
            "torch, picture by picture, 16-bit weights": lambda: torch_alone(exact=False),
            "Pillow, picture by picture": pillow_alone,
        },
        rounds=15,
        warm=True,
    )
