"""The progress of a training on a terminal: a progress bar and one line per epoch; in a pipe, only the lines."""

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from shortlist.cli.console import error_console, overwrite, say
from shortlist.training.callbacks import Callback

SMOOTHING = 0.95  # of the loss in the progress bar


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
        """Update the progress bar."""
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
