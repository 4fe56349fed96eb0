"""Arrays become pictures or features, exactly."""

import numpy as np
import pandas as pd
import pytest
import torch

from shortlist.data import PictureArray
from shortlist.data.array_inputs import array_inputs, pixels
from shortlist.errors import InputError

GENERATOR = torch.Generator().manual_seed(0)
BYTES = torch.randint(0, 256, (4, 3, 5, 6), dtype=torch.uint8, generator=GENERATOR)


@pytest.mark.parametrize(
    "given",
    [
        BYTES,
        BYTES.numpy(),
        BYTES.permute(0, 2, 3, 1),
        BYTES.permute(0, 2, 3, 1).numpy(),
        BYTES.float() / 255,
        BYTES.double() / 255,
        (BYTES.float() / 255).half(),
        (BYTES.float() / 255).permute(0, 2, 3, 1),
    ],
)
def test_pictures_in_every_form_are_the_same_bytes(given):
    found = array_inputs(given)
    assert isinstance(found, PictureArray)
    assert torch.equal(found.images, BYTES)


def test_every_byte_survives_every_precision():
    every = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    for dtype in (torch.float16, torch.float32, torch.float64):
        assert torch.equal(pixels((every.double() / 255).to(dtype))[:, :1], every)


def test_grey_pictures_get_three_channels():
    for given in (BYTES[:, :1], BYTES[:, 0, :, :, None]):
        assert torch.equal(array_inputs(given).images, BYTES[:, :1].expand(-1, 3, -1, -1))


@pytest.mark.parametrize(
    "change", [lambda x: x * 2 - 1, lambda x: x + 0.001, lambda x: x * 255, lambda x: x * 0.5, lambda x: x / 0]
)
def test_pictures_that_would_lose_something_are_refused(change):
    with pytest.raises(InputError, match=r"X: .*in \[0, 1\].*torch.float32 from"):
        array_inputs(change(BYTES.float() / 255))


def test_one_wrong_value_in_a_late_block_is_seen(monkeypatch):
    monkeypatch.setattr("shortlist.data.array_inputs.VALUES_AT_ONCE", 90)
    given = BYTES.float() / 255
    assert torch.equal(array_inputs(given).images, BYTES)
    given[3, 2, 4, 5] = 0.5
    with pytest.raises(InputError, match="whole number"):
        array_inputs(given)


@pytest.mark.parametrize(
    "given",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]]),
        np.array([[1, 2], [3, 4]], np.uint8),
        torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64),
        pd.DataFrame({"a": [1, 3], "b": [2, 4]}),
        [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])],
    ],
)
def test_two_dimensions_are_features(given):
    found = array_inputs(given)
    assert found.dtype == torch.float32
    assert found.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (torch.zeros(3), r"got float32 \(3,\): for one feature give X\[:, None\]"),
        (torch.zeros(2, 8, 8), r"channel dimension"),
        (torch.zeros(2, 5, 8, 8, dtype=torch.uint8), "1 or 3 channels"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.int64), r"as uint8.*int64 \(2, 3, 8, 8\)"),
        (torch.tensor([[1.0, float("nan")]]), "got nan in row 0"),
        ([torch.zeros(2), torch.zeros(3)], r"rows of one shape, got \(2,\) and \(3,\)"),
        (np.array([["a"]]), "expected numbers"),
    ],
)
def test_other_arrays_are_refused(given, words):
    with pytest.raises(InputError, match=f"^X: .*{words}"):
        array_inputs(given)
