"""Fingerprint of data: what is kept of every row, so that a run is never continued on other data than it began with.

For every row: its id, its labels, its split and its content: all numbers of features, all bytes of pictures in memory, in a
table or in files; nothing of pictures that another library reads. Files are read to the end whatever their size: a picture that
is not compressed keeps its size, its first and its last bytes when what it shows changes, and to decode a file takes many times
as long as to digest it.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import Tensor

from shortlist.data.addressed import AddressedPictures
from shortlist.data.dataset import Split
from shortlist.data.feature_names import is_unnamed
from shortlist.data.parquet_pictures import ParquetPictures
from shortlist.data.picture_bytes import PictureBytes
from shortlist.data.pictures import PictureArray, PictureBoxes, PictureFiles, Pictures
from shortlist.errors import InputError
from shortlist.files import order_header, written_whole
from shortlist.machine import local_processes, usable_cores
from shortlist.tensors import Target, is_single_label, row_blocks
from shortlist.words import counted, listed, quoted

FORMAT = "shortlist-rows/2"
BY_ENDS = "shortlist-rows/1"  # of earlier versions, which compared only the two ends of files above 64 KB
Numbers: TypeAlias = npt.NDArray[np.uint64]
COLUMNS = ("ids", "labels", "content", "split")
STEP = np.uint64(0x9E3779B97F4A7C15)  # odd, so that its multiples are distinct
TASK = 64  # files that a thread reads before it takes others
MISSING = 2**64 - 1  # stands for a file that cannot be read


@dataclass(frozen=True, eq=False)
class DataFingerprint:
    """Digests of all rows of some splits, in order.

    Args:
        classes: the class names.
        superclasses: the name of the superclass of each class, or None.
        splits: the names of the splits.
        ids: digest of the id of each row.
        labels: digest of the names of its labels.
        content: digest of its content.
        split: the number of its split.
        identified: whether ``content`` identifies a row, as that of features and of pictures in memory or in a table does.
        features: the names of the features, where they have names.
        by_ends: whether ``content`` covers only the two ends of files above 64 KB, as in what an earlier version has saved.
    """

    classes: tuple[str, ...]
    superclasses: tuple[str, ...] | None
    splits: tuple[str, ...]
    ids: Numbers
    labels: Numbers
    content: Numbers
    split: Numbers
    identified: bool
    features: tuple[str, ...] = ()
    by_ends: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows of each split."""
        return {name: int((self.split == number).sum()) for number, name in enumerate(self.splits)}

    @property
    def digest(self) -> str:
        """One text for all of it; two fingerprints are of the same data if these are equal."""
        found = hashlib.blake2b(self._names().encode())
        for name in COLUMNS:
            found.update(getattr(self, name).astype("<u8").tobytes())
        return found.hexdigest()[:32]

    def record(self) -> dict[str, Any]:
        """A summary for JSON: the digest and the number of rows of each split."""
        return {"digest": self.digest, "classes": len(self.classes), "rows": self.rows}

    def _names(self) -> str:
        named = [list(self.features)] if self.features else []
        return json.dumps([self.classes, self.superclasses, self.splits, self.identified, *named])

    def save(self, path: Path) -> None:
        """Write the fingerprint."""
        with written_whole(path) as temporary:
            save_file({name: getattr(self, name) for name in COLUMNS}, temporary, {"format": FORMAT, "names": self._names()})
            order_header(temporary)

    @staticmethod
    def load(path: Path) -> "DataFingerprint":
        """Read what :meth:`save` wrote."""
        try:
            with safe_open(path, framework="np") as file:
                header = file.metadata() or {}
                columns = {name: file.get_tensor(name) for name in COLUMNS}
            classes, superclasses, splits, identified, *named = json.loads(header["names"])
            if header["format"] not in (FORMAT, BY_ENDS) or any(column.dtype != np.uint64 for column in columns.values()):
                raise ValueError(f"expected the format {FORMAT}")
            if len({column.shape for column in columns.values()}) > 1 or columns["ids"].ndim != 1:
                raise ValueError("expected one digest of each kind for each row")
            if (columns["split"] >= len(splits)).any():
                raise ValueError("expected the number of a split for each row")
            above = None if superclasses is None else tuple(map(str, superclasses))
            features = tuple(map(str, named[0])) if named else ()
            names = (tuple(map(str, classes)), above, tuple(map(str, splits)))
            by_ends = header["format"] == BY_ENDS
            return DataFingerprint(*names, **columns, identified=identified, features=features, by_ends=by_ends)
        except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"cannot read {path}: {error}") from error

    def count_in(self, split: str, ids: Sequence[str]) -> int:
        """How many of these ids are ids of rows of a split.

        >>> rows = Split(torch.eye(2), torch.tensor([0, 1]), ["a.jpg", "b.jpg"])
        >>> fingerprint({"train": rows}, ["x", "y"]).count_in("train", ["b.jpg", "c.jpg"])
        1
        """
        if split not in self.splits:
            return 0
        return int(np.isin(_ids(ids), self.ids[self.split == self.splits.index(split)]).sum())

    def changes_since(self, old: "DataFingerprint") -> str:
        """What has changed since another fingerprint was taken, in words; empty if nothing has.

        >>> rows = Split(torch.eye(3), torch.tensor([0, 1, 1]), ["a", "b", "c"])
        >>> old, fewer = fingerprint({"train": rows}, ["x", "y"]), rows.rows(torch.tensor([0, 1]))
        >>> fingerprint({"train": fewer.with_target(torch.tensor([1, 1]))}, ["x", "y"]).changes_since(old)
        '1 row was removed, 1 row was relabelled'
        """
        if self.digest == old.digest:
            return ""
        found = _class_changes(old.classes, self.classes)
        if self.features != old.features:
            same = sorted(self.features) == sorted(old.features)
            return ", ".join([*found, f"the features {'are in another order' if same else 'have other names'}"])
        kinds = ("ids", "content") if self.identified and old.identified else ("ids",)
        matched = [_row_changes(old, self, kind) for kind in kinds]
        found += _in_words(min(matched, key=lambda counts: sum(counts.values())), old.by_ends and not old.identified)
        if found:
            return ", ".join(found)
        if not np.array_equal(np.sort(self.ids), np.sort(old.ids)):
            return "the ids of the rows have changed"
        if old.superclasses != self.superclasses:
            return "the superclasses have changed"
        return "the rows are in another order"


