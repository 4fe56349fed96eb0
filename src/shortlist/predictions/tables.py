"""Predictions read from tables: Parquet for exchange, and what CSV files share with it.

Up to 1,000 classes have a column each, ``scores.NAME``; more share one column of lists. Labels are the names of classes where
these are names of columns, so that programs that move columns, or drop what the file says about itself, do not change their
meaning; otherwise class numbers. A multi-label target is a column of lists of them. A table is read in batches of rows, into
memory or, beyond 256 MB, into a temporary memory-mapped file, so it need not fit in memory.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import torch
from torch import Tensor

from shortlist.checks import check_distinct, whole
from shortlist.errors import InputError
from shortlist.predictions.arrays import names_of
from shortlist.predictions.checks import as_quality
from shortlist.predictions.header_records import header_of_record
from shortlist.predictions.numbered import Numbered
from shortlist.predictions.stored import QUALITY, VERSION, Keys, Stored
from shortlist.tensors import Array
from shortlist.words import counted, quoted

UNREADABLE = (pa.ArrowException,)
PREFIX = "scores."
MAPPED_ABOVE = 2**28
HEADER = b"shortlist"
MIDNIGHT = r"[ T]00:00:00(\.0+)?$"


def read_parquet(path: Path, keys: Keys) -> Stored:
    """A table that we wrote, or any other with scores in one list column or in one column per class."""
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        header = json.loads((file.schema_arrow.metadata or {}).get(HEADER, b"{}"))
        return read_table(file.schema_arrow, file.metadata.num_rows, header, keys, lambda names: _batches(file, names))


def foreign_names(path: Path) -> list[str]:
    """The names of the columns of a Parquet file of another program; none of one of ours, all of which are read."""
    schema = pq.read_schema(path)
    return [] if HEADER in (schema.metadata or {}) else list(schema.names)


def read_row_groups(file: pq.ParquetFile, groups: Sequence[int], *, scores: bool = True) -> Stored:
    """Some row groups of a table that we wrote; without their scores, if only the rest is wanted."""
    header = json.loads((file.schema_arrow.metadata or {}).get(HEADER, b"{}"))
    rows = sum(file.metadata.row_group(group).num_rows for group in groups)
    return read_table(file.schema_arrow, rows, header, Keys(), lambda names: _batches(file, names, groups), scores=scores)


def _batches(file: pq.ParquetFile, names: list[str], groups: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
    rows = max(1, 2**22 // max(1, file.metadata.num_columns))
    yield from file.iter_batches(batch_size=min(rows, 2**16), columns=names, row_groups=groups)


def _as_written(labels: pa.Array, classes: Sequence[str], no_label: str) -> list[str]:
    """The entries of a target as a CSV file holds them, so that ``no_label`` means the same there and in Parquet."""
    if pa.types.is_floating(labels.type):
        missing = no_label if no_label.casefold() == "nan" else ""
        return ["" if label is None else missing if label != label else str(label) for label in labels.to_pylist()]
    as_pandas_writes = no_label in ("True", "False")
    found: list[str] = (
        _names(labels, [*classes, no_label] if as_pandas_writes else [no_label, *classes]).fill_null("").to_pylist()
    )
    return found


def spelt(texts: pa.Array | pa.ChunkedArray, classes: Sequence[str]) -> Any:
    """Labels that are texts: the numbers that they spell, unless all of them are names of classes, or some no numbers."""
    if set(pc.unique(texts.drop_null()).to_pylist()) <= set(classes):
        return texts
    try:
        return pc.utf8_trim_whitespace(texts).cast(pa.float64())
    except pa.ArrowInvalid:
        return texts


def _score_columns(schema: pa.Schema, header: dict[str, Any], keys: Keys) -> list[str]:
    """The columns of the scores; in a file of ours in the order of its classes, wherever another program has put them."""
    ours = header.get("format") == VERSION
    if ours and keys.scores is None and "scores" not in schema.names:
        keys = replace(keys, scores=f"{PREFIX}*")
    found = keys.find_scores(schema.names)
    if not ours or _is_list(schema.field(found[0]).type):
        return found
    number = whole(0)("num_classes", header.get("num_classes", len(found)))
    classes = names_of(header["classes"], "classes") or [str(place) for place in range(min(number, len(found) + 1))]
    called = dict(zip(keys.class_names(found), found, strict=True))
    if sorted(called) != sorted(classes) or len(found) > len(called):
        missing, more = sorted(set(classes) - set(called)), sorted(set(called) - set(classes))
        wrong = f"none for {quoted(missing)}" if missing else f"some for {quoted(more)} too" if more else "several for one"
        raise InputError(f"scores: expected a column for each class that the file names ({quoted(classes, 4)}), got {wrong}")
    return [called[name] for name in classes]


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind))


def _plain_lists(column: pa.Array) -> pa.Array:
    """Lists in the usual layout; other columns as they are."""
    kind = column.type
    is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    return pa.array(column.to_pylist(), pa.list_(kind.value_type)) if is_view else column  # Arrow's cast fails on some


def is_text(kind: pa.DataType) -> bool:
    """Whether the column holds texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _column_keys(schema: pa.Schema, header: dict[str, Any], keys: Keys) -> dict[str, str]:
    """The columns of the table that are kept, by name."""
    return keys.find_columns(schema.names, names_of(header.get("columns", []), "columns") or ())


