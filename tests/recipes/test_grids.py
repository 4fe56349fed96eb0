"""Grids: what is refused before anything is trained, and in which order the rest is tried."""

import pytest

from shortlist.errors import InputError
from shortlist.recipes import paper_values, parse_grid
from shortlist.recipes.grids import PAPER_SETTINGS, PAPER_VALUES, checked_grid, combinations, trial_recipes, written
from shortlist.training import Recipe

RECIPE = Recipe("mine", "flora", grid={})


def test_values_become_what_the_settings_take():
    grid = parse_grid(
        ["alpha=0.1, 0.3,1", "batch_size=32,64", "compile=no,yes", "ema=none,0.99", "schedule=cosine,one-cycle"], RECIPE
    )
    assert grid == {
        "alpha": (0.1, 0.3, 1.0),
        "batch_size": (32, 64),
        "compile": (False, True),
        "ema": (None, 0.99),
        "schedule": ("cosine", "one-cycle"),
    }
    assert [type(value) for value in grid["alpha"]] == [float] * 3


def test_values_that_hold_commas_are_parted_by_semicolons():
    grid = parse_grid(["milestones=10,15;20", "rule=average-k:5,cap:10;top-k:5"], RECIPE)
    assert grid == {"milestones": ((10, 15), (20,)), "rule": ("average-k:5,cap:10", "top-k:5")}


def test_values_may_come_as_such():
    assert checked_grid({"alpha": [1, 0.5], "milestones": [[10, 15]]}, RECIPE) == {
        "alpha": (1.0, 0.5),
        "milestones": ((10, 15),),
    }


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["alpah=1"], r"grid: did you mean 'alpha'\? expected one of method, .*; got 'alpah'"),
        (["epsilon=1"], r"grid: expected one of method, .*; got 'epsilon'"),  # of another method
        (["alpha"], r"grid: expected a setting and its values, such as lr=0.1,0.3, got 'alpha'"),
        (["=1"], r"grid: expected a setting and its values, such as lr=0.1,0.3, got '=1'"),
        (["alpha="], r"grid: expected values of 'alpha', such as alpha=VALUE,VALUE, got 'alpha='"),
        (["alpha=1,,2"], r"grid: expected values of 'alpha'"),
        (["alpha=1,2,1.0"], r"grid: expected each value of 'alpha' once, got 1.0 twice"),
        (["alpha=1", "alpha=2"], r"grid: expected each setting once, got 'alpha' twice"),
        (["alpha=large"], r"alpha: expected a number, got 'large'"),
        (["epochs=0"], r"epochs: .*got 0"),
        (["optimizer=sdg"], r"optimizer: did you mean 'sgd'\?"),
        (["monitor=top-1,nll"], r"grid: 'monitor' is the metric"),
        (["data=flora,cifar100"], r"grid: 'data' determines the validation rows"),
        (["name=a,b"], r"grid: 'name' only names the recipe"),
        ([], r"grid: .*got none, and recipe mine has no grid"),
    ],
)
def test_refusals(texts, message):
    with pytest.raises(InputError, match=message):
        parse_grid(texts, RECIPE)


@pytest.mark.parametrize("values", ["0.1", (), 0.1, None])
def test_values_are_a_list(values):
    with pytest.raises(InputError, match="grid: expected a list of values of 'lr', got "):
        checked_grid({"lr": values}, RECIPE)


def test_at_most_a_thousand_combinations():
    seeds, rates = range(50), [0.1 + 0.01 * place for place in range(20)]
    assert len(trial_recipes(RECIPE, checked_grid({"seed": list(seeds), "lr": rates}, RECIPE))) == 1000
    with pytest.raises(InputError, match=r"at most 1,000 combinations, got 1,020 \(51 of seed x 20 of lr\): try fewer values"):
        checked_grid({"seed": list(range(51)), "lr": rates}, RECIPE)


def test_the_last_setting_changes_fastest():
    found = combinations({"a": (1, 2), "b": (3,), "c": (4, 5)})
    assert [tuple(values.values()) for values in found] == [(1, 3, 4), (1, 3, 5), (2, 3, 4), (2, 3, 5)]


