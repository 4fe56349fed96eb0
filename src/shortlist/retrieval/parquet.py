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
ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED"}  # of numbers in a row; the latter two are of what such a column has none of
MAGIC = b"PAR1"
NEXT_NUMBER, DATA_PAGE = b"\x15", 0  # in the header of a page: the next field, a 32-bit number; the kind of page
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


def page_checksum(header: bytes, size: int) -> int | None:
    """The CRC-32 of a data page of so many bytes, by its header in Thrift's compact protocol; None if that begins otherwise.

    The header begins with four 32-bit numbers: the kind of the page, its size twice, as it is compressed or not, and the CRC.

    >>> page_checksum(bytes([0x15, 0, 0x15, 16, 0x15, 16, 0x15, 0xFF, 0x01]), size=8)  # zigzag: 16 is 8, 255 is -128
    4294967168
    """
    numbers, place = [], 0
    for _ in range(4):
        if header[place : place + 1] != NEXT_NUMBER:
            return None
        value, shift, more = 0, 0, True
        while more:
            place += 1
            if place >= len(header) or shift > 28:
                return None
            value |= (header[place] & 0x7F) << shift
            shift, more = shift + 7, header[place] >= 0x80
        numbers.append((value >> 1) ^ -(value & 1))
        place += 1
    kind, plain, stored, checksum = numbers
    return checksum % 2**32 if (kind, plain, stored) == (DATA_PAGE, size, size) else None


# Columns of floats -----------------------------------------------------------------------------------------------------------


class FloatColumns:
    """Reads columns of float32 from an open file, one row group at a time.

    A column of a group is one plain, uncompressed page with a checksum. Its bytes are read straight into an array that stays in
    the processor's cache, and verified the first time: a search is limited by memory bandwidth, and this moves a third of the
    bytes that Arrow moves. What is no such page, or does not match its checksum, is left to Arrow, which names the damage. The
    file stays readable even if another process deletes it.

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
        return self._read(group, name, self._array(thread, place, group), thread)

    def summed(self, group: int, columns: Sequence[str], thread: int = 0) -> Floats:
        """Add up columns of a group, float32 (n,), in a buffer that the next sum of this thread overwrites."""
        total, term = (self._array(thread, place, group) for place in range(2))
        for place, name in enumerate(columns):
            if place == 0:
                total[:] = self._read(group, name, total, thread)
            else:
                with np.errstate(over="ignore"):  # a log-probability below -3e38 may as well be -inf
                    total += self._read(group, name, term, thread)
        return total

    def _read(self, group: int, name: str, into: Floats, thread: int) -> Floats:
        """A column of a group, verified if it was not read before; usually in the array that is given."""
        start = self._offsets.get((group, name))
        if start is not None:
            return self._read_at(start, into)
        start = self._offset(group, name)
        if start is not None and zlib.crc32(self._read_at(start, into).data) == self._checksum(group, name, start):
            self._offsets[group, name] = start
            return into
        return numbers_of(self.table(group, [name], thread).column(name))

    def _offset(self, group: int, name: str) -> int | None:
        """Where the floats begin if the column is one plain page, whose last bytes they are."""
        column = self.metadata.row_group(group).column(self.places[name])
        size = PLAIN.itemsize * column.num_values
        plain = column.physical_type == "FLOAT" and column.compression == "UNCOMPRESSED" and {*column.encodings} <= ENCODINGS
        return column.data_page_offset + column.total_compressed_size - size if plain and self.handle is not None else None

    def _checksum(self, group: int, name: str, start: int) -> int | None:
        """The checksum that the header of a column keeps of its bytes; None if they are not one page."""
        assert self.handle is not None
        column = self.metadata.row_group(group).column(self.places[name])
        header = os.pread(self.handle, start - column.data_page_offset, column.data_page_offset)
        size = PLAIN.itemsize * column.num_values
        return page_checksum(header, size)

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
