"""Two trainings into one folder: the second is refused from the first moment, and nothing is lost."""

import json
import signal
import threading

import pytest

import shortlist.training.beginning as beginning
import shortlist.training.run as training_run
from shortlist.errors import InputError
from shortlist.recipes import tune
from shortlist.training.callbacks import Callback
from tests import warm
from tests.training.small import dataset, recipe, run

WAITS = """
import sys, time
from tests.training.small import run
from shortlist.training.callbacks import Callback

class Waits(Callback):
    def step_ended(self, step, loss):
        print("begun", flush=True)
        time.sleep(600)

run(sys.argv[1], callback=Waits())
"""


@pytest.fixture
def other(tmp_path):
    """Another process in the middle of its training."""
    with warm.Program(WAITS, tmp_path / "run") as child:
        assert child.stdout.readline() == "begun\n"
        yield child
        child.kill()


def test_a_folder_that_another_process_trains_in_is_refused(tmp_path, other):
    with pytest.raises(InputError, match=rf"being written to by another process \(process {other.pid}; the lock is .*\.lock"):
        run(tmp_path / "run", resume=True)
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert len(run(tmp_path / "run", resume=True).history) == 2


@pytest.mark.parametrize("times", range(2))
@pytest.mark.parametrize("resume", [False, "auto"])
def test_of_two_that_begin_together_one_trains(tmp_path, monkeypatch, resume, times):
    """Both find the folder empty; both go on at the same moment."""
    both = threading.Barrier(2, timeout=60)
    lock = beginning.locked_folder

    def together(*arguments):
        both.wait()
        return lock(*arguments)

    monkeypatch.setattr(beginning, "locked_folder", together)
    found = []

    def train():
        try:
            run(tmp_path / "run", resume=resume)
            found.append("trained")
        except InputError as error:
            found.append(str(error))

    threads = [threading.Thread(target=train) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.count("trained") == 1
    (refused,) = (one for one in found if one != "trained")
    assert "being written to by another process" in refused or "already holds a run" in refused
    monkeypatch.undo()
    assert len(run(tmp_path / "run", resume=True).history) == 2


def test_the_recipe_and_the_lock_are_there_before_the_data_are_read(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    seen = {}
    look = training_run.as_dataset

    def reading(given):
        seen["recipe"] = json.loads((folder / "recipe.json").read_text())["recipe"]
        seen["lock"] = json.loads((folder / ".lock").read_text())
        return look(given)

    monkeypatch.setattr(training_run, "as_dataset", reading)
    run(folder)
    assert seen["recipe"]["name"] == "squares"
    assert set(seen["lock"]) == {"process", "host"}
    assert not (folder / ".lock").exists()


@pytest.mark.parametrize("error", [InputError("unreadable"), KeyboardInterrupt(), SystemExit(143), MemoryError()])
def test_a_run_that_fails_before_its_first_step_leaves_nothing(tmp_path, monkeypatch, error):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(training_run, "load_data", fails)
    with pytest.raises(type(error)):
        run(tmp_path / "deep" / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_before_its_first_step_after_a_resume_keeps_its_recipe(tmp_path, monkeypatch):
    run(tmp_path / "run")
    monkeypatch.setattr(training_run, "load_data", lambda *_, **__: (_ for _ in ()).throw(InputError("unreadable")))
    with pytest.raises(InputError, match="unreadable"):
        run(tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "recipe.json").exists()


def test_a_run_that_dies_while_it_reads_its_data_is_resumed_with_its_own_network(tmp_path, monkeypatch):
    from torch import nn

    from shortlist.models.factories import NetworkNeededError
    from shortlist.training import train
    from shortlist.training.run_folder import RunFolder

    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 5))
    monkeypatch.setattr(RunFolder, "discard", lambda self: None)  # as after kill -9
    monkeypatch.setattr(training_run, "load_data", lambda *_, **__: (_ for _ in ()).throw(InputError("killed")))
    how = {"device": "cpu", "dataset": dataset()}
    with pytest.raises(InputError, match="killed"):
        train(recipe(), tmp_path / "run", network=network, **how)
    with pytest.raises(NetworkNeededError, match="a Sequential"):
        train(recipe(), tmp_path / "run", resume=True, **how)


def test_a_search_is_locked_too(tmp_path):
    refused = []

    class Second(Callback):
        def epoch_ended(self, line, history):
            try:
                tune(recipe(epochs=1), tmp_path / "search", grid={"lr": (0.05,)}, dataset=dataset(), resume=True, device="cpu")
            except InputError as error:
                refused.append(str(error))

    tune(recipe(epochs=1), tmp_path / "search", grid={"lr": (0.05,)}, dataset=dataset(), callback=Second(), device="cpu")
    assert "search is being written to by another process" in refused[0]
    assert not list(tmp_path.rglob(".lock"))


def test_a_search_whose_data_cannot_be_read_leaves_nothing(tmp_path):
    with pytest.raises(InputError):
        tune(recipe().with_settings(data=str(tmp_path / "nothing")), tmp_path / "search", grid={"lr": (0.05,)}, device="cpu")
    assert list(tmp_path.iterdir()) == []


def test_readers_are_not_locked_out(tmp_path):
    from shortlist.locks import folder_lock
    from shortlist.runs import Run

    run(tmp_path / "run", epochs=1)
    with folder_lock(tmp_path / "run"):
        assert Run(tmp_path / "run").evaluate().coverage is not None
        Run(tmp_path / "run").report()
