"""Sharpness: the variance of the Laplacian, the same in any batch and on any device."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter

from shortlist.data import sharpness
from shortlist.errors import InputError
from tests.references import focus as ref


def draw(rows, height, width, seed=0):
    return torch.randint(0, 256, (rows, 3, height, width), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


@pytest.mark.parametrize(("height", "width"), [(3, 3), (3, 8), (9, 5), (16, 16)])
def test_it_is_the_variance_of_the_laplacian(height, width):
    images = torch.cat([draw(5, height, width), torch.full((1, 3, height, width), 200, dtype=torch.uint8)])
    images[4] = images[4] // 64
    found = sharpness(images)
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx([ref.sharpness(picture) for picture in images.numpy()], rel=1e-12, abs=1e-9)


def test_a_checkerboard_of_full_contrast_does_not_overflow():
    board = (torch.arange(1000)[:, None] + torch.arange(1000)) % 2 * 255
    images = board.to(torch.uint8).expand(1, 3, 1000, 1000)
    assert sharpness(images).tolist() == pytest.approx([(4 * 255) ** 2])


def test_it_does_not_depend_on_the_batch_or_on_the_layout():
    images = draw(70, 200, 120)
    whole = sharpness(images)
    assert torch.equal(whole, torch.cat([sharpness(part) for part in images.split(9)]))
    assert torch.equal(whole, sharpness(images.contiguous(memory_format=torch.channels_last)))
    assert torch.equal(whole, sharpness(images.numpy()))
    assert sharpness(images[:0]).shape == (0,)


def test_blur_lowers_it():
    pixels = draw(1, 64, 64)[0].permute(1, 2, 0).numpy()
    blurred = [Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(radius)) for radius in (0.5, 1, 2, 4)]
    pictures = np.stack([pixels, *map(np.asarray, blurred)]).transpose(0, 3, 1, 2)
    found = sharpness(pictures).tolist()
    assert found == sorted(found, reverse=True)
    assert found[-1] < found[0] / 1000


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(2, 3, 8, 8), r"images: expected uint8 \(N, 3, H, W\), got float32 \(2, 3, 8, 8\)"),
        (torch.zeros(3, 8, 8, dtype=torch.uint8), r"images: .*got uint8 \(3, 8, 8\)"),
        (torch.zeros(2, 1, 8, 8, dtype=torch.uint8), r"images: .*got uint8 \(2, 1, 8, 8\)"),
        (torch.zeros(2, 3, 2, 8, dtype=torch.uint8), r"images: expected sides from 3 .*got uint8 \(2, 3, 2, 8\)"),
    ],
)
def test_what_is_no_picture_is_refused(images, message):
    with pytest.raises(InputError, match=message):
        sharpness(images)
