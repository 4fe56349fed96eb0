"""Predictions read from named arrays: safetensors and npz, small files whole, larger ones memory-mapped.

A mapped file must not shrink while it is in use: the system then ends the process (SIGBUS), which nothing here can catch.
"""

import json
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.lib import format as npy
from safetensors import SafetensorError, safe_open
from safetensors.torch import load as load_safetensors
from torch import Tensor

from shortlist.errors import InputError
from shortlist.predictions.numbered import Numbered
from shortlist.predictions.stored import COLUMN_PREFIX, VERSION, Keys, Stored
from shortlist.tensors import Array, as_tensor, as_text, shape_of
from shortlist.words import listed, shown

UNREADABLE = (SafetensorError, zipfile.BadZipFile, zlib.error, EOFError)
LINK_PREFIX = "link."
READ_WHOLE = 2**26  # bytes: 64 MB; larger files are mapped
LONGEST_NAME = 2**18  # bytes: a longer name is damage


def read_safetensors(path: Path, keys: Keys) -> Stored:
    """The tensors of a small file; those of a large one stay in the file until they are used."""
    if path.stat().st_size <= READ_WHOLE:
        content = path.read_bytes()
        every = load_safetensors(content)
        header = _metadata(content)
        tensors = {name: every[name] for name in _wanted(list(every), keys)}
    else:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in _wanted(list(file.keys()), keys)}
    ours = header.get("format") == VERSION
    if keys.ids is not None:
        raise InputError("ids_key: expected None, as safetensors files hold no text; name the rows in an npz file or a table")
    ids = tensors.pop("ids", None)
    order = names_of(json.loads(header.get("columns", "[]")), "columns") if ours else None
    named = [COLUMN_PREFIX + name for name in order or ()]
    columns = {name: _column(tensors.pop(key), ours) for name, key in keys.find_columns(tensors, named).items()}
    names = ("classes", "superclasses", "link", "network_digest")
    told = {name: json.loads(header.get(name, "null")) if ours else None for name in names}
    if not ours and "classes" in tensors:
        told["classes"] = _class_numbers(tensors["classes"], tensors[keys.find_scores(tensors)[0]])
    return _assemble(
        tensors,
        keys,
        ours=ours,
        ids=_from_bytes(ids) if ours and ids is not None else None,
        classes=names_of(told["classes"], "classes"),
        superclasses=names_of(told["superclasses"], "superclasses"),
        link=told["link"],
        network_digest=told["network_digest"],
        columns=columns,
    )


def _class_numbers(classes: Tensor, scores: Tensor) -> list[str]:
    """The names of classes that are numbers, from a file of another program: safetensors files hold no text."""
    if classes.is_floating_point() or classes.is_complex() or classes.dtype == torch.bool or classes.shape != scores.shape[1:]:
        raise InputError(f"classes: expected whole numbers, one for each class, got {shape_of(classes)}")
    return [str(number) for number in classes.tolist()]


def _metadata(content: bytes) -> dict[str, str]:
    """The texts in the header of a safetensors file, which was found to be valid."""
    (length,) = struct.unpack("<Q", content[:8])
    found: dict[str, str] = json.loads(content[8 : 8 + length]).get("__metadata__") or {}
    return found


