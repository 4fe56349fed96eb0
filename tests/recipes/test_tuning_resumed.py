"""Searches that were killed: none of their trials is lost or done twice, and no other search is gone on with."""

import json

import pytest

from shortlist.errors import InputError
from shortlist.recipes import TuningResult, trials, tune
from shortlist.training import train
from tests.recipes.searches import NAMES, RECIPE, VALUES, Killed, lines, search


def test_killed_in_a_trial(tmp_path):
    with pytest.raises(Killed):
        search(tmp_path / "s", VALUES | {(0.3, 0.5): Killed()})
    fake, tuned = search(tmp_path / "s", resume=True)
    assert fake.calls == [("trial-002", (0.3, 0.5), True), ("trial-003", (0.3, 1.0), False)]
    assert tuned == search(tmp_path / "whole")[1]


def test_killed_between_the_end_of_a_trial_and_its_line(tmp_path, monkeypatch):
    written = []

    def dies(path, text):
        if path.name == "trials.jsonl" and len(written) == 1:
            raise Killed
        written.extend([path.name] if path.name == "trials.jsonl" else [])
        whole(path, text)

    whole = trials.write_text
    monkeypatch.setattr(trials, "write_text", dies)
    with pytest.raises(Killed):
        search(tmp_path / "s")
    monkeypatch.undo()
    assert [line["folder"] for line in lines(tmp_path / "s")] == ["trial-000"]
    fake, tuned = search(tmp_path / "s", resume=True)
    # The second had ended: it is asked to go on, and has nothing left to do.
    assert fake.calls == [("trial-001", (0.1, 1.0), True), ("trial-002", (0.3, 0.5), False), ("trial-003", (0.3, 1.0), False)]
    assert tuned == search(tmp_path / "whole")[1]


def test_killed_before_a_trial_began(tmp_path):
    with pytest.raises(Killed):
        search(tmp_path / "s", VALUES | {(0.1, 1.0): Killed()})
    (tmp_path / "s" / "trial-001" / "recipe.json").unlink()  # the folder was there and nothing in it yet
    fake, _ = search(tmp_path / "s", resume=True)
    assert fake.calls[0] == ("trial-001", (0.1, 1.0), False)


def test_a_search_that_has_ended_is_not_done_again(tmp_path):
    _, first = search(tmp_path / "s")
    fake, again = search(tmp_path / "s", resume=True)
    assert fake.calls == []
    assert again == first


def test_failed_trials_are_tried_again(tmp_path):
    search(tmp_path / "s", VALUES | {(0.1, 0.5): InputError("the disk is full")})
    fake, tuned = search(tmp_path / "s", resume=True)
    assert fake.calls == [("trial-000", (0.1, 0.5), True)]
    assert [line["failed"] for line in lines(tmp_path / "s")] == [None] * 4
    assert [trial.folder for trial in tuned.trials] == NAMES


def test_values_come_back_as_they_were(tmp_path):
    grid = {"milestones": ((10, 15), (20,)), "ema": (None, 0.9), "compile": (False,)}
    recipe = RECIPE.with_settings(schedule="step", milestones=(5,))
    answers = {(0.1, 0.3): (0.5,)}
    _, first = search(tmp_path / "s", answers, recipe, grid)
    _, again = search(tmp_path / "s", answers, recipe, grid, resume=True)
    assert again == first
    assert again.trials[3].values == {"milestones": (20,), "ema": 0.9, "compile": False}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipe": RECIPE.with_settings(epochs=2)}, r"holds a search of another recipe \(epochs 2 here, 1 there\): resume it"),
        (
            {"grid": {"lr": (0.1, 0.2), "alpha": (0.5, 1.0)}},
            r"holds a search over another grid \(lr=0.1;0.2 alpha=0.5;1.0 here, lr=",
        ),
        ({"grid": {"alpha": (0.5, 1.0), "lr": (0.1, 0.3)}}, r"holds a search over another grid"),  # trials are numbered by it
    ],
)
def test_another_search_is_not_resumed(tmp_path, change, message):
    search(tmp_path / "s")
    before = (tmp_path / "s" / "trials.jsonl").read_bytes()
    with pytest.raises(InputError, match=message):
        search(tmp_path / "s", resume=True, **change)
    assert (tmp_path / "s" / "trials.jsonl").read_bytes() == before


def test_words_that_only_describe_a_recipe_may_change(tmp_path):
    search(tmp_path / "s")
    renamed = RECIPE.with_settings(name="another", summary="said better")
    assert search(tmp_path / "s", recipe=renamed, resume=True)[0].calls == []


def test_folders(tmp_path):
    with pytest.raises(InputError, match="holds no search to resume"):
        search(tmp_path / "s", resume=True)
    search(tmp_path / "s")
    with pytest.raises(InputError, match="already holds a search"):
        search(tmp_path / "s")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / ".left").touch()  # of a write that was cut short
    search(tmp_path / "t")
    (tmp_path / "u").mkdir()
    (tmp_path / "u" / "thesis.txt").touch()
    with pytest.raises(InputError, match="expected a new or empty folder for the search, got one with files"):
        search(tmp_path / "u")
    with pytest.raises(InputError, match="expected a folder for the search, got a file"):
        search(tmp_path / "u" / "thesis.txt")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("tuning.json", "{", "cannot read .*tuning.json"),
        ("tuning.json", "[]", "expected a search of the format shortlist-tuning/1"),
        ("tuning.json", '{"format": "shortlist-tuning/1", "grid": {}}', "expected a record with name and data"),
        ("trials.jsonl", '{"folder": "trial-000"', "cannot read .*trials.jsonl"),
        ("trials.jsonl", "3\n", "cannot read .*trials.jsonl"),
        ("trials.jsonl", '{"folder": "trial-000", "values": 3}\n', "cannot read .*trials.jsonl"),
    ],
)
def test_damaged_files(tmp_path, file, text, message):
    search(tmp_path / "s")
    (tmp_path / "s" / file).write_text(text)
    with pytest.raises(InputError, match=message):
        search(tmp_path / "s", resume=True)


def test_real_trainings_killed_and_resumed(tmp_path, monkeypatch):
    grid = {"alpha": (0.5, 1.0)}
    whole = tune(RECIPE, tmp_path / "whole", grid=grid, device="cpu")
    assert isinstance(whole, TuningResult)
    assert {trial.monitor for trial in whole.trials} == {"average-2"}
    for trial in whole.trials:
        line = json.loads((tmp_path / "whole" / trial.folder / "metrics.jsonl").read_text())
        assert (trial.value, trial.epoch) == (line["value"], 1)
        assert json.loads((tmp_path / "whole" / trial.folder / "recipe.json").read_text())["recipe"]["parameters"] == {
            "k": 2,
            "alpha": trial.values["alpha"],
        }

    def dies_after(recipe, folder, **options):
        train(recipe, folder, **options)
        raise Killed

    with pytest.raises(Killed):
        tune(RECIPE, tmp_path / "cut", grid=grid, device="cpu", train=dies_after)
    assert not (tmp_path / "cut" / "trials.jsonl").exists()
    again = tune(RECIPE, tmp_path / "cut", grid=grid, device="cpu", resume=True)
    assert [(trial.values, trial.value) for trial in again.trials] == [(trial.values, trial.value) for trial in whole.trials]
    assert again.best.folder == whole.best.folder
    assert again.recipe == whole.recipe
