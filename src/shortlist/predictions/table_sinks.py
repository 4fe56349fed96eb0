"""Predictions written as a table, a block of rows at a time: Parquet."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from shortlist.predictions.columns import joined
from shortlist.predictions.header_records import header_record
from shortlist.predictions.record import Predictions
from shortlist.predictions.stored import QUALITY, Header, RowKind, Sink
from shortlist.predictions.tables import HEADER, PREFIX
from shortlist.tensors import BLOCK_ENTRIES, is_single_label

COLUMN_PER_CLASS = 1000
SCORES = "scores"  # the column of lists, beyond that


class ParquetSink(Sink):
    """A row group for each block of rows; everything that is not a row is JSON in the schema."""

    def __init__(self, path: Path, header: Header, kind: RowKind):
        self._names = list(header.classes or [str(label) for label in range(kind.classes)])
        self._labels = self._names if header.classes and kind.classes <= COLUMN_PER_CLASS else None
        self._kind = kind
        self._waiting: list[pa.Table] = []
        schema = self._table(self._no_rows()).schema
        self._schema = schema.with_metadata({HEADER: json.dumps(header_record(header, kind)).encode()})
        # Scores hardly repeat: a dictionary makes files larger and several times slower, and nobody asks for their range.
        others = [leaf for name in schema.names if not is_score(name) for leaf in (name, f"{name}.list.element")]
        # With a checksum of each page, a bit that flips on the disk is an error when the page is read, not another number.
        options: dict[str, Any] = {"use_dictionary": others, "write_statistics": others, "write_page_checksum": True}
        self._writer = pq.ParquetWriter(path, self._schema, **options)
        self._group = max(1, BLOCK_ENTRIES // max(1, kind.classes))  # rows

    def _no_rows(self) -> Predictions:
        kind, target = self._kind, None
        if kind.target is not None:
            target = torch.empty((0, kind.classes) if kind.multi_label else 0, dtype=kind.target)
        scores = torch.empty((0, kind.classes), dtype=kind.scores)
        columns = {name: joined([], what) for name, what in kind.columns}
        ids, quality = () if kind.ids else None, () if kind.quality else None
        return Predictions(scores, target, ids=ids, quality=quality, columns=columns)

    def _append(self, rows: Predictions) -> None:
        """Small blocks wait until they make a row group."""
        self._waiting.append(self._table(rows).cast(self._schema))
        if sum(table.num_rows for table in self._waiting) >= self._group:
            self._write()

    def finish(self) -> None:
        """Write the last row group and the footer."""
        if self._waiting:
            self._write()
        self._writer.close()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()

    def _write(self) -> None:
        self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=self._group)
        self._waiting = []

    def _table(self, rows: Predictions) -> pa.Table:
        scores = rows.scores.detach().cpu().contiguous()
        columns: dict[str, Any] = {}
        if self._kind.ids and rows.ids is not None:
            columns["id"] = pa.array(rows.ids, pa.string())
        if rows.target is not None:
            columns["target"] = _target_column(rows.target.detach().cpu(), self._labels)
        if rows.quality is not None:
            columns[QUALITY] = pa.array(rows.quality.cpu().numpy())
        columns |= {name: pa.array(column) for name, column in rows.columns.items()}
        if scores.shape[1] <= COLUMN_PER_CLASS:
            by_class = np.ascontiguousarray(scores.numpy().T)
            columns |= {PREFIX + name: pa.array(values) for name, values in zip(self._names, by_class, strict=True)}
        else:
            columns[SCORES] = pa.FixedSizeListArray.from_arrays(pa.array(scores.numpy().reshape(-1)), scores.shape[1])
        return pa.table(columns)


def is_score(name: str) -> bool:
    """Whether a column of a table that we write holds scores."""
    return name == SCORES or name.startswith(PREFIX)


def _target_column(target: Tensor, names: Sequence[str] | None) -> pa.Array:
    """A label, or a list of labels, for each row: names, or numbers where there are none."""
    if is_single_label(target):
        return _labels(target, names)
    offsets = np.zeros(len(target) + 1, np.int32)
    np.cumsum(target.sum(1).numpy(), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), _labels(target.nonzero()[:, 1].int(), names))


def _labels(places: Tensor, names: Sequence[str] | None) -> pa.Array:
    if names is None:
        return pa.array(places.numpy())
    return pa.DictionaryArray.from_arrays(pa.array(places.int().numpy()), pa.array(names, pa.string())).cast(pa.string())