def read_npz(path: Path, keys: Keys) -> Stored:
    """The arrays of a small or compressed file; those of others stay in the file until they are used."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        wanted = _wanted([*members], keys)
        _check_shapes({name: _described(archive, members[name]) for name in wanted}, keys)
        arrays = {name: _member(path, archive, members[name]) for name in wanted}
    ours = "format" in arrays and str(arrays.pop("format")) == VERSION
    named = [name for name in arrays if ours and name.startswith(COLUMN_PREFIX)]
    columns = {name: arrays.pop(key) for name, key in keys.find_columns(arrays, named).items()}
    classes, superclasses, ids = _texts(arrays, keys)
    link, digest = (arrays.pop(name, None) for name in ("link", "network_digest"))
    words = {name: as_text(array, name).tolist() for name, array in arrays.items() if array.dtype.kind in "US"}
    return _assemble(
        {name: as_tensor(array, name) for name, array in arrays.items() if name not in words} | words,
        keys,
        ours=ours,
        ids=ids if ours or ids is None else keys.check_ids(ids),
        classes=classes,
        superclasses=superclasses,
        link=json.loads(str(link)) if ours and link is not None else None,
        network_digest=json.loads(str(digest)) if ours and digest is not None else None,
        columns=columns,
    )


def read_npy(path: Path, keys: Keys) -> Stored:
    """The scores alone; the labels are those of another ``.npy`` file, if ``target_key`` names one."""
    unnamed = {"scores_key": keys.scores, "ids_key": keys.ids, "quality_key": keys.quality, "columns": keys.columns}
    for name, given in unnamed.items():
        if given:
            raise InputError(f"{name}: expected None, as a .npy file holds one array without a name, got {shown(given)}")
    arrays = {"scores": _whole_array(path)}
    if keys.target is not None:
        arrays["target"] = _whole_array(labels_beside(path, keys.target))
    words = {name: as_text(array, name).tolist() for name, array in arrays.items() if array.dtype.kind in "US"}
    tensors = {name: as_tensor(array, name) for name, array in arrays.items() if name not in words}
    nothing: dict[str, Any] = dict.fromkeys(("ids", "classes", "superclasses", "link", "network_digest"))
    return _assemble(tensors | words, replace(keys, target=None), ours=False, **nothing)


def labels_beside(path: Path, name: str) -> Path:
    """The file of this name with the labels of a ``.npy`` file: in its folder, or else where the name leads from here."""
    beside = path.parent / name
    return beside if beside.is_file() else Path(name)


def _whole_array(path: Path) -> Array:
    """The array of a .npy file; that of a large one stays in the file until it is used."""
    if path.suffix.lower() != ".npy" or not path.is_file():
        there = "got a file of another kind" if path.is_file() else "there is no such file"
        raise InputError(f"target_key: expected a .npy file of labels beside .npy scores, {there}: {path}")
    mode: Any = "c" if path.stat().st_size > READ_WHOLE else None
    array: Array = np.load(path, mmap_mode=mode, allow_pickle=False)
    return array


def _texts(arrays: dict[str, Any], keys: Keys) -> list[list[str] | None]:
    """The names of classes, superclasses and rows, taken out of the arrays."""
    names = ("classes", "superclasses", keys.ids or "ids")
    return [as_text(arrays.pop(name), name).tolist() if name in arrays else None for name in names]


class Described(NamedTuple):
    """What the header of an array says, before the array is read."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int  # of the first value in the member


