"""Pictures in Parquet files on any file system that Arrow knows: bytes are read when they are used, a row group at a time."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from torch import Tensor

from shortlist.data.pictures import Pictures, row_numbers
from shortlist.errors import InputError
from shortlist.tensors import Array

if TYPE_CHECKING:
    from shortlist.data.decoding import Decoded

KEPT = 2  # row groups whose bytes stay in memory: threads that decode a batch may be on either side of a boundary


class RowGroup(NamedTuple):
    """Rows that are read together.

    Args:
        file: the number of the file.
        number: of the row group in it.
        rows: how many.
        full: whether all are known to have bytes.
    """

    file: int
    number: int
    rows: int
    full: bool


class ParquetPictures(Pictures):
    """The rows of Parquet files, one after the other; each holds the bytes of a picture file.

    Rows that follow each other are cheap to read, rows here and there cost a row group each.

    Args:
        system: a :class:`pyarrow.fs.FileSystem`.
        paths: the files.
        columns: the name of the column with the bytes in each file: binary, or ``{bytes, path}``.
        groups: the row groups of all files, in order.
        places: which rows these pictures are, int64 (N,), counted through all files; all by default.
        ids: the name of each; by default what its ``path`` is, or its place.
    """

    def __init__(
        self,
        system: Any,
        paths: Sequence[str],
        columns: Sequence[str],
        groups: Sequence[RowGroup],
        places: Tensor | None = None,
        ids: Sequence[str] | None = None,
    ):
        self.system, self.paths, self.columns, self.groups = system, paths, columns, groups
        self._starts = np.cumsum([0, *(group.rows for group in groups)])
        self.places = torch.arange(int(self._starts[-1])) if places is None else places
        self.ids = self._own_ids() if ids is None else ids
        self._forget()

    @classmethod
    def open(cls, system: Any, paths: Sequence[str], columns: Sequence[str]) -> Self:
        """All rows of some files, of which only the footers are read, and the names of the pictures."""
        files = enumerate(zip(paths, columns, strict=True))
        groups = [group for number, (path, column) in files for group in _row_groups(system, path, number, column)]
        return cls(system, paths, columns, groups)

    def absent(self) -> Array:
        """Which rows have no bytes, bool (N,); only row groups that may have some are read."""
        found = np.zeros(int(self._starts[-1]), bool)
        for number, group in enumerate(self.groups):
            if not group.full:
                found[self._starts[number] : self._starts[number + 1]] = self._bytes(number).is_null().to_numpy()
        here: Array = found[self.places.numpy()]
        return here

    def content(self, row: int) -> bytes | None:
        """The bytes of a picture file; None if there are none."""
        place = int(self.places[row])
        number = int(np.searchsorted(self._starts, place, "right")) - 1
        found: bytes | None = self._bytes(number)[place - int(self._starts[number])].as_py()
        return found

    def decode(self, row: int, *, at_least: int | None = None) -> "Decoded":
        """The bytes, decoded."""
        from shortlist.data.decoding import PictureError, decode

        try:
            content = self.content(row)
        except (pa.ArrowException, OSError) as error:
            raise PictureError(str(error).partition("\n")[0] or type(error).__name__) from error
        if content is None:
            raise PictureError("there are no bytes")
        return decode(content, at_least=at_least)

    def named(self, ids: Sequence[str]) -> "ParquetPictures":
        """The same pictures with other names."""
        return ParquetPictures(self.system, self.paths, self.columns, self.groups, self.places, ids)

    def rows(self, rows: Tensor) -> "ParquetPictures":
        """Only these rows, in this order; nothing is read."""
        rows = row_numbers(rows)
        ids = [self.ids[row] for row in rows.tolist()]
        return ParquetPictures(self.system, self.paths, self.columns, self.groups, self.places[rows], ids)

    def _own_ids(self) -> list[str]:
        """The names that the column has beside the bytes, or else numbers."""
        found: list[str | None] = []
        for path, column in zip(self.paths, self.columns, strict=True):
            with pq.ParquetFile(path, filesystem=self.system, page_checksum_verification=True) as file:
                kind = file.schema_arrow.field(column).type
                if pa.types.is_struct(kind) and kind.get_field_index("path") >= 0:
                    named = file.read(columns=[f"{column}.path"]).column(column)
                    found += [None if one is None else one["path"] for one in named.to_pylist()]
                else:
                    found += [None] * file.metadata.num_rows
        return [found[place] or str(place) for place in self.places.tolist()]

    def _bytes(self, number: int) -> Any:
        """The bytes of a row group. Threads wait for each other, so that none reads what another is reading."""
        with self._lock:
            if number not in self._kept:
                while len(self._kept) >= KEPT:
                    self._kept.popitem(last=False)
                self._kept[number] = self._read(self.groups[number])
            self._kept.move_to_end(number)
            return self._kept[number]

    def _read(self, group: RowGroup) -> Any:
        column = self.columns[group.file]
        with pq.ParquetFile(self.paths[group.file], filesystem=self.system, page_checksum_verification=True) as file:
            struct = pa.types.is_struct(file.schema_arrow.field(column).type)
            found = file.read_row_group(group.number, columns=[f"{column}.bytes" if struct else column]).column(column)
        return pc.struct_field(found, "bytes") if struct else found

    def _forget(self) -> None:
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs to read these rows: no bytes, and only the files and row groups that they are in."""
        numbers = np.searchsorted(self._starts, self.places.numpy(), "right") - 1
        used, where = np.unique(numbers, return_inverse=True)
        files = sorted({self.groups[number].file for number in used.tolist()})
        groups = [self.groups[number]._replace(file=files.index(self.groups[number].file)) for number in used.tolist()]
        starts = np.cumsum([0, *(group.rows for group in groups)])
        places = torch.from_numpy(self.places.numpy() - self._starts[numbers] + starts[where])
        of_files = {name: [getattr(self, name)[file] for file in files] for name in ("paths", "columns")}
        return {**of_files, "system": self.system, "groups": groups, "places": places, "ids": self.ids, "_starts": starts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In the other process."""
        self.__dict__.update(state)
        self._forget()


def _row_groups(system: Any, path: str, number: int, column: str) -> list[RowGroup]:
    """The row groups of a file, from its footer."""
    with pq.ParquetFile(path, filesystem=system) as file:
        kind = file.schema_arrow.field(column).type
        leaf = f"{column}.bytes" if pa.types.is_struct(kind) else column
        holds = kind.field("bytes").type if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 else kind
        if not (pa.types.is_binary(holds) or pa.types.is_large_binary(holds)):
            raise InputError(f"{column}: expected the bytes of pictures, or {{bytes, path}}, got {kind}")
        footer = file.metadata
        groups = (_row_group(footer.row_group(place), number, place, leaf) for place in range(footer.num_row_groups))
        return [group for group in groups if group.rows]


def _row_group(footer: Any, file: int, number: int, leaf: str) -> RowGroup:
    columns = (footer.column(place) for place in range(footer.num_columns))
    counted = next((one.statistics for one in columns if one.path_in_schema == leaf), None)
    full = counted is not None and counted.has_null_count and counted.null_count == 0
    return RowGroup(file, number, footer.num_rows, full)
