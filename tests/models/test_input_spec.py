"""What a network is fed with."""

import copy
import json
import pickle

import numpy as np
import pytest
import torch

from shortlist.data.transforms import normalize
from shortlist.errors import InputError
from shortlist.models.input_spec import InputSpec

PICTURES = InputSpec("pictures", 4, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3), fit="pad")
FEATURES = InputSpec("features", 2, mean=(1.0, -2.0), std=(0.5, 4.0))


def noise(n=5, side=4):
    return torch.randint(0, 256, (n, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_pictures_are_standardised_by_channel():
    images = noise()
    prepared = PICTURES.prepare(images)
    scaled = images.numpy().astype(np.float64) / 255
    expected = (scaled - np.reshape(PICTURES.mean, (1, 3, 1, 1))) / np.reshape(PICTURES.std, (1, 3, 1, 1))
    np.testing.assert_allclose(prepared.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert prepared.dtype == torch.float32
    assert prepared.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_features_are_standardised_by_column_in_float32(dtype):
    prepared = FEATURES.prepare(torch.tensor([[2.0, 2.0], [1.0, -2.0]], dtype=dtype))
    assert prepared.tolist() == [[2.0, 1.0], [0.0, 0.0]]
    assert prepared.dtype == torch.float32


def test_prepared_features_can_be_trained_on_after_inference():
    inputs = InputSpec("features", 1, mean=(0.0,), std=(1.0,))
    with torch.inference_mode():
        inputs.prepare(torch.ones(1, 1))
    weight = torch.ones(1, requires_grad=True)
    (inputs.prepare(torch.full((1, 1), 3.0)) * weight).sum().backward()
    assert weight.grad.tolist() == [3.0]


def test_prepared_pictures_are_the_normalised_ones_to_the_last_digit():
    images = torch.arange(256, dtype=torch.uint8).repeat(3).view(16, 3, 4, 4)  # every value in every channel
    for mean, std in (((0.5, 0.4, 0.3), (0.2, 0.25, 0.3)), ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))):
        inputs = InputSpec("pictures", 4, mean, std)
        expected = normalize(images, mean, std)
        torch.testing.assert_close(inputs.prepare(images), expected, rtol=torch.finfo(torch.float32).eps, atol=0.0)


def test_prepared_pictures_can_be_trained_on_after_inference():
    inputs = InputSpec("pictures", 4, mean=(0.0,) * 3, std=(1.0,) * 3)
    with torch.inference_mode():
        inputs.prepare(noise())
    images = torch.full((1, 3, 4, 4), 255, dtype=torch.uint8)
    weight = torch.ones(3, 1, 1, requires_grad=True)
    (inputs.prepare(images) * weight).sum().backward()
    assert weight.grad.flatten().tolist() == [16.0, 16.0, 16.0]


@pytest.mark.parametrize(("inputs", "batch"), [(PICTURES, noise()), (FEATURES, torch.ones(3, 2))])
def test_preparing_leaves_the_batch_and_the_numbers_alone(inputs, batch):
    before, first = batch.clone(), inputs.prepare(batch)
    kept = [numbers.clone() for numbers in inputs.on(batch.device)]
    assert torch.equal(inputs.prepare(batch), first)
    assert torch.equal(batch, before)
    assert all(torch.equal(one, other) for one, other in zip(inputs.on(batch.device), kept, strict=True))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda inputs: pickle.loads(pickle.dumps(inputs))])
@pytest.mark.parametrize(("inputs", "batch"), [(PICTURES, noise()), (FEATURES, torch.ones(3, 2))])
def test_copies_are_equal_and_bring_their_own_numbers(inputs, batch, duplicate):
    expected = inputs.prepare(batch)
    found = duplicate(inputs)
    assert (found, hash(found)) == (inputs, hash(inputs))
    assert found.on(batch.device)[0] is not inputs.on(batch.device)[0]
    assert torch.equal(found.prepare(batch), expected)


@pytest.mark.parametrize(("inputs", "batch"), [(PICTURES, noise()), (FEATURES, torch.ones(3, 2))])
def test_a_compiled_graph_is_traced_once(inputs, batch):
    traced = []

    def backend(graph, example):
        traced.append(graph)
        return graph.forward

    own = copy.deepcopy(inputs)
    own.on(batch.device)
    compiled = torch.compile(own.prepare, backend=backend, fullgraph=True)
    for shift in range(4):
        assert torch.equal(compiled(batch + shift), inputs.prepare(batch + shift))
    assert len(traced) == 1


def test_no_rows_are_prepared_to_no_rows():
    assert PICTURES.prepare(noise(0)).shape == (0, 3, 4, 4)
    assert FEATURES.prepare(torch.zeros(0, 2)).shape == (0, 2)


@pytest.mark.parametrize(
    ("inputs", "batch", "message"),
    [
        (
            PICTURES,
            torch.zeros(1, 3, 4, 5, dtype=torch.uint8),
            r"pictures: expected uint8 \(N, 3, 4, 4\), got uint8 \(1, 3, 4, 5\)",
        ),
        (PICTURES, torch.zeros(1, 3, 4, 4), r"expected uint8 \(N, 3, 4, 4\), got float32"),
        (PICTURES, torch.zeros(3, 4, 4, dtype=torch.uint8), "expected uint8"),
        (FEATURES, torch.zeros(1, 3), r"features: expected floating point \(N, 2\), got float32 \(1, 3\)"),
        (FEATURES, torch.zeros(1, 2, dtype=torch.int64), "floating point"),
        (FEATURES, np.zeros((1, 2)), "expected a tensor, got ndarray"),
    ],
)
def test_other_batches_are_refused(inputs, batch, message):
    with pytest.raises(InputError, match=message):
        inputs.prepare(batch)


