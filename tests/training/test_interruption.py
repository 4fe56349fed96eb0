"""Ctrl-C and SIGTERM: the current step finishes and is saved, a second Ctrl-C stops at once, other handlers are left alone."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from shortlist.training.callbacks import Callback
from shortlist.training.interruption import Interrupted, Terminated, deferred_signals, ended_at_once
from tests.training.small import run, same, weights

STEPS = 10  # of two epochs


@pytest.fixture(autouse=True)
def usual_handler():
    """Python's own, whatever started the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGTERM, before[1])


class Presses(Callback):
    """Ctrl-C once or more often, or other signals, after a step."""

    def __init__(self, step, times=1, signals=(signal.SIGINT,)):
        self.step, self.signals, self.messages = step, times * list(signals), []

    def step_ended(self, step, loss):
        if step == self.step:
            for number in self.signals:
                signal.raise_signal(number)

    def message(self, sentence):
        self.messages.append(sentence)


@pytest.mark.parametrize(("step", "epoch"), [(1, 1), (5, 1), (7, 2), (STEPS, 2)])
def test_the_step_in_hand_is_kept_and_the_run_ends_as_it_would_have(tmp_path, step, epoch):
    whole = run(tmp_path / "whole")
    with pytest.raises(Interrupted, match=rf"^stopped after step {step} of 10, epoch {epoch} of 2$"):
        run(tmp_path / "cut", callback=Presses(step), checkpoint_seconds=1e9)
    assert (tmp_path / "cut" / "checkpoint.safetensors").exists()
    assert not (tmp_path / "cut" / "classifier").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    steps = []
    again = Presses(None)
    again.step_ended = lambda number, loss: steps.append(number)
    assert same(weights(whole), weights(run(tmp_path / "cut", resume=True, callback=again)))
    assert steps == list(range(step + 1, STEPS + 1))
    assert not any("no checkpoint yet" in sentence for sentence in again.messages)


def test_a_second_press_leaves_at_once(tmp_path):
    with pytest.raises(KeyboardInterrupt) as left:
        run(tmp_path / "cut", callback=Presses(3, times=2), checkpoint_seconds=1e9)
    assert not isinstance(left.value, Interrupted)
    assert not (tmp_path / "cut" / "checkpoint.safetensors").exists()
    callback = Presses(None)
    run(tmp_path / "cut", resume=True, callback=callback)
    assert any("no checkpoint yet" in sentence for sentence in callback.messages)


def test_a_handler_of_the_program_s_own_is_kept(tmp_path):
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(True))
    run(tmp_path / "run", callback=Presses(3))
    assert heard == [True]


def test_a_training_in_another_thread_hears_of_no_signal():
    found = []

    def inside():
        with deferred_signals() as stop:
            found.append(stop.requested)

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert found == [False]


@pytest.mark.parametrize("handler", ["the system's", "the program's"])
@pytest.mark.parametrize("step", [1, 7, STEPS])
def test_sigterm_keeps_the_step_in_hand_and_ends_the_program(tmp_path, step, handler):
    from shortlist.machine import exit_on_sigterm

    whole = run(tmp_path / "whole")
    usual = signal.SIG_DFL if handler == "the system's" else exit_on_sigterm
    signal.signal(signal.SIGTERM, usual)
    with pytest.raises(Terminated, match=rf"^stopped after step {step} of 10") as left:
        run(tmp_path / "cut", callback=Presses(step, signals=[signal.SIGTERM]), checkpoint_seconds=1e9)
    assert left.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is usual
    assert same(weights(whole), weights(run(tmp_path / "cut", resume=True)))


def test_a_sigterm_that_comes_twice_is_one(tmp_path):
    """A launcher passes on what the whole group has received."""
    with pytest.raises(Terminated, match="step 3"):
        run(tmp_path / "cut", callback=Presses(3, times=2, signals=[signal.SIGTERM]), checkpoint_seconds=1e9)
    assert (tmp_path / "cut" / "checkpoint.safetensors").exists()


def test_the_first_signal_decides_how_the_program_ends(tmp_path):
    with pytest.raises(Interrupted):
        run(tmp_path / "one", callback=Presses(3, signals=[signal.SIGINT, signal.SIGTERM]))
    with pytest.raises(KeyboardInterrupt) as left:
        run(tmp_path / "two", callback=Presses(3, signals=[signal.SIGTERM, signal.SIGINT]))
    assert not isinstance(left.value, Interrupted)


def test_a_handler_of_the_program_s_own_for_sigterm_is_kept(tmp_path):
    heard = []
    signal.signal(signal.SIGTERM, lambda *_: heard.append(True))
    run(tmp_path / "run", callback=Presses(3, signals=[signal.SIGTERM]))
    assert heard == [True]


def test_a_process_that_waits_for_others_ends_at_once():
    from shortlist.machine import exit_on_sigterm

    signal.signal(signal.SIGTERM, exit_on_sigterm)
    with ended_at_once():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is exit_on_sigterm
    own = signal.signal(signal.SIGTERM, lambda *_: None) and signal.getsignal(signal.SIGTERM)
    with ended_at_once():
        assert signal.getsignal(signal.SIGTERM) is own


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = """
import sys, time, torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
from tests.training.small import dataset, run
from shortlist.training.callbacks import Callback

class Slow(Callback):
    def step_ended(self, step, loss):
        if step == 3:
            print("begun", flush=True)
        time.sleep(0.2)

run(sys.argv[2], dataset(600), callback=Slow() if sys.argv[3] == "new" else None, resume=sys.argv[3] == "resume", epochs=2,
    checkpoint_seconds=1e9)
"""


@pytest.mark.slow
@pytest.mark.parametrize("to", ["launcher", "group"])
def test_sigterm_to_several_processes_keeps_the_step_in_hand(tmp_path, to):
    (tmp_path / "program.py").write_text(PROGRAM)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, str(tmp_path / "program.py"), ROOT, str(tmp_path / "run")]
    child = subprocess.Popen(
        [*command, "new"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert "begun" in child.stdout.readline()
    if to == "group":
        os.killpg(child.pid, signal.SIGTERM)
    else:
        child.send_signal(signal.SIGTERM)
    _, errors = child.communicate(timeout=120)
    assert child.returncode != 0
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "checkpoint.safetensors").exists():  # the launcher may end before its processes
        assert time.monotonic() < deadline, errors[-2000:]
        time.sleep(0.1)
    while (tmp_path / "run" / ".lock").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    done = subprocess.run([*command, "resume"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "run" / "classifier").is_dir()
