"""Streams as files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.sets.rule import SetRule
from shortlist.sets.size_stream import SizeStream
from shortlist.sets.state_files import damage_named, read_state, write_state
from shortlist.sets.stream_levels import Experts, Reference
from shortlist.sets.streams import CoverageStream, Pending, check_follows

FORMAT = "shortlist-stream/1"
DTYPES = {"float16": torch.float16, "float32": torch.float32, "float64": torch.float64}
COUNTS = ("labelled", "missed", "delay", "forgotten", "rows")


def save_coverage(stream: CoverageStream, path: str | Path) -> None:
    """Write the stream."""
    waiting = list(stream.waiting.values())
    tensors = {"reference": torch.from_numpy(stream.reference.arrived)}
    if waiting:
        tensors["waiting.probs"] = torch.stack([row.probs for row in waiting])
        tensors["waiting.inside"] = torch.stack([row.inside for row in waiting])
    if stream.experts is not None:
        tensors["experts.levels"] = torch.from_numpy(stream.experts.levels)
        tensors["experts.weights"] = torch.from_numpy(stream.experts.weights)
    numbers = {
        "kind": "coverage",
        **{name: getattr(stream, name) for name in (*COUNTS, "classes", "step", "most_pending", "correction")},
        "window": stream.reference.window,
        "oldest": stream.reference.oldest,
        "experts": None if stream.experts is None else stream.experts.steps.tolist(),
        "ids": list(stream.waiting),
        "told": [row.labelled for row in waiting],
        "dtypes": [str(row.probs.dtype).removeprefix("torch.") for row in waiting],  # stacked, all have the widest
    }
    write_state(stream.rule, numbers, tensors, path, FORMAT)


def load_coverage(path: str | Path) -> CoverageStream:
    """The stream that was written."""
    with damage_named(path, "stream"):
        rule, numbers, tensors = _read(path, "coverage")
        check_follows(rule)
        stream = object.__new__(CoverageStream)
        stream.rule, stream._sign = rule, -1.0 if rule.ordering.descending else 1.0
        stream.ordering = rule.ordering.of_answers()
        for name in (*COUNTS, "classes", "most_pending"):
            setattr(stream, name, whole(0)(name, numbers[name]))
        stream.step, stream.correction = float(numbers["step"]), float(numbers["correction"])
        stream.reference = Reference(tensors["reference"].numpy(), numbers["window"])
        stream.reference.oldest = whole(0, len(stream.reference.arrived))("oldest", numbers["oldest"])
        stream.experts = None
        if numbers["experts"] is not None:
            stream.experts = Experts(stream.alpha, numbers["experts"])
            stream.experts.levels, stream.experts.weights = (
                tensors[f"experts.{name}"].numpy().copy() for name in ("levels", "weights")
            )
        stream.waiting = {}
        kinds = numbers.get("dtypes", [None] * len(numbers["ids"]))  # earlier files have none
        for row, (name, told, kind) in enumerate(zip(numbers["ids"], numbers["told"], kinds, strict=True)):
            probs, inside = (tensors[f"waiting.{part}"][row].clone() for part in ("probs", "inside"))
            stream.waiting[name] = Pending(probs.to(DTYPES[kind] if kind else probs.dtype), inside, whole(0)("told", told))
        return stream


def save_size(stream: SizeStream, path: str | Path) -> None:
    """Write the stream."""
    numbers = {"kind": "size", "step": stream.step, "place": stream.place, "rows": stream.rows, "labels": stream.labels}
    write_state(stream.rule, numbers, {}, path, FORMAT)


def load_size(path: str | Path) -> SizeStream:
    """The stream that was written."""
    with damage_named(path, "stream"):
        rule, numbers, _ = _read(path, "size")
        stream = SizeStream(rule, step=numbers["step"])
        stream.place = float(numbers["place"])
        stream.rows, stream.labels = whole(0)("rows", numbers["rows"]), whole(0)("labels", numbers["labels"])
        return stream


def _read(path: str | Path, kind: str) -> tuple[SetRule, Mapping[str, Any], dict[str, Tensor]]:
    rule, numbers, tensors = read_state(path, FORMAT)
    if numbers["kind"] != kind:
        raise InputError(f"expected a stream of {kind}, got one of {numbers['kind']}")
    return rule, numbers, tensors