def _described(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Described:
    """The header of one array; refused if it promises more than the file holds.

    An entry counts as one byte at least: empty texts take no room in a file, and millions of them much in memory.
    """
    with archive.open(info) as stream:
        version = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read_header(stream)
        offset = stream.tell()
    if dtype.hasobject:
        raise InputError(f"{info.filename}: expected numbers or text, got Python objects, which are never unpickled")
    size = math.prod(shape) * max(1, dtype.itemsize)
    if size > info.file_size - offset:
        raise InputError(f"{info.filename}: expected {size} bytes for {shape}, the file holds {info.file_size - offset}")
    return Described(shape, fortran, dtype, offset)


def _check_shapes(found: Mapping[str, Described], keys: Keys) -> None:
    """Names, one for each class or row, and of a sensible length: told from the headers, before anything is read."""
    scores, target = found[keys.find_scores(found)[0]].shape, keys.find_target(found)
    if target is not None and len(scores) == 2 and found[target].shape[:1] != scores[:1]:
        raise InputError(f"target: expected labels for {scores[0]} rows, got an array of shape {found[target].shape}")
    for name, place in (("classes", 1), ("superclasses", 1), (keys.ids or "ids", 0)):
        if name not in found or len(scores) != 2:
            continue
        shape, dtype = found[name].shape, found[name].dtype
        if shape != (scores[place],):
            what = "class" if place else "row"
            raise InputError(f"{name}: expected {scores[place]} names, one for each {what}, got an array of shape {shape}")
        if dtype.kind not in "USiu" or dtype.itemsize > LONGEST_NAME:
            raise InputError(f"{name}: expected texts or whole numbers, got an array of dtype {dtype}")


def names_of(value: Any, what: str) -> list[str] | None:
    """A list of names, as JSON holds it, or None."""
    if value is not None and not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
        raise InputError(f"{what}: expected a list of names, got {shown(value)}")
    return value


def _wanted(names: Sequence[str], keys: Keys) -> list[str]:
    """Only what will be used: a file of another program may hold much else."""
    scores = keys.find_scores(names)
    if len(scores) > 1:
        raise InputError(f"expected one array of scores, {keys.scores!r} matches {listed(scores)}")
    target = keys.find_target(names)
    ours = {"classes", "superclasses", keys.find_ids(names, "ids"), "train_counts", "link", "network_digest", "format"}
    ours.add(keys.find_quality(names))
    ours.update(keys.columns)
    return [n for n in names if n in scores or n == target or n in ours or n.startswith((LINK_PREFIX, COLUMN_PREFIX))]


def _column(tensor: Tensor, ours: bool) -> Any:
    """The entries of a column: texts are held as bytes in files of ours."""
    return np.array(_from_bytes(tensor), dtype=str) if ours and tensor.ndim == 2 else tensor


def _assemble(
    tensors: Mapping[str, Any],
    keys: Keys,
    *,
    ours: bool,
    ids: Sequence[str] | None,
    classes: Sequence[str] | None,
    superclasses: Sequence[str] | None,
    link: dict[str, Any] | None,
    network_digest: Any,
    columns: dict[str, Any] | None = None,
) -> Stored:
    target, quality = keys.find_target(tensors), keys.find_quality(tensors)
    scores: Tensor = tensors[keys.find_scores(tensors)[0]]
    labels: Any = None if target is None else tensors[target]
    labelled = None if target is None else keys.present(labels, classes or ())
    if labelled is not None:
        labels = labels[labelled] if isinstance(labels, Tensor) else [labels[row] for row in labelled.nonzero()[:, 0].tolist()]
    return Stored(
        scores=scores,
        target=labels,
        labelled=labelled,
        quality=None if quality is None else tensors[quality] if ours else keys.check_quality(tensors[quality], len(scores)),
        classes=classes,
        superclasses=superclasses,
        ids=ids,
        train_counts=tensors.get("train_counts"),
        link=link,
        network_digest=network_digest,
        columns=columns or {},
        link_tensors={n.removeprefix(LINK_PREFIX): t for n, t in tensors.items() if n.startswith(LINK_PREFIX)},
        numbered=None if ours or classes is None else Numbered.of(classes),
    )


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """One array of an npz: mapped where it lies uncompressed in the file, else read."""
    shape, fortran, dtype, inside = _described(archive, info)
    mappable = info.compress_type == zipfile.ZIP_STORED and shape and dtype.kind in "fiub" and 0 not in shape
    if not mappable or path.stat().st_size <= READ_WHOLE:
        with archive.open(info) as stream:
            return npy.read_array(stream, allow_pickle=False)
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)  # lengths of the name and of the extra field in the member's own header
        name, extra = struct.unpack("<HH", file.read(4))
    offset = info.header_offset + 30 + name + extra + inside
    # Copy on write: torch wants writable memory, the file must never change.
    return np.memmap(path, dtype, "c", offset, shape, order="F" if fortran else "C")


def texts_to_bytes(texts: Sequence[str]) -> Array:
    """UTF-8 bytes (n, longest), padded with zeros."""
    encoded = np.array([text.encode() for text in texts], dtype=bytes)
    return encoded.view(np.uint8).reshape(len(texts), max(1, encoded.dtype.itemsize))


def _from_bytes(ids: Tensor) -> list[str]:
    if ids.dtype != torch.uint8 or ids.ndim != 2 or not ids.shape[1]:
        raise InputError(f"ids: expected UTF-8 bytes, uint8 (rows, longest), got {shape_of(ids)}")
    matrix = ids.numpy()
    rows = np.ascontiguousarray(matrix).view(f"S{matrix.shape[1]}").reshape(-1)
    return [row.decode() for row in rows.tolist()]
