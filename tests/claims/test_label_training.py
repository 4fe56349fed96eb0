"""Arms that train on rows of any number of labels, on data of a few rows."""

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.claims import label_training
from shortlist.claims.data_changes import BACKGROUND, redivided, with_background
from shortlist.claims.grounds import mulan_table
from shortlist.claims.label_training import label_arm, one_of_many_arm, open_set_arm, train_one_of_many, train_open_set
from shortlist.claims.running import Task, run_task
from shortlist.data import as_dataset
from shortlist.training.recipe import Recipe
from tests.references import metrics as reference

SMALL = {
    "backbone": "mlp-8",
    "epochs": 2,
    "batch_size": 32,
    "augmentation": "none",
    "calibration": "none",
    "calibration_share": 0.0,
    "rule": "top-k:1",
    "optimizer": "adamw",
    "lr": 0.01,
}
ROWS = "seed={seed},species=8,genera=2,abundance=balanced,train=120,val=60,test=90"
OPEN = f"flora:kind=open-set-measurements,noise=0.1,{ROWS}"


def numbers(arm, seed=0):
    found = run_task(Task("tiny", "arm", arm, seed))
    assert hasattr(found, "numbers"), found
    return found.numbers


def test_rows_with_several_labels():
    arm = label_arm(Recipe("tiny", f"flora:kind=plant-lists,{ROWS}", method="spa", **SMALL))
    first, second = numbers(arm), numbers(arm)
    assert first == second
    assert first["mAP@y"] < first["mAP@y best"]
    assert first["ACE best"] < first["ACE own"]


def test_rows_with_one_label_or_none():
    found = numbers(open_set_arm(Recipe("tiny", OPEN, method="quasibinary", **SMALL)))
    assert 0 < found["top-1 in"] <= 100
    assert found["AUROC"] < found["AUROC best"]
    assert found["confidence out best"] < found["confidence in best"]


def test_one_more_class_for_rows_without_a_label():
    found = numbers(open_set_arm(Recipe("tiny", OPEN, method="cross-entropy", **SMALL), "background"))
    assert set(found) == {"top-1 in", "confidence in", "confidence out", "AUROC"}


def test_open_set_numbers_are_those_of_the_formulas(monkeypatch):
    """With the last class as that of rows without a label, and without it, the same numbers."""
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(50, 4, generator=generator, dtype=torch.float64)
    target = torch.zeros(50, 4, dtype=torch.bool)
    target[torch.arange(30), torch.randint(4, (30,), generator=generator)] = True
    labels = torch.where(target.any(1), target.int().argmax(1), 4)
    one_more = torch.cat([probs, torch.rand(50, 1, generator=generator)], 1)
    best = probs.numpy().argmax(1)
    expected = {
        "top-1 in": 100 * np.mean([target[row, best[row]] for row in range(30)]),
        "confidence in": 100 * probs[:30].numpy().max(1).mean(),
        "confidence out": 100 * probs[30:].numpy().max(1).mean(),
        "AUROC": 100 * reference.outlier_auroc(probs.numpy(), target.numpy()),
    }
    for scores, truth in ((probs, target), (one_more, labels)):
        result = type("Trained", (), {"predictions": {"test": Predictions(scores, truth, link="identity")}, "posterior": None})
        monkeypatch.setattr(label_training, "train_recipe", lambda *given, result=result: result)
        assert train_open_set({"recipe": {}, "change": ""}, 0, None) == pytest.approx(expected)


def test_one_label_is_measured_alike_by_methods_for_one_and_for_several():
    base = Recipe("tiny", f"flora:kind=measurements,noise=0.1,{ROWS}", method="cross-entropy", **SMALL)
    softmax, binary = (numbers(one_of_many_arm(base.with_settings(**how))) for how in ({}, {"method": "bce", "labels": "any"}))
    assert softmax["error best"] == binary["error best"] < min(softmax["error"], binary["error"])


def test_methods_are_tuned_by_their_accuracy_on_validation_rows(monkeypatch):
    scores, target = torch.eye(4).repeat(2, 1), torch.tensor([0, 1, 2, 3, 0, 1, 0, 0])
    known, test = Predictions(scores, target), Predictions(scores, target[[0, 1, 2, 3, 0, 0, 0, 0]])
    trained = type("Trained", (), {"predictions": {"val": known, "test": test}})
    data = type("Data", (), {"splits": {"test": type("Rows", (), {"posterior": None})}})
    for name, found in {"train_recipe": trained, "trained_recipe": data, "opened_data": data}.items():
        monkeypatch.setattr(label_training, name, lambda *_, found=found: found)
    monkeypatch.setattr(data, "data", "garden", raising=False)
    assert train_one_of_many({"recipe": {}}, 0, None) == {"error": 37.5, "validation": 75.0}


def test_rows_are_divided_anew_for_every_seed_and_none_is_lost():
    data = as_dataset("flora:kind=plant-lists,species=8,genera=2,train=20,val=10,test=10")
    first, again, other = redivided(data, 0), redivided(data, 0), redivided(data, 1)
    assert {name: len(split) for name, split in first.splits.items()} == {"train": 24, "val": 6, "test": 10}
    rows = [split.inputs for split in data.splits.values()]
    ids = [name for split in first.splits.values() for name in split.ids]
    assert len(set(ids)) == 40
    found = torch.cat([split.inputs for split in first.splits.values()])
    places = [int(name.split("-")[0]) for name in ids]
    for row, name, place in zip(found, ids, places, strict=True):
        assert torch.equal(row, rows[place][int(name.split("-")[-1])])
    assert first.splits["test"].ids == again.splits["test"].ids != other.splits["test"].ids


def test_the_class_of_rows_without_a_label_is_the_last():
    data = as_dataset("flora:kind=open-set-measurements,species=8,genera=2,train=40,val=5,test=5")
    found = with_background(data, 0)
    assert found.classes == [*data.classes, BACKGROUND]
    for before, after in zip(data.splits["train"].target, found.splits["train"].target, strict=True):
        assert int(after) == (int(before.int().argmax()) if before.any() else len(data.classes))


def test_a_table_of_mulan_is_found_below_the_folder():
    assert mulan_table("yeast").with_path("there").data == "mulan:there/yeast,name=yeast"
