"""Transforms of batches: against one picture at a time, pixel by pixel; their laws; what they keep and refuse."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy import stats
from torch import nn

from shortlist.data.transforms import (
    CenterCrop,
    Normalize,
    RandomCrop,
    RandomFlip,
    RandomResizedCrop,
    Resize,
    center_crop,
    normalize,
    random_boxes,
    random_crop,
    random_flip,
    random_resized_crop,
    resize,
    resized_crop,
)
from shortlist.errors import InputError
from tests.references import transforms as ref

DEVICES = ["cpu", *(f"cuda:{n}" for n in range(min(1, torch.cuda.device_count())))]
DTYPES = [torch.uint8, torch.float16, torch.float32, torch.float64]
TOLERANCE = {torch.float16: 1e-3, torch.float32: 1e-6, torch.float64: 1e-13}


def seeded(seed=0, device="cpu"):
    return torch.Generator(device).manual_seed(seed)


def draw(*shape, dtype=torch.uint8, seed=0):
    if dtype == torch.uint8:
        return torch.randint(0, 256, shape, dtype=dtype, generator=seeded(seed))
    return torch.rand(shape, dtype=torch.float64, generator=seeded(seed)).to(dtype)


def numbers(images):
    return images.cpu().numpy() if images.dtype == torch.uint8 else images.cpu().double().numpy()


def places(count, height, width):
    """Pictures whose pixels say where they are: 1 + row · width + column."""
    return torch.arange(1.0, 1 + height * width).view(1, 1, height, width).expand(count, 1, height, width)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_crop_is_a_window_of_the_padded_picture(data):
    count, channels = data.draw(st.integers(0, 4)), data.draw(st.integers(1, 3))
    tall, broad, padding = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7)), data.draw(st.integers(0, 3))
    height = data.draw(st.integers(1, tall + 2 * padding))
    width = data.draw(st.integers(1, broad + 2 * padding))
    images = draw(count, channels, tall, broad, dtype=data.draw(st.sampled_from(DTYPES)))
    found = random_crop(images, (height, width), padding, generator=seeded(3))
    assert found.dtype == images.dtype
    generator = seeded(3)
    top = torch.randint(tall + 2 * padding - height + 1, (count,), generator=generator)
    left = torch.randint(broad + 2 * padding - width + 1, (count,), generator=generator)
    for n in range(count):
        assert np.array_equal(
            numbers(found[n]), ref.crop(numbers(images[n]), int(top[n]), int(left[n]), height, width, padding)
        )
    assert found.shape == (count, channels, height, width)


@pytest.mark.parametrize("dtype", DTYPES)
def test_identities(dtype):
    images = draw(5, 3, 9, 6, dtype=dtype)
    assert torch.equal(random_crop(images, (9, 6)), images)
    assert torch.equal(center_crop(images, (9, 6)), images)
    assert torch.equal(random_flip(images, 0), images)
    assert torch.equal(random_flip(images, 1), images.flip(3))
    assert torch.equal(random_flip(random_flip(images, 1), 1), images)
    assert torch.equal(resize(images, (9, 6)), images)
    whole = random_resized_crop(images, (9, 6), scale=(1, 1), ratio=(6 / 9, 6 / 9))
    assert torch.equal(whole, images)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 3, 8, 8), (3, 0, 8, 8)])
def test_no_pictures_and_no_channels_stay_none(shape, dtype):
    images = torch.zeros(shape, dtype=dtype)
    for transform in (RandomCrop(4, 2), CenterCrop(4), Resize(4), RandomResizedCrop(4)):
        assert transform(images).shape == (*shape[:2], 4, 4)
        assert transform(images).dtype == dtype
    assert RandomFlip()(images).shape == shape
    assert Normalize(0.5, 0.5)(images).shape == shape


def test_every_place_of_a_crop_is_equally_likely():
    """32 × 32 with padding 4: 81 places, 16,200 crops; chi-square beyond its 1 - 1e-6 quantile."""
    images = places(16_200, 32, 32)
    found = random_crop(images, 32, padding=4, generator=seeded(0))[:, 0, 4:28, 4:28]  # never padding
    corner = found[:, 0, 0].long() - 1
    top, left = corner // 32, corner % 32
    counts = (9 * top + left).bincount(minlength=81)
    assert len(counts) == 81
    assert stats.chisquare(counts.numpy()).pvalue > 1e-6


def test_pictures_are_cropped_and_flipped_by_themselves():
    """No two neighbours share their draws: the correlation of 4,000 pairs beyond 5 standard errors, once in 1.7 million."""
    images = places(4001, 9, 9)
    corner = random_crop(images, 5, generator=seeded(1))[:, 0, 0, 0].long() - 1
    flipped = (random_flip(images, generator=seeded(2))[:, 0, 0, 0] > 1).double()
    for values in (corner // 9, corner % 9, flipped):
        pairs = torch.stack([values[:-1].double(), values[1:].double()])
        assert abs(float(pairs.corrcoef()[0, 1])) < 5 / math.sqrt(4000)
    assert abs(float(torch.stack([(corner // 9).double(), (corner % 9).double()]).corrcoef()[0, 1])) < 5 / math.sqrt(4000)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.8])
def test_flips_have_their_probability(probability):
    """10,000 pictures, beyond 5 standard errors: once in 1.7 million."""
    found = random_flip(places(10_000, 1, 2), probability, generator=seeded(0))[:, 0, 0, 0] == 2
    assert abs(float(found.double().mean()) - probability) < 5 * math.sqrt(probability * (1 - probability) / 10_000)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_flip_is_of_the_whole_picture(dtype):
    images = draw(40, 3, 4, 5, dtype=dtype)
    found = random_flip(images, generator=seeded(0))
    flips = torch.rand(40, generator=seeded(0)) < 0.5
    assert 0 < flips.sum() < 40
    for image, flip, result in zip(images, flips, found, strict=True):
        assert torch.equal(result, image.flip(2) if flip else image)


@pytest.mark.parametrize(("tall", "broad", "size"), [(5, 4, 2), (4, 4, 3), (6, 7, (1, 7)), (3, 3, 3)])
def test_the_centre_leaves_the_smaller_half_above_and_on_the_left(tall, broad, size):
    height, width = size if isinstance(size, tuple) else (size, size)
    images = draw(2, 3, tall, broad)
    expected = [ref.crop(i.numpy(), (tall - height) // 2, (broad - width) // 2, height, width) for i in images]
    assert np.array_equal(center_crop(images, size).numpy(), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "size"),
    [((3, 8, 8), (8, 8)), ((1, 13, 5), (4, 9)), ((3, 5, 17), (11, 3)), ((2, 16, 16), (1, 1)), ((1, 1, 1), (3, 2))],
)
def test_resized_crops_are_those_of_one_picture_at_a_time(shape, size, dtype, device):
    images = draw(7, *shape, dtype=dtype)
    boxes = random_boxes(images, scale=(0.05, 1), ratio=(0.2, 5), generator=seeded(1))
    expected = np.stack([ref.resized_crop(numbers(i), box, size) for i, box in zip(images, boxes.tolist(), strict=True)])
    found = resized_crop(images.to(device), boxes.to(device), size)
    assert found.dtype == dtype
    if dtype == torch.uint8:  # rounded: half a level, and what float32 may add
        assert np.abs(numbers(found) - expected).max() <= 0.5 + 1e-4
    else:
        np.testing.assert_allclose(numbers(found), expected, atol=TOLERANCE[dtype])


@pytest.mark.parametrize(("before", "after"), [(9, 4), (7, 7), (4, 9), (30, 7), (2, 1)])
def test_sizes_are_those_of_torch_with_antialiasing(before, after):
    images = draw(3, 3, before, 11, dtype=torch.float64)
    expected = nn.functional.interpolate(images, (after, 6), mode="bilinear", antialias=True)
    torch.testing.assert_close(resize(images, (after, 6)), expected, atol=1e-12, rtol=0)
    flat = (255 * images).round().to(torch.uint8)
    expected = nn.functional.interpolate(flat.double(), (after, 6), mode="bilinear", antialias=True)
    assert (resize(flat, (after, 6)).double() - expected).abs().max() <= 0.5 + 1e-4


def test_blocks_of_pictures_are_seamless():
    images = draw(40, 3, 90, 70)
    boxes = random_boxes(images, generator=seeded(0))
    together = resized_crop(images, boxes, 64)
    alone = torch.cat([resized_crop(images[n : n + 1], boxes[n : n + 1], 64) for n in range(40)])
    assert torch.equal(together, alone)
    assert torch.equal(normalize(images, 0.4, 0.2), torch.cat([normalize(image[None], 0.4, 0.2) for image in images]))


def test_white_stays_white_and_extremes_do_not_wrap():
    images = draw(64, 3, 40, 40).gt(127).to(torch.uint8) * 255
    assert resize(torch.full_like(images, 255), 23).eq(255).all()
    coarse = resize(images, 60).double()
    expected = nn.functional.interpolate(images.double(), 60, mode="bilinear", antialias=True)
    assert (coarse - expected).abs().max() <= 0.5 + 1e-4


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([(0.08, 1.0), (0.9, 1.0), (0.001, 0.002), (0.3, 0.3)]),
    st.sampled_from([(3 / 4, 4 / 3), (0.1, 0.2), (5, 9), (1, 1)]),
    st.integers(0, 99),
)
def test_boxes_are_those_of_the_literal_draws(tall, broad, scale, ratio, seed):
    images = torch.empty(6, 1, tall, broad, dtype=torch.uint8)
    found = random_boxes(images, scale, ratio, generator=seeded(seed))
    generator = seeded(seed)
    draws = [torch.rand(6, *shape, dtype=torch.float64, generator=generator).tolist() for shape in ((10,), (10,), (), ())]
    expected = [ref.box(tall, broad, scale, ratio, *numbers) for numbers in zip(*draws, strict=True)]
    found = found.tolist()
    assert found == [list(box) for box in expected]
    for top, left, height, width in found:
        assert 0 <= top <= top + height <= tall
        assert 0 <= left <= left + width <= broad
        assert min(height, width) >= 1


def test_boxes_have_their_law():
    """Areas up to 0.3 always fit, so that area and logarithm of the ratio are uniform; 5,000 boxes, p below 1e-6 each."""
    images = torch.empty(1, 1, 1, 1, dtype=torch.uint8).expand(5000, 1, 2000, 2000)
    top, left, height, width = random_boxes(images, (0.08, 0.3), generator=seeded(0)).double().unbind(1)
    area, ratio = height * width / 2000**2, (width / height).log()
    assert stats.kstest(area, stats.uniform(0.08, 0.22).cdf).pvalue > 1e-6
    assert stats.kstest(ratio, stats.uniform(math.log(0.75), math.log(16 / 9)).cdf).pvalue > 1e-6
    for corner, extent in ((top, height), (left, width)):
        assert stats.kstest((corner + 0.5) / (2000 - extent + 1), stats.uniform.cdf).pvalue > 1e-6


@pytest.mark.parametrize(("tall", "broad", "expected"), [(10, 100, [0, 43, 10, 13]), (100, 10, [43, 0, 13, 10])])
def test_where_no_box_fits_the_central_one_is_taken(tall, broad, expected):
    images = torch.empty(3, 1, tall, broad, dtype=torch.uint8)
    assert random_boxes(images, scale=(1, 1)).tolist() == [expected] * 3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("out", [None, torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_standardised_values(dtype, out, device):
    images, mean, std = draw(4, 3, 5, 6, dtype=dtype), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    found = normalize(images.to(device), mean, std, dtype=out)
    assert found.dtype == (out or (torch.float32 if dtype == torch.uint8 else dtype))
    expected = np.stack([ref.normalize(numbers(image), mean, std) for image in images])
    width = max({torch.float16: 2e-3, torch.bfloat16: 1e-2}.get(found.dtype, 0), 1e-14 if dtype == torch.float64 else 1e-6)
    np.testing.assert_allclose(numbers(found), expected, atol=max(width, 1e-6 if out == torch.float32 else 0))


def test_one_number_serves_all_channels_and_the_mean_becomes_zero():
    images = draw(2, 3, 4, 4, dtype=torch.float32)
    assert torch.equal(normalize(images, 0.3, 0.2), normalize(images, [0.3] * 3, torch.tensor([0.2] * 3)))
    assert normalize(torch.full((1, 1, 2, 2), 0.7), 0.7, 0.1).eq(0).all()


@pytest.mark.parametrize("device", DEVICES)
def test_a_generator_makes_it_repeatable_and_leaves_the_global_state_alone(device):
    images = draw(30, 3, 20, 24).to(device)

    def augment(seed):
        generator = seeded(seed, device)
        return nn.Sequential(
            RandomCrop(18, padding=2, generator=generator),
            RandomFlip(generator=generator),
            RandomResizedCrop(12, generator=generator),
            Normalize(0.5, 0.25),
        )

    state = torch.random.get_rng_state()
    first = augment(1)
    one, two = first(images), first(images)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert one.shape == (30, 3, 12, 12)
    assert one.device == images.device
    assert not torch.equal(one, two)  # the generator has moved on
    again = augment(1)
    assert torch.equal(one, again(images))
    assert torch.equal(two, again(images))
    assert not torch.equal(one, augment(2)(images))


def test_without_a_generator_the_global_state_decides():
    images = draw(20, 3, 8, 8)
    torch.manual_seed(4)
    one = random_crop(images, 4)
    torch.manual_seed(4)
    assert torch.equal(one, random_crop(images, 4))


@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_stay_as_they_are_in_any_layout_of_memory(dtype):
    images = draw(6, 3, 10, 12, dtype=dtype)
    kept = images.clone()
    for transform in (
        lambda x: random_crop(x, 7, 1, generator=seeded()),
        lambda x: random_flip(x, generator=seeded()),
        lambda x: random_resized_crop(x, 5, generator=seeded()),
        lambda x: normalize(x, 0.5, 0.5),
        lambda x: center_crop(x, 3),
        lambda x: resize(x, (3, 20)),
    ):
        expected = transform(images)
        for layout in (images.to(memory_format=torch.channels_last), images.transpose(2, 3).contiguous().transpose(2, 3)):
            assert torch.equal(transform(layout), expected)
        wide = torch.cat([images, images], dim=3)[..., :12]
        assert torch.equal(transform(wide), expected)
    assert torch.equal(images, kept)


def test_gradients_go_through_floating_point():
    images = draw(3, 2, 6, 5, dtype=torch.float64).requires_grad_()
    for transform in (
        lambda x: random_crop(x, 4, 1, generator=seeded()),
        lambda x: random_flip(x, generator=seeded()),
        lambda x: random_resized_crop(x, 3, generator=seeded()),
        lambda x: normalize(x, 0.5, 0.5),
    ):
        assert torch.autograd.gradcheck(transform, images)


def test_modules_show_and_check_their_parameters():
    assert repr(RandomCrop(32, padding=4)) == "RandomCrop(size=(32, 32), padding=4)"
    assert repr(Normalize(0.5, (0.1, 0.2))) == "Normalize(mean=(0.5,), std=(0.1, 0.2))"
    assert not list(nn.Sequential(RandomCrop(3), Normalize(0.5, 0.5)).state_dict())
    for make, message in [
        (lambda: RandomCrop(0), "size: expected a whole number from 1"),
        (lambda: RandomCrop(4, padding=-1), "padding: expected a whole number from 0"),
        (lambda: CenterCrop((1, 2, 3)), "size: expected"),
        (lambda: Resize(2.5), "size: expected a whole number"),
        (lambda: RandomFlip(1.5), "probability: expected a number from 0 to 1, got 1.5"),
        (lambda: RandomFlip(float("nan")), "probability: expected"),
        (lambda: RandomFlip("a"), "probability: .*got 'a'"),
        (lambda: RandomResizedCrop(4, scale=None), "scale: expected two numbers above 0 up to 1, .* got None"),
        (lambda: RandomResizedCrop(4, ratio=("a", "b")), "ratio: expected two numbers"),
        (lambda: RandomResizedCrop(4, scale=(0, 1)), "scale: expected two numbers above 0 up to 1, the lower first"),
        (lambda: RandomResizedCrop(4, scale=(0.5, 2)), "scale: expected two numbers above 0 up to 1"),
        (lambda: RandomResizedCrop(4, ratio=(2, 1)), "ratio: expected two numbers above 0, the lower first"),
        (lambda: RandomResizedCrop(4, ratio=(1, math.inf)), "ratio: expected"),
        (lambda: Normalize(float("nan"), 1), "mean and std: expected finite numbers"),
        (lambda: Normalize([], 1), "mean and std: expected finite numbers"),
        (lambda: Normalize(0.5, (0.1, 0)), "std: expected numbers above 0"),
        (lambda: Normalize("a", 1), "mean and std: expected finite numbers, one or one a channel, got a"),
        (lambda: Normalize(0.5, None), "mean and std: expected finite numbers"),
        (lambda: Normalize(0.5, 0.5, dtype="half"), "dtype: expected a floating point one"),
        (lambda: Normalize(0.5, 0.5, dtype=torch.int32), "dtype: expected a floating point one"),
    ]:
        with pytest.raises(InputError, match=message):
            make()


def test_pictures_that_do_not_fit_are_refused():
    images = draw(2, 3, 5, 4)
    for call, message in [
        (lambda: random_crop(images, 6), "size: expected a window within 5 × 4 pixels, got 6 × 6"),
        (lambda: random_crop(images, (5, 7), padding=1), "size: expected a window within 7 × 6 pixels, got 5 × 7"),
        (lambda: center_crop(images, (1, 5)), "size: expected a window within 5 × 4"),
        (lambda: normalize(images, (0.1, 0.2), 1), "mean: expected 1 or 3 numbers, one a channel, got 2"),
        (lambda: normalize(images, 0.5, [1] * 4), "std: expected 1 or 3 numbers"),
        (lambda: resize(images[:, :, :0], 3), "images: expected at least one pixel"),
        (lambda: random_flip(images, "a"), "probability: .*got 'a'"),
        (lambda: random_boxes(images, None), "scale: expected two numbers above 0 up to 1"),
        (lambda: normalize(images, "a", 1), "mean and std: expected finite numbers"),
        (lambda: random_flip(images, generator=0), "generator: expected a torch.Generator, got int"),
        (lambda: resized_crop(images, [[0, 0, 1, 1]] * 2, 3), "boxes: expected a tensor, got list"),
        (lambda: random_flip(images[0]), "images: expected uint8 or floating point"),
        (lambda: random_flip(images.long()), r"images: expected uint8 or floating point \(N, C, H, W\), got int64"),
        (lambda: random_flip(images.numpy()), "images: expected a tensor, got ndarray"),
        (lambda: resized_crop(images, torch.zeros(2, 4), 3), r"boxes: expected int64 \(2, 4\)"),
    ]:
        with pytest.raises(InputError, match=message):
            call()


@pytest.mark.skipif(len(DEVICES) == 1, reason="needs a GPU")
def test_a_generator_of_another_device_is_refused():
    with pytest.raises(InputError, match="generator: .*got one on cpu"):
        random_crop(draw(2, 3, 5, 4).cuda(), 3, generator=seeded())
