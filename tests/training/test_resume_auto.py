"""resume="auto": begin where there is no run, go on where there is one, leave one that has ended, refuse everything else."""

import random
import shutil
import signal

import pytest
from safetensors.torch import load_file
from torch import nn

import shortlist
import shortlist.training.run as training_run
from shortlist.errors import InputError
from shortlist.locks import folder_lock
from shortlist.training import train
from shortlist.training.callbacks import Callback
from shortlist.training.loop import Loop
from shortlist.training.run_folder import RunFolder
from tests import warm
from tests.training.small import dataset, recipe, run, same, weights
from tests.training.test_resume import CutAfter, PowerCut


class Hears(Callback):
    def __init__(self):
        self.messages = []

    def message(self, sentence):
        self.messages.append(sentence)


def content(folder):
    """Every file, its bytes, and when it was written."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that has ended, and its weights."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return folder, weights(run(folder))


@pytest.fixture
def whole(finished, tmp_path):
    """A copy of that run."""
    return shutil.copytree(finished[0], tmp_path / "whole")


def test_the_same_call_begins_and_goes_on(tmp_path, finished):
    for step in (1, 4, 9):
        with pytest.raises(PowerCut):
            run(tmp_path / "cut", resume="auto", callback=CutAfter(step))
    trained = run(tmp_path / "cut", resume="auto")
    assert not trained.had_ended
    assert same(weights(trained), finished[1])


def test_a_run_that_died_before_its_first_checkpoint_begins_again(tmp_path, finished):
    with pytest.raises(PowerCut):
        run(tmp_path / "cut", resume="auto", callback=CutAfter(3), checkpoint_seconds=1e9)
    heard = Hears()
    assert same(weights(run(tmp_path / "cut", resume="auto", callback=heard)), finished[1])
    assert "no checkpoint yet: training starts from the beginning" in heard.messages


def test_a_run_that_has_ended_says_so_and_nothing_changes(whole, finished, monkeypatch):
    before, heard = content(whole), Hears()
    monkeypatch.setattr(training_run, "load_data", lambda *_, **__: pytest.fail("there is nothing to do"))
    trained = run(whole, resume="auto", callback=heard)
    assert content(whole) == before
    assert heard.messages[-1] == "training had already finished: nothing is left to do"
    assert trained.had_ended
    assert same(weights(trained), finished[1])
    assert trained.predictions.keys() == {"val", "calibration", "test"}
    assert len(trained.history) == 2
    assert list(trained.test.ids) == list(trained.predictions["test"].ids)


@pytest.mark.parametrize("damage", [None, "", "{"])
def test_only_a_damaged_history_of_a_run_that_has_ended_is_written_again(whole, monkeypatch, damage):
    before, path = content(whole), whole / "metrics.jsonl"
    path.unlink() if damage is None else path.write_text(damage)
    monkeypatch.setattr(training_run, "load_data", lambda *_, **__: pytest.fail("there is nothing to do"))
    trained = run(whole, resume="auto")
    assert trained.had_ended
    assert len(trained.history) == 2
    after = content(whole)
    assert after.pop(path)[0] == before.pop(path)[0]
    assert after == before


def test_a_run_that_has_ended_needs_no_checkpoint(whole):
    (whole / "checkpoint.safetensors").unlink()
    before = content(whole)
    assert run(whole, resume="auto").had_ended
    assert content(whole) == before


@pytest.mark.parametrize("lost", ["classifier", "classifier/classes.json", "test.safetensors", "results.json"])
def test_results_that_are_not_whole_are_written_again(whole, finished, monkeypatch, lost):
    """As after a kill between the last step and the last file."""
    expected = content(whole)
    shutil.rmtree(whole / lost) if (whole / lost).is_dir() else (whole / lost).unlink()
    monkeypatch.setattr(Loop, "_step", lambda *_: pytest.fail("no step is left"))
    trained = run(whole, resume="auto")
    assert not trained.had_ended
    assert {path: data for path, (data, _) in content(whole).items()} == {path: data for path, (data, _) in expected.items()}


@pytest.mark.parametrize("cut", [False, True])
def test_other_data_are_refused(tmp_path, cut):
    folder = tmp_path / "run"
    if cut:
        with pytest.raises(PowerCut):
            run(folder, callback=CutAfter(4))
    else:
        run(folder)
    before = content(folder)
    changed = dataset()
    changed.splits["train"].target[0] = 3
    with pytest.raises(InputError, match="the data are not those that this run began with"):
        run(folder, changed, resume="auto")
    assert content(folder) == before


def test_another_recipe_and_an_edited_one_are_refused(whole):
    before = content(whole)
    with pytest.raises(InputError, match=r"run of another recipe \(lr 0\.01 here, 0\.05 there\)"):
        run(whole, resume="auto", lr=0.01)
    assert content(whole) == before
    path = whole / "recipe.json"
    path.write_text(path.read_text().replace('"lr": 0.05', '"lr": 0.01'))
    with pytest.raises(InputError, match=r"was trained with lr 0\.05, not 0\.01"):
        run(whole, resume="auto", lr=0.01)


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    before = content(tmp_path)
    with pytest.raises(InputError, match="expected a new or empty folder for the run, got one with files in it"):
        run(tmp_path / "mine", resume="auto")
    with pytest.raises(InputError, match="expected a folder for the run, got a file"):
        run(tmp_path / "mine" / "thesis.txt", resume="auto")
    assert content(tmp_path) == before


@pytest.mark.parametrize("value", ["always", "yes", 1, None])
def test_other_values_are_refused(tmp_path, value):
    with pytest.raises(InputError, match="^resume: "):
        run(tmp_path / "run", resume=value)
    assert not (tmp_path / "run").exists()


def test_a_run_with_a_network_of_its_own_may_die_twice(tmp_path, monkeypatch):
    """First while the data are read, then after a checkpoint: the record of the network is completed in between."""

    def make(classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, classes))

    def go_on(**how):
        return train(recipe(), tmp_path / "run", resume="auto", device="cpu", dataset=dataset(), network=make, **how)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "discard", lambda self: None)  # as after kill -9
        patch.setattr(training_run, "load_data", lambda *_, **__: (_ for _ in ()).throw(PowerCut))
        with pytest.raises(PowerCut):
            go_on()
    with pytest.raises(PowerCut):
        go_on(callback=CutAfter(4), checkpoint_seconds=0.0)
    assert len(go_on().history) == 2


def test_a_report_that_is_missing_is_written_and_nothing_else(tmp_path):
    source = "flora:species=8,genera=2,train=60,val=40,test=40,size=8"
    settings = {"folder": tmp_path / "run", "device": "cpu", "k": 2, "backbone": "plain-8", "epochs": 1, "resume": "auto"}
    shortlist.train(source, **settings)
    before = content(tmp_path)
    shortlist.train(source, **settings)
    assert content(tmp_path) == before
    for lost in ("report.html", "optimum.json"):
        (tmp_path / "run" / lost).unlink()
    shortlist.train(source, **settings)
    after = content(tmp_path)
    assert after.keys() == before.keys()
    assert {path.name for path in after if after[path][1] != before[path][1]} == {"report.html", "optimum.json"}
    assert after[tmp_path / "run" / "optimum.json"][0] == before[tmp_path / "run" / "optimum.json"][0]


def test_without_data_there_must_be_a_run(tmp_path, finished):
    with pytest.raises(InputError, match="none holds no run to continue: to begin one, data or a recipe are needed"):
        shortlist.train(folder=tmp_path / "none", resume="auto")
    assert not (tmp_path / "none").exists()


def test_the_lock_of_another_training_refuses_a_first_start_and_delays_a_restart(tmp_path, monkeypatch):
    import shortlist.training.beginning as beginning

    (tmp_path / "run").mkdir()
    tried = []
    lock = beginning.locked_folder
    monkeypatch.setattr(beginning, "locked_folder", lambda path, patience: (tried.append(patience), lock(path, 0.0))[1])
    for count in ("0", "1"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", count)
        with folder_lock(tmp_path / "run"), pytest.raises(InputError, match="being written to by another process"):
            run(tmp_path / "run", resume="auto")
    with folder_lock(tmp_path / "run"), pytest.raises(InputError, match="being written to by another process"):
        run(tmp_path / "run")
    assert tried == [0.0, beginning.PATIENCE, 0.0]


# Two processes. The second looks into no folder: it is told.
PROGRAM = """
import os, signal, sys
import torch
torch.set_num_threads(1)
from shortlist.training.loop import Loop
from shortlist.training.run_folder import RunFolder
from tests.training.small import run
from tests.training.test_resume_auto import SETTINGS
folder, killed, at = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rank, step = int(os.environ["RANK"]), Loop._step

