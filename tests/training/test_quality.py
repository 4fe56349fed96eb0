"""Training with a rule behind a gate by sharpness: its own predictions carry the quality of their rows."""

import pytest
import torch

from shortlist import Predictions
from shortlist.data import Dataset, PictureArray, Split, sharpness
from shortlist.errors import InputError
from tests.training.small import CLASSES, dataset, run

RULE = "threshold:0.3,gate:0.8:sharpness"


def with_blur():
    """Squares with any number of labels; those without one have hardly any contrast."""
    data = dataset(80, multi=True)
    splits = {}
    for name, split in data.splits.items():
        images, empty = split.inputs.images.clone(), ~split.target.any(1)
        images[empty] = 100 + images[empty] // 32
        splits[name] = Split(PictureArray(images), split.target, split.ids)
    return Dataset("squares", data.classes, splits)


def test_a_run_fits_and_keeps_a_gate_by_sharpness(tmp_path):
    data = with_blur()
    trained = run(tmp_path / "run", data, method="bce", rule=RULE)
    for name, split in {"val": "val", "calibration": "val", "test": "test"}.items():
        stored = Predictions.load(next((tmp_path / "run").rglob(f"{name}.safetensors")))
        rows = [int(identity.removeprefix(f"{split}-")) for identity in stored.ids]
        assert torch.equal(stored.quality, sharpness(data.splits[split].inputs.images[rows]))
    test = data.splits["test"]
    passed = sharpness(test.inputs.images) > trained.classifier.rule.gate.threshold
    assert passed[test.target.any(1)].all()
    assert not passed.all()
    answers = trained.classifier.predict(test)
    assert torch.equal(answers.sets, trained.classifier.rule(trained.predictions["test"]))
    assert not answers.sets[~passed].any()


@pytest.mark.parametrize("by", ["quality", "sharpness"])
def test_a_quality_that_training_cannot_know_is_refused_before_it_starts(tmp_path, by):
    pictures = by == "quality"
    data = with_blur() if pictures else features()
    with pytest.raises(InputError, match=f"rule threshold:0.3,gate:0.8:{by} compares rows by a quality") as raised:
        run(tmp_path / "run", data, rule=f"threshold:0.3,gate:0.8:{by}", **settings(pictures))
    assert ("use sharpness" in str(raised.value)) == pictures
    assert not list(tmp_path.rglob("*.safetensors"))


def settings(pictures):
    return {"method": "bce"} | ({} if pictures else {"backbone": "features", "size": None})


def features():
    generator = torch.Generator().manual_seed(0)
    splits = {
        name: Split(torch.randn(30, 4, generator=generator), torch.rand(30, CLASSES, generator=generator) < 0.3, range(30))
        for name in ("train", "val", "test")
    }
    return Dataset("numbers", [f"class {label}" for label in range(CLASSES)], splits)


@pytest.mark.parametrize("by", ["sharpness", "confidence"])
def test_too_few_rows_without_a_label_are_refused_before_training(tmp_path, by):
    with pytest.raises(InputError, match="expected at least 99 calibration rows without a label, got 4"):
        run(tmp_path / "run", with_blur(), method="bce", rule=f"threshold:0.3,gate:0.99:{by}")
    assert not list(tmp_path.rglob("*.safetensors"))
