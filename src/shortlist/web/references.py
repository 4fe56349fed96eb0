"""References: pictures whose class is known, to compare a photograph with; the most similar ones of a class, found exactly.

On disk, one folder: ``embeddings.npy``, float16 (N, F) of length 1, sorted by class and memory-mapped; ``rows.npy``, the row of
the data that each is of; ``typical.npy``, the ones nearest to the mean of each class; ``references.json``, where each class
starts, the digests of the network, of the data and of the other files. A picture with several labels is there once for each.
"""

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from shortlist.data.dataset import Split
from shortlist.data.problems import Problem
from shortlist.errors import InputError
from shortlist.files import folder_replaced_whole
from shortlist.models import Classifier
from shortlist.models.embeddings import embedded_batches
from shortlist.tensors import is_single_label
from shortlist.training.fingerprint import contents

Numbers: TypeAlias = npt.NDArray[np.int64]
Halves: TypeAlias = npt.NDArray[np.float16]

FORMAT = "shortlist-references/2"
EMBEDDINGS, ROWS, TYPICAL, RECORD = "embeddings.npy", "rows.npy", "typical.npy", "references.json"
MOST_TYPICAL = 8
CONVERTED = 2**19  # numbers that are in memory as float32 at a time, and stay in the cache


@dataclass(frozen=True, eq=False)
class References:
    """Reference pictures by class.

    Args:
        embeddings: float16 (N, F), of length 1, sorted by class.
        starts: int64 (C + 1,): those of class c are ``starts[c]`` to ``starts[c + 1] - 1``.
        rows: int64 (N,), the row of the data that each is of.
        typical: int64 (C, T), the most typical of each class, -1 where there are no more.
        network: the digest of the network that embedded them.
        data: the digest of the ids, labels and contents of the data.

    >>> embeddings = np.eye(3, dtype=np.float16)
    >>> found = References(embeddings, np.array([0, 2, 3]), np.array([7, 5, 6]), np.array([[0], [2]]), "", "")
    >>> found.similar(np.array([0.6, 0.8, 0.0]), 0, most=2), found.typical_of(1, most=2)
    ([1, 0], [2])
    """

    embeddings: Halves
    starts: Numbers
    rows: Numbers
    typical: Numbers
    network: str
    data: str

    def __len__(self) -> int:
        return len(self.rows)

    def similar(self, embedding: npt.NDArray[Any], place: int, most: int) -> list[int]:
        """The numbers of the references of a class that are nearest to an embedding (F,), nearest first; ties by lower number.

        Exact: all references of the class are compared, in float32.
        """
        first, end = int(self.starts[place]), int(self.starts[place + 1])
        cosines = _products(self._tensor[first:end], torch.from_numpy(embedding.astype(np.float32)))
        return [first + row for row in _largest(cosines, most).tolist()]

    @cached_property
    def _tensor(self) -> Tensor:
        """The embeddings for torch, whose conversion from float16 is several times as fast as that of numpy."""
        return torch.from_numpy(self.embeddings)

    def typical_of(self, place: int, most: int) -> list[int]:
        """The numbers of the most typical references of a class, those nearest to the mean of the class."""
        return [int(number) for number in self.typical[place][:most] if number >= 0]

    def class_of(self, number: int) -> int:
        """The class of a reference."""
        return int(np.searchsorted(self.starts, number, side="right")) - 1

    @staticmethod
    def build(
        classifier: Classifier, rows: Split, folder: str | Path, progress: Callable[[int], None] | None = None
    ) -> "tuple[References, list[Problem]]":
        """Embed labelled rows, and write the folder; whole or not at all, in the place of what was there.

        Args:
            classifier: whose network embeds them.
            rows: pictures with labels, those of the classifier's classes.
            folder: where the references go.
            progress: callback, called with the number of rows done.

        Returns:
            The references, and a problem for each picture that cannot be read, which is left out.
        """
        labelled = rows.with_classes(classifier.classes)
        label, row = _pairs(labelled)
        problems: list[Problem] = []
        _check_folder(Path(folder))
        Path(folder).mkdir(parents=True, exist_ok=True)  # the new one takes its place
        with folder_replaced_whole(folder) as new:
            new.mkdir()
            readable, typical = _write_embeddings(classifier, labelled, label, row, new, problems, progress)
            label, row = label[readable], row[readable]
            starts = np.searchsorted(label, np.arange(len(classifier.classes) + 1))
            np.save(new / ROWS, row)
            np.save(new / TYPICAL, typical)
            record: dict[str, Any] = {"format": FORMAT, "network": classifier.network.digest(), "data": data_digest(labelled)}
            record |= {"starts": starts.tolist(), "files": file_digests(new)}
            (new / RECORD).write_text(json.dumps({**record, "digest": record_digest(record)}) + "\n", encoding="utf-8")
        return References.open(folder), problems

    @staticmethod
    def open(folder: str | Path) -> "References":
        """The references that :meth:`build` wrote, checked by their digests.

        Embeddings stay on the disk until they are compared.
        """
        path = Path(folder)
        try:
            record = json.loads((path / RECORD).read_text(encoding="utf-8"))
            if record.get("format") != FORMAT:
                raise ValueError(f"expected the format {FORMAT}, got {record.get('format')!r}")
            if record.pop("digest", None) != record_digest(record) or record["files"] != file_digests(path):
                raise ValueError("a file is damaged, or not the one that was written")
            # Copied on write, which nobody does: torch refuses memory that cannot be written.
            embeddings = np.load(path / EMBEDDINGS, mmap_mode="c", allow_pickle=False)
            rows, typical = (np.load(path / name, allow_pickle=False) for name in (ROWS, TYPICAL))
            found = References(
                embeddings, np.array(record["starts"], np.int64), rows, typical, str(record["network"]), str(record["data"])
            )
            if not found.is_consistent:
                raise ValueError("its parts do not belong together")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise InputError(f"cannot read the references in {path}: {error}: remove the folder to build them again") from error
        return found

    @property
    def is_consistent(self) -> bool:
        """Whether its parts belong together: every number is that of a reference, and all references are of a class."""
        number, starts = len(self.rows), self.starts
        shapes = self.embeddings.ndim == 2 and self.rows.ndim == starts.ndim == 1 and self.typical.ndim == 2
        return bool(
            shapes
            and self.embeddings.dtype == np.float16
            and all(part.dtype == np.int64 for part in (self.rows, self.typical))
            and len(self.embeddings) == number
            and len(self.typical) == len(starts) - 1
            and (starts[0], starts[-1]) == (0, number)
            and (np.diff(starts) >= 0).all()
            and (self.rows >= 0).all()
            and ((self.typical >= -1) & (self.typical < number)).all()
        )

    def are_of(self, classifier: Classifier, rows: Split) -> bool:
        """Whether they were embedded by this network, from these rows."""
        return self.network == classifier.network.digest() and self.data == data_digest(rows.with_classes(classifier.classes))


