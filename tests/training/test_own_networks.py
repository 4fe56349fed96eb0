"""Training networks that users bring: any module, any function that returns one, with what it reads derived from the data."""

import json

import pytest
import torch
from torch import nn

from shortlist.data import Dataset, Split
from shortlist.errors import InputError
from shortlist.models import Classifier, InputSpec, Network, NetworkNeededError
from shortlist.training import train
from shortlist.training.run_folder import RunFolder
from tests.models.own_networks import Body, HandWritten, Pair, RawPixels, make, make_on_backbone
from tests.training.small import CLASSES, dataset, recipe

HERE = "tests.models.own_networks"


def run(folder, network, *, resume=False, inputs=None, data=None, **settings):
    data = dataset() if data is None else data
    return train(recipe(**settings), folder, device="cpu", dataset=data, network=network, inputs=inputs, resume=resume)


@pytest.mark.parametrize("network", ["module", make, f"{HERE}:make", make_on_backbone])
def test_any_network_is_trained_saved_and_loaded(tmp_path, network):
    trained = run(tmp_path / "run", HandWritten(CLASSES) if network == "module" else network)
    assert trained.classifier.inputs.size == 8
    assert not trained.classifier.inputs.raw
    given = make_on_backbone if network is make_on_backbone else make
    found = Classifier.load(tmp_path / "run/classifier", network=given)
    images = dataset().splits["test"].inputs
    assert torch.equal(found.predict(images).sets, trained.classifier.predict(images).sets)
    torch.testing.assert_close(found.predictions(images).scores, trained.predictions["test"].scores, atol=1e-5, rtol=1e-4)


def test_training_learns(tmp_path):
    trained = run(tmp_path, make, epochs=8)
    test = trained.predictions["test"]
    assert (test.scores.argmax(1) == test.target).float().mean() >= 0.7


def test_a_module_is_trained_in_place(tmp_path):
    module = HandWritten(CLASSES)
    before = module.conv.weight.detach().clone()
    trained = run(tmp_path, module)
    assert trained.classifier.network.module is module
    assert not torch.equal(module.conv.weight, before)


def test_factories_start_from_the_seed_of_the_recipe(tmp_path):
    one, other, third = (run(tmp_path / str(n), make, seed=seed) for n, seed in enumerate((1, 1, 2)))
    assert torch.equal(one.predictions["test"].scores, other.predictions["test"].scores)
    assert not torch.equal(one.predictions["test"].scores, third.predictions["test"].scores)


def test_inputs_can_be_given(tmp_path):
    raw = InputSpec.pictures(8, raw=True)
    trained = run(tmp_path / "raw", RawPixels, inputs=raw)
    assert trained.classifier.inputs == raw
    network = Network(Body(), "linear", InputSpec.imagenet(8), CLASSES)
    assert run(tmp_path / "own", network).classifier.inputs == InputSpec.imagenet(8)


def test_pictures_are_tested_as_the_inputs_say(tmp_path):
    inputs = InputSpec.pictures(8, fit="center")
    trained = run(tmp_path / "given", make, inputs=inputs)
    assert trained.classifier.inputs == inputs
    assert RunFolder(tmp_path / "given").recipe.test_fit == "center"
    with pytest.raises(InputError, match="inputs: expected fit 'center', as test_fit .*got 'crop'"):
        run(tmp_path / "other", make, inputs=InputSpec.pictures(8), test_fit="center")


def test_features(tmp_path):
    generator = torch.Generator().manual_seed(0)
    splits = {}
    for name, rows in {"train": 60, "val": 30, "test": 20}.items():
        target = torch.arange(rows) % 3
        features = torch.randn(rows, 2, generator=generator) + 3 * target[:, None]
        splits[name] = Split(features, target, [f"{name} {row}" for row in range(rows)])
    data = Dataset("numbers", ["a", "b", "c"], splits, superclasses=["x", "x", "y"])
    trained = run(tmp_path, lambda classes, inputs: nn.Linear(inputs.size, classes), data=data, backbone="features", size=None)
    assert trained.classifier.superclasses == ("x", "x", "y")
    assert trained.predictions["test"].superclasses == ("x", "x", "y")
    assert json.loads((tmp_path / "classifier/config.json").read_text())["superclasses"] == ["x", "x", "y"]


