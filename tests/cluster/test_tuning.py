"""A search by workers, any of which may die, has the record of a search in one process."""

import json
import os
import random
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from shortlist import cluster
from shortlist.cluster import Pool
from shortlist.errors import InputError
from shortlist.recipes import tune
from shortlist.training import Callback
from tests import warm
from tests.cli.conftest import fails, run
from tests.cluster.stand_in import StandIn
from tests.cluster.test_training import own_actors
from tests.recipes.searches import GRID, RECIPE, VALUES, history
from tests.recipes.test_halving import RATES, SEARCH, STOPPED, Epochs

__all__ = ["fails", "run"]

TINY = "flora:species=8,genera=2,train=120,val=60,test=40,size=8"


@pytest.fixture(autouse=True)
def own(monkeypatch, tmp_path):
    """What a worker sets in its own process is undone in this one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")


def fake(recipe, folder, **_):
    folder.mkdir(exist_ok=True)
    (folder / "recipe.json").write_text("{}")
    answer = VALUES[recipe.lr, recipe.parameters["alpha"]]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in history(*answer)))
    return SimpleNamespace(history=history(*answer))


def content(folder):
    return (folder / "trials.jsonl").read_bytes(), json.loads((folder / "tuning.json").read_text())


@pytest.mark.parametrize("seed", range(20))
def test_the_record_is_that_of_one_process_whoever_dies(tmp_path, seed):
    whole = tune(RECIPE, tmp_path / "whole", grid=GRID, train=fake)
    ray = StandIn(seed, deaths=0.2)
    found = cluster.tune(Pool(ray), RECIPE, tmp_path / "s", grid=GRID, train=fake)
    assert found == whole
    assert content(tmp_path / "s") == content(tmp_path / "whole")
    halved = tune(SEARCH, tmp_path / "halved", grid={"lr": RATES}, train=Epochs(), halving=3)
    found = cluster.tune(Pool(ray), SEARCH, tmp_path / "h", grid={"lr": RATES}, train=Epochs(), halving=3)
    assert found == halved
    assert [trial.stopped for trial in found.trials] == STOPPED
    assert content(tmp_path / "h") == content(tmp_path / "halved")


def test_no_trial_waits_behind_another_while_a_worker_is_free(tmp_path):
    most = []

    class Watching(StandIn):
        def wait(self, calls, **how):
            held = [call.actor for call in calls if call.method == "answer"]
            most.append(max([held.count(actor) for actor in held], default=0))
            return super().wait(calls, **how)

    cluster.tune(Pool(Watching()), RECIPE, tmp_path / "s", grid=GRID, train=fake)
    assert max(most) == 1


def test_messages_are_those_of_one_process_each_once(tmp_path):
    class Hears(Callback):
        def __init__(self):
            self.heard = []

        def message(self, sentence):
            self.heard.append(sentence)

    def telling(recipe, folder, *, callback, **how):
        callback.message("3 classes have no training row")
        callback.training_started(1, 1, 1, 0)
        if recipe.lr == 0.3:
            raise InputError("too hot")
        return fake(recipe, folder)

    hears = Hears()
    cluster.tune(
        Pool(StandIn(), 1), RECIPE, tmp_path / "s", grid={"lr": (0.1, 0.3), "alpha": (0.5,)}, train=telling, callback=hears
    )
    assert hears.heard == [
        "3 classes have no training row",
        "trial 1 of 2: lr=0.1 alpha=0.5 (average-2 0.7000, epoch 2)",
        "trial 2 of 2: lr=0.3 alpha=0.5",
        "trial-001 failed: too hot",
    ]


def test_workers_that_read_other_data_are_refused(tmp_path, monkeypatch):
    import shortlist.recipes.trial_runs as module

    opened = module.as_dataset
    monkeypatch.setattr(module, "as_dataset", lambda source: opened(source.replace("train=64", "train=65")))
    module._opened.cache_clear()
    with pytest.raises(InputError, match="expected every worker to read the same data"):
        cluster.tune(Pool(StandIn()), RECIPE, tmp_path / "s", grid=GRID, train=fake)


def test_the_command(run, fails, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "pool", lambda *_, **__: nullcontext(Pool(StandIn(1, deaths=0.1))))
    command = ("tune", TINY, "-k", 2, "--grid", "lr=1e-9,0.1", "--backbone", "plain-8", "--epochs", 2, "--halving", 2)
    command += ("--device", "cpu", "--json", "--out")

    def values(outcome):
        assert outcome.code == 0, outcome.err
        return [line | {"seconds": None} for line in json.loads(outcome.out)]

    whole = values(run(*command, "alone"))
    assert [line.get("stopped") for line in whole] == [1, None]
    assert values(run(*command, "by-workers", "--engine", "ray")) == whole
    again = values(run("tune", "--resume", "--out", "by-workers", "--json"))
    assert again == whole
    assert "--halving: expected a whole number from 2, got 1" in fails("tune", TINY, "--halving", 1)
    assert fails("tune", TINY, "--workers", 2) == "--workers applies only to --engine ray"


ALONE = """
import sys, torch
torch.set_num_threads(1)
from shortlist.recipes import tune
from tests.cluster.test_tuning import REAL, REAL_GRID
tune(REAL, sys.argv[1], grid=REAL_GRID, device="cpu", halving=2)
"""
REAL = RECIPE.with_settings(data=TINY, epochs=6, batch_size=16)
REAL_GRID = {"lr": (1e-9, 0.1, 0.05)}


@pytest.mark.ray
def test_trials_whose_workers_are_killed_leave_the_same_record(ray, tmp_path):
    program = warm.Program(ALONE, tmp_path / "alone")
    draws, killed = random.Random(0), []

    class Kills(Callback):
        def message(self, sentence):
            if sentence.startswith("trial ") and len(killed) < 2:
                busy = own_actors("ray::Worker.answer")
                if busy:
                    killed.append(draws.choice(busy))
                    os.kill(killed[-1], 9)

    pool = Pool(ray, 2)
    found = cluster.tune(pool, REAL, tmp_path / "s", grid=REAL_GRID, halving=2, callback=Kills())
    pool.close()
    assert program.communicate()[1] == ""
    assert killed
    lines = [
        [json.loads(line) | {"seconds": None} for line in (folder / "trials.jsonl").read_text().splitlines()]
        for folder in (tmp_path / "alone", tmp_path / "s")
    ]
    assert lines[0] == lines[1]
    assert [trial.stopped for trial in found.trials] == [3, None, None]
    for trial in found.trials[1:]:
        weights = [
            (tmp_path / name / trial.folder / "classifier" / "model.safetensors").read_bytes() for name in ("alone", "s")
        ]
        assert weights[0] == weights[1]
