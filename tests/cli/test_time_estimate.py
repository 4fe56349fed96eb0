"""How long training will take, from its first steps."""

import re

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
    """What is said after each step, where steps take so long (or as a function of the step says) and the first ones longer."""
    estimate, found = TimeEstimate(steps, done), []
    for step in range(done + 1, steps + 1):
        clock[0] += first if step <= done + 2 else seconds(step) if callable(seconds) else seconds
        sentence = estimate.after(step)
        if sentence is not None:
            found.append((step, sentence))
    return found


def minutes(sentence):
    return int(re.search(r"about (?:another )?(\d+) minute", sentence)[1])


def test_the_time_left_is_said_once_the_pace_is_steady_without_the_first_steps(clock):
    ((step, sentence),) = told(clock, steps=1000, seconds=1.0)
    assert step == 17  # windows of five and of ten seconds
    assert re.fullmatch(r"training will take about 16 minutes, until \d\d:\d\d \(10 steps measured, 983 to go\)", sentence), (
        sentence
    )


def test_slow_steps_need_not_be_many(clock):
    ((step, sentence),) = told(clock, steps=100, seconds=60.0)
    assert step == 11
    assert "about 1 h 29 min" in sentence


@pytest.mark.parametrize(("slow", "corrections"), [(10, 0), (30, 0), (100, 1)])
def test_slow_steps_at_the_beginning_are_not_taken_for_the_pace(clock, slow, corrections):
    """Steps that take six times as long at first, and less and less of that; a long beginning is corrected."""
    found = told(clock, 3000, lambda step: 0.05 * (1 + 5 * 0.5 ** (step / slow)))
    assert len(found) == 1 + corrections
    assert minutes(found[-1][1]) in (2, 3)
    assert found[-1][0] < 1000


def test_an_estimate_that_proves_wrong_is_corrected(clock):
    """The pace is steady, and other, after the first epoch."""
    found = told(clock, 2000, lambda step: 1.0 if step < 100 else 0.25)
    assert [minutes(sentence) for _, sentence in found] == [33, 7]
    assert found[1][0] < 400
    assert "the pace has changed" in found[1][1]
    slower = told(clock, 2000, lambda step: 0.25 if step < 100 else 1.0)
    assert [minutes(sentence) > 20 for _, sentence in slower] == [False, True]


def test_a_resumed_run_counts_what_is_left(clock):
    ((step, sentence),) = told(clock, steps=1000, seconds=1.0, done=900)
    assert step == 917
    assert "about 1 minute" in sentence


@pytest.mark.parametrize(("steps", "seconds"), [(20, 1.0), (2, 100.0), (0, 1.0), (50, 0.01), (75, 1.0)])
def test_short_trainings_are_not_announced(clock, steps, seconds):
    assert told(clock, steps, seconds) == []


def test_the_bar_of_the_program_says_it(clock, capsys):
    with TrainingBar(epochs=3, heading="training") as bar:
        bar.training_started(300, 100, 32, 0)
        for step in range(1, 15):
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
