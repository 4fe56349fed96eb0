"""CIFAR-10 and CIFAR-100 in their binary version: one byte (two) for the label, then 3,072 for the picture, and again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from shortlist.checks import whole
from shortlist.data.dataset import TRAIN, Dataset, Split, classes_without_rows
from shortlist.data.names import check_names
from shortlist.data.open_set import unlabel
from shortlist.data.pictures import PictureArray
from shortlist.data.problems import Problem
from shortlist.data.readers.layout import find_home, text_lines
from shortlist.data.readers.named_pictures import distinct_names, shared_names
from shortlist.errors import InputError
from shortlist.tensors import Array
from shortlist.words import printable

SIDE = 32
PIXELS = 3 * SIDE * SIDE  # red, green and blue, one after the other, row by row
TEN, HUNDRED = "cifar-10-batches-bin", "cifar-100-binary"
TEN_TRAIN, TEN_TEST = tuple(f"data_batch_{number}.bin" for number in range(1, 6)), ("test_batch.bin",)
REFERENCE = "Krizhevsky, Learning multiple layers of features from tiny images, technical report, 2009"
PAGE = "The binary version is offered at https://www.cs.toronto.edu/~kriz/cifar.html; {} fetches it"


def read_cifar10(root: str | Path) -> Dataset:
    """CIFAR-10 from the folder ``cifar-10-batches-bin``, or from one that holds it: 50,000 pictures to train, 10,000 to test.

    Only the binary version is read: the Python version is a pickle, which can run any code when it is opened.
    """
    source = PAGE.format("shortlist.data.download_cifar10")
    home = find_home(root, "CIFAR-10, binary version", holds=["batches.meta.txt"], below=[TEN], source=source)
    problems: list[Problem] = []
    classes = _names(home / "batches.meta.txt", "the names of the classes", problems)
    splits = {
        TRAIN: _read(home, TEN_TRAIN, 1, 10_000, problems).labelled(0, classes, problems),
        "test": _read(home, TEN_TEST, 1, 10_000, problems).labelled(0, classes, problems),
    }
    problems += classes_without_rows(splits, classes)
    return Dataset("CIFAR-10", classes, splits, reference=REFERENCE, problems=problems)


def read_cifar100(root: str | Path, *, unlabelled: int = 0) -> Dataset:
    """CIFAR-100 from the folder ``cifar-100-binary``, or from one that holds it: 100 classes in 20 superclasses.

    The superclass of a class is the coarse label of its pictures.

    Args:
        root: the folder.
        unlabelled: so many classes of each superclass lose their label, see :func:`~shortlist.data.unlabel`; with 2 this is
            CIFAR60+40, see :func:`cifar60_40`.
    """
    unlabelled = whole(0)("unlabelled", unlabelled)
    source = PAGE.format("shortlist.data.download_cifar100")
    home = find_home(root, "CIFAR-100, binary version", holds=["fine_label_names.txt"], below=[HUNDRED], source=source)
    problems: list[Problem] = []
    classes = _names(home / "fine_label_names.txt", "the names of the classes", problems)
    coarse = _names(home / "coarse_label_names.txt", "the names of the superclasses", problems)
    train = _read(home, ("train.bin",), 2, 50_000, problems)
    test = _read(home, ("test.bin",), 2, 10_000, problems)
    superclasses = _superclasses(np.concatenate([train.labels, test.labels]), classes, coarse, problems)
    splits = {
        TRAIN: train.labelled(1, classes, problems),
        "test": test.labelled(1, classes, problems),
    }
    problems += classes_without_rows(splits, classes)
    dataset = Dataset("CIFAR-100", classes, splits, superclasses, REFERENCE, problems)
    return _unlabelled(dataset, unlabelled) if unlabelled else dataset


def cifar60_40(dataset: Dataset, seed: int = 0) -> Dataset:
    """CIFAR60+40: in each superclass of CIFAR-100, 2 of the 5 classes lose their label, so 40 % of the pictures have none.

    The classes are chosen by the seed: which ones the authors chose is not known here.

    Args:
        dataset: CIFAR-100, as :func:`read_cifar100` gives it.
        seed: which classes lose their label.

    Liao, Gavves, Oh, Snoek, "Quasibinary classifier for images with zero and multiple labels", Table II.
    """
    sizes = set(dataset.superclass_of.bincount().tolist()) if dataset.superclasses is not None else set()
    if sizes != {5}:
        raise InputError(f"dataset: expected CIFAR-100, superclasses of 5 classes each, got {dataset.name}")
    return replace(unlabel(dataset, per_superclass=2, seed=seed), name="CIFAR60+40")


def _unlabelled(dataset: Dataset, number: int) -> Dataset:
    """As :func:`unlabel`, which knows the number by another name."""
    try:
        return unlabel(dataset, per_superclass=number)
    except InputError as error:
        raise InputError(f"unlabelled: {str(error).removeprefix('per_superclass: ')}") from None


@dataclass(frozen=True, eq=False)
class _Records:
    """Label bytes ``uint8 (N, 1 or 2)``, pictures ``uint8 (N, 3, 32, 32)``, and the name of each."""

    labels: Array
    images: Array
    ids: list[str]

    def labelled(self, column: int, classes: Sequence[str], problems: list[Problem]) -> Split:
        """The records whose label has a name."""
        label = self.labels[:, column].astype(np.int64)
        known = label < len(classes)
        problems += [
            Problem("unknown label", self.ids[row], f"label {label[row]} has no name: left out")
            for row in np.flatnonzero(~known).tolist()
        ]
        images = torch.from_numpy(self.images if known.all() else self.images[known])
        ids = [self.ids[row] for row in np.flatnonzero(known).tolist()]
        return Split(PictureArray(images, ids), torch.from_numpy(label[known]), ids)


def _names(path: Path, what: str, problems: list[Problem]) -> list[str]:
    """One name a line, in the order of the labels."""
    names = text_lines(path, what)
    problems += [*shared_names(names), *check_names(names)]
    return distinct_names(names, [str(label) for label in range(len(names))])


def _read(home: Path, files: Sequence[str], label_bytes: int, published: int, problems: list[Problem]) -> _Records:
    """The records of several files, one after the other; each file is published with so many."""
    counts = [_count(home / file, label_bytes, published, problems) for file in files]
    labels = np.empty((sum(counts), label_bytes), np.uint8)
    images = np.empty((sum(counts), PIXELS), np.uint8)
    start = 0
    for file, count in zip(files, counts, strict=True):
        records = np.fromfile(home / file, np.uint8).reshape(count, label_bytes + PIXELS)
        labels[start : start + count] = records[:, :label_bytes]
        images[start : start + count] = records[:, label_bytes:]
        start += count
    ids = [f"{Path(file).stem}:{row}" for file, count in zip(files, counts, strict=True) for row in range(count)]
    return _Records(labels, images.reshape(-1, 3, SIDE, SIDE), ids)


def _count(path: Path, label_bytes: int, published: int, problems: list[Problem]) -> int:
    """How many records a file holds, all of them whole."""
    size = path.stat().st_size if path.is_file() else 0
    record = label_bytes + PIXELS
    if not size:
        raise InputError(f"{printable(str(path))}: expected {published * record:,} bytes, got {_nothing(path)}")
    if size % record:
        raise InputError(
            f"{printable(str(path))}: expected {published * record:,} bytes, records of {record:,}, got {size:,}: "
            "it was cut short or is another file; fetch it again"
        )
    if size != published * record:
        what = f"holds {size // record:,} pictures, and {published:,} are published"
        problems.append(Problem("other size than published", path.name, what))
    return size // record


def _nothing(path: Path) -> str:
    return "an empty file" if path.is_file() else "nothing"


def _superclasses(labels: Array, classes: list[str], coarse: list[str], problems: list[Problem]) -> list[str] | None:
    """The coarse label that the pictures of each class carry, by name; None where a class has no picture to tell it."""
    within = (labels[:, 0] < len(coarse)) & (labels[:, 1] < len(classes))
    together = np.zeros((len(classes), len(coarse)), np.int64)
    np.add.at(together, (labels[within, 1], labels[within, 0]), 1)
    for fine in np.flatnonzero((together > 0).sum(1) > 1).tolist():
        names = ", ".join(coarse[place] for place in np.flatnonzero(together[fine]).tolist())
        problems.append(Problem("class of several superclasses", classes[fine], f"is in {names}: the most frequent is kept"))
    if not together.any(1).all():
        what = "not given, as a class without pictures does not tell its own"
        problems.append(Problem("superclasses unknown", classes[int(together.any(1).argmin())], what))
        return None
    return [coarse[place] for place in together.argmax(1).tolist()]