def die(self, number, *others):
    if (rank, number) == (killed, at):
        os.kill(os.getpid(), signal.SIGKILL)
    step(self, number, *others)

Loop._step = die
if rank == 1:
    for name in ("check_new", "check_resumable", "check_data", "has_results"):
        setattr(RunFolder, name, lambda *_: sys.exit("the first process decides"))
trained = run(folder, resume="auto", **SETTINGS)
print("had ended" if trained.had_ended else "ended", flush=True)
"""
SETTINGS = {"method": "average-k", "epochs": 4, "augmentation": "shift-flip", "ema": 0.9}
STEPS = 20  # of four epochs


def train_in_two(folder, killed=2, at=0):
    """Train in two processes, of which one may be killed before a step; returns what each prints, and their exit codes."""
    programs = warm.together(2, PROGRAM, folder, killed, at)
    found = [program.communicate() for program in programs]
    codes = [program.wait() for program in programs]
    assert killed < 2 or codes == [0, 0], found
    return [out for out, _ in found], codes


@pytest.mark.slow
def test_of_two_processes_one_is_killed_and_the_weights_stay_the_same(tmp_path):
    train_in_two(tmp_path / "calm")
    chance = random.Random(0)
    for half, killed in enumerate((1, 0)):
        _, codes = train_in_two(tmp_path / "cut", killed, half * STEPS // 2 + chance.randrange(STEPS // 2))
        assert codes[killed] == -signal.SIGKILL
        assert codes[1 - killed] not in (0, None)
    assert train_in_two(tmp_path / "cut")[0] == ["ended\n"] * 2
    calm, cut = (load_file(tmp_path / name / "classifier" / "model.safetensors") for name in ("calm", "cut"))
    assert same(calm, cut)


def test_every_process_is_told_that_the_run_had_ended(tmp_path):
    folder = tmp_path / "run"
    run(folder, **SETTINGS)
    before = content(folder)
    assert train_in_two(folder)[0] == ["had ended\n"] * 2
    assert content(folder) == before


APART = """
import os, sys
import torch
torch.set_num_threads(1)
from shortlist.errors import InputError
from tests.training.small import run
try:
    run(sys.argv[1] + os.environ["RANK"], resume="auto")
except InputError as error:
    print(error)
"""


@pytest.mark.slow
def test_processes_that_see_different_folders_are_refused(tmp_path):
    """Each machine has a disk of its own: only the first process finds a checkpoint."""
    with pytest.raises(PowerCut):
        run(tmp_path / "run0", callback=CutAfter(4))
    programs = warm.together(2, APART, tmp_path / "run")
    for program in programs:
        out, errors = program.communicate()
        assert "expected every process to read the same checkpoint" in out, errors[-2000:]
    assert (tmp_path / "run0" / "recipe.json").exists()


def test_other_data_are_refused_in_every_process(tmp_path):
    run(tmp_path / "run0")
    code = APART.replace('run(sys.argv[1] + os.environ["RANK"], ', 'run(sys.argv[1] + "0", dataset(66), ').replace(
        "import run", "import dataset, run"
    )
    for program in warm.together(2, code, tmp_path / "run"):
        out, errors = program.communicate()
        assert "the data are not those that this run began with" in out, errors[-2000:]
