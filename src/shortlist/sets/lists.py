"""Sets as lists of labels with their probabilities, most probable first, for people and other programs."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from shortlist.checks import check_rows, check_values
from shortlist.errors import InputError
from shortlist.files import written_whole
from shortlist.predictions import Predictions
from shortlist.selection import count_rows
from shortlist.sets.rule import SetRule
from shortlist.tensors import Probs, Sets, Target, as_target, as_tensor, is_single_label


@dataclass(frozen=True)
class LabelList:
    """The set of one row as a list: labels with their probabilities, and the true labels if they are known."""

    id: str
    labels: list[str]
    probs: list[float]
    target: list[str] | None = None
    called: str = "probs"  # "scores" if there is no link to make them probabilities

    def record(self) -> dict[str, Any]:
        """The fields as plain values; the target only if it is known."""
        fields: dict[str, Any] = {"id": self.id, "labels": self.labels, self.called: self.probs}
        return fields if self.target is None else fields | {"target": self.target}


def label_lists(
    sets: Sets, probs: Probs, classes: Sequence[str], ids: Sequence[str], target: Target | None = None, called: str = "probs"
) -> list[LabelList]:
    """One list for each row, by decreasing probability, ties by lower index.

    >>> sets, probs = torch.tensor([[True, False, True]]), torch.tensor([[0.25, 0.125, 0.625]])
    >>> label_lists(sets, probs, ["ash", "birch", "elm"], ["leaf"])[0].labels
    ['elm', 'ash']
    """
    sets, probs = as_tensor(sets, "sets"), as_tensor(probs)
    target = None if target is None else as_target(target)
    check_rows(sets, target, kind="sets")
    if probs.shape != sets.shape or len(ids) != len(sets) or len(classes) != sets.shape[1]:
        raise InputError(
            f"expected probs {tuple(sets.shape)} like sets, {len(sets)} ids and {sets.shape[1]} classes; "
            f"got probs {tuple(probs.shape)}, {len(ids)} ids and {len(classes)} classes"
        )
    check_values(probs, "scores")
    return _lists(sets, probs, classes, ids, target, called)


def _lists(
    sets: Sets, probs: Probs, classes: Sequence[str], ids: Sequence[str], target: Target | None, called: str
) -> list[LabelList]:
    rows, labels = sets.nonzero(as_tuple=True)
    values = probs[rows, labels]
    order = torch.argsort(values, descending=True, stable=True)
    order = order[torch.argsort(rows[order], stable=True)]
    sizes = count_rows(sets).tolist()
    names = [classes[label] for label in labels[order].tolist()]
    numbers = values[order].tolist()
    truths = [None] * len(sets) if target is None else _truths(target, classes)
    found, start = [], 0
    for name, size, truth in zip(ids, sizes, truths, strict=True):
        found.append(LabelList(name, names[start : start + size], numbers[start : start + size], truth, called))
        start += size
    return found


def _truths(target: Target, classes: Sequence[str]) -> list[list[str]]:
    if is_single_label(target):
        return [[classes[label]] for label in target.tolist()]
    return [[classes[label] for label in row.nonzero().flatten().tolist()] for row in target]


def lists_of(predictions: Predictions, rule: SetRule) -> Iterator[tuple[Sets, list[LabelList]]]:
    """The sets and lists of predictions, a block of rows at a time."""
    rule.check_reads(predictions)
    rule.check_origin(predictions)
    sets_of = rule.in_blocks()
    for block in predictions.blocks():
        probs = block.plausibility()
        sets = sets_of(probs, block.scores)
        called = "probs" if block.link is not None else "scores"
        yield sets, _lists(sets, probs, block.class_names, block.ids or (), block.target, called)


def check_list_path(path: Path) -> None:
    """Raise an error unless the suffix names a format for lists."""
    if path.suffix not in (".parquet", ".jsonl"):
        raise InputError(f"cannot write sets to {path}: expected a name that ends in .parquet or .jsonl")


@contextmanager
def list_writer(path: str | Path, called: str = "probs") -> Iterator[Callable[[Iterable[LabelList]], None]]:
    """A function that appends lists to a ``.parquet`` or ``.jsonl`` file, which appears once all are written."""
    path = Path(path)
    check_list_path(path)
    with written_whole(path) as temporary:
        if path.suffix == ".jsonl":
            with temporary.open("w", encoding="utf-8") as file:
                yield lambda lists: file.writelines(json.dumps(row.record(), ensure_ascii=False) + "\n" for row in lists)
        else:
            with _parquet_writer(temporary, called) as write:
                yield write


@contextmanager
def _parquet_writer(path: Path, called: str) -> Iterator[Callable[[Iterable[LabelList]], None]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = pa.list_(pa.string())
    schema = pa.schema({"id": pa.string(), "labels": names, called: pa.list_(pa.float64()), "target": names})
    with pq.ParquetWriter(path, schema) as writer:
        yield lambda lists: writer.write_table(pa.Table.from_pylist([row.record() for row in lists], schema))
