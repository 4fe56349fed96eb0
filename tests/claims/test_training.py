"""Arms that train: the same numbers every time, from settings alone."""

from dataclasses import replace

import pytest

from shortlist.claims.experiment import Arm
from shortlist.claims.grounds import BALANCED, CIFAR100, CIFAR100_LT, methods_arms
from shortlist.claims.running import Task, run_task
from shortlist.claims.training import recipe_settings, trained_recipe, training_arm
from shortlist.errors import InputError
from tests.paper_workspace import cifar100

TINY = "flora:kind=measurements,seed={seed},species=6,genera=2,train=120,val=60,test=60"
SMALL = {
    "data": TINY,
    "backbone": "mlp-8",
    "epochs": 2,
    "validate_every": 1,
    "batch_size": 32,
    "rule": "average-k:2",
    "monitor": "top-2",
}


def numbers(arm, seed=0, folder=None):
    found = run_task(Task("tiny", "arm", arm, seed, folder))
    assert hasattr(found, "numbers"), found
    return found.numbers


def test_a_recipe_survives_its_settings():
    recipe = BALANCED.with_settings(method="noised-topk", k=5, epsilon=0.2, label_noise=0.1)
    again = trained_recipe(recipe_settings(recipe), 7, None)
    assert again.differences(recipe) == {"data": (again.data, recipe.data), "seed": (7, 0)}
    assert "seed=7" in again.data


def test_settings_name_what_differs_from_the_defaults_of_recipes_only():
    settings = recipe_settings(BALANCED)
    assert "momentum" not in settings
    assert settings["backbone"] == "mlp-128x2"
    assert not {"name", "summary", "seed", "grid"} & set(settings)


def test_a_second_run_gives_the_same_numbers_and_another_seed_others():
    arm = training_arm(BALANCED.with_settings(**SMALL), (2,))
    first, second, other = numbers(arm), numbers(arm), numbers(arm, seed=1)
    assert first == second
    assert first != other
    assert 0 < first["top-2"] <= first["top-2 best"] <= 100
    assert first["average-2 best"] >= first["top-2 best"]
    assert 1 <= first["epoch"] <= 2


def test_data_that_were_not_given_are_asked_for():
    with pytest.raises(InputError, match="cifar100.*--data"):
        trained_recipe(recipe_settings(CIFAR100), 0, None)


@pytest.mark.slow
@pytest.mark.parametrize("base", [CIFAR100, CIFAR100_LT], ids=lambda base: base.name)
def test_arms_on_cifar_100_train(base, tmp_path):
    cifar100(tmp_path, rows=900)
    data = base.data.replace("imbalance=100", "imbalance=3")
    small = replace(base, data=data).with_settings(backbone="plain-8", epochs=1, validate_every=1, batch_size=64, compile=False)
    arms = methods_arms(small, {"cross-entropy": {}, "two-head": {"method": "average-k", "k": 5}}, (5,))
    for arm in arms.values():
        assert isinstance(arm, Arm)
        assert 0 <= numbers(arm, folder=tmp_path)["average-5"] <= 100
