"""Successive halving: who is stopped and when follows from the values alone, and the stopped get no more epochs."""

import itertools
import json
import random
from types import SimpleNamespace

import pytest

from shortlist.errors import InputError
from shortlist.recipes import tune
from shortlist.recipes.halving import going_on, rounds
from shortlist.recipes.trials import Trial
from shortlist.training.interruption import Paused
from shortlist.training.run_folder import RunFolder
from tests.recipes.searches import RECIPE, Killed, history, lines

EPOCHS = 9
RATES = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09)
# What nine trials reach after each of nine epochs. Three paused after epoch 1 are best: 1, 4 and 8; of these after epoch 3: 8.
# Trial 0 would have ended best of all, and trial 4 is better than 8 at first and at last, but not after epoch 3.
CURVES = {
    0.01: (0.10, 0.20, 0.30, 0.90, 0.95, 0.96, 0.97, 0.98, 0.99),
    0.02: (0.50, 0.51, 0.52, 0.53, 0.54, 0.55, 0.56, 0.57, 0.58),
    0.03: (0.20,) * 9,
    0.04: (0.30,) * 9,
    0.05: (0.60, 0.55, 0.50, 0.80, 0.80, 0.80, 0.80, 0.80, 0.80),
    0.06: (0.40,) * 9,
    0.07: (0.35,) * 9,
    0.08: (0.10,) * 9,
    0.09: (0.45, 0.50, 0.65, 0.66, 0.67, 0.68, 0.70, 0.69, 0.68),
}
SEARCH = RECIPE.with_settings(epochs=EPOCHS)
STOPPED = [1, 3, 1, 1, 3, 1, 1, 1, None]


class Epochs:
    """A training that follows a curve, one epoch after the other, pauses, and goes on; it may be killed at its n-th epoch."""

    def __init__(self, curves=CURVES, kills=None):
        self.curves, self.kills, self.trained = curves, kills, []

    def __call__(self, recipe, folder, *, resume, device, callback, dataset, until=None):
        folder.mkdir(exist_ok=True)
        (folder / "recipe.json").write_text("{}")
        answer = self.curves[recipe.lr]
        if isinstance(answer, Exception):
            raise answer
        for epoch in range(len(RunFolder(folder).history) + 1, recipe.epochs + 1):
            if until is not None and epoch > until:
                raise Paused
            self.trained.append((folder.name, epoch))
            if self.kills is not None and len(self.trained) == self.kills:
                raise Killed
            told = [json.dumps(line) + "\n" for line in history(*answer[:epoch])]
            (folder / "metrics.jsonl").write_text("".join(told))
        return SimpleNamespace(history=history(*answer))


def search(folder, train=None, **options):
    train = train or Epochs()
    return train, tune(SEARCH, folder, grid={"lr": RATES}, train=train, halving=3, **options)


def test_the_worse_trials_are_stopped_and_get_no_more_epochs(tmp_path):
    train, tuned = search(tmp_path / "s")
    assert [trial.stopped for trial in tuned.trials] == STOPPED
    assert tuned.best == Trial("trial-008", {"lr": 0.09}, "average-2", 0.70, 7, 4.5, metrics={"average-2": 0.70})
    epochs = {name: [epoch for other, epoch in train.trained if other == name] for name, _ in train.trained}
    assert [len(epochs[f"trial-00{number}"]) for number in range(9)] == [stop or EPOCHS for stop in STOPPED]
    assert all(found == list(range(1, len(found) + 1)) for found in epochs.values())
    assert len(train.trained) == 6 * 1 + 2 * 3 + 9  # in place of 81
    assert [trial.value for trial in tuned.trials] == [0.10, 0.52, 0.20, 0.30, 0.60, 0.40, 0.35, 0.10, 0.70]


def test_what_is_written(tmp_path):
    search(tmp_path / "s")
    found = lines(tmp_path / "s")
    assert [line.get("stopped") for line in found] == STOPPED
    assert "stopped" not in found[8]
    assert [line["folder"] for line in found] == [f"trial-00{number}" for number in range(9)]
    assert json.loads((tmp_path / "s" / "tuning.json").read_text())["halving"] == 3


@pytest.mark.parametrize("kills", range(1, 22))
def test_killed_at_any_epoch_the_search_ends_as_it_would_have(tmp_path, kills):
    _, whole = search(tmp_path / "whole")
    with pytest.raises(Killed):
        search(tmp_path / "s", Epochs(kills=kills))
    train, tuned = search(tmp_path / "s", resume=True)
    assert tuned == whole
    assert lines(tmp_path / "s") == lines(tmp_path / "whole")
    assert len(train.trained) == 21 - (kills - 1)
    assert search(tmp_path / "s", resume=True)[0].trained == []


