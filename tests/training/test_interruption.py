"""Ctrl-C: the current step finishes and is saved, a second one stops immediately, and other handlers are left alone."""

import signal
import threading

import pytest

from shortlist.training.callbacks import Callback
from shortlist.training.interruption import Interrupted, deferred_signals
from tests.training.small import run, same, weights

STEPS = 10  # of two epochs


@pytest.fixture(autouse=True)
def usual_handler():
    """Python's own, whatever started the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Presses(Callback):
    """Ctrl-C once or more often, after a step."""

    def __init__(self, step, times=1):
        self.step, self.times, self.messages = step, times, []

    def step_ended(self, step, loss):
        if step == self.step:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)

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
