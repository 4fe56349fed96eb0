"""Predictions written as named arrays, a block of rows at a time: safetensors and npz."""

import json
import struct
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from shortlist.errors import InputError
from shortlist.predictions.arrays import LINK_PREFIX, texts_to_bytes
from shortlist.predictions.columns import joined
from shortlist.predictions.record import Predictions
from shortlist.predictions.stored import COLUMN_PREFIX, QUALITY, VERSION, Header, RowKind, Sink
from shortlist.tensors import Array

IDS = "ids"  # the name of the names of rows
ALIGNED = 8  # bytes: the largest number in a file
COPIED = 2**20  # bytes copied at once
MOST_ROWS, WIDEST_ID = 10**15, 10**9  # numbers with as many digits as a header can ever need
PADDING, PADDING_ROOM = "padding", 128  # the name of the bytes that align what follows, and the room to describe them
DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class _Rows:
    """Targets on disk, names and quality in memory until the number of rows is known."""

    def __init__(self, folder: Path, kind: RowKind):
        self.kind, self.number = kind, 0
        self.targets: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed by close)
        self.ids: list[str] = []
        self.qualities: list[Tensor] = []
        self._columns: dict[str, list[Array]] = {name: [] for name, _ in kind.columns}

    def add(self, scores: IO[bytes], rows: Predictions) -> None:
        scores.write(_raw(rows.scores))
        if rows.target is not None:
            self.targets.write(_raw(rows.target))
        if self.kind.ids:
            self.ids += rows.ids or ()
        if rows.quality is not None:
            self.qualities.append(rows.quality.cpu())
        for name, parts in self._columns.items():
            parts.append(rows.columns[name])
        self.number += len(rows)

    @property
    def quality(self) -> Tensor:
        return torch.cat([torch.empty(0, dtype=torch.float64), *self.qualities])

    def columns(self) -> dict[str, Array]:
        """Every column under the name of its array."""
        return {COLUMN_PREFIX + name: joined(self._columns[name], kind) for name, kind in self.kind.columns}

    @property
    def target_shape(self) -> tuple[int, ...]:
        return (self.number, self.kind.classes) if self.kind.multi_label else (self.number,)