def fingerprint(
    splits: Mapping[str, Split], classes: Sequence[str], superclasses: Sequence[str] | None = None
) -> DataFingerprint:
    """The fingerprint of these splits.

    >>> rows = Split(torch.zeros(2, 3), torch.tensor([0, 1]), ["a", "b"])
    >>> fingerprint({"train": rows}, ["oak", "elm"]).rows
    {'train': 2}
    """
    names = np.array([_number(name.encode("utf-8", "surrogatepass")) for name in classes], dtype=np.uint64)
    columns: dict[str, list[Numbers]] = {name: [] for name in COLUMNS}
    for number, split in enumerate(splits.values()):
        columns["ids"].append(_ids(split.ids))
        columns["labels"].append(_labels(split.target, names, len(split)))
        columns["content"].append(contents(split.inputs))
        columns["split"].append(np.full(len(split), number, dtype=np.uint64))
    empty = [np.zeros(0, dtype=np.uint64)]
    return DataFingerprint(
        tuple(classes),
        None if superclasses is None else tuple(superclasses),
        tuple(splits),
        **{name: np.concatenate([*empty, *parts]) for name, parts in columns.items()},
        identified=all(
            isinstance(split.inputs, Tensor | PictureArray | PictureBytes | ParquetPictures) for split in splits.values()
        ),
        features=next((tuple(one.feature_names) for one in splits.values() if not is_unnamed(one.feature_names)), ()),
        by_ends=False,
    )


def _number(value: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "little")


def _numbers(values: Any) -> Numbers:
    return np.fromiter((_number(value) for value in values), dtype=np.uint64)


def _ids(ids: Sequence[str]) -> Numbers:
    return _numbers(str(one).encode("utf-8", "surrogatepass") for one in ids)


def _labels(target: Target | None, names: Numbers, rows: int) -> Numbers:
    """The digest of each row's labels: the sum of those of their names."""
    if target is None:
        return np.zeros(rows, dtype=np.uint64)
    if is_single_label(target):
        found: Numbers = names[target.numpy()]
        return found
    summed = np.empty(rows, dtype=np.uint64)
    for block in row_blocks(*target.shape):
        summed[block] = np.where(target[block].numpy(), names, np.uint64(0)).sum(1, dtype=np.uint64)
    return summed