@pytest.mark.parametrize("inputs", [PICTURES, FEATURES])
def test_record_comes_back_through_json(inputs):
    assert InputSpec.from_record(json.loads(json.dumps(inputs.record()))) == inputs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "sounds"}, "kind: .*'pictures', 'features'.*got 'sounds'"),
        ({"size": 0}, "size: expected a whole number from 1, got 0"),
        ({"size": "big"}, "size: expected a whole number"),
        ({"mean": [1, 2]}, "mean: expected 3 numbers.*got 2 numbers"),
        ({"mean": None}, "mean: expected numbers, as std has"),
        ({"std": None}, "std: expected numbers, as mean has"),
        ({"mean": ["a", 1, 2]}, "mean: expected 3 numbers"),
        ({"std": [1, 0, 1]}, "std: expected finite numbers above 0, got 0"),
        ({"std": [1, float("nan"), 1]}, "std: expected finite numbers above 0, got nan"),
        ({"mean": [1, float("inf"), 1]}, "mean: expected finite numbers, got inf"),
        ({"fit": "squeeze"}, "fit: .*'crop', 'center', 'stretch', 'pad'.*got 'squeeze'"),
        ({"colour": 1}, "nothing is missing, colour is unknown"),
    ],
)
def test_wrong_records_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        InputSpec.from_record(PICTURES.record() | changes)


def test_incomplete_records_are_refused():
    with pytest.raises(InputError, match="mean, std is missing, nothing is unknown"):
        InputSpec.from_record({"kind": "pictures", "size": 3})
    with pytest.raises(InputError, match="got list"):
        InputSpec.from_record([1])


def test_numbers_of_pictures_are_those_of_their_channels():
    images = noise(40, 5)
    found = InputSpec.from_pictures(images, 32, "stretch")
    scaled = images.numpy().astype(np.float64) / 255
    np.testing.assert_allclose(found.mean, scaled.mean((0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(found.std, scaled.std((0, 2, 3)), rtol=1e-12)
    assert (found.size, found.fit, found.kind) == (32, "stretch", "pictures")


def test_numbers_of_pictures_are_exact_in_blocks_of_any_size(monkeypatch):
    images = noise(40, 5)
    whole = InputSpec.from_pictures(images)
    monkeypatch.setattr("shortlist.models.input_spec.PIXELS_AT_ONCE", 200)
    assert InputSpec.from_pictures(images) == whole


def test_a_channel_that_never_changes_is_only_centred():
    found = InputSpec.from_pictures(torch.full((2, 3, 2, 2), 51, dtype=torch.uint8))
    assert found.mean == (0.2, 0.2, 0.2)
    assert found.std == (1.0, 1.0, 1.0)


def test_numbers_of_features_are_those_of_their_columns():
    features = torch.randn(100, 3, generator=torch.Generator().manual_seed(0)) * 3 + 1e4
    found = InputSpec.from_features(features)
    np.testing.assert_allclose(found.mean, features.double().numpy().mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.std, features.double().numpy().std(0), rtol=1e-9)


def test_a_feature_that_never_changes_is_only_centred():
    found = InputSpec.from_features(torch.full((7, 1), 0.1))  # whose mean in float64 is a hair off
    assert found.std == (1.0,)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (torch.zeros(0, 2), "with rows and columns"),
        (torch.zeros(3), "with rows and columns"),
        (torch.tensor([[1.0, float("nan")]]), "features: expected finite numbers, got nan in row 0, column 1"),
    ],
)
def test_features_without_numbers_are_refused(features, message):
    with pytest.raises(InputError, match=message):
        InputSpec.from_features(features)


@pytest.mark.parametrize("images", [torch.zeros(2, 3, 4, 4), torch.zeros(0, 3, 4, 4, dtype=torch.uint8)])
def test_pictures_without_pixels_are_refused(images):
    with pytest.raises(InputError, match="images: expected"):
        InputSpec.from_pictures(images)


def test_shape_of_one_input():
    assert (PICTURES.shape, PICTURES.num_features) == ((3, 4, 4), None)
    assert (FEATURES.shape, FEATURES.num_features) == ((2,), 2)


def test_constructors_give_the_numbers_they_name():
    scaled = InputSpec.pictures(4, fit="pad")
    assert (scaled.kind, scaled.size, scaled.mean, scaled.std, scaled.fit) == ("pictures", 4, (0.0,) * 3, (1.0,) * 3, "pad")
    assert InputSpec.pictures(4, mean=0.5, std=[0.1, 0.2, 0.3]) == InputSpec("pictures", 4, (0.5,) * 3, (0.1, 0.2, 0.3))
    assert InputSpec.imagenet(32).mean == (0.485, 0.456, 0.406)
    assert InputSpec.features(3, std=2.0) == InputSpec("features", 3, (0.0,) * 3, (2.0,) * 3)


def test_raw_inputs_reach_the_network_as_they_are():
    pixels = torch.arange(48, dtype=torch.uint8).view(1, 3, 4, 4)
    found = InputSpec.pictures(4, raw=True).prepare(pixels)
    assert found.dtype == torch.uint8
    assert torch.equal(found, pixels)
    features = torch.tensor([[1.5, -2.5]], dtype=torch.float64)
    assert torch.equal(InputSpec.features(2).prepare(features), features.float())


@pytest.mark.parametrize("inputs", [InputSpec.pictures(4, raw=True), InputSpec.features(2)])
def test_raw_inputs_are_recorded_as_such(inputs):
    assert InputSpec.from_record(json.loads(json.dumps(inputs.record()))) == inputs
    assert inputs.raw
    assert not PICTURES.raw
