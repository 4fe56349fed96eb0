"""A copy of a file of scores with further columns of numbers: whatever else another program wrote stays as it is."""

import csv
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.lib import format as npy
from safetensors import safe_open
from safetensors.numpy import save_file

from shortlist.csv_files import csv_delimiter, csv_start, csv_writer
from shortlist.errors import InputError, ShortlistWarning
from shortlist.files import order_header, written_whole
from shortlist.predictions.arrays import UNREADABLE
from shortlist.predictions.columns import check_column_name
from shortlist.predictions.csv_tables import csv_names, decimal_point
from shortlist.predictions.record import Predictions
from shortlist.predictions.storage import check_suffix
from shortlist.predictions.stored import VERSION, Keys
from shortlist.predictions.tables import HEADER
from shortlist.tensors import Array
from shortlist.words import counted, quoted

OF_CLASSES = ("classes", "superclasses", "train_counts")  # arrays without an entry for each row
ARRAYS = (".npz", ".safetensors")


def check_copy(path: Path, out: Path) -> None:
    """Raise an error unless a copy of this file with further columns can have this name."""
    if _is_foreign(path) and out.suffix.lower() != path.suffix.lower():
        raise InputError(
            f"expected a name that ends in {path.suffix} as that of {path} does, whose other columns are kept as they are, "
            f"got {out}"
        )
    if not _is_foreign(path):
        check_suffix(out)


def check_added(path: Path, names: Iterable[str], keys: Keys) -> None:
    """Raise an error unless a copy of this file with columns of these names still has everything that is read of it.

    Args:
        path: of the file.
        names: of the further columns.
        keys: by which the file is read.
    """
    names = [check_column_name(name) for name in names]
    if not _is_foreign(path):
        return
    read = keys.read(_names(path), "ids" if path.suffix.lower() in ARRAYS else "id")
    if lost := [name for name in names if name in read]:
        raise InputError(
            f"columns: expected other names than those of {path} that scores, labels, ids and quality are read from, "
            f"got {quoted(lost, 3)}: choose another name"
        )


def copy_with_columns(
    path: Path, out: Path, predictions: Predictions, columns: Mapping[str, Array], keys: Keys, rows: Array | None = None
) -> None:
    """Write a copy of a file with these columns; one of the same name is replaced, with a warning.

    Args:
        path: of the file.
        out: of the copy, see :func:`check_copy`.
        predictions: what was read of the file.
        columns: one number for each row of the copy, by name; see :func:`check_added`.
        keys: by which the file was read.
        rows: the numbers of the rows to copy, in increasing order; None (the default) copies all.
    """
    check_added(path, columns, keys)
    index = np.arange(len(predictions)) if rows is None else rows
    foreign = _is_foreign(path)
    known = _names(path) if foreign else predictions.without_rows().columns
    if replaced := [name for name in columns if name in known]:
        what = counted(len(replaced), "column is", "columns are")
        warnings.warn(f"{path}: {what} replaced in the copy ({quoted(replaced, 4)})", ShortlistWarning, stacklevel=2)
    if not foreign:
        predictions.rows(index).with_columns(dict(columns)).save(out)
        return
    with written_whole(out) as temporary:
        WRITERS[path.suffix.lower()](_Copy(path, temporary, columns, index, predictions, keys))


@dataclass(frozen=True)
class _Copy:
    """What is copied.

    Args:
        path: of the file.
        out: of the copy.
        columns: the further ones, by name.
        index: the numbers of the rows.
        predictions: what was read of the file.
        keys: by which it was read.
    """

    path: Path
    out: Path
    columns: Mapping[str, Array]
    index: Array
    predictions: Predictions
    keys: Keys

    def arrays(self, names: Iterable[str], read: Callable[[str], Array]) -> dict[str, Array]:
        """Named arrays: of those with an entry for each row the entries of the rows that are copied, and the further columns.

        Where there are as many classes as rows, an array of so many entries may be about either.
        """
        arrays = {name: read(name) for name in names if name not in self.columns}
        total = len(self.predictions)
        shapes = {name: getattr(array, "shape", ()) for name, array in arrays.items()}  # a text beside arrays has none
        of_rows = [name for name, shape in shapes.items() if shape[:1] == (total,) and name not in OF_CLASSES]
        if total == self.predictions.num_classes and len(self.index) < total:
            known = self.keys.read(list(arrays), "ids")
            if unsure := [name for name in of_rows if name not in known]:
                warnings.warn(
                    f"{self.path}: there are as many rows as classes: the entries of {quoted(unsure, 4)} are taken for those "
                    f"of rows, of which the copy has {len(self.index):,}",
                    ShortlistWarning,
                    stacklevel=4,
                )
        return arrays | {name: arrays[name][self.index] for name in of_rows} | dict(self.columns)


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


