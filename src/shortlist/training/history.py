"""The history of a training: one dictionary per epoch, in memory, in checkpoints and in metrics.jsonl."""

from collections.abc import Callable, Mapping
from typing import Any

from shortlist.checks import flag, optional, text, whole
from shortlist.errors import InputError
from shortlist.links import Link, Quasibinary
from shortlist.words import shown


def number_or_nan(name: str, value: Any) -> float:
    """A number; NaN and infinities are allowed, since a measured value may be one.

    >>> number_or_nan("loss", 2.5)
    2.5
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{name}: expected a number, got {shown(value)}")
    return value


def _metrics(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{name}: expected numbers by name, got {shown(value)}")
    for metric, found in value.items():
        optional(number_or_nan)(f"{name}, {metric}", found)
    return value


# JSON has null for NaN.
ENTRIES: Mapping[str, Callable[[str, Any], Any]] = {
    "epoch": whole(1),
    "step": whole(0, 2**53),
    "loss": optional(number_or_nan),
    "lr": optional(number_or_nan),
    "log_normalizer": optional(number_or_nan),
    "seconds": optional(number_or_nan),
    "rows_per_second": optional(number_or_nan),
    "monitor": optional(text),
    "value": optional(number_or_nan),
    "best": flag,
    "metrics": _metrics,
}


def normalizer_entry(link: Link | None) -> dict[str, float]:
    """The entry of an epoch for the normaliser C of a quasibinary link, as log C; empty for other links.

    >>> normalizer_entry(None)
    {}
    """
    if not isinstance(link, Quasibinary) or link.log_normalizer is None:
        return {}
    return {"log_normalizer": float(link.log_normalizer)}


def checked_history(found: Any) -> list[dict[str, Any]]:
    """The history that was read from a file; an error names the entry that cannot be one.

    >>> checked_history([{"epoch": 1, "loss": None}])
    [{'epoch': 1, 'loss': None}]
    """
    if not isinstance(found, list):
        raise InputError(f"history: expected a list of epochs, got {shown(found)}")
    for place, line in enumerate(found, 1):
        if not isinstance(line, dict):
            raise InputError(f"history, entry {place}: expected a dictionary, got {shown(line)}")
        for name, check in ENTRIES.items():
            if name in line:
                check(f"history, entry {place}, {name}", line[name])
    return found
