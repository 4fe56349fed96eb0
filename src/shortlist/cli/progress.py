"""The progress of a training on a terminal: a progress bar and one line per epoch; in a pipe, only the lines."""

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from shortlist.cli.console import error_console, overwrite, say
from shortlist.training.callbacks import Callback
from shortlist.words import counted

SMOOTHING = 0.95  # of the loss in the progress bar
WARM_UP = 2  # steps that are not measured
WINDOW_STEPS, WINDOW_SECONDS = 3, 5.0  # that a window takes at least
SAME_PACE, OTHER_PACE = 1.25, 1.5  # ratios of seconds per step: two windows agree up to the first, and differ beyond the second
WORTH_SAYING = 60.0  # seconds below which nobody wants to know


class TimeEstimate:
    """How long training takes, said where it is worth knowing as soon as the pace is steady, and again if that proves wrong.

    The first steps compile, fill caches and wait for data, so that their pace says little. Steps are therefore measured in
    windows, each twice as long as the one before, and nothing is said until two in a row agree. Later windows include the
    validation at the end of epochs; one that differs starts the search for the pace again.

    Args:
        steps: number of steps in all.
        done: number of steps that were done before.
    """

    def __init__(self, steps: int = 0, done: int = 0):
        self.steps, self._first, self._window = steps, done + WARM_UP, WINDOW_STEPS
        self._began: float | None = None
        self._before: float | None = None  # seconds per step in the window before
        self._told: float | None = None  # the same where two windows agreed
        self._steady = False

    def after(self, step: int) -> str | None:
        """A sentence after a step that shows how long training takes; None after all others."""
        if step < self._first or step >= self.steps:
            return None
        now = time.monotonic()
        if self._began is None:
            self._began, self._first = now, step
            return None
        seconds, measured = now - self._began, step - self._first
        if measured < self._window or seconds < WINDOW_SECONDS:
            return None
        self._began, self._first = now, step
        return self._judged(step, seconds / measured, measured)

    def _judged(self, step: int, pace: float, measured: int) -> str | None:
        """What a window shows: nothing, the first estimate, or a correction."""
        before, self._before, self._window = self._before, pace, 2 * measured
        if self._steady:
            if self._told is not None and not _alike(self._told, pace, OTHER_PACE):
                self._steady, self._before, self._window = False, None, WINDOW_STEPS  # part of this window may be the old pace
            return None
        if before is None or not _alike(before, pace, SAME_PACE):
            return None
        left, known = self.steps - step, self._told
        self._steady, self._told = True, pace
        if max(pace, known or 0.0) * left < WORTH_SAYING or (known is not None and _alike(known, pace, OTHER_PACE)):
            return None
        what = "training will take about" if known is None else "the pace has changed: training will take about another"
        return f"{what} {_until(pace * left)} ({measured:,} steps measured, {left:,} to go)"


def _alike(one: float, other: float, ratio: float) -> bool:
    return max(one, other) <= ratio * min(one, other)


def _until(seconds: float) -> str:
    """A time from now in words, and when it ends."""
    end = time.localtime(time.time() + seconds)
    day = f" {time.strftime('%A', end)}" if seconds > 12 * 3600 else ""
    return f"{duration(seconds)}, until{day} {time.strftime('%H:%M', end)}"


def duration(seconds: float) -> str:
    """A time in words, rounded as an estimate is.

    >>> duration(95), duration(3700), duration(200_000)
    ('2 minutes', '1 h 2 min', '2 days 7 h')
    """
    minutes = max(1, round(seconds / 60))
    if minutes < 60:
        return counted(minutes, "minute")
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{counted(days, 'day')} {hours} h"


class TrainingBar(Callback):
    """Callback that prints the progress of a training.

    Args:
        epochs: number of epochs.
        heading: the first line; printed only once training has passed its checks.
    """

    def __init__(self, epochs: int, heading: str = ""):
        self.epochs, self.heading, self.messages = epochs, heading, set[str]()
        self.progress: Progress | None = None
        self._rows = self._done = self._per_epoch = 0
        self._since = time.monotonic()
        self._loss: float | None = None
        self._estimate = TimeEstimate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.progress is not None:
            self.progress.stop()

    def print_heading(self) -> None:
        """Print the heading, once."""
        if self.heading:
            say(self.heading)
        self.heading = ""

    def training_started(self, steps: int, steps_per_epoch: int, rows: int, done: int) -> None:
        """Show the progress bar; that of an attempt before this one is removed."""
        self.print_heading()
        if self.progress is not None:
            self.progress.stop()
        self._rows, self._done, self._per_epoch, self._since = rows, done, steps_per_epoch, time.monotonic()
        self._estimate = TimeEstimate(steps, done)
        if done and done < steps:
            say(f"resuming after step {done:,} of {steps:,}")
        if not sys.stderr.isatty():
            return
        columns = (
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f}%  {task.fields[speed]:,.0f} rows/s  loss {task.fields[loss]:.4f}"),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        self.progress = Progress(*columns, console=error_console(), transient=True, refresh_per_second=4)
        epoch = min(done // steps_per_epoch + 1, self.epochs)
        self.progress.add_task("training", total=steps, completed=done, epoch=epoch, epochs=self.epochs, speed=0.0, loss=0.0)
        self.progress.start()

    def step_ended(self, step: int, loss: float) -> None:
        """Update the progress bar, and say how long training will take."""
        told = self._estimate.after(step)
        if told is not None:
            self._say(told)
        if self.progress is None:
            return
        if loss == loss:
            self._loss = loss if self._loss is None else SMOOTHING * self._loss + (1 - SMOOTHING) * loss
        speed = (step - self._done) * self._rows / max(1e-9, time.monotonic() - self._since)
        epoch = min((step - 1) // self._per_epoch + 1, self.epochs)
        self.progress.update(self.progress.task_ids[0], completed=step, epoch=epoch, speed=speed, loss=self._loss or 0.0)

    def epoch_ended(self, line: dict[str, Any], history: Sequence[dict[str, Any]]) -> None:
        """Print a line about the epoch."""
        loss = "every step was skipped" if line["loss"] is None else f"loss {line['loss']:.4f}"
        value = f"  {_measured(line)}{' (best)' if line['best'] else ''}" if "value" in line else ""
        text = f"epoch {line['epoch']:>{len(str(self.epochs))}}  {loss}{value}  {line['rows_per_second']:,.0f} rows/s"
        self._say(text)

    def message(self, sentence: str) -> None:
        """Print the message."""
        self.print_heading()
        self.messages.add(sentence)
        self._say(sentence)

    def _say(self, sentence: str) -> None:
        """Print above the progress bar, if there is one."""
        say(sentence, console=None if self.progress is None else self.progress.console)


def _measured(line: dict[str, Any]) -> str:
    """The monitored metric; shares in percent."""
    form = ".4f" if line["monitor"] == "nll" else ".2%"
    return f"{line['monitor']} {line['value']:{form}}"


class TrialLines(Callback):
    """Callback that prints the progress of a grid search."""

    def epoch_ended(self, line: dict[str, Any], history: Sequence[dict[str, Any]]) -> None:
        """Print the progress of the trial, over the line before."""
        overwrite(f"epoch {line['epoch']}  {_measured(line) if 'value' in line else ''}")

    def message(self, sentence: str) -> None:
        """Print the message."""
        say(sentence)
