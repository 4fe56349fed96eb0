"""Streams as files: their numbers as JSON, their arrays as tensors, in one safetensors file that is written whole."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.files import written_whole
from shortlist.sets.size_stream import SizeStream
from shortlist.sets.storage import rule_from_record
from shortlist.sets.stream_levels import Experts, Reference
from shortlist.sets.streams import CoverageStream, Pending, check_follows
from shortlist.words import shown

FORMAT = "shortlist-stream/1"
COUNTS = ("labelled", "missed", "delay", "forgotten", "rows")
RULE = "rule."  # before the names of the rule's tensors


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
    }
    _write(stream.rule, numbers, tensors, path)


def load_coverage(path: str | Path) -> CoverageStream:
    """The stream that was written."""
    with _damage_named(path):
        rule, numbers, tensors = _read(path, "coverage")
        check_follows(rule)
        stream = object.__new__(CoverageStream)
        stream.rule, stream._sign = rule, -1.0 if rule.ordering.descending else 1.0
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
        for row, (name, told) in enumerate(zip(numbers["ids"], numbers["told"], strict=True)):
            probs, inside = (tensors[f"waiting.{part}"][row].clone() for part in ("probs", "inside"))
            stream.waiting[name] = Pending(probs, inside, whole(0)("told", told))
        return stream


def save_size(stream: SizeStream, path: str | Path) -> None:
    """Write the stream."""
    numbers = {"kind": "size", "step": stream.step, "place": stream.place, "rows": stream.rows, "labels": stream.labels}
    _write(stream.rule, numbers, {}, path)


def load_size(path: str | Path) -> SizeStream:
    """The stream that was written."""
    with _damage_named(path):
        rule, numbers, _ = _read(path, "size")
        stream = SizeStream(rule, step=numbers["step"])
        stream.place = float(numbers["place"])
        stream.rows, stream.labels = whole(0)("rows", numbers["rows"]), whole(0)("labels", numbers["labels"])
        return stream


def _write(rule: Any, numbers: dict[str, Any], tensors: dict[str, Tensor], path: str | Path) -> None:
    own = {RULE + name: tensor.contiguous() for name, tensor in rule.state_dict().items()}
    header = {"format": FORMAT, "rule": json.dumps(rule.record(), allow_nan=False), "stream": json.dumps(numbers)}
    with written_whole(path) as temporary:
        try:
            save_file(own | tensors, temporary, metadata=header)
        except SafetensorError as error:  # a full disk, most likely
            raise InputError(f"cannot write {path}: {error}") from error


def _read(path: str | Path, kind: str) -> tuple[Any, Mapping[str, Any], dict[str, Tensor]]:
    """The rule, the numbers and the other tensors of a stream."""
    with safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if header.get("format") != FORMAT:
        raise InputError(f"expected a stream of the format {FORMAT}, got {shown(header.get('format'))}")
    numbers = json.loads(header["stream"])
    if numbers["kind"] != kind:
        raise InputError(f"expected a stream of {kind}, got one of {numbers['kind']}")
    own = {name.removeprefix(RULE): tensor for name, tensor in tensors.items() if name.startswith(RULE)}
    return rule_from_record(json.loads(header["rule"]), own), numbers, tensors


@contextmanager
def _damage_named(path: str | Path) -> Iterator[None]:
    """Around reading: any error becomes a sentence about the file."""
    try:
        yield
    except KeyError as error:
        raise InputError(f"cannot read a stream from {path}: the file is damaged, {error} is missing") from error
    except (InputError, SafetensorError, OSError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise InputError(f"cannot read a stream from {path}: {' '.join(str(error).split())}") from error