def _names(path: Path) -> list[str]:
    """The names of the columns of a file of another program, or of its arrays."""
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return csv_names(path)
    if suffix == ".parquet":
        return list(pq.read_schema(path).names)
    if suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return list(file)
    with safe_open(path, framework="np") as file:
        return list(file.keys())


def _csv(copy: _Copy) -> None:
    """Cells as they were written, in whatever encoding; numbers with the decimal point of the scores."""
    delimiter = csv_delimiter(csv_start(copy.path))
    point = decimal_point(copy.path, delimiter, csv_names(copy.path), copy.keys)
    added = [[_cell(value, point) for value in column.tolist()] for column in copy.columns.values()]
    place_of = {row: place for place, row in enumerate(copy.index.tolist())}
    with (
        copy.path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as source,
        copy.out.open("w", encoding="utf-8", errors="surrogateescape", newline="") as target,
    ):
        lines, writer = _filled(copy.path, source, delimiter), csv_writer(target, delimiter)
        names = next(lines)
        kept = [place for place, name in enumerate(names) if name.strip() not in copy.columns]
        writer.writerow([*(names[place] for place in kept), *copy.columns])
        for row, cells in enumerate(lines):
            if row in place_of:
                writer.writerow([*(cells[place] for place in kept), *(column[place_of[row]] for column in added)])


def _filled(path: Path, source: TextIO, delimiter: str) -> Iterator[list[str]]:
    """The cells of each row of a CSV file that is not empty."""
    try:
        yield from filter(None, csv.reader(source, delimiter=delimiter))
    except csv.Error as error:  # a cell of more than 131,072 characters
        raise InputError(f"{path}: cannot be copied: {error}") from error


def _cell(value: float, point: str) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value)).replace(".", point)


def _parquet(copy: _Copy) -> None:
    try:
        table = pq.read_table(copy.path, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {copy.path} as parquet: {str(error).splitlines()[0]}") from error
    if len(table) != len(copy.predictions):  # Arrow leaves out a page whose header is damaged
        raise InputError(f"{copy.path}: expected {len(copy.predictions):,} rows, got {len(table):,}: the file is damaged")
    table = table.drop_columns([name for name in copy.columns if name in table.column_names]).take(pa.array(copy.index))
    for name, values in copy.columns.items():
        table = table.append_column(name, pa.array(values))
    pq.write_table(table, copy.out, write_page_checksum=True)


def _npz(copy: _Copy) -> None:
    try:
        with np.load(copy.path, allow_pickle=False) as file:
            arrays: dict[str, Any] = copy.arrays(list(file), file.__getitem__)
    except (ValueError, *UNREADABLE) as error:  # Python objects, which would run code, among them
        raise InputError(f"cannot read {copy.path} as npz: {str(error).splitlines()[0]}") from error
    with zipfile.ZipFile(copy.out, "w", zipfile.ZIP_STORED) as archive:  # np.savez knows no array called file
        for name, array in arrays.items():
            if isinstance(array, bytes):  # a file that holds no array
                archive.writestr(zipfile.ZipInfo(name), array)
                continue
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, np.asanyarray(array), allow_pickle=False)


def _safetensors(copy: _Copy) -> None:
    with safe_open(copy.path, framework="np") as file:
        arrays = copy.arrays(list(file.keys()), file.get_tensor)
        told = file.metadata()
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, copy.out, told)
    order_header(copy.out)


WRITERS = {".csv": _csv, ".parquet": _parquet, ".npz": _npz, ".safetensors": _safetensors}
