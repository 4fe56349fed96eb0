"""Searches: every combination once, chosen by validation alone; failures are told and passed over."""

import json
import math
from types import SimpleNamespace

import pytest

from shortlist.errors import InputError
from shortlist.recipes import Trial, tune
from shortlist.training import Callback, Recipe
from shortlist.training.failures import NonFiniteError
from tests.recipes.searches import GRID, NAMES, RECIPE, VALUES, history, lines, search


def test_every_combination_once_in_the_order_of_the_grid(tmp_path):
    fake, tuned = search(tmp_path / "s")
    assert fake.calls == [
        ("trial-000", (0.1, 0.5), False),
        ("trial-001", (0.1, 1.0), False),
        ("trial-002", (0.3, 0.5), False),
        ("trial-003", (0.3, 1.0), False),
    ]
    assert [trial.folder for trial in tuned.trials] == NAMES


def test_the_best_validation_value_of_any_epoch_wins_and_the_first_of_equals(tmp_path):
    _, tuned = search(tmp_path / "s")
    assert tuned.best == tuned.trials[1]  # 0.9 in its first epoch, before trial 3
    assert tuned.best == Trial("trial-001", {"lr": 0.1, "alpha": 1.0}, "average-2", 0.9, 1, 1.0, metrics={"average-2": 0.9})
    assert tuned.recipe == RECIPE.with_settings(lr=0.1, alpha=1.0)


def test_trials_of_equal_value_are_ranked_by_log_loss(tmp_path):
    """A metric of few classes is soon 100 % for every trial; then the first one won, whatever the others had learnt."""
    losses = {(0.1, 0.5): 1.4, (0.1, 1.0): 0.9, (0.3, 0.5): 0.2, (0.3, 1.0): math.nan}

    def fake(recipe, folder, **_):
        line = {"epoch": 1, "seconds": 0.5, "monitor": "average-2", "value": 1.0, "best": True}
        numbers = {"average-2": 1.0, "nll": losses[recipe.lr, recipe.parameters["alpha"]]}
        return SimpleNamespace(history=[line | {"metrics": numbers}])

    tuned = tune(RECIPE, tmp_path / "s", grid=GRID, train=fake)
    assert (tuned.best.folder, dict(tuned.best.metrics)) == ("trial-002", {"average-2": 1.0, "nll": 0.2})
    again = tune(RECIPE, tmp_path / "s", grid=GRID, train=fake, resume=True)  # read back from trials.jsonl
    assert again.best == tuned.best


def test_a_metric_of_which_less_is_better(tmp_path):
    values = {(0.1, 0.5): (0.6, 0.7), (0.1, 1.0): (0.9, 0.8), (0.3, 0.5): (0.4, 0.3), (0.3, 1.0): (0.5,)}
    _, tuned = search(tmp_path / "s", values, RECIPE.with_settings(monitor="nll"), monitor="nll")
    assert (tuned.best.folder, tuned.best.value, tuned.best.epoch) == ("trial-002", 0.3, 2)


def test_epochs_without_validation_count_their_seconds_only(tmp_path):
    _, tuned = search(tmp_path / "s", VALUES | {(0.1, 0.5): (None, 0.95, None, 0.9)})
    assert tuned.best == Trial("trial-000", {"lr": 0.1, "alpha": 0.5}, "average-2", 0.95, 2, 2.0, metrics={"average-2": 0.95})


def test_what_is_written(tmp_path):
    search(tmp_path / "s")
    described = json.loads((tmp_path / "s" / "tuning.json").read_text())
    assert described == {
        "format": "shortlist-tuning/1",
        "recipe": json.loads(json.dumps(RECIPE.record())),
        "grid": {"lr": [0.1, 0.3], "alpha": [0.5, 1.0]},
        "data": {"digest": described["data"]["digest"], "classes": 6, "rows": {"train": 64, "val": 32, "test": 32}},
    }
    assert lines(tmp_path / "s")[1] == {
        "folder": "trial-001",
        "values": {"lr": 0.1, "alpha": 1.0},
        "monitor": "average-2",
        "value": 0.9,
        "epoch": 1,
        "seconds": 1.0,
        "metrics": {"average-2": 0.9},
        "failed": None,
    }
    assert [line["folder"] for line in lines(tmp_path / "s")] == NAMES


def test_the_description_is_there_before_the_first_trial_and_each_line_before_the_next(tmp_path):
    seen = []

    def look(recipe, folder, **options):
        seen.append(((folder.parent / "tuning.json").exists(), [path.name for path in folder.parent.glob("trials.jsonl")]))
        return SimpleNamespace(history=history(0.5))

    tune(RECIPE, tmp_path / "s", grid={"lr": (0.1, 0.2)}, train=look)
    assert seen == [(True, []), (True, ["trials.jsonl"])]