def test_recipes_of_the_trials():
    trials = trial_recipes(RECIPE, {"lr": (0.1, 0.2), "alpha": (1.0,)})
    assert [(trial.lr, trial.parameters["alpha"]) for trial in trials] == [(0.1, 1.0), (0.2, 1.0)]
    assert {trial.name for trial in trials} == {"mine"}


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"alpha": (0.3, -1.0)}, r"grid: alpha=-1.0 is not a valid combination: alpha: "),
        ({"schedule": ("cosine", "step")}, r"grid: schedule=step is not a valid combination: milestones: expected the epochs"),
        (
            {"method": ("average-k", "bce"), "alpha": (0.3,)},
            r"grid: method=bce alpha=0.3 .*: setting 'alpha'",
        ),
        ({"k": (3, 5)}, r"grid: .*got average-3 and average-5: set a monitor"),
        ({"method": ("cross-entropy", "noised-topk")}, r"grid: .*got average-5 and macro-top-5"),
    ],
)
def test_combinations_that_cannot_be(grid, message):
    with pytest.raises(InputError, match=message):
        trial_recipes(RECIPE, grid)


def test_a_metric_that_all_have_makes_them_compare():
    recipe = RECIPE.with_settings(monitor="top-1")
    assert len(trial_recipes(recipe, {"k": (3, 5)})) == 2
    assert len(trial_recipes(RECIPE, {"schedule": ("cosine", "step"), "milestones": ((10, 20),)})) == 2


@pytest.mark.parametrize(("setting", "values"), [("duplicates", ("keep", "drop")), ("calibration_share", (0.2, 0.5))])
def test_trials_with_other_validation_rows_are_not_compared(setting, values):
    with pytest.raises(InputError, match=f"'{setting}' determines the validation rows"):
        checked_grid({setting: values}, RECIPE)


def test_a_method_without_k_is_searched_by_its_rule():
    with pytest.raises(InputError, match="cross-entropy has no k: .*rule=average-k:3;average-k:5"):
        checked_grid({"k": (3, 5)}, RECIPE.with_settings(method="cross-entropy"))


def test_a_rule_of_the_recipes_k_follows_the_k_of_each_trial():
    recipe = RECIPE.with_settings(monitor="top-1", rule="average-k:5")
    assert [trial.rule for trial in trial_recipes(recipe, {"k": (3, 5)})] == ["average-k:3", "average-k:5"]
    with pytest.raises(InputError, match="grid: .*got average-3 and average-5: set a monitor"):
        trial_recipes(recipe.with_settings(monitor="average-5"), {"k": (3, 5)})
    other = recipe.with_settings(rule="average-k:4,cap:9")  # a size that is not the k of the recipe follows too, as for train
    assert [trial.rule for trial in trial_recipes(other, {"k": (3, 5)})] == ["average-k:3,cap:9", "average-k:5,cap:9"]
    assert [trial.rule for trial in trial_recipes(recipe.with_settings(rule="lac:0.1"), {"k": (3, 5)})] == ["lac:0.1"] * 2
    both = trial_recipes(recipe, {"k": (3, 5), "rule": ("top-k:2",)})
    assert [trial.rule for trial in both] == ["top-k:2", "top-k:2"]


def test_values_as_a_person_types_them():
    assert written({"lr": 1e-05, "compile": True, "rule": "top-k:5"}) == "lr=1e-05 compile=true rule=top-k:5"


def test_values_of_the_papers():
    noised = RECIPE.with_settings(method="noised-topk")
    assert parse_grid(["epsilon=paper", "samples=1,5"], noised) == {
        "epsilon": (0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0),  # Garcin 2022, Table 2
        "samples": (1, 5),
    }
    assert checked_grid({"samples": "paper"}, noised) == {"samples": (1, 2, 3, 5, 10, 50, 100)}  # Table 3
    assert parse_grid(["label_noise=paper"], RECIPE)["label_noise"] == (0, 0.1, 0.2, 0.3, 0.4)  # Table 4
    with pytest.raises(InputError, match="grid: the papers have no values of 'lr' with noised-topk, only of epsilon, samples"):
        parse_grid(["lr=paper"], noised)


@pytest.mark.parametrize("method", PAPER_VALUES)
def test_values_of_the_papers_can_be_searched(method):
    recipe = RECIPE.with_settings(method=method)
    for setting, values in {**PAPER_VALUES[method], **PAPER_SETTINGS}.items():
        assert paper_values(method, setting) == values
        assert len(trial_recipes(recipe, checked_grid({setting: "paper"}, recipe))) == len(values)