def contents(inputs: Pictures | Tensor) -> Numbers:
    """Digest of the content of each row; 0 for pictures that another library reads."""
    if isinstance(inputs, Tensor | PictureArray):
        rows = inputs if isinstance(inputs, Tensor) else inputs.images
        if not rows[0:1].numel():
            return np.zeros(len(rows), dtype=np.uint64)
        return _numbers(row.contiguous().view(torch.uint8).numpy().data for row in rows.detach().cpu().flatten(1))
    if isinstance(inputs, PictureBytes):
        return _numbers(inputs.column[int(place)].as_py() or b"" for place in inputs.places)
    if isinstance(inputs, ParquetPictures):
        return _numbers(inputs.content(row) or b"" for row in range(len(inputs)))
    if isinstance(inputs, AddressedPictures):
        return _read_by_threads(lambda row: _addressed(inputs, row), len(inputs))
    if isinstance(inputs, PictureBoxes):  # of which several are of one file
        paths, place = np.unique(np.array(list(inputs.paths), dtype=object), return_inverse=True)
        return _read_by_threads(lambda row: _file(inputs.root / paths[row]), len(paths))[place]
    if isinstance(inputs, PictureFiles):
        return _read_by_threads(lambda row: _file(inputs.path(row)), len(inputs))
    return np.zeros(len(inputs), dtype=np.uint64)


def _read_by_threads(number: Callable[[int], int], rows: int) -> Numbers:
    """The number of each row, by the threads of one process: reading files and digesting them holds no lock of Python's."""

    def task(start: int) -> list[int]:
        return [number(row) for row in range(start, min(start + TASK, rows))]

    with ThreadPoolExecutor(max(1, usable_cores() // local_processes())) as pool:
        return np.array([one for found in pool.map(task, range(0, rows, TASK)) for one in found], dtype=np.uint64)


def _addressed(pictures: AddressedPictures, row: int) -> int:
    """The same number as for a file of these bytes."""
    try:
        content = pictures.content(row)
    except OSError:
        return MISSING
    return _number(len(content).to_bytes(8, "little") + content)


def _file(path: Path) -> int:
    """Digest of the size and all bytes of a file."""
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            # In blocks, so that no file has to fit into memory; the number is that of the size and the bytes as one.
            found = hashlib.blake2b(size.to_bytes(8, "little"), digest_size=8)
            hashlib.file_digest(file, lambda: found)
    except OSError:
        return MISSING
    return int.from_bytes(found.digest(), "little")


def _class_changes(old: Sequence[str], new: Sequence[str]) -> list[str]:
    gone, come = [name for name in old if name not in set(new)], [name for name in new if name not in set(old)]
    found = [f"{_classes(come)} added"] if come else []
    found += [f"{_classes(gone)} removed"] if gone else []
    return found or (["the classes are in another order"] if list(old) != list(new) else [])


def _classes(names: Sequence[str]) -> str:
    return f"{counted(len(names), 'class', 'classes')} ({listed([quoted([name]) for name in names], 3)}) {_was(len(names))}"


def _was(number: int) -> str:
    return "was" if number == 1 else "were"


def _row_changes(old: DataFingerprint, new: DataFingerprint, kind: str) -> dict[str, int]:
    """How many rows changed in each way, where rows are matched by id or by content."""
    before, after = _distinct(getattr(old, kind)), _distinct(getattr(new, kind))
    _, mine, theirs = np.intersect1d(before, after, assume_unique=True, return_indices=True)
    places = {name: number for number, name in enumerate(new.splits)}
    moved = np.array([places.get(name, len(places)) for name in old.splits], dtype=np.uint64)
    return {
        "added": len(after) - len(theirs),
        "removed": len(before) - len(mine),
        "relabelled": int((old.labels[mine] != new.labels[theirs]).sum()),
        "changed": int((old.content[mine] != new.content[theirs]).sum()),
        "moved": int((moved[old.split[mine].astype(np.int64)] != new.split[theirs]).sum()),
    }


def _in_words(counts: Mapping[str, int], by_ends: bool = False) -> list[str]:
    """One part of a sentence for each kind of change.

    Args:
        counts: how many rows changed in each way.
        by_ends: whether large files had been compared by their ends, so that their numbers are others in any case.
    """
    verbs = {name: f"{{}} {name}" for name in ("added", "removed", "relabelled")}
    found = [
        f"{counted(counts[name], 'row')} {verb.format(_was(counts[name]))}" for name, verb in verbs.items() if counts[name]
    ]
    if counts["changed"]:
        why = ", or files above 64 KB, of which an earlier version of shortlist compared only the two ends" if by_ends else ""
        found.append(f"{counted(counts['changed'], 'row has', 'rows have')} other contents{why}")
    if counts["moved"]:
        found.append(f"{counted(counts['moved'], 'row')} moved between splits")
    return found


def _distinct(keys: Numbers) -> Numbers:
    """The keys, the n-th of equal ones changed by n steps, so that each is matched with one row only."""
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(keys) else np.zeros(0, dtype=np.int64)
    within = np.arange(len(keys)) - np.repeat(starts, np.diff(np.r_[starts, len(keys)]))
    found = keys.copy()
    found[order] = ranked + within.astype(np.uint64) * STEP
    return found