@pytest.mark.parametrize("seed", range(20))
def test_who_is_stopped_does_not_depend_on_who_is_first(tmp_path, seed, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")  # workers set it
    _, whole = search(tmp_path / "whole")
    draws = random.Random(seed)

    def in_any_order(job, tasks):
        tasks = [*enumerate(tasks)]
        draws.shuffle(tasks)
        return ((place, job(task)) for place, task in tasks)

    _, tuned = search(tmp_path / "s", each=in_any_order)
    assert tuned == whole
    assert (tmp_path / "s" / "trials.jsonl").read_bytes() == (tmp_path / "whole" / "trials.jsonl").read_bytes()


def test_a_trial_that_fails_goes_no_further(tmp_path):
    failing = CURVES | {0.05: InputError("too hot")}
    _, tuned = search(tmp_path / "s", Epochs(failing))
    assert [trial.stopped for trial in tuned.trials] == [1, 3, 1, 1, None, 3, 1, 1, None]
    assert tuned.trials[4].failed == "too hot"
    # What was decided without it stays; as long as nothing was, it is tried again.
    assert search(tmp_path / "s", resume=True)[0].trained == []
    with pytest.raises(Killed):
        search(tmp_path / "t", Epochs(failing, kills=8))  # the last of the first round
    assert search(tmp_path / "t", resume=True)[1] == search(tmp_path / "whole")[1]


def test_one_that_ends_early_by_itself_is_compared_and_not_stopped(tmp_path):
    class Impatient(Epochs):
        def __call__(self, recipe, folder, **options):
            if recipe.lr != 0.03:
                return super().__call__(recipe, folder, **options)
            short = recipe.with_settings(epochs=1)
            return super().__call__(short, folder, **options | {"until": None})

    _, tuned = search(tmp_path / "s", Impatient(CURVES | {0.03: (0.58,)}))
    assert [trial.stopped for trial in tuned.trials] == [1, 3, None, 1, None, 1, 1, 1, 1]  # it takes the place of trial 8
    assert (tuned.trials[2].value, tuned.best.folder) == (0.58, "trial-004")


@pytest.mark.parametrize(("trials", "epochs", "factor"), [*itertools.product((2, 5, 8, 27, 81), (2, 7, 30, 100), (2, 3, 4))])
def test_rounds_come_one_after_the_other_and_each_keeps_fewer(trials, epochs, factor):
    found = rounds(trials, epochs, factor)
    assert bool(found) == (min(trials, epochs) >= factor)
    assert all(one.until < later.until and one.keep >= later.keep for one, later in itertools.pairwise(found))
    assert all(1 <= one.until < epochs and 1 <= one.keep < trials for one in found)
    assert all(one.until % 5 == 0 for one in rounds(trials, epochs, factor, validate_every=5))


def test_of_equals_the_first_goes_on():
    equal = [Trial(name, {}, "top-1", 0.5, 1, 1.0, metrics={"top-1": 0.5}) for name in "abc"]
    lower = [
        Trial(name, {}, "nll", value, 1, 1.0, metrics={"nll": value}) for name, value in zip("abc", (3, 1, 2), strict=True)
    ]
    failed = Trial("d", {}, failed="too hot")
    assert going_on([failed, *equal], 2) == {"a", "b"}
    assert going_on([*lower, failed], 2) == {"b", "c"}
    assert going_on([failed], 2) == set()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"halving": 1}, "halving: expected a whole number from 2, got 1"),
        ({"halving": 10}, "halving: expected at least 10 trials of 10 epochs that are validated, got 9 trials of 9"),
        ({"grid": {"epochs": (5, 9)}, "halving": 2}, "halving: expected a grid without epochs"),
    ],
)
def test_what_cannot_be_halved_is_refused(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        tune(SEARCH, tmp_path / "s", train=Epochs(), **{"grid": {"lr": RATES}} | change)
    assert not (tmp_path / "s").exists()


def test_a_search_is_resumed_with_its_own_halving(tmp_path):
    search(tmp_path / "s")
    with pytest.raises(InputError, match="halving: expected 3, as the search in .* began, got None"):
        tune(SEARCH, tmp_path / "s", grid={"lr": RATES}, train=Epochs(), resume=True)


def test_real_trainings_pause_and_end_as_without(tmp_path):
    """One of them learns nothing: it is stopped. The other ends with the weights of a training that never paused."""
    recipe = RECIPE.with_settings(epochs=4, batch_size=16)
    tuned = tune(recipe, tmp_path / "s", grid={"lr": (1e-9, 0.1)}, device="cpu", halving=2)
    whole = tune(recipe, tmp_path / "w", grid={"lr": (1e-9, 0.1)}, device="cpu")
    assert [trial.stopped for trial in tuned.trials] == [2, None]
    assert [len(RunFolder(tmp_path / "s" / f"trial-00{number}").history) for number in (0, 1)] == [2, 4]
    assert not (tmp_path / "s" / "trial-000" / "classifier").exists()
    weights = [(tmp_path / name / "trial-001" / "classifier" / "model.safetensors").read_bytes() for name in "sw"]
    assert weights[0] == weights[1]
    assert (tuned.best.value, tuned.best.metrics) == (whole.best.value, whole.best.metrics)
