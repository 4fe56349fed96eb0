"""Parquet files as the index uses them: opened, checked for damage, and read as fast as they can be copied.

Pages of the files carry checksums, which Arrow verifies. The footer, which says where the pages are, does not; its checksum is
part of the *seal* that the manifest keeps of each file.
"""

import os
import struct
import weakref
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from shortlist.errors import InputError
from shortlist.files import system_reason

Floats = npt.NDArray[np.floating[Any]]
RowNumbers = npt.NDArray[np.int64]

DAMAGE = (pa.ArrowException, OSError, ValueError)  # raised when a file cannot be read
PLAIN = np.dtype("<f4")
DTYPES = {pa.float32(): np.float32, pa.int64(): np.int64}
MAGIC = b"PAR1"
LARGEST_FOOTER = 2**31


class DamagedError(InputError):
    """A part of an index cannot be read; the message names it."""


# Opening files, and noticing damage ------------------------------------------------------------------------------------------


def parquet_seal(path: Path) -> list[int]:
    """Size of a Parquet file and checksum of its footer; [0, 0] if it has no footer."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < 12:
            return [0, 0]
        file.seek(size - 8)
        length, magic = struct.unpack("<I4s", file.read(8))
        if magic != MAGIC or length > min(size - 8, LARGEST_FOOTER):
            return [0, 0]
        file.seek(size - 8 - length)
        return [size, zlib.crc32(file.read(length + 8))]


def file_seal(path: Path) -> list[int]:
    """Size of a small file and checksum of all of it."""
    content = path.read_bytes()
    return [len(content), zlib.crc32(content)]


def check_seal(path: Path, seal: Sequence[int], seal_of: Callable[[Path], list[int]] = parquet_seal) -> None:
    """Check that a file is the one that was written, before Arrow opens it: Arrow may crash on a damaged footer."""
    try:
        found = seal_of(path)
    except FileNotFoundError:
        raise FileNotFoundError(path.name) from None
    except OSError as error:
        raise unreadable(path, error) from error
    if found != list(seal):
        raise DamagedError(f"{path} cannot be read (its checksum does not match): build the index again")


def open_parquet(path: Path, threads: int) -> list[pq.ParquetFile]:
    """Open a file once for each thread, because a handle of Arrow is not thread-safe; page checksums are verified."""
    try:
        first = pq.ParquetFile(path, page_checksum_verification=True)
        more = [pq.ParquetFile(path, metadata=first.metadata, page_checksum_verification=True) for _ in range(threads - 1)]
    except FileNotFoundError:
        raise FileNotFoundError(path.name) from None
    except DAMAGE as error:
        raise unreadable(path, error) from error
    return [first, *more]


def unreadable(path: Path, error: Exception) -> InputError:
    """The error for a file that cannot be opened: damaged, unless the system refused to open it."""
    reason = system_reason(error)
    if reason is not None:
        return InputError(f"{path} cannot be read: {reason}")
    return DamagedError(
        f"{path} cannot be read ({(str(error) or type(error).__name__).splitlines()[0]}): build the index again"
    )


# Numbers between numpy and Arrow, by their bytes: Arrow's own conversions import pandas, which takes longer than a search ----


def numbers_of(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """The values of a column without nulls, float32 or int64 (n,); read-only.

    >>> numbers_of(pa.chunked_array([[1, 2], [3]]))
    array([1, 2, 3])
    """
    chunks = [_numbers(chunk) for chunk in column.chunks]
    return chunks[0] if len(chunks) == 1 else np.concatenate([np.zeros(0, DTYPES[column.type]), *chunks])


def as_indices(places: RowNumbers) -> pa.Array:
    """Indices for ``take``.

    >>> as_indices(np.array([2, 0])).to_pylist()
    [2, 0]
    """
    return pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(np.ascontiguousarray(places, np.int64))])


def _numbers(chunk: pa.Array) -> npt.NDArray[Any]:
    content = np.frombuffer(chunk.buffers()[1], DTYPES[chunk.type])
    return content[chunk.offset : chunk.offset + len(chunk)]


# Columns of floats -----------------------------------------------------------------------------------------------------------


class FloatColumns:
    """Reads columns of float32 from an open file, one row group at a time.

    A column of a group is one plain, uncompressed page with a checksum. Arrow reads it the first time and verifies it. The file
    never changes, so from then on its bytes are read straight into an array that stays in the processor's cache: a search is
    limited by memory bandwidth, and this moves a third of the bytes that Arrow moves. The file stays readable even if another
    process deletes it.

    Args:
        path: of the file.
        threads: number of threads that will read at the same time, each with its own number from 0.
    """

    def __init__(self, path: Path, threads: int):
        self._files = open_parquet(path, threads)
        self.metadata: pq.FileMetaData = self._files[0].metadata
        self.places = {name: place for place, name in enumerate(self._files[0].schema_arrow.names)}
        self._offsets: dict[tuple[int, str], int] = {}  # (group, column) → where its floats begin, once verified
        self._arrays: dict[tuple[int, int], Floats] = {}  # by thread and place: what columns are read into
        self.handle: int | None = None
        if hasattr(os, "preadv"):
            self.handle = os.open(path, os.O_RDONLY)
            weakref.finalize(self, os.close, self.handle)

    def table(self, group: int, columns: Sequence[str] | None = None, thread: int = 0) -> pa.Table:
        """Read a group with Arrow, verified; the named columns, or all of them."""
        named = None if columns is None else list(columns)
        return self._files[thread].read_row_group(group, columns=named, use_threads=False)

    def column(self, group: int, name: str, thread: int = 0, place: int = 0) -> Floats:
        """Read a column of a group, float32 (n,), into an array that the next column of this thread and place overwrites."""
        fresh = self._verified(group, [name], thread)
        return fresh[name] if name in fresh else self._read(group, name, self._array(thread, place, group))

    def summed(self, group: int, columns: Sequence[str], thread: int = 0) -> Floats:
        """Add up columns of a group, float32 (n,), in a buffer that the next sum of this thread overwrites."""
        fresh = self._verified(group, columns, thread)
        total, term = (self._array(thread, place, group) for place in range(2))
        for place, name in enumerate(columns):
            if place == 0:
                total[:] = fresh[name] if name in fresh else self._read(group, name, total)
            else:
                with np.errstate(over="ignore"):  # a log-probability below -3e38 may as well be -inf
                    total += fresh[name] if name in fresh else self._read(group, name, term)
        return total

    def _verified(self, group: int, columns: Sequence[str], thread: int) -> dict[str, Floats]:
        """Read columns that were not read before with Arrow, and remember where their bytes lie."""
        new = [name for name in dict.fromkeys(columns) if (group, name) not in self._offsets]
        if not new:
            return {}
        table = self.table(group, new, thread)
        found = {name: numbers_of(table.column(name)) for name in new}
        if self.handle is not None:
            for name, values in found.items():
                start = self._offset(group, name)
                if start is not None and np.array_equal(self._read_at(start, np.empty(len(values), PLAIN)), values):
                    self._offsets[group, name] = start
        return found

    def _offset(self, group: int, name: str) -> int | None:
        """Where the floats begin if the column is one plain page, whose last bytes they are."""
        column = self.metadata.row_group(group).column(self.places[name])
        size = PLAIN.itemsize * column.num_values
        plain = column.physical_type == "FLOAT" and column.compression == "UNCOMPRESSED"
        return column.data_page_offset + column.total_compressed_size - size if plain else None

    def _read(self, group: int, name: str, into: Floats) -> Floats:
        return self._read_at(self._offsets[group, name], into)

    def _read_at(self, start: int, into: Floats) -> Floats:
        assert self.handle is not None
        if os.preadv(self.handle, [into.data], start) != into.nbytes:
            raise OSError("the file is too short")
        return into

    def _array(self, thread: int, place: int, group: int) -> Floats:
        """An array for the rows of a group, which stays in the cache of the processor from one group to the next."""
        rows = self.metadata.row_group(group).num_rows
        array = self._arrays.get((thread, place))
        if array is None or len(array) < rows:
            array = self._arrays[thread, place] = np.empty(rows, PLAIN)
        return array[:rows]
