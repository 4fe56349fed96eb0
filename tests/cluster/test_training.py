"""A training by workers ends as one without them, whichever of them are killed."""

import os
import random
import signal
import sys
from contextlib import nullcontext, suppress

import psutil
import pytest
from safetensors.torch import load_file

import shortlist
from shortlist import cluster
from shortlist.cluster import Pool
from shortlist.cluster.training import train_job
from shortlist.errors import InputError
from shortlist.runs import resolve_job
from shortlist.training import Callback
from tests import warm
from tests.cli.conftest import fails, run
from tests.cluster.stand_in import StandIn
from tests.training.small import same

__all__ = ["fails", "run"]

TINY = "flora:species=8,genera=2,train=120,val=60,test=40,size=8"
SETTINGS = {"k": 2, "backbone": "plain-8", "batch_size": 16}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in; what a worker sets in its own process is undone in this one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    return tmp_path


def weights(folder):
    return load_file(folder / "classifier" / "model.safetensors")


def test_one_worker_trains_as_this_process_does(here):
    one = shortlist.train(TINY, folder="one", epochs=2, device="cpu", **SETTINGS)
    found = cluster.train(Pool(StandIn(), 1), TINY, folder="by-workers", epochs=2, **SETTINGS)
    assert same(weights(here / "by-workers"), weights(here / "one"))
    assert found.recipe == one.recipe
    assert found.report_path.exists()
    with pytest.raises(InputError, match="by-workers already holds a run"):
        cluster.train(Pool(StandIn(), 1), TINY, folder="by-workers", epochs=2, **SETTINGS)


def test_data_in_memory_are_sent(here):
    data = shortlist.data.open_dataset(TINY)
    cluster.train(Pool(StandIn(), 1), data, folder="sent", epochs=1, report=False, **SETTINGS)
    shortlist.train(data, folder="one", epochs=1, report=False, device="cpu", **SETTINGS)
    assert same(weights(here / "sent"), weights(here / "one"))


def test_the_command_shows_what_it_shows_without_workers(run, fails, here, monkeypatch):
    monkeypatch.setattr(cluster, "pool", lambda *_, **__: nullcontext(Pool(StandIn(), 1)))
    command = ("train", TINY, "-k", 2, "--backbone", "plain-8", "--epochs", 2, "--device", "cpu", "--out")
    found = [run(*command, "alone"), run(*command, "by-workers", "--engine", "ray")]
    assert [one.code for one in found] == [0, 0]
    assert found[0].out == found[1].out

    def told(text):
        return [line.rsplit("  ", 1)[0] if line.startswith("epoch") else line for line in text.splitlines()]

    assert told(found[0].err.replace("in alone", "in by-workers").replace(" alone/", " by-workers/")) == told(found[1].err)
    assert fails(*command, "by-workers", "--engine", "ray").startswith(
        "by-workers already holds a run: continue it with shortlist train"
    )
    again = run(*command, "by-workers", "--engine", "ray", "--resume", "auto")
    assert "training had already finished: nothing is left to do" in again.err
    assert again.out == found[0].out


def test_wrong_options_are_refused_before_ray_is_started(fails, here, monkeypatch):
    monkeypatch.setattr(cluster, "pool", lambda *_, **__: pytest.fail("nothing is to be started"))
    assert fails("train", TINY, "--workers", 2) == "--workers applies only to --engine ray"
    (here / "full").mkdir()
    (here / "full" / "thesis.txt").touch()
    assert "expected a new or empty folder" in fails("train", TINY, "--engine", "ray", "--out", "full")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "train: expected a single process" in fails("train", TINY, "--engine", "ray", "--out", "new")


def test_a_cluster_with_gpus_wants_to_know_whether_they_are_used(fails, here, monkeypatch):
    ray = StandIn(machines=[(3, 2)])
    monkeypatch.setattr(cluster, "pool", lambda *_, **__: nullcontext(Pool(ray, 1)))
    with pytest.raises(InputError, match=r"gpus_per_worker: expected 1 or 0 for workers that train together, got 0\.5"):
        cluster.train(Pool(ray, 1, gpus=0.5), TINY, folder="new", **SETTINGS)
    assert fails("train", TINY, "--engine", "ray", "--out", "new").startswith("--device: the cluster has GPUs")


# As a launcher does it, without one, and with one thread, since rounding depends on their number.
CALM = """
import sys, torch
torch.set_num_threads(1)
import shortlist
shortlist.train(sys.argv[1], folder=sys.argv[2], epochs=40, device="cpu", report=False, k=2, backbone="plain-8", batch_size=16)
"""


def own_actors(title):
    """The actors with this title that this process started, and no other on this machine."""
    found = []
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            found += [one.pid] if " ".join(one.cmdline()).startswith(title) else []
    return found


class Killer(Callback):
    """Kills one of the processes after each of some epochs."""

    def __init__(self, epochs, seed):
        self.epochs, self.draws, self.killed, self.started = list(epochs), random.Random(seed), 0, []

    def training_started(self, steps, steps_per_epoch, rows, done):
        self.started.append(done)

    def epoch_ended(self, line, history):
        if self.epochs and line["epoch"] >= self.epochs[0]:
            del self.epochs[0]
            os.kill(self.draws.choice(own_actors("ray::Member")), signal.SIGKILL)
            self.killed += 1


@pytest.mark.ray
def test_workers_that_are_killed_leave_the_weights_as_they_would_be(ray, tmp_path):
    programs = warm.together(2, CALM, TINY, tmp_path / "calm")
    killer = Killer((2, 12), seed=1)  # it hears of an epoch some epochs later, and has to before the last one ends
    job = resolve_job(TINY, None, {**SETTINGS, "epochs": 40}, tmp_path / "cut")
    train_job(Pool(ray, 2), job, report=False, callback=killer, checkpoint_seconds=0.0)
    said = [program.communicate()[1] for program in programs]
    assert [program.returncode for program in programs] == [0, 0], said
    assert killer.killed == 2
    assert len(killer.started) == 3
    assert 0 == killer.started[0] < killer.started[1]
    assert same(weights(tmp_path / "cut"), weights(tmp_path / "calm"))
