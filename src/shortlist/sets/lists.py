"""Sets as lists of labels with their probabilities, most probable first, for people and other programs."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import torch
from torch import Tensor

from shortlist.checks import check_rows, check_values
from shortlist.class_names import check_same_names, class_list, labels_by_name, names_in_order
from shortlist.csv_files import csv_writer
from shortlist.errors import InputError
from shortlist.files import written_whole
from shortlist.predictions import Predictions
from shortlist.row_names import check_row_names
from shortlist.row_order import count_rows
from shortlist.sets.batches import as_probs
from shortlist.sets.hierarchy import superclass_numbers
from shortlist.sets.p_values import PValuesInBlocks
from shortlist.sets.rule import SetRule
from shortlist.tensors import Probs, Sets, Target, as_target, as_tensor, is_single_label

SEPARATOR = "|"  # between the labels of a cell
P_VALUE = "p_value_"  # before the name of a label


@dataclass(frozen=True)
class LabelList:
    """The set of one row as a list.

    Args:
        id: of the row.
        labels: names, most probable first.
        probs: their probabilities.
        target: the true labels, if they are known.
        called: ``"scores"`` if there is no link to make them probabilities.
        superclass: the superclass whose classes the set consists of, if these are several.
        refused: whether a gate refused the row.
        p_values: that of every label by its name, in the order of the classes, if they were asked for.
    """

    id: str
    labels: list[str]
    probs: list[float]
    target: list[str] | None = None
    called: str = "probs"
    superclass: str | None = None
    refused: bool = False
    p_values: dict[str, float] | None = None

    def record(self) -> dict[str, Any]:
        """The fields as plain values; the last four only if there is something to say."""
        fields: dict[str, Any] = {"id": self.id, "labels": self.labels, self.called: self.probs}
        more: dict[str, Any] = {"target": self.target, "superclass": self.superclass, "refused": self.refused or None}
        more |= {"p_values": self.p_values}
        return fields | {name: value for name, value in more.items() if value is not None}

    def cells(self) -> dict[str, Any]:
        """The same as the cells of a table, with a column for the p-value of each label."""
        fields = self.record()
        return fields | {f"{P_VALUE}{name}": value for name, value in fields.pop("p_values", {}).items()}

    def text(self) -> str:
        """The set in a line: the superclass that it is, or its labels with their probabilities.

        >>> LabelList("leaf", ["holm oak", "cork oak"], [0.5, 0.25], superclass="oak").text()
        'any oak (2 labels) 0.750'
        """
        if self.refused:
            return "refused"
        if self.superclass is not None:
            return f"any {self.superclass} ({len(self.labels)} labels) {sum(self.probs):.3f}"
        return ", ".join(f"{name} {value:.3f}" for name, value in zip(self.labels, self.probs, strict=True)) or "–"


def label_lists(
    sets: Sets, probs: Probs, classes: Sequence[str], ids: Sequence[str], target: Target | None = None, called: str = "probs"
) -> list[LabelList]:
    """One list for each row, by decreasing probability, ties by lower index.

    >>> sets, probs = torch.tensor([[True, False, True]]), torch.tensor([[0.25, 0.125, 0.625]])
    >>> label_lists(sets, probs, ["ash", "birch", "elm"], ["leaf"])[0].labels
    ['elm', 'ash']
    """
    classes, ids = class_list(classes), names_in_order("ids", ids)
    for name, given in (("sets", sets), ("probs", probs), ("target", target)):
        check_row_names(ids, given, name)
    target = labels_by_name(target, None, classes)
    for name, given in (("sets", sets), ("probs", probs), ("target", target)):
        check_same_names(None, given, classes, name)
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


def lists_of(predictions: Predictions, rule: SetRule, *, p_values: bool = False) -> Iterator[tuple[Sets, list[LabelList]]]:
    """The sets and lists of predictions, a block of rows at a time.

    Args:
        predictions: the rows.
        rule: fitted, or one that needs no fit.
        p_values: whether lists hold the p-values of all labels, of a rule that kept the values of its calibration rows.
    """
    rule.check_reads(predictions)
    rule.check_origin(predictions)
    sets_of, describe = rule.in_blocks(), Describer(rule, predictions.superclasses)
    values_of = PValuesInBlocks(rule) if p_values else None
    for block in predictions.blocks():
        probs = block.plausibility()
        sets = sets_of(probs, block.scores, block.quality, rule.groups_in(block))
        called = "probs" if block.link is not None else "scores"
        lists = _lists(sets, probs, block.class_names, block.ids or (), block.target, called)
        if values_of is not None:
            rows = values_of(as_probs(probs), block.scores, rule.groups_in(block)).tolist()
            named = (dict(zip(block.class_names, row, strict=True)) for row in rows)
            lists = [replace(one, p_values=values) for one, values in zip(lists, named, strict=True)]
        yield sets, describe(lists, sets, probs, block.quality)


class Describer:
    """Adds to lists what a reader of the bare set cannot know: that a gate refused the row, that the set is a superclass.

    Args:
        rule: that gave the sets.
        superclasses: the name of the superclass of each class, if there are any.

    Attributes:
        columns: the fields that lists of this rule may have.
    """

    def __init__(self, rule: SetRule, superclasses: Sequence[str] | None):
        self.gate, self.names = rule.gate, superclasses
        self.columns = [
            *(["superclass"] if superclasses is not None else []),
            *(["refused"] if rule.gate is not None else []),
        ]

    def __call__(self, lists: list[LabelList], sets: Sets, probs: Probs, quality: Tensor | None = None) -> list[LabelList]:
        """The lists of these sets with their descriptions."""
        if self.names is not None:
            groups = superclass_numbers(self.names)
            whole = _whole_groups(sets.cpu(), groups).tolist()
            named = dict(zip(groups.tolist(), self.names, strict=True))
            lists = [
                one if group < 0 else replace(one, superclass=named[group]) for one, group in zip(lists, whole, strict=True)
            ]
        if self.gate is not None:
            # Never of a row that has a set: it may have been answered on a device that rounds in another way.
            refused = ~(self.gate.accepts(probs, quality) | sets.any(1))
            lists = [replace(one, refused=True) if no else one for one, no in zip(lists, refused.tolist(), strict=True)]
        return lists


def _whole_groups(sets: Sets, groups: Tensor) -> Tensor:
    """The group of several classes that each set consists of, all of them and no others; -1 if there is none."""
    rows, labels = sets.nonzero(as_tuple=True)
    own = groups[labels]
    size = torch.bincount(groups)
    highest = torch.full((len(sets),), -1).scatter_reduce(0, rows, own, "amax")
    lowest = torch.full((len(sets),), len(groups)).scatter_reduce(0, rows, own, "amin")
    expected = size[highest.clamp(min=0)]
    fits = (lowest == highest) & (count_rows(sets) == expected) & (expected > 1)
    return torch.where(fits, highest, -1)


def check_list_path(path: Path) -> None:
    """Raise an error unless the suffix names a format for lists."""
    if path.suffix not in (".parquet", ".jsonl", ".csv"):
        raise InputError(f"cannot write sets to {path}: expected a name that ends in .parquet, .jsonl or .csv")


@contextmanager
def list_writer(
    path: str | Path, called: str = "probs", columns: Sequence[str] = ()
) -> Iterator[Callable[[Iterable[LabelList]], None]]:
    """A function that appends lists to a ``.parquet``, ``.jsonl`` or ``.csv`` file, which appears once all are written.

    In CSV, labels and probabilities are separated by ``|``, as in the sets of people that a report reads.

    Args:
        path: of the file.
        called: what the probabilities are called.
        columns: the further columns of a table, see :attr:`Describer.columns`; and those of p-values.
    """
    path = Path(path)
    check_list_path(path)
    with written_whole(path) as temporary:
        if path.suffix == ".jsonl":
            with temporary.open("w", encoding="utf-8") as file:
                yield lambda lists: file.writelines(json.dumps(row.record(), ensure_ascii=False) + "\n" for row in lists)
        elif path.suffix == ".csv":
            with temporary.open("w", encoding="utf-8", newline="") as file:
                yield _csv_writer(file, path, called, columns)
        else:
            with _parquet_writer(temporary, called, columns) as write:
                yield write


def _csv_writer(file: TextIO, path: Path, called: str, columns: Sequence[str]) -> Callable[[Iterable[LabelList]], None]:
    names = ["id", "labels", called, "target", *columns]
    writer = csv_writer(file)
    writer.writerow(names)

    def write(lists: Iterable[LabelList]) -> None:
        for row in lists:
            record = row.cells()
            for label in [*row.labels, *(row.target or ())]:
                if SEPARATOR in label:
                    raise InputError(
                        f"cannot write sets to {path}: the class {label!r} contains {SEPARATOR}, which separates labels there: "
                        "write .jsonl or .parquet"
                    )
            writer.writerow([_cell(record.get(name)) for name in names])

    return write


def _cell(value: Any) -> Any:
    return SEPARATOR.join(map(str, value)) if isinstance(value, list) else value


@contextmanager
def _parquet_writer(path: Path, called: str, columns: Sequence[str]) -> Iterator[Callable[[Iterable[LabelList]], None]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = pa.list_(pa.string())
    kinds = {"superclass": pa.string(), "refused": pa.bool_()}
    fields = {"id": pa.string(), "labels": names, called: pa.list_(pa.float64()), "target": names}
    schema = pa.schema(fields | {name: kinds.get(name, pa.float64()) for name in columns})
    with pq.ParquetWriter(path, schema, write_page_checksum=True) as writer:
        yield lambda lists: writer.write_table(pa.Table.from_pylist([row.cells() for row in lists], schema))