def _check_folder(folder: Path) -> None:
    """Raise an error rather than replace a folder of something else."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RECORD).is_file():
        raise InputError(f"{folder}: expected a new folder or one of references, got one with other files")


def file_digests(folder: Path) -> dict[str, str]:
    """The digest of each file beside the record: reading them once takes a fraction of what embedding them did."""
    found = {}
    for name in (EMBEDDINGS, ROWS, TYPICAL):
        with (folder / name).open("rb") as file:
            found[name] = hashlib.file_digest(file, "blake2b").hexdigest()[:32]
    return found


def record_digest(record: dict[str, Any]) -> str:
    """The digest of the record, without itself."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def data_digest(rows: Split) -> str:
    """Digest of the ids, the labels and the contents of rows: whether they are the same."""
    found = hashlib.sha256(repr(list(rows.classes or ())).encode())
    found.update("\0".join(map(str, rows.ids)).encode(errors="surrogatepass"))
    found.update(rows.labels.contiguous().numpy().tobytes())
    found.update(contents(rows.inputs).tobytes())
    return found.hexdigest()[:16]


def _pairs(rows: Split) -> tuple[Numbers, Numbers]:
    """Every label of every row: labels ascending, and the row of each."""
    labels = rows.labels
    if is_single_label(labels):
        label, row = labels.numpy(), np.arange(len(labels))
    else:
        row, label = (part.numpy() for part in labels.nonzero(as_tuple=True))
    order = np.argsort(label, kind="stable")
    return label[order], row[order]