def test_the_grid_of_the_recipe_is_searched_unless_another_is_given(tmp_path):
    declared = Recipe.from_record(RECIPE.record() | {"grid": {"alpha": (0.5, 1.0)}})
    fake, _ = search(tmp_path / "s", recipe=declared, grid=None)
    assert [call[1] for call in fake.calls] == [(0.1, 0.5), (0.1, 1.0)]
    with pytest.raises(InputError, match="grid: .*got none"):
        search(tmp_path / "t", grid=None)
    assert not (tmp_path / "t").exists()


def test_the_data_are_opened_once(tmp_path):
    given = []

    def keep(recipe, folder, *, dataset, **options):
        given.append(dataset)
        return SimpleNamespace(history=history(0.5))

    tune(RECIPE, tmp_path / "s", grid=GRID, train=keep)
    assert len(given) == 4
    assert all(dataset is given[0] for dataset in given)
    assert len(given[0].splits["train"]) == 64


def test_a_trial_that_fails_is_recorded_and_the_search_goes_on(tmp_path):
    values = VALUES | {(0.1, 0.5): NonFiniteError("the loss of step 3 is nan"), (0.3, 0.5): (math.nan, math.nan)}
    fake, tuned = search(tmp_path / "s", values)
    assert fake.folders == NAMES
    assert tuned.best.folder == "trial-001"
    assert lines(tmp_path / "s")[0]["failed"] == "the loss of step 3 is nan"
    assert lines(tmp_path / "s")[0]["value"] is None
    assert lines(tmp_path / "s")[2]["failed"].startswith("the validation metric was NaN in every epoch")
    assert [trial.failed is None for trial in tuned.trials] == [False, True, False, True]


def test_if_all_fail_there_is_nothing_to_choose(tmp_path):
    with pytest.raises(InputError, match=r"every trial failed; the first, trial-000, with: too hot"):
        search(tmp_path / "s", dict.fromkeys(VALUES, InputError("too hot")))
    assert len(lines(tmp_path / "s")) == 4


def test_other_errors_are_not_swallowed(tmp_path):
    with pytest.raises(ZeroDivisionError):
        search(tmp_path / "s", VALUES | {(0.1, 1.0): ZeroDivisionError()})
    assert [line["folder"] for line in lines(tmp_path / "s")] == ["trial-000"]


def test_data_are_needed_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match=r"data: recipe tiny needs a path \(cifar100:PATH\)"):
        search(tmp_path / "s", recipe=RECIPE.with_settings(data="cifar100:{path}"))
    with pytest.raises(InputError, match="there is no such folder"):
        search(tmp_path / "s", recipe=RECIPE.with_settings(data="nowhere.csv"))
    assert not (tmp_path / "s").exists()


def test_several_processes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="expected a single process"):
        search(tmp_path / "s")


def test_whoever_watches_is_told(tmp_path):
    class Listener(Callback):
        def __init__(self):
            self.heard = []

        def message(self, sentence):
            self.heard.append(sentence)

    listener = Listener()
    search(tmp_path / "s", VALUES | {(0.1, 1.0): InputError("too hot")}, callback=listener)
    assert listener.heard == [
        "trial 1 of 4: lr=0.1 alpha=0.5",
        "trial 2 of 4: lr=0.1 alpha=1.0",
        "trial-001 failed: too hot",
        "trial 3 of 4: lr=0.3 alpha=0.5",
        "trial 4 of 4: lr=0.3 alpha=1.0",
    ]


def test_the_table(tmp_path):
    _, tuned = search(tmp_path / "s", VALUES | {(0.1, 0.5): InputError("too hot")})
    assert tuned.table().markdown().splitlines()[:4] == [
        "| trial | lr | alpha | average-2 | epoch | seconds | failed |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
        "| trial-000 | 0.1 | 0.5 | – | – | – | too hot |",
        "| trial-001 | 0.1 | 1.0 | 0.9000 | 1 | 1.0 |  |",
    ]


def test_a_real_training_that_diverges(tmp_path):
    tuned = tune(RECIPE.with_settings(batch_size=8), tmp_path / "s", grid={"lr": (1e30, 0.1)}, device="cpu")
    assert tuned.best.folder == "trial-001"
    assert tuned.trials[0].failed is not None
    assert "the loss of step" in tuned.trials[0].failed
