"""The file that is searched: columns of floats, a group of rows at a time, as fast as they can be copied.

A column of a group is one page of plain float32, not compressed, with a checksum. Arrow reads it the first time and verifies
it. The file never changes, so from then on its bytes are read straight into an array that stays in the processor's cache: a
search is bound by memory, and this moves a third of what Arrow does.
"""

import os
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from shortlist.errors import InputError
from shortlist.retrieval.columns import numbers_of
from shortlist.retrieval.seals import seal_of_parquet

Floats = npt.NDArray[np.floating[Any]]
DAMAGE = (pa.ArrowException, OSError, ValueError)
PLAIN = np.dtype("<f4")


class DamagedError(InputError):
    """A part of an index cannot be read; the message names it."""


def open_parquet(path: Path, hands: int) -> list[pq.ParquetFile]:
    """The file as often as it is read at once, for a handle of Arrow's is for one thread; checksums are verified."""
    try:
        first = pq.ParquetFile(path, page_checksum_verification=True)
        more = [pq.ParquetFile(path, metadata=first.metadata, page_checksum_verification=True) for _ in range(hands - 1)]
    except FileNotFoundError:
        raise FileNotFoundError(path.name) from None
    except DAMAGE as error:
        raise DamagedError(f"{path} cannot be read ({str(error).splitlines()[0]}): build the index again") from error
    return [first, *more]


def check_seal(path: Path, seal: Sequence[int], seal_of: Callable[[Path], list[int]] = seal_of_parquet) -> None:
    """The file is as long as it was, and its footer says what it said: Arrow does not survive every other one."""
    try:
        found = seal_of(path)
    except FileNotFoundError:
        raise FileNotFoundError(path.name) from None
    except OSError as error:
        raise DamagedError(f"{path} cannot be read ({error}): build the index again") from error
    if found != list(seal):
        raise DamagedError(f"{path} cannot be read (it is not what was written): build the index again")


class SearchedFile:
    """Open: it can be read until this is forgotten, even if somebody removes it.

    Args:
        path: of the file.
        hands: how many threads will read it at once.
    """

    def __init__(self, path: Path, hands: int):
        self._files = open_parquet(path, hands)
        self.metadata: pq.FileMetaData = self._files[0].metadata
        self.places = {name: place for place, name in enumerate(self._files[0].schema_arrow.names)}
        self._whole: dict[tuple[int, str], int] = {}  # (group, column) → where its floats begin, once verified
        self._room: dict[int, Floats] = {}  # by hand: two arrays to add up in
        self._handle: int | None = None
        if hasattr(os, "preadv"):
            self._handle = os.open(path, os.O_RDONLY)
            weakref.finalize(self, os.close, self._handle)

    def table(self, group: int, columns: Sequence[str] | None = None, hand: int = 0) -> pa.Table:
        """A group by Arrow, verified; all of it unless columns are named."""
        named = None if columns is None else list(columns)
        return self._files[hand].read_row_group(group, columns=named, use_threads=False)

    def floats(self, group: int, columns: Sequence[str], hand: int = 0) -> list[Floats]:
        """Columns of a group, float32 (n,) each."""
        fresh = self._verified(group, columns, hand)
        rows = self.metadata.row_group(group).num_rows
        return [fresh[name] if name in fresh else self._read(group, name, np.empty(rows, PLAIN)) for name in columns]

    def summed(self, group: int, columns: Sequence[str], hand: int = 0) -> Floats:
        """The sum of columns of a group, float32 (n,): in memory of the hand's, which the next sum takes again."""
        fresh = self._verified(group, columns, hand)
        total, term = self._two_arrays(hand, self.metadata.row_group(group).num_rows)
        for place, name in enumerate(columns):
            if place == 0:
                total[:] = fresh[name] if name in fresh else self._read(group, name, total)
            else:
                with np.errstate(over="ignore"):  # what is no more probable than e^-3e38 may as well be impossible
                    total += fresh[name] if name in fresh else self._read(group, name, term)
        return total

    def _verified(self, group: int, columns: Sequence[str], hand: int) -> dict[str, Floats]:
        """The columns that were not read before, by Arrow; and where their bytes are, if they lie there as they are."""
        new = [name for name in dict.fromkeys(columns) if (group, name) not in self._whole]
        if not new:
            return {}
        table = self.table(group, new, hand)
        found = {name: numbers_of(table.column(name)) for name in new}
        if self._handle is not None:
            for name, values in found.items():
                start = self._floats_at(group, name)
                if start is not None and np.array_equal(self._read_at(start, np.empty(len(values), PLAIN)), values):
                    self._whole[group, name] = start
        return found

    def _floats_at(self, group: int, name: str) -> int | None:
        """Where the floats begin if the column is one plain page: they are its end."""
        column = self.metadata.row_group(group).column(self.places[name])
        size = PLAIN.itemsize * column.num_values
        plain = column.physical_type == "FLOAT" and column.compression == "UNCOMPRESSED"
        return column.data_page_offset + column.total_compressed_size - size if plain else None

    def _read(self, group: int, name: str, into: Floats) -> Floats:
        return self._read_at(self._whole[group, name], into)

    def _read_at(self, start: int, into: Floats) -> Floats:
        assert self._handle is not None
        if os.preadv(self._handle, [into.data], start) != into.nbytes:
            raise OSError("the file ends too early")
        return into

    def _two_arrays(self, hand: int, rows: int) -> tuple[Floats, Floats]:
        room = self._room.get(hand)
        if room is None or room.shape[1] < rows:
            room = self._room[hand] = np.empty((2, rows), PLAIN)
        return room[0, :rows], room[1, :rows]
