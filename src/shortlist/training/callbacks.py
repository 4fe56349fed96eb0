"""Callbacks: notified as training proceeds, for a progress bar, a file of metrics, or TensorBoard."""

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from shortlist.errors import InputError
from shortlist.files import PlaceError, write_text


class Callback:
    """Base class of callbacks; every method does nothing unless overridden.

    >>> class PrintLoss(Callback):
    ...     def epoch_ended(self, line, history):
    ...         print(line["epoch"], line["loss"])
    """

    def training_started(self, steps: int, steps_per_epoch: int, rows: int, done: int) -> None:
        """Called before the first step.

        Args:
            steps: number of steps in all.
            steps_per_epoch: number of steps of an epoch.
            rows: number of rows of a step.
            done: number of steps done before, if the run is resumed.
        """

    def step_ended(self, step: int, loss: float) -> None:
        """Called after step number ``step``, counted from 1, with its loss."""

    def epoch_ended(self, line: dict[str, Any], history: Sequence[dict[str, Any]]) -> None:
        """Called after each epoch with its entry of the history: loss, learning rate, validation metrics, speed."""

    def message(self, sentence: str) -> None:
        """Called with remarks for the user, in sentences."""


class Callbacks(Callback):
    """Several callbacks as one."""

    def __init__(self, *callbacks: Callback):
        self.callbacks = callbacks

    def training_started(self, steps: int, steps_per_epoch: int, rows: int, done: int) -> None:
        """Call it of all."""
        for callback in self.callbacks:
            callback.training_started(steps, steps_per_epoch, rows, done)

    def step_ended(self, step: int, loss: float) -> None:
        """Call it of all."""
        for callback in self.callbacks:
            callback.step_ended(step, loss)

    def epoch_ended(self, line: dict[str, Any], history: Sequence[dict[str, Any]]) -> None:
        """Call it of all."""
        for callback in self.callbacks:
            callback.epoch_ended(line, history)

    def message(self, sentence: str) -> None:
        """Call it of all."""
        for callback in self.callbacks:
            callback.message(sentence)


class MetricsFile(Callback):
    """Writes ``metrics.jsonl``, one line per epoch; rewritten as a whole each time, so that no line is ever incomplete."""

    def __init__(self, path: Path):
        self.path = path

    def epoch_ended(self, line: dict[str, Any], history: Sequence[dict[str, Any]]) -> None:
        """Write all lines."""
        self._write(_as_text(history))

    def put_back(self, history: Sequence[dict[str, Any]]) -> None:
        """Write the history that a checkpoint holds, if the file is missing, damaged or another."""
        text = _as_text(history)
        with suppress(OSError):
            if self.path.read_bytes() == text.encode():
                return
        self._write(text)

    def _write(self, text: str) -> None:
        try:
            write_text(self.path, text)
        except OSError as error:
            reason = error.reason if isinstance(error, PlaceError) else str(error)
            raise InputError(f"cannot write {self.path}: {reason}; free some space, then continue with resume=True") from error


def _as_text(history: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(_plain(entry)) + "\n" for entry in history)


def _plain(value: Any) -> Any:
    """NaN and infinities as None, since JSON cannot hold them."""
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class TensorBoard(Callback):
    """Writes curves for TensorBoard."""

    def __init__(self, folder: Path):
        from torch.utils.tensorboard import SummaryWriter

        self._make: Any = lambda: SummaryWriter(str(folder / "tensorboard"))
        self._writer: Any = None

    def training_started(self, steps: int, steps_per_epoch: int, rows: int, done: int) -> None:
        """Open the writer; not earlier, so that a run that fails its checks leaves no files."""
        self._writer = self._make()

    def epoch_ended(self, line: dict[str, Any], history: Sequence[dict[str, Any]]) -> None:
        """Write loss, learning rate, normaliser, speed and every metric of the epoch."""
        if self._writer is None:
            self._writer = self._make()
        names = ("loss", "lr", "log_normalizer", "rows_per_second")
        numbers = {name: line[name] for name in names if line.get(name) is not None}
        numbers |= {f"validation/{name}": value for name, value in (line.get("metrics") or {}).items()}
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, line["epoch"])
        self._writer.flush()


def tensorboard_if_installed(folder: Path) -> list[Callback]:
    """A list of one TensorBoard callback, or an empty list if TensorBoard is not installed."""
    try:
        return [TensorBoard(folder)]
    except (ImportError, RuntimeError, AttributeError):
        return []