def read_table(schema: pa.Schema, rows: int, header: dict[str, Any], keys: Keys, read: Any, *, scores: bool = True) -> Stored:
    """The rows of a table.

    Args:
        schema: of all columns.
        rows: how many there are.
        header: what a file of ours says besides its rows.
        keys: the names of what is read.
        read: a function from names of columns to batches of these.
        scores: whether scores are read, or only what is known about the rows beside them.
    """
    found = _score_columns(schema, header, keys)
    target_key = keys.find_target(schema.names)
    ids_key = None if "id" in found and keys.ids is None else keys.find_ids(schema.names, "id")
    quality_key = None if keys.quality is None and QUALITY in found else keys.find_quality(schema.names)
    columns = _column_keys(schema, header, keys)
    names = [*(found if scores else ()), *(name for name in (target_key, ids_key, quality_key) if name)]
    names += [name for name in columns.values() if name not in names]
    check_distinct(name for name in schema.names if name in set(names))
    gathered = _Gathered(schema, rows, found, target_key, ids_key, quality_key, header, keys)
    for batch in read(names):
        gathered.add(batch)
    if names and gathered.filled != rows:  # Arrow leaves out a page whose header is damaged, which no checksum covers
        raise InputError(f"expected {rows:,} rows, got {gathered.filled:,}: the file is damaged")
    return gathered.stored()