def _write_embeddings(
    classifier: Classifier,
    rows: Split,
    label: Numbers,
    row: Numbers,
    folder: Path,
    problems: list[Problem],
    progress: Callable[[int], None] | None,
) -> tuple[npt.NDArray[np.bool_], Numbers]:
    """Embed the rows into their sorted places; returns which of the pairs could be read, and the typical ones."""
    by_row = np.argsort(row, kind="stable")  # places of the pairs of each row, together
    first = np.searchsorted(row[by_row], np.arange(len(rows) + 1))
    written: Any = None
    readable = np.zeros(len(row), np.bool_)
    for numbers, _, embeddings in embedded_batches(classifier, rows.with_target(None), problems=problems):
        if written is None:
            shape = (len(row), embeddings.shape[1])
            written = np.lib.format.open_memmap(folder / EMBEDDINGS, mode="w+", dtype=np.float16, shape=shape)
        for number, embedding in zip(numbers.tolist(), embeddings.numpy(), strict=True):
            places = by_row[first[number] : first[number + 1]]
            written[places], readable[places] = embedding, True
        if progress is not None:
            progress(int(numbers[-1]) + 1)
    if written is None or not readable.any():
        raise InputError("references: expected pictures with labels that can be read, got none")
    if not readable.all():  # few: rewritten without them
        kept = np.ascontiguousarray(written[readable])
        del written
        np.save(folder / EMBEDDINGS, kept)
        written = kept
    else:
        written.flush()  # its digest is that of what is on the disk
    return readable, _typical(written, label[readable], len(classifier.classes))


def _typical(embeddings: Halves, label: Numbers, classes: int) -> Numbers:
    """The references nearest to the mean of their class, (C, T)."""
    starts = np.searchsorted(label, np.arange(classes + 1))
    found = np.full((classes, MOST_TYPICAL), -1, np.int64)
    for place in range(classes):
        block = torch.from_numpy(embeddings[starts[place] : starts[place + 1]]).float()
        if len(block):
            best = _largest((block @ block.mean(0)).numpy(), MOST_TYPICAL)
            found[place, : len(best)] = starts[place] + best
    return found


class _Scratch(threading.local):
    """Memory that a thread converts embeddings in: with memory of its own each conversion would cost more than the products."""

    def __init__(self) -> None:
        self._memory = torch.empty(0)

    def of(self, rows: int, width: int) -> Tensor:
        """Room for so many rows."""
        if self._memory.numel() < rows * width:
            self._memory = torch.empty(rows * width)
        return self._memory[: rows * width].view(rows, width)


_SCRATCH = _Scratch()


def _products(embeddings: Tensor, wanted: Tensor) -> npt.NDArray[np.float32]:
    """The inner products of float16 rows (n, F) with a row (F,), in float32."""
    rows, width = embeddings.shape
    found = torch.empty(rows)
    step = max(1, CONVERTED // width)
    for start in range(0, rows, step):
        part = embeddings[start : start + step]
        torch.mv(_SCRATCH.of(len(part), width).copy_(part), wanted, out=found[start : start + step])
    return found.numpy()


def _largest(values: npt.NDArray[np.float32], most: int) -> Numbers:
    """The places of the largest values, largest first, ties by lower place."""
    if len(values) > 4 * most:
        least = np.partition(values, len(values) - most)[len(values) - most]
        kept = np.flatnonzero(values >= least)
        return kept[np.argsort(-values[kept], kind="stable")][:most]
    return np.argsort(-values, kind="stable")[:most]
