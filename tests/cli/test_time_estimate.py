"""How long training will take, from its first steps."""

import pytest

from shortlist.cli import progress
from shortlist.cli.progress import TimeEstimate, TrainingBar, duration


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def told(clock, steps, seconds, done=0, first=100.0):
    """What is said after each step, where steps take so long and the first ones longer."""
    estimate, found = TimeEstimate(steps, done), []
    for step in range(done + 1, steps + 1):
        clock[0] += first if step <= done + 2 else seconds
        sentence = estimate.after(step)
        if sentence is not None:
            found.append((step, sentence))
    return found


def test_the_time_left_is_said_once_without_the_first_steps(clock):
    ((step, sentence),) = told(clock, steps=1000, seconds=1.0)
    assert step == 5
    assert sentence.startswith("training will take about 17 minutes (3 steps measured, 1,000 in all), until ")


def test_quick_steps_are_measured_for_two_seconds(clock):
    ((step, sentence),) = told(clock, steps=100_000, seconds=1 / 64)
    assert step == 130
    assert "(128 steps measured" in sentence


def test_a_resumed_run_counts_what_is_left(clock):
    ((step, sentence),) = told(clock, steps=1000, seconds=1.0, done=900)
    assert step == 905
    assert "about 2 minutes" in sentence


@pytest.mark.parametrize(("steps", "seconds"), [(20, 1.0), (2, 100.0), (0, 1.0), (50, 0.01)])
def test_short_trainings_are_not_announced(clock, steps, seconds):
    assert told(clock, steps, seconds) == []


def test_the_bar_of_the_program_says_it(clock, capsys):
    with TrainingBar(epochs=3, heading="training") as bar:
        bar.training_started(300, 100, 32, 0)
        for step in range(1, 10):
            clock[0] += 2.0
            bar.step_ended(step, 1.0)
    lines = capsys.readouterr().err.splitlines()
    assert sum("training will take about" in line for line in lines) == 1


def test_durations_in_words():
    assert [duration(seconds) for seconds in (1, 90, 3540, 86_000, 90_000)] == [
        "1 minute",
        "2 minutes",
        "59 minutes",
        "23 h 53 min",
        "1 day 1 h",
    ]
