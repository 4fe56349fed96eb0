"""The rows of a folder of parts, read by row group wherever Arrow can read files: in order, or a few of them."""

import fnmatch
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.links import Identity, Link
from shortlist.predictions.parts import HASHED_BLOCK, MANIFEST, PART, Manifest, Part, check_parts
from shortlist.predictions.record import Predictions
from shortlist.predictions.stored import RowKind, Stored
from shortlist.predictions.tables import read_row_groups
from shortlist.tensors import Array

MOST_OPEN, MOST_GROUPS = 16, 4  # files, and row groups of about 2 million scores, that are kept
UNREADABLE = (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True)
class _Open:
    """An open file, and where its row groups begin."""

    file: pq.ParquetFile
    starts: Array


class PartFiles:
    """The files of a finished folder.

    Args:
        where: a folder, or an address that Arrow knows.
    """

    def __init__(self, where: str | Path):
        self.where = str(where)
        try:
            self._system, self._root = _located(where)
            with self._system.open_input_file(f"{self._root}/{MANIFEST}") as file:
                self.manifest = Manifest.parse(file.read())
        except FileNotFoundError:
            raise InputError(f"cannot read {where}: it is a folder, but not one of parts, which has a {MANIFEST}") from None
        except UNREADABLE as error:
            raise InputError(f"cannot read {self.where}: {MANIFEST}: {error}") from error
        files = self._system.get_file_info(pyarrow.fs.FileSelector(self._root))
        sizes = {info.base_name: info.size for info in files if fnmatch.fnmatchcase(info.base_name, PART)}
        self.parts = check_parts(self.where, self.manifest, sizes)
        self.starts = np.cumsum([0, *(part.rows for part in self.parts)], dtype=np.int64)
        self._opened: OrderedDict[int, _Open] = OrderedDict()
        self._groups: OrderedDict[tuple[int, int, bool], Predictions] = OrderedDict()

    def __len__(self) -> int:
        return int(self.starts[-1])

    def rows(self, numbers: Array, link: Link | None) -> Iterator[tuple[Array, Predictions]]:
        """Rows as they are found, in order of their numbers, which must be sorted; with the places in ``numbers`` of each.

        Args:
            numbers: of rows, int64, sorted.
            link: of the predictions; values are checked by it.
        """
        part_of = np.searchsorted(self.starts, numbers, side="right") - 1
        for number in np.unique(part_of):
            places = np.flatnonzero(part_of == number)
            within = numbers[places] - self.starts[number]
            opened = self._open(int(number))
            group_of = np.searchsorted(opened.starts, within, side="right") - 1
            for group in np.unique(group_of):
                chosen = np.flatnonzero(group_of == group)
                found = self._group(int(number), int(group), link)
                yield places[chosen], found.rows(_span(within[chosen] - opened.starts[group]))

    def without_scores(self) -> Iterator[Stored]:
        """Labels, names and quality, a part at a time."""
        for number, part in enumerate(self.parts):
            if part.rows:
                yield self._read(number, range(len(self._open(number).starts) - 1), scores=False)

    def _open(self, number: int) -> _Open:
        def opened() -> _Open:
            name = f"{self._root}/{part.file}"
            file = pq.ParquetFile(name, filesystem=self._system, page_checksum_verification=True)
            rows = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
            if sum(rows) != part.rows:
                raise InputError(f"expected {part.rows:,} rows, got {sum(rows):,}")
            return _Open(file, np.cumsum([0, *rows], dtype=np.int64))

        part = self.parts[number]
        with _Reading(self.where, part):
            return _kept(self._opened, number, opened, MOST_OPEN)

    def _group(self, number: int, group: int, link: Link | None) -> Predictions:
        def read() -> Predictions:
            stored = self._read(number, [group])
            with _Reading(self.where, self.parts[number]):
                if stored.classes is not None and list(stored.classes) != list(self.manifest.header.classes or ()):
                    raise InputError("expected the classes of the folder, got others")
                found = Predictions(
                    stored.scores, stored.target, None, link, stored.ids, quality=stored.quality, columns=stored.columns
                )
                self.manifest.kind.check_same(RowKind.of(found), "in every part of the folder")
                return found

        key = (number, group, isinstance(link, Identity))  # of which values are checked further
        return _kept(self._groups, key, read, MOST_GROUPS)

    def _read(self, number: int, groups: Any, *, scores: bool = True) -> Stored:
        file = self._open(number).file
        with _Reading(self.where, self.parts[number]):
            return read_row_groups(file, list(groups), scores=scores)

    def verify(self) -> None:
        """Read every part and compare its checksum; an error names the first that is damaged."""
        for part in self.parts:
            found = hashlib.sha256()
            with _Reading(self.where, part), self._system.open_input_stream(f"{self._root}/{part.file}") as file:
                while block := file.read(HASHED_BLOCK):
                    found.update(block)
            if found.hexdigest() != part.sha256:
                raise InputError(
                    f"{self.where}: {part.file} is damaged: expected the checksum {part.sha256}, got {found.hexdigest()}: "
                    "run what wrote the folder again, it writes what is damaged"
                )


def _located(where: str | Path) -> tuple[pyarrow.fs.FileSystem, str]:
    if isinstance(where, Path):
        return pyarrow.fs.LocalFileSystem(), str(where.resolve())
    system, root = pyarrow.fs.FileSystem.from_uri(where.rstrip("/"))
    return system, root


class _Reading:
    """Context manager: errors while a part is read name it."""

    def __init__(self, where: str, part: Part):
        self.where, self.part = where, part

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, InputError):
            raise type(error)(f"{self.where}: {self.part.file}: {error}") from error
        if isinstance(error, UNREADABLE):
            first = (str(error) or type(error).__name__).splitlines()[0]
            raise InputError(
                f"{self.where}: {self.part.file} cannot be read: {first}: if it is damaged, run what wrote the folder "
                "again, it writes what is damaged"
            ) from error


def _kept(known: "OrderedDict[Any, Any]", key: Any, make: Callable[[], Value], most: int) -> Value:
    """The value of this key, made if it is not known; only the last few are kept."""
    if key not in known:
        known[key] = make()
        if len(known) > most:
            known.popitem(last=False)
    known.move_to_end(key)
    found: Value = known[key]
    return found


def _span(numbers: Array) -> Tensor | slice:
    """Consecutive numbers as a slice, which copies nothing."""
    first, last = int(numbers[0]), int(numbers[-1])
    if last - first + 1 == len(numbers) and (len(numbers) < 2 or bool((np.diff(numbers) == 1).all())):
        return slice(first, last + 1)
    return torch.from_numpy(numbers)
