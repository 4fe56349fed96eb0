"""``shortlist.train``: from data of any kind to a run."""

from dataclasses import replace

import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import TensorDataset

import shortlist
from shortlist import Classifier, Run
from shortlist.data.problems import Problem
from shortlist.errors import InputError, ShortlistWarning
from shortlist.models import NetworkNeededError
from shortlist.training import Callback
from shortlist.training.interruption import Interrupted
from tests.training.small import CLASSES, dataset, pictures

QUICK = {"epochs": 1, "batch_size": 12, "device": "cpu"}
SMALL = QUICK | {"backbone": "plain-8", "report": False}


def features(rows=120, classes=3):
    generator = torch.Generator().manual_seed(0)
    target = torch.arange(rows) % classes
    return torch.randn(rows, 4, generator=generator) + 3 * nn.functional.one_hot(target, 4), target


def small_net(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, classes))


def test_arrays(tmp_path):
    inputs, target = features()
    run = shortlist.train((inputs.numpy(), target.numpy()), folder=tmp_path / "run", k=2, report=False, **QUICK)
    assert isinstance(run, Run)
    assert run.recipe.backbone == "mlp-256"
    assert run.classifier.rule.text == "average-k:2"
    assert run.classifier.predict(inputs[:5]).sets.shape == (5, 3)
    assert not run.report_path.exists()


def test_a_torch_dataset(tmp_path):
    images, target = pictures(100)
    run = shortlist.train(TensorDataset(images, target), folder=tmp_path / "run", k=2, **SMALL)
    assert run.classifier.classes == tuple("01234")
    assert run.classifier.inputs.size == 8
    assert len(run.predictions()) == 10


def test_a_folder_of_pictures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images, target = pictures(60, classes=3)
    for row, (image, label) in enumerate(zip(images, target.tolist(), strict=True)):
        (tmp_path / "leaves" / "abc"[label]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(tmp_path / "leaves" / "abc"[label] / f"{row}.png")
    run = shortlist.train("leaves", k=2, size=8, **SMALL)
    assert str(run.path) == "runs/leaves-average-k"
    assert run.classifier.classes == ("a", "b", "c")
    assert (tmp_path / "runs" / "leaves-average-k" / "classifier").is_dir()


def test_a_dataset_with_a_method_and_a_rule(tmp_path):
    run = shortlist.train(dataset(), folder=tmp_path / "run", method="cross-entropy", rule="lac:0.2", **SMALL)
    assert run.classifier.rule.text == "lac:0.2"
    assert run.recipe.method == "cross-entropy"
    assert set(run.splits) == {"val", "calibration", "test"}


def test_a_module_and_a_factory(tmp_path):
    options = {"method": "cross-entropy", "k": 2, "report": False, **QUICK}
    module = small_net(CLASSES)
    run = shortlist.train(dataset(), folder=tmp_path / "module", network=module, **options)
    images = dataset().splits["test"].inputs
    assert torch.equal(run.classifier.predict(images).scores, run.predictions().scores)
    run = shortlist.train(dataset(), folder=tmp_path / "factory", network=small_net, **options)
    again = Run(tmp_path / "factory", network=small_net)
    assert torch.equal(again.classifier.predict(images).scores, run.predictions().scores)
    with pytest.raises(NetworkNeededError, match="small_net"):
        _ = Run(tmp_path / "factory").classifier


class StopAfter(Callback):
    def __init__(self, step):
        self.step = step

    def step_ended(self, step, loss):
        if step == self.step:
            raise Interrupted("enough")


def test_a_run_is_resumed_with_its_folder_and_data(tmp_path):
    options = SMALL | {"k": 2, "epochs": 2}
    whole = shortlist.train(dataset(), folder=tmp_path / "whole", **options)
    with pytest.raises(Interrupted):
        shortlist.train(dataset(), folder=tmp_path / "cut", callback=StopAfter(3), **options)
    with pytest.raises(InputError, match="cut already holds a run"):
        shortlist.train(dataset(), folder=tmp_path / "cut", **options)
    again = shortlist.train(dataset(), folder=tmp_path / "cut", resume=True, **options)
    assert torch.equal(whole.predictions().scores, again.predictions().scores)


def test_a_finished_run_of_generated_data_needs_only_its_folder_to_resume(tmp_path):
    data = "flora:species=6,genera=2,train=60,val=40,test=40,size=8"
    run = shortlist.train(data, folder=tmp_path / "run", k=2, **SMALL)
    again = shortlist.train(folder=tmp_path / "run", resume=True, device="cpu", report=False)
    assert torch.equal(run.predictions().scores, again.predictions().scores)


def test_data_the_network_or_the_settings_that_do_not_fit_raise_before_a_folder_is_made(tmp_path):
    for arguments, message in (
        ({"k": 9}, "k: .*got 9"),
        ({"epochs": 0}, "epochs: .*got 0"),
        ({"network": nn.Identity()}, "network: "),
        ({"device": "gpu"}, "device: .*'gpu'"),
    ):
        with pytest.raises(InputError, match=message):
            shortlist.train(dataset(), folder=tmp_path / "run", **(SMALL | {"k": 2} | arguments))
    assert not (tmp_path / "run").exists()


def test_the_classifier_of_the_folder_is_that_of_the_run(tmp_path):
    run = shortlist.train(dataset(), folder=tmp_path / "run", k=2, **SMALL)
    images = dataset().splits["test"].inputs
    assert torch.equal(
        Classifier.load(tmp_path / "run" / "classifier").predict(images).sets, run.classifier.predict(images).sets
    )


def test_a_class_without_training_rows_is_a_warning(tmp_path):
    features = torch.randn(120, 4, generator=torch.Generator().manual_seed(0))
    labels = features[:, :3].argmax(1) + 1  # counted from 1: class 0 has no row
    with pytest.warns(ShortlistWarning, match=r"1 class \(0\) has no training row"):
        shortlist.train((features, labels), folder=tmp_path / "run", k=2, epochs=1, device="cpu", report=False)


def test_problems_of_the_data_are_a_warning_unless_a_callback_gets_them(tmp_path):
    data = replace(dataset(), problems=[Problem("row without a label", "7", "has no label: left out")])
    with pytest.warns(ShortlistWarning, match=r"squares: 1 problem: row without a label 1 \(7: has no label"):
        shortlist.train(data, folder=tmp_path / "run", k=2, **SMALL)
    shortlist.train(data, folder=tmp_path / "again", k=2, callback=Callback(), **SMALL)  # warnings are errors in tests


@pytest.mark.parametrize(("name", "meant"), [("learning_rate", "lr"), ("num_epochs", "epochs"), ("random_state", "seed")])
def test_names_of_other_libraries_are_understood_in_messages(name, meant):
    with pytest.raises(InputError, match=f"setting {name!r}: did you mean {meant!r}"):
        shortlist.train((torch.eye(4), torch.arange(4)), **{name: 1})
