"""Trials of a search: their values, what they reached, and the file that has a line for each."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from shortlist.checks import Check, number as number_check, optional, text, whole
from shortlist.errors import InputError
from shortlist.files import write_text
from shortlist.training.monitor import Monitor
from shortlist.words import listed, shown

TRIALS = "trials.jsonl"
STOPPED = "stopped"


@dataclass(frozen=True)
class Trial:
    """One combination of the grid and its validation result.

    Args:
        folder: name of the folder of its run, inside that of the search.
        values: the values of the settings that are searched over.
        monitor: the validation metric that trials are compared by; None for a failed trial.
        value: its best value over the epochs.
        epoch: the epoch with this value.
        metrics: all validation metrics of that epoch; those that :class:`~shortlist.training.monitor.Monitor` breaks ties by
            decide between trials of equal value.
        seconds: training time, over all epochs.
        failed: the error message of a failed trial, else None.
        stopped: the epoch after which it was stopped, because others were better; None if it went on to its end.
    """

    folder: str
    values: Mapping[str, Any]
    monitor: str | None = None
    value: float | None = None
    epoch: int | None = None
    seconds: float | None = None
    failed: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    stopped: int | None = None

    def __post_init__(self) -> None:
        # JSON has lists for tuples.
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in self.values.items()}
        object.__setattr__(self, "values", MappingProxyType(values))
        object.__setattr__(self, "metrics", MappingProxyType(dict(self.metrics)))

    @property
    def is_whole(self) -> bool:
        """Whether it ended by itself."""
        return self.failed is None and self.stopped is None

    @staticmethod
    def from_record(record: Any) -> "Trial":
        """The trial that was read from a file; an error names what cannot be part of one."""
        always = CHECKS.keys() - {STOPPED}
        if not isinstance(record, dict) or record.keys() - {STOPPED} != always:
            raise InputError(f"trial: expected {listed([name for name in CHECKS if name in always])}, got {shown(record)}")
        return Trial(**{name: check(name, record[name]) for name, check in CHECKS.items() if name in record})

    def record(self) -> dict[str, Any]:
        """The trial as plain values, for JSON; whether it was stopped only if it was."""
        plain = {part.name: getattr(self, part.name) for part in fields(self)}
        if self.stopped is None:
            del plain[STOPPED]
        return plain | {"values": dict(self.values), "metrics": dict(self.metrics)}


def _values(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{name}: expected values by name, got {shown(value)}")
    return value


def _numbers(name: str, value: Any) -> dict[str, float]:
    return {str(key): number_check()(f"{name}[{key!r}]", found) for key, found in _values(name, value).items()}


CHECKS: Mapping[str, Check] = {
    "folder": text,
    "values": _values,
    "monitor": optional(text),
    "value": optional(number_check()),
    "epoch": optional(whole(1)),
    "seconds": optional(number_check(least=0)),
    "failed": optional(text),
    "metrics": _numbers,
    STOPPED: whole(1),
}


def trials_in(folder: str | Path) -> list[Trial]:
    """The finished trials of the search in a folder."""
    path = Path(folder) / TRIALS
    if not path.exists():
        return []
    try:
        return [Trial.from_record(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {path}: {error}; choose another folder") from error


def write_trials(folder: Path, trials: Iterable[Trial]) -> None:
    """Write the file of a search, one line for each trial."""
    lines = [json.dumps(trial.record(), ensure_ascii=False) for trial in trials]
    write_text(folder / TRIALS, "".join(line + "\n" for line in lines))


def measured_trial(name: str, values: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> Trial:
    """The trial with the result of its best epoch."""
    seconds = round(sum(line.get("seconds") or 0.0 for line in history), 3)
    best = next((line for line in reversed(history) if line.get("best")), None)
    if best is None:
        return Trial(
            name, values, seconds=seconds, failed="the validation metric was NaN in every epoch: lower lr, or set clip=1"
        )
    measured = {key: value for key, value in best["metrics"].items() if value is not None and math.isfinite(value)}
    return Trial(name, values, str(best["monitor"]), float(best["value"]), int(best["epoch"]), seconds, metrics=measured)


def best_of(trials: Iterable[Trial]) -> Trial | None:
    """The trial with the best value; of equals the first of those that the tie breakers of the monitor prefer."""
    best: Trial | None = None
    for trial in trials:
        if trial.value is not None and trial.monitor is not None:
            monitor = Monitor(trial.monitor, 1, None)
            if monitor.better(trial.metrics, None if best is None else best.metrics):
                best = trial
    return best
