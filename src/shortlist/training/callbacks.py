"""Whoever wants to know how a training goes: a progress bar, a file of metrics, TensorBoard."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shortlist.errors import InputError
from shortlist.files import PlaceError, write_text


class Callback:
    """Is told what happens, and does nothing about it; subclasses do."""

    def training_started(self, steps: int, steps_per_epoch: int, rows: int, done: int) -> None:
        """Training of so many steps of so many rows begins, or goes on after ``done``."""

    def step_ended(self, step: int, loss: float) -> None:
        """So many steps are done."""

    def epoch_ended(self, line: dict[str, Any], history: Sequence[dict[str, Any]]) -> None:
        """An epoch is over; its line is the last of the history."""

    def message(self, sentence: str) -> None:
        """Something that a person should know."""


class Callbacks(Callback):
    """Several at once."""

    def __init__(self, *callbacks: Callback):
        self.callbacks = callbacks

    def training_started(self, steps: int, steps_per_epoch: int, rows: int, done: int) -> None:
        """To all."""
        for callback in self.callbacks:
            callback.training_started(steps, steps_per_epoch, rows, done)

    def step_ended(self, step: int, loss: float) -> None:
        """To all."""
        for callback in self.callbacks:
            callback.step_ended(step, loss)

    def epoch_ended(self, line: dict[str, Any], history: Sequence[dict[str, Any]]) -> None:
        """To all."""
        for callback in self.callbacks:
            callback.epoch_ended(line, history)

    def message(self, sentence: str) -> None:
        """To all."""
        for callback in self.callbacks:
            callback.message(sentence)


class MetricsFile(Callback):
    """``metrics.jsonl``, a line an epoch, rewritten whole each time so that it never ends in half a line."""

    def __init__(self, path: Path):
        self.path = path

    def epoch_ended(self, line: dict[str, Any], history: Sequence[dict[str, Any]]) -> None:
        """Write all lines."""
        try:
            write_text(self.path, "".join(json.dumps(_plain(entry)) + "\n" for entry in history))
        except OSError as error:
            reason = error.reason if isinstance(error, PlaceError) else str(error)
            raise InputError(f"cannot write {self.path}: {reason}; free some space and resume the run") from error


def _plain(value: Any) -> Any:
    """NaN and infinities are no JSON: null."""
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class TensorBoard(Callback):
    """Curves for TensorBoard, where it is installed."""

    def __init__(self, folder: Path):
        from torch.utils.tensorboard import SummaryWriter

        self._make: Any = lambda: SummaryWriter(str(folder / "tensorboard"))
        self._writer: Any = None

    def training_started(self, steps: int, steps_per_epoch: int, rows: int, done: int) -> None:
        """Nothing is written before there is something to train."""
        self._writer = self._make()

    def epoch_ended(self, line: dict[str, Any], history: Sequence[dict[str, Any]]) -> None:
        """Loss, rate, speed and every metric of the epoch."""
        if self._writer is None:
            self._writer = self._make()
        numbers = {name: line[name] for name in ("loss", "lr", "rows_per_second") if line.get(name) is not None}
        numbers |= {f"validation/{name}": value for name, value in (line.get("metrics") or {}).items()}
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, line["epoch"])
        self._writer.flush()


def tensorboard_if_installed(folder: Path) -> list[Callback]:
    """A TensorBoard callback, or none."""
    try:
        return [TensorBoard(folder)]
    except (ImportError, RuntimeError, AttributeError):
        return []
