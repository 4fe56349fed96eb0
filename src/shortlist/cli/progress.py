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
MEASURED_STEPS, MEASURED_SECONDS = 3, 2.0  # that an estimate takes at least
WORTH_SAYING = 60.0  # seconds below which nobody wants to know


class TimeEstimate:
    """How long training takes, from its first steps, said once where it is worth knowing.

    The first steps, which warm up caches and compile, are not counted. Validation at the end of each epoch is not measured yet,
    so that the estimate is a little low.

    Args:
        steps: number of steps in all.
        done: number of steps that were done before.
    """

    def __init__(self, steps: int = 0, done: int = 0):
        self.steps, self.first = steps, done + WARM_UP
        self._began: float | None = None
        self._told = steps <= self.first

    def after(self, step: int) -> str | None:
        """A sentence after the step that completes the measurement; None after all others."""
        if self._told or step < self.first:
            return None
        if self._began is None:
            self._began, self.first = time.monotonic(), step
            return None
        seconds, measured = time.monotonic() - self._began, step - self.first
        if measured < MEASURED_STEPS or seconds < MEASURED_SECONDS:
            return None
        self._told = True
        left = seconds / measured * (self.steps - step)
        if left < WORTH_SAYING:
            return None
        ends = time.strftime("%H:%M", time.localtime(time.time() + left))
        day = f" {time.strftime('%A', time.localtime(time.time() + left))}" if left > 12 * 3600 else ""
        return (
            f"training will take about {duration(left)} ({measured:,} steps measured, {self.steps:,} in all), until{day} {ends}"
        )


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
        """Show the progress bar."""
        self.print_heading()
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
        """Update the progress bar, and say once how long training will take."""
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