def test_two_heads_for_the_method_that_needs_them(tmp_path):
    assert run(tmp_path / "pair", Pair, method="average-k").classifier.network.backbone_name == "Pair"
    with pytest.raises(InputError, match="network: expected a TwoHeadScores pair.*average-k.*got scores.*'two-head'"):
        run(tmp_path / "one", make, method="average-k")
    with pytest.raises(InputError, match="network: expected scores as output.*cross-entropy.*got a TwoHeadScores pair"):
        run(tmp_path / "two", Pair)


@pytest.mark.parametrize(
    ("network", "options", "message"),
    [
        (None, {"inputs": InputSpec.pictures(8)}, "inputs: expected None without a network"),
        (make, {"inputs": InputSpec.pictures(9)}, "inputs: expected pictures of size 8.*got 9"),
        (make, {"inputs": InputSpec.pictures(8, fit="pad")}, "inputs: expected fit 'crop' or 'center'.*got 'pad'"),
        (lambda classes: HandWritten(classes + 1), {}, r"network: expected scores .*got float32 \(2, 6\)"),
        (lambda classes: HandWritten(classes).requires_grad_(False), {}, "network: expected weights that can be trained"),
    ],
)
def test_what_cannot_be_trained_is_refused(tmp_path, network, options, message):
    with pytest.raises(InputError, match=message):
        run(tmp_path / "run", network, **options)
    assert not (tmp_path / "run/recipe.json").exists()


def test_a_run_goes_on_with_its_network(tmp_path):
    whole = run(tmp_path / "whole", make)
    run(tmp_path / "run", make)
    assert RunFolder(tmp_path / "run").network_record == {"class": "HandWritten", "factory": f"{HERE}:make"}
    (tmp_path / "run/test.safetensors").unlink()
    with pytest.raises(NetworkNeededError, match=f"network='{HERE}:make'"):
        run(tmp_path / "run", None, resume=True)
    again = run(tmp_path / "run", make, resume=True)
    assert torch.equal(again.predictions["test"].scores, whole.predictions["test"].scores)


def test_a_run_does_not_go_on_with_another_network(tmp_path):
    run(tmp_path / "run", make)
    with pytest.raises(InputError, match=f"network: expected {HERE}:make, .*got {HERE}:HandWritten"):
        run(tmp_path / "run", HandWritten, resume=True)
    with pytest.raises(InputError, match=f"network: expected {HERE}:make, .*got {HERE}:Pair"):
        run(tmp_path / "run", f"{HERE}:Pair", resume=True)
    for same in (HandWritten(CLASSES), lambda classes: HandWritten(classes), f"{HERE}:make"):
        run(tmp_path / "run", same, resume=True)


def test_a_run_of_a_module_does_not_go_on_with_one_of_another_class(tmp_path):
    class Alike(HandWritten):
        pass

    run(tmp_path / "run", HandWritten(CLASSES))
    with pytest.raises(InputError, match="network: expected HandWritten, .*got Alike"):
        run(tmp_path / "run", Alike(CLASSES), resume=True)
    with pytest.raises(InputError, match="network: expected HandWritten, .*got Alike"):
        run(tmp_path / "run", lambda classes: Alike(classes), resume=True)
    run(tmp_path / "run", make, resume=True)


def test_a_function_has_one_identity_under_two_import_paths(tmp_path):
    run(tmp_path / "run", "tests.training.test_own_networks:make")
    run(tmp_path / "run", make, resume=True)
    run(tmp_path / "run", f"{HERE}:make", resume=True)


def test_a_run_does_not_go_on_with_other_inputs(tmp_path):
    given = InputSpec.pictures(8, mean=0.5, std=0.25)
    run(tmp_path / "run", make, inputs=given)
    for other in (InputSpec.pictures(8, mean=0.4, std=0.25), InputSpec.pictures(8, mean=0.5, std=0.3), None):
        with pytest.raises(InputError, match=r"inputs: expected .*mean=\(0.5, 0.5, 0.5\).*got "):
            run(tmp_path / "run", make, inputs=other, resume=True)
    run(tmp_path / "run", make, inputs=given, resume=True)
