"""``--network package.module:function``: train, predict, export, calibrate, evaluate and report with a network of one's own."""

import json
import sys

import pytest
import torch

from shortlist import Predictions
from shortlist.models import Classifier
from tests.allocations import LargestTensor
from tests.models.classifiers import fitted, image, of_features

CODE = """
from torch import nn

def make(classes, inputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * inputs.size ** 2, classes))
"""
DATA = "flora:species=6,genera=2,train=64,val=32,test=32,size=8"
OPTIONS = ("--method", "cross-entropy", "--epochs", "1", "--device", "cpu", "--no-tensorboard", "-s", "batch_size=32")


@pytest.fixture
def trained(run, tmp_path):
    """A run of a network whose code lies in the current folder."""
    (tmp_path / "leafnets.py").write_text(CODE)
    try:
        outcome = run("train", DATA, *OPTIONS, "--network", "leafnets:make", "--out", "run")
        assert outcome.code == 0, outcome.err
        yield tmp_path / "run"
    finally:
        sys.modules.pop("leafnets", None)


def test_every_command_works_with_it(run, trained, tmp_path):
    assert json.loads((trained / "recipe.json").read_text())["network"]["factory"] == "leafnets:make"
    for number in range(3):
        image(12, 12, seed=number).save(tmp_path / f"{number}.png")
    given = [str(tmp_path / f"{number}.png") for number in range(3)]
    named = ("--network", "leafnets:make")
    outcome = run("predict", "run", *given, *named, "--out", "scores.npz", "--device", "cpu")
    assert outcome.code == 0, outcome.err
    found, model = Predictions.load("scores.npz"), Classifier.load("run/classifier", network="leafnets:make")
    torch.testing.assert_close(found.scores, model.predictions(given).scores)
    assert found.superclasses == model.superclasses
    assert len(set(model.superclasses)) == 2
    assert run("calibrate", "run", "--rule", "lac:0.2", *named, "--out", "other").code == 0
    assert Classifier.load("other", network="leafnets:make").rule.text == "lac:0.2"
    pytest.importorskip("onnxscript")
    assert run("export", "run", *named, "--out", "x.onnx").code == 0


def test_what_needs_no_weights_needs_no_network(run, trained):
    assert run("evaluate", "run", "--json").code == 0
    assert run("report", "run", "--out", "page.html").code == 0


@pytest.mark.parametrize("command", [("predict", "run", "x.png"), ("export", "run", "--out", "x.onnx")])
def test_without_it_the_option_is_named(fails, trained, command):
    message = fails(*command)
    assert "--network leafnets:make" in message
    assert "leafnets" not in sys.modules or "made by leafnets:make" in message


def test_a_run_is_resumed_with_it(run, fails, trained):
    (trained / "test.safetensors").unlink()
    assert "--network leafnets:make" in fails("train", "--resume", "--out", "run")
    assert run("train", "--resume", "--out", "run", "--network", "leafnets:make").code == 0
    assert (trained / "test.safetensors").exists()


def test_another_network_of_the_same_shape_is_noticed(run, fails, trained, tmp_path):
    with (tmp_path / "leafnets.py").open("a") as file:
        file.write("\n\ndef other(classes, inputs):\n    return make(classes, inputs)\n")
    sys.modules.pop("leafnets", None)
    message = fails("train", "--resume", "--out", "run", "--network", "leafnets:other")
    assert "leafnets:make" in message
    assert "leafnets:other" in message
    image(12, 12).save(tmp_path / "0.png")
    told = run("predict", "run", "0.png", "--network", "leafnets:other", "--out", "scores.npz", "--device", "cpu")
    assert told.code == 0, told.err
    assert "expected leafnets:make" in told.err
    assert "got leafnets:other" in told.err
    assert "expected" not in run("predict", "run", "0.png", "--network", "leafnets:make", "--device", "cpu").err


def test_options_that_do_not_go_together(fails, tmp_path, monkeypatch):
    assert "--backbone" in fails("train", DATA, "--network", "a:b", "--backbone", "resnet-8")
    assert "no_such_module" in fails("train", DATA, *OPTIONS, "--network", "no_such_module:make", "--out", "run")
    Predictions(torch.zeros(3, 2), link="softmax").save(tmp_path / "a.npz")
    assert "--network" in fails("calibrate", "a.npz", "--on", "a.npz", "--out", "b.npz", "--network", "a:b")


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".parquet"])
def test_scores_of_all_rows_are_never_in_memory(run, tmp_path, suffix):
    """Of 400 rows in batches of 4 no tensor has the size of the scores; the table itself has half of it."""
    classifier = fitted(of_features(features=2))
    classifier.save(tmp_path / "model")
    numbers = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    lines = ["a,b", *(f"{one},{other}" for one, other in numbers.tolist())]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    with LargestTensor() as largest:
        outcome = run("predict", "model", "rows.csv", "--out", f"scores{suffix}", "--batch-size", "4", "--device", "cpu")
    assert outcome.code == 0, outcome.err
    assert largest.entries < 400 * 4
    found = Predictions.load(tmp_path / f"scores{suffix}")
    torch.testing.assert_close(found.scores, classifier.predictions(numbers).scores)