class SafetensorsSink(Sink):
    """Tensors under their field names; row names as UTF-8 bytes, class names and the link as JSON in the header.

    The header comes first in the file and says how many rows there are, so room for the longest possible one is left and filled
    in at the end; the format allows spaces behind it. Scores are written as they come. Everything else follows them, the widest
    numbers first, which keeps all of them aligned.
    """

    def __init__(self, path: Path, header: Header, kind: RowKind):
        self._header, self._kind = header, kind
        self._rows = _Rows(path.parent, kind)
        self._file: IO[bytes] = path.open("wb")
        widest = dict.fromkeys([IDS, *(COLUMN_PREFIX + name for name, _ in kind.columns)], WIDEST_ID)
        self._room = _rounded(len(self._described(MOST_ROWS, widest)) + PADDING_ROOM)
        self._file.write(bytes(8 + self._room))

    def _append(self, rows: Predictions) -> None:
        self._rows.add(self._file, rows)

    def finish(self) -> None:
        """Write what follows the scores, then the header."""
        rows = self._rows
        texts = {IDS: texts_to_bytes(rows.ids)} if self._kind.ids else {}
        columns = rows.columns()
        texts |= {name: texts_to_bytes(column.tolist()) for name, column in columns.items() if column.dtype.kind == "U"}
        widths = {name: held.shape[1] for name, held in texts.items()}
        for name, _, _, size in self._tensors(rows.number, widths)[1:]:
            if name == PADDING:
                self._file.write(bytes(size))
            elif name == QUALITY:
                self._file.write(_raw(rows.quality))
            elif name == "target":
                _copy(rows.targets, self._file)
            elif name in texts:
                self._file.write(texts[name].tobytes())
            elif name in columns:
                self._file.write(columns[name].tobytes())
            else:
                self._file.write(_raw(self._small()[name]))
        text = self._described(rows.number, widths)
        self._file.seek(0)
        self._file.write(struct.pack("<Q", self._room) + text.ljust(self._room))
        self._file.flush()

    def close(self) -> None:
        """Close the file and the temporary one."""
        self._file.close()
        self._rows.targets.close()

    def _small(self) -> dict[str, Tensor]:
        return small_tensors(self._header)

    def _tensors(self, rows: int, widths: Mapping[str, int]) -> list[tuple[str, torch.dtype, tuple[int, ...], int]]:
        """Name, dtype, shape and bytes of every tensor, in the order of the file."""
        kind = self._kind
        scores = ("scores", kind.scores, (rows, kind.classes))
        others = [(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in self._small().items()]
        if kind.target is not None:
            others.append(("target", kind.target, (rows, kind.classes) if kind.multi_label else (rows,)))
        if kind.ids:
            others.append((IDS, torch.uint8, (rows, widths[IDS])))
        numbers = {"i": torch.int64, "f": torch.float64}
        for name, what in ((COLUMN_PREFIX + name, what) for name, what in kind.columns):
            others.append((name, numbers[what], (rows,)) if what in numbers else (name, torch.uint8, (rows, widths[name])))
        if kind.quality:
            others.append((QUALITY, torch.float64, (rows,)))
        others.sort(key=lambda one: (-one[1].itemsize, one[0]))
        sized = [(name, dtype, shape, _bytes(dtype, shape)) for name, dtype, shape in (scores, *others)]
        gap = _rounded(sized[0][3]) - sized[0][3]
        return [sized[0], *([(PADDING, torch.uint8, (gap,), gap)] if gap else []), *sized[1:]]

    def _described(self, rows: int, widths: Mapping[str, int]) -> bytes:
        header, described, start = self._header, dict[str, Any](), 0
        told = {"format": VERSION, "classes": json.dumps(header.classes), "link": json.dumps(header.link)}
        if header.superclasses is not None:
            told["superclasses"] = json.dumps(header.superclasses)
        if header.network_digest is not None:
            told["network_digest"] = json.dumps(header.network_digest)
        if self._kind.columns:
            told["columns"] = json.dumps([name for name, _ in self._kind.columns])
        described["__metadata__"] = told
        for name, dtype, shape, size in self._tensors(rows, widths):
            described[name] = {"dtype": _dtype_name(dtype, name), "shape": shape, "data_offsets": (start, start + size)}
            start += size
        return json.dumps(described).encode()


class NpzSink(Sink):
    """Arrays under their field names, uncompressed, so that they can be memory-mapped; names as arrays of text.

    An array in a zip archive cannot be changed once it is written, and says first how long it is: so scores go to a temporary
    file until the number of rows is known.
    """

    def __init__(self, path: Path, header: Header, kind: RowKind):
        self._path, self._header, self._kind = path, header, kind
        self._rows = _Rows(path.parent, kind)
        self._scores: IO[bytes] = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115 (closed by close)

    def _append(self, rows: Predictions) -> None:
        self._rows.add(self._scores, rows)

    def finish(self) -> None:
        """Write the archive, the rows from the temporary files."""
        rows, header, kind = self._rows, self._header, self._kind
        arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in small_tensors(header).items()}
        named = {"classes": header.classes, "superclasses": header.superclasses, "ids": rows.ids if kind.ids else None}
        arrays |= {name: np.array(texts, dtype=str) for name, texts in named.items() if texts is not None}
        if kind.quality:
            arrays[QUALITY] = rows.quality.numpy()
        arrays |= rows.columns()
        arrays |= {"link": np.array(json.dumps(header.link)), "format": np.array(VERSION)}
        if header.network_digest is not None:
            arrays["network_digest"] = np.array(json.dumps(header.network_digest))
        with zipfile.ZipFile(self._path, "w", zipfile.ZIP_STORED) as archive:
            _store_file(archive, "scores", self._scores, kind.scores, (rows.number, kind.classes))
            if kind.target is not None:
                _store_file(archive, "target", rows.targets, kind.target, rows.target_shape)
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    npy.write_array(member, array, allow_pickle=False)

    def close(self) -> None:
        """Close the temporary files."""
        self._scores.close()
        self._rows.targets.close()


def small_tensors(header: Header) -> dict[str, Tensor]:
    """The tensors whose size does not depend on the number of rows."""
    tensors = {LINK_PREFIX + name: tensor for name, tensor in header.link_tensors.items()}
    if header.train_counts is not None:
        tensors["train_counts"] = header.train_counts
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _raw(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().numpy().tobytes()


def _bytes(dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    size = dtype.itemsize
    for length in shape:
        size *= length
    return size


def _rounded(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def _dtype_name(dtype: torch.dtype, name: str) -> str:
    if dtype not in DTYPES:
        raise InputError(f"{name}: expected one of {', '.join(DTYPES.values())}, got {dtype}")
    return DTYPES[dtype]


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    source.seek(0)
    while part := source.read(COPIED):
        target.write(part)


def _store_file(archive: zipfile.ZipFile, name: str, file: IO[bytes], dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """Add an array whose bytes are in a file."""
    described = {"descr": npy.dtype_to_descr(torch.empty(0, dtype=dtype).numpy().dtype), "fortran_order": False, "shape": shape}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        npy.write_array_header_1_0(member, described)
        _copy(file, member)
