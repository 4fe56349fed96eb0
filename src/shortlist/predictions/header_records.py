"""What is known about the columns of predictions as JSON: in the schema of a Parquet file, and in the manifest of a folder."""

from typing import Any

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.predictions.array_sinks import DTYPES
from shortlist.predictions.arrays import names_of
from shortlist.predictions.stored import VERSION, Header, RowKind
from shortlist.words import shown


def header_record(header: Header, kind: RowKind) -> dict[str, Any]:
    """Everything that is not a row, as JSON holds it."""
    told = {
        "format": VERSION,
        "classes": None if header.classes is None else list(header.classes),
        "link": header.link,
        "link_tensors": {name: _to_json(tensor) for name, tensor in header.link_tensors.items()},
        "train_counts": None if header.train_counts is None else _to_json(header.train_counts),
        "multi_label": kind.multi_label,
        "num_classes": kind.classes,
    }
    if header.superclasses is not None:
        told["superclasses"] = list(header.superclasses)
    if header.network_digest is not None:
        told["network_digest"] = header.network_digest
    if kind.columns:
        told["columns"] = [name for name, _ in kind.columns]
    return told


def header_of_record(record: dict[str, Any]) -> Header:
    """The header that :func:`header_record` wrote."""
    counts = record.get("train_counts")
    return Header(
        classes=names_of(record.get("classes"), "classes"),
        superclasses=names_of(record.get("superclasses"), "superclasses"),
        train_counts=None if counts is None else _from_json(counts, "train_counts"),
        link=record.get("link"),
        link_tensors={name: _from_json(value, name) for name, value in record.get("link_tensors", {}).items()},
        network_digest=record.get("network_digest"),
    )


def _to_json(tensor: Tensor) -> dict[str, Any]:
    tensor = tensor.detach().cpu()
    return {"dtype": str(tensor.dtype).removeprefix("torch."), "values": tensor.tolist()}


def _from_json(value: Any, name: str) -> Tensor:
    known = {str(dtype).removeprefix("torch."): dtype for dtype in DTYPES}
    if not isinstance(value, dict) or value.get("dtype") not in known or "values" not in value:
        raise InputError(f"{name}: expected a dtype and values, got {shown(value)}")
    return torch.tensor(value["values"], dtype=known[value["dtype"]])
