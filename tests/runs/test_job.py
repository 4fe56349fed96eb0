"""Which recipe, folder and settings a call of ``train`` means."""

from pathlib import Path

import pytest
import torch

from shortlist.errors import InputError
from shortlist.recipes import find_recipe
from shortlist.runs import resolve_job
from shortlist.runs.job import apply_settings
from shortlist.training import Recipe
from shortlist.training.run_folder import RunFolder
from tests.training.small import dataset, recipe

FEATURES = (torch.zeros(6, 2), [0, 1, 2, 0, 1, 2])


def test_k_applies_to_the_method_the_rule_and_the_metric():
    chosen = resolve_job("somewhere", "cifar100-average5", {"k": 3.0}).recipe
    assert (chosen.parameters["k"], chosen.rule, chosen.monitor) == (3, "average-k:3", None)
    assert type(chosen.parameters["k"]) is int


@pytest.mark.parametrize(
    ("start", "changes", "k", "rule"),
    [
        ({}, {"k": "2.5"}, 2.5, None),
        ({"method": "cross-entropy"}, {"k": 3}, None, "average-k:3"),
        ({"method": "cross-entropy", "rule": "top-k:5"}, {"k": 3}, None, "top-k:3"),
        ({"rule": "average-k:4:prior,cap:8"}, {"k": 3}, 3, "average-k:3:prior,cap:8"),
        ({"rule": "lac:0.1"}, {"k": 3}, 3, "lac:0.1"),
        ({"rule": "top-k:5"}, {"k": 3, "rule": "lac:0.2"}, 3, "lac:0.2"),
        ({}, {"k": 3, "method": "noised-topk"}, 3, None),
    ],
)
def test_k_reaches_whatever_has_a_set_size(start, changes, k, rule):
    chosen = apply_settings(Recipe("mine", "flora", **start), dict(changes))
    assert chosen.parameters.get("k") == k
    assert chosen.rule == rule


def test_k_without_anything_that_has_a_set_size_raises():
    with pytest.raises(InputError, match="k: method cross-entropy .*lac:0.1"):
        apply_settings(Recipe("mine", "flora", method="cross-entropy"), {"k": 3, "rule": "lac:0.1"})


def test_a_metric_without_a_size_is_kept():
    assert apply_settings(Recipe("mine", "flora", monitor="nll"), {"k": 3}).monitor == "nll"
    assert apply_settings(Recipe("mine", "flora", monitor="top-5"), {"k": 3}).monitor is None
    assert apply_settings(Recipe("mine", "flora"), {"k": 3, "monitor": "top-5"}).monitor == "top-5"


@pytest.mark.parametrize(("classes", "settings", "k"), [
    (3, {}, 1), (5, {}, 2), (7, {}, 3), (10, {}, 5), (30, {}, 5), (7, {"k": 5}, 5), (7, {"parameters": {"k": 5}}, 5),
    (4, {"method": "noised-topk"}, 2), (4, {"rule": "lac:0.1"}, 2), (4, {"method": "cross-entropy"}, None),
])  # fmt: skip
def test_a_k_that_is_not_given_suits_the_number_of_classes(classes, settings, k):
    """k = 5 of five classes learns nothing: every label is always among the five."""
    chosen = resolve_job((torch.zeros(classes, 2), list(range(classes))), settings=settings).recipe
    assert chosen.parameters.get("k") == k


def test_a_default_k_leaves_a_rule_that_is_given():
    job = resolve_job((torch.zeros(7, 2), list(range(7))), settings={"rule": "average-k:5", "monitor": "top-5"})
    assert (job.recipe.parameters["k"], job.recipe.rule, job.recipe.monitor) == (3, "average-k:5", "top-5")


@pytest.mark.parametrize(
    ("data", "base", "name"),
    [
        ("flora:species=6", "pictures", "flora-average-k"),
        ("cifar100:/data/cifar", "pictures", "cifar-average-k"),
        ("cifar100:/data/cifar,2", "pictures", "cifar,2-average-k"),
        (FEATURES, "table", "data-average-k"),
        (dataset(), "pictures", "squares-average-k"),
    ],
)
def test_the_recipe_follows_from_the_data(data, base, name):
    job = resolve_job(data)
    assert job.recipe.backbone == find_recipe(base).backbone
    assert (job.recipe.name, job.folder) == (name, Path("runs") / name)
    assert (job.dataset is None) == isinstance(data, str)


def test_a_table_is_opened_once_and_handed_on(tmp_path):
    table = tmp_path / "leaves.csv"
    table.write_text("width,height,label\n" + "".join(f"{row},{row % 5},{'ab'[row % 2]}\n" for row in range(20)))
    job = resolve_job(table, settings={"method": "cross-entropy"})
    assert job.recipe.data == str(table)
    assert job.recipe.name == "leaves.csv-cross-entropy"
    assert job.dataset.classes == ["a", "b"]


def test_a_given_recipe_keeps_its_name_and_takes_the_path():
    job = resolve_job("garden", "pictures", folder="here")
    assert (job.recipe.name, job.recipe.data, job.folder) == ("pictures", "garden", Path("here"))
    job = resolve_job(dataset(), "pictures")
    assert (job.recipe.data, len(job.dataset.classes)) == ("squares", 5)
    job = resolve_job(dataset(), recipe(lr=0.5))
    assert (job.recipe.lr, job.recipe.data) == (0.5, "squares")
    assert resolve_job(recipe="flora-seconds").recipe == find_recipe("flora-seconds")


def test_a_resumed_run_keeps_its_recipe(tmp_path):
    RunFolder(tmp_path).write_recipe(recipe(lr=0.25))
    job = resolve_job(folder=tmp_path, resume=True)
    assert (job.recipe, job.folder) == (recipe(lr=0.25), tmp_path)
    assert resolve_job(folder=tmp_path, resume=True, settings={"epochs": "9"}).recipe.epochs == 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "data: "),
        ({"resume": True}, "resume: .*got None"),
        ({"recipe": "cifar100-top5"}, "data: .*cifar100-top5 .*cifar100:PATH"),
        ({"recipe": "flora-minuts"}, "did you mean 'flora-minutes'"),
        ({"data": "x", "recipe": "flora-seconds"}, "recipe flora-seconds: .*got 'x'"),
        ({"data": "flora-seconds"}, "data: .*recipe='flora-seconds'"),
        ({"data": "flora", "settings": {"lrr": 1}}, "did you mean 'lr'"),
        ({"data": "flora", "settings": {"k": "many"}}, "k: .*got 'many'"),
        ({"data": 3}, "data: .*got int"),
    ],
)
def test_calls_that_mean_nothing_raise(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        resolve_job(**arguments)