class _Gathered:
    """The rows of a table, collected batch by batch into arrays of their final size."""

    def __init__(
        self,
        schema: pa.Schema,
        rows: int,
        found: list[str],
        target: str | None,
        ids: str | None,
        quality: str | None,
        header: dict[str, Any],
        keys: Keys,
    ):
        self.found, self.target_key, self.ids_key, self.header, self.keys = found, target, ids, header, keys
        self.quality_key = quality
        self.ours = header.get("format") == VERSION
        kind = schema.field(found[0]).type
        self.lists = _is_list(kind)
        kinds = [kind.value_type] if self.lists else [schema.field(name).type for name in found]
        wrong = next((n for n, k in enumerate(kinds) if not (pa.types.is_floating(k) or pa.types.is_integer(k))), None)
        if wrong is not None:
            raise InputError(f"expected numbers in {found[wrong]!r}, got {schema.field(found[wrong]).type}")
        floats = {np.dtype(k.to_pandas_dtype()) if pa.types.is_floating(k) else np.dtype(np.float64) for k in kinds}
        self.dtype = np.result_type(*floats)
        own = names_of(header["classes"], "classes") if self.ours else None if self.lists else keys.class_names(found)
        self.numbered = None if self.ours else Numbered.of(own or ())
        self.classes = keys.classes_of(own)
        self.rows, self.filled = rows, 0
        self.scores: Tensor | None = None
        self.target: Tensor | None = None
        self.ids: list[str] | None = [] if ids else None
        self.qualities: list[pa.Array] = []
        kept = _column_keys(schema, header, keys)
        self.columns: dict[str, tuple[str, pa.DataType, list[pa.Array]]]
        self.columns = {name: (key, schema.field(key).type, []) for name, key in kept.items()}
        self.present: list[Tensor] = []
        self.labels = 0  # filled in the target

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        here = slice(self.filled, self.filled + batch.num_rows)
        width = self.header.get("num_classes", 0)
        if self.found[0] in batch.schema.names:
            values = self._values(batch)
            width = values.shape[1]
            if self.scores is None:
                self.scores = room(self.rows, width, self.dtype)
            self.scores[here] = torch.from_numpy(values)
        if self.target_key:
            column = self._labels_of(batch.column(self.target_key))
            if len(column):
                self._add_target(column, slice(self.labels, self.labels + len(column)), width)
            self.labels += len(column)
        if self.ids is not None:
            self.ids.extend(map(_name, batch.column(self.ids_key).to_pylist()))
        if self.quality_key:
            self.qualities.append(batch.column(self.quality_key))
        for key, _, parts in self.columns.values():
            parts.append(batch.column(key))
        self.filled = here.stop

    def _quality(self) -> Tensor | None:
        if self.quality_key is None:
            return None
        column = pa.chunked_array(self.qualities, None if self.qualities else pa.float64())
        numeric = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
        values: Any = column.to_numpy() if numeric else [str(value) for value in column.to_pylist()]  # empty cells are NaN
        return as_quality(values, self.rows) if self.ours else self.keys.check_quality(values, self.rows)

    def _values(self, batch: pa.RecordBatch) -> Array:
        if not self.lists:
            columns = [_without_nulls(batch.column(name), name) for name in self.found]
            return np.stack([column.to_numpy(zero_copy_only=False).astype(self.dtype) for column in columns], axis=1)
        column = _without_nulls(batch.column(self.found[0]), self.found[0])
        flat = column.flatten().to_numpy(zero_copy_only=False)
        if flat.size % batch.num_rows or any(length != flat.size // batch.num_rows for length in _lengths(column)):
            raise InputError(f"expected lists of one length in {self.found[0]!r}")
        return np.array(flat.reshape(batch.num_rows, -1), self.dtype)

    def _labels_of(self, column: pa.Array) -> pa.Array:
        """The entries of the target that are labels."""
        column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else _plain_lists(column)
        if self.keys.no_label is not None:
            if pa.types.is_nested(column.type):
                raise InputError("no_label: expected a target with one entry per row, got lists")
            classes = self.classes or ()
            present = self.keys.present(_as_written(column, classes, self.keys.no_label), classes)
            assert present is not None
            self.present.append(present)
            column = column.filter(pa.array(present.numpy()))
            if is_text(column.type) and self.numbered is None:
                column = spelt(column.cast(pa.string()), classes)
        return _without_nulls(column, self.target_key or "target")

    def _add_target(self, column: pa.Array, here: slice, classes: int) -> None:
        column = self._numbers(column)
        if pa.types.is_integer(column.type):
            if self.target is None:
                self.target = torch.empty(self.rows, dtype=torch.int64)
            self.target[here] = torch.from_numpy(column.to_numpy(zero_copy_only=False).astype(np.int64))
        elif pa.types.is_list(column.type) and pa.types.is_integer(column.type.value_type):
            if self.target is None:
                self.target = room(self.rows, classes, np.dtype(bool))
            row = torch.from_numpy(np.repeat(np.arange(here.start, here.stop), _lengths(column)))
            label = torch.from_numpy(column.flatten().to_numpy(zero_copy_only=False).astype(np.int64))
            if len(label) and not 0 <= int(label.min()) <= int(label.max()) < classes:
                raise InputError(f"target: expected labels from 0 to {classes - 1}, got {label.min()} to {label.max()}")
            self.target[row, label] = True
            if int(self.target[here].sum()) < len(label):
                raise InputError(
                    "target: expected lists of different class numbers, got one with a number twice: zeros and ones are read "
                    "from an array (N, C) of a .npz or .safetensors file"
                )
        else:
            raise InputError(f"expected class numbers, lists of them or class names in the target, got {column.type}")

    def _numbers(self, labels: pa.Array) -> pa.Array:
        """Class numbers, or lists of them, of labels in any form that a table can hold."""
        kind = labels.type
        if _is_list(kind):
            empty = pa.types.is_null(kind.value_type)  # so pandas writes lists that are all empty
            labels = labels.cast(pa.list_(pa.int64() if empty else kind.value_type))
            if missing := labels.flatten().null_count:
                nulls = counted(missing, "null")
                raise InputError(f"target: expected lists of labels without nulls, got {nulls}: a row without a label is []")
            return pa.ListArray.from_arrays(labels.offsets, self._numbers(labels.values))
        if pa.types.is_dictionary(kind):
            return self._numbers(labels.dictionary_decode())
        if pa.types.is_floating(kind):
            labels = _whole(labels)
        if self.numbered is not None:
            return self.numbered.places_of(labels)
        if pa.types.is_integer(labels.type):
            return _whole(labels)
        if self.classes is None:
            raise InputError(
                f"target: expected class numbers, got {kind}, and the file does not list the classes: name them with classes"
            )
        return Numbered(self.classes).places_of(_names(labels, self.classes))

    def stored(self) -> Stored:
        header, ours = self.header, self.ours
        width = whole(0)("num_classes", header.get("num_classes", 0 if self.lists else len(self.found)))
        scores = room(0, width, self.dtype) if self.scores is None else self.scores
        target = self.target[: self.labels] if self.present and self.target is not None else self.target
        if target is None and self.target_key:
            multi = header.get("multi_label", False)
            target = torch.empty((0, width), dtype=torch.bool) if multi else torch.empty(0, dtype=torch.int64)
        told = header_of_record(header)
        return Stored(
            scores=scores,
            target=target,
            classes=self.classes,
            superclasses=told.superclasses,
            ids=self.ids if ours or self.ids is None else self.keys.check_ids(self.ids),
            train_counts=told.train_counts,
            quality=self._quality(),
            columns={name: _entries(name, kind, parts) for name, (_, kind, parts) in self.columns.items()},
            labelled=torch.cat(self.present) if self.present else None,
            link=told.link,
            network_digest=told.network_digest,
            link_tensors=told.link_tensors,
        )


def _entries(name: str, kind: pa.DataType, parts: list[pa.Array]) -> Any:
    """The entries of a column, whole numbers exactly, even where some are missing."""
    column = pa.chunked_array(parts, kind)
    column = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    numeric = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    if numeric and not (pa.types.is_integer(column.type) and column.null_count):
        return column.to_numpy()
    try:
        values: Any = column.to_pylist()
    except OverflowError:
        raise InputError(f"{name}: expected dates of the years 1 to 9999, got others: write them as texts") from None
    return values or np.empty(0, str)


def _names(labels: pa.Array, classes: Sequence[str]) -> pa.Array:
    """Labels as texts: truth values and dates too, in the spelling of the classes, of which later ones take precedence."""
    kind = labels.type
    if pa.types.is_boolean(kind):
        spelt = {name.casefold(): name for name in classes if name.casefold() in ("true", "false")}
        return pc.if_else(labels, spelt.get("true", "true"), spelt.get("false", "false"))
    try:
        texts = labels.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(f"target: expected class numbers, lists of them or class names, got {kind}") from None
    if pa.types.is_timestamp(kind) and not pc.all(pc.is_in(texts, value_set=pa.array(classes, pa.string()))).as_py():
        texts = pc.replace_substring_regex(texts, MIDNIGHT, "")
    return texts


def _whole(labels: pa.Array) -> pa.Array:
    """Numbers without nulls as int64; an error names the first that is no whole number, or too large for one."""
    try:
        return labels.cast(pa.int64())
    except pa.ArrowInvalid:
        exact = 2.0**53  # up to which floating point holds every whole number
        fits = [one < 2**63 if isinstance(one, int) else one.is_integer() and abs(one) <= exact for one in labels.to_pylist()]
        wrong = labels[fits.index(False)]
        raise InputError(f"target: expected class numbers, lists of them or class names, got {wrong}") from None


def _name(value: Any) -> str:
    """The name of a row; empty for an empty cell."""
    return "" if value is None or value != value else value.decode() if isinstance(value, bytes) else str(value)


def room(rows: int, columns: int, dtype: np.dtype[Any]) -> Tensor:
    """Space for a matrix: memory, or a mapped temporary file that disappears with its last reference."""
    size = rows * columns * dtype.itemsize
    if size < MAPPED_ABOVE:
        return torch.from_numpy(np.zeros((rows, columns), dtype))
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        return torch.from_numpy(np.memmap(file, dtype, "r+", 0, (rows, columns)))


def _without_nulls(column: pa.Array, name: str) -> pa.Array:
    if column.null_count:
        raise InputError(f"expected a value in every row of {name!r}, got {column.null_count} empty ones")
    return column


def _lengths(column: pa.Array) -> Sequence[int] | Array:
    lengths: Array = column.value_lengths().to_numpy(zero_copy_only=False)
    return lengths
