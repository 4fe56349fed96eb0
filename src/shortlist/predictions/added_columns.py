"""A copy of a file of scores with further columns of numbers: whatever else another program wrote stays as it is."""

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import safe_open
from safetensors.numpy import save_file

from shortlist.csv_files import csv_decimal_point, csv_delimiter, csv_first_row, csv_header
from shortlist.errors import InputError
from shortlist.files import order_header, written_whole
from shortlist.predictions.columns import check_column_name
from shortlist.predictions.record import Predictions
from shortlist.predictions.storage import check_suffix
from shortlist.predictions.stored import VERSION
from shortlist.predictions.tables import HEADER
from shortlist.tensors import Array

OF_CLASSES = ("classes", "superclasses", "train_counts")  # arrays without an entry for each row


def check_copy(path: Path, out: Path) -> None:
    """Raise an error unless a copy of this file with further columns can have this name."""
    if _is_foreign(path) and out.suffix.lower() != path.suffix.lower():
        raise InputError(
            f"expected a name that ends in {path.suffix} as that of {path} does, whose other columns are kept as they are, "
            f"got {out}"
        )
    if not _is_foreign(path):
        check_suffix(out)


def copy_with_columns(
    path: Path, out: Path, predictions: Predictions, columns: Mapping[str, Array], rows: Array | None = None
) -> None:
    """Write a copy of a file with these columns; one of the same name is replaced.

    Args:
        path: of the file.
        out: of the copy, see :func:`check_copy`.
        predictions: what was read of the file.
        columns: one number for each row of the copy, by name.
        rows: the numbers of the rows to copy, in increasing order; None (the default) copies all.
    """
    for name in columns:
        check_column_name(name)
    index = np.arange(len(predictions)) if rows is None else rows
    if not _is_foreign(path):
        predictions.rows(index).with_columns(dict(columns)).save(out)
        return
    with written_whole(out) as temporary:
        WRITERS[path.suffix.lower()](path, temporary, columns, index, len(predictions))


def _is_foreign(path: Path) -> bool:
    """Whether another program wrote this file, and its form can be kept."""
    suffix = path.suffix.lower()
    if path.is_dir() or suffix not in WRITERS:
        return False
    if suffix == ".parquet":
        return HEADER not in (pq.read_schema(path).metadata or {})
    if suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return "format" not in file or str(file["format"]) != VERSION
    if suffix == ".safetensors":
        with safe_open(path, framework="np") as file:
            return (file.metadata() or {}).get("format") != VERSION
    return True


def _csv(path: Path, out: Path, columns: Mapping[str, Array], index: Array, total: int) -> None:
    """Cells as they were written; numbers with the decimal point of the others."""
    delimiter = csv_delimiter(csv_header(path), row=csv_first_row(path))
    point = csv_decimal_point(path, delimiter)
    added = [[_cell(value, point) for value in column.tolist()] for column in columns.values()]
    place_of = {row: place for place, row in enumerate(index.tolist())}
    with path.open(encoding="utf-8-sig", newline="") as source, out.open("w", encoding="utf-8", newline="") as target:
        lines, writer = (
            filter(None, csv.reader(source, delimiter=delimiter)),
            csv.writer(target, delimiter=delimiter, lineterminator="\n"),
        )
        names = next(lines)
        kept = [place for place, name in enumerate(names) if name.strip() not in columns]
        writer.writerow([*(names[place] for place in kept), *columns])
        for row, cells in enumerate(lines):
            if row in place_of:
                writer.writerow([*(cells[place] for place in kept), *(column[place_of[row]] for column in added)])


def _cell(value: float, point: str) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value)).replace(".", point)


def _parquet(path: Path, out: Path, columns: Mapping[str, Array], index: Array, total: int) -> None:
    table = pq.read_table(path)
    table = table.drop_columns([name for name in columns if name in table.column_names]).take(pa.array(index))
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    pq.write_table(table, out)


def _npz(path: Path, out: Path, columns: Mapping[str, Array], index: Array, total: int) -> None:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: _rows_of(name, file[name], index, total) for name in file}
    with out.open("wb") as target:
        np.savez(target, **arrays | dict(columns))  # type: ignore[arg-type]


def _safetensors(path: Path, out: Path, columns: Mapping[str, Array], index: Array, total: int) -> None:
    with safe_open(path, framework="np") as file:
        arrays = {name: _rows_of(name, file.get_tensor(name), index, total) for name in file.keys()}  # noqa: SIM118
        told = file.metadata()
    save_file({name: np.ascontiguousarray(array) for name, array in (arrays | dict(columns)).items()}, out, told)
    order_header(out)


def _rows_of(name: str, array: Array, index: Array, total: int) -> Array:
    return array[index] if array.ndim and len(array) == total and name not in OF_CLASSES else array


WRITERS = {".csv": _csv, ".parquet": _parquet, ".npz": _npz, ".safetensors": _safetensors}
