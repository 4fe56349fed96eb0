"""ImageNet (ILSVRC 2012) and its long-tailed selection ImageNet-LT, from a local folder."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from shortlist.data.dataset import TRAIN, Dataset
from shortlist.data.problems import Problem
from shortlist.data.readers.layout import class_folders, find_home, pictures_in, text_lines
from shortlist.data.readers.named_pictures import NamedPictures, dataset_of
from shortlist.data.readers.synsets import SYNSET, described_synsets, pictures_by_synset, synset_names
from shortlist.errors import InputError
from shortlist.words import printable

SOURCE = "ImageNet is had from https://www.image-net.org after registration: give the folder that holds train and val"
LISTS_SOURCE = "The lists are had through https://github.com/zhmiao/OpenLongTailRecognition-OLTR"
REFERENCE = "Russakovsky et al., ImageNet Large Scale Visual Recognition Challenge, arXiv:1409.0575"
REFERENCE_LT = "Liu et al., Large-Scale Long-Tailed Recognition in an Open World, CVPR 2019"
BELOW = ("ILSVRC/Data/CLS-LOC", "Data/CLS-LOC")  # where the archive of the Kaggle competition has the pictures
MAPPING, SOLUTION = "LOC_synset_mapping.txt", "LOC_val_solution.csv"
DEVKIT = "ILSVRC2012_devkit_t12/data"
LISTS = {TRAIN: "ImageNet_LT_train.txt", "val": "ImageNet_LT_val.txt", "test": "ImageNet_LT_test.txt"}


def read_imagenet(root: str | Path) -> Dataset:
    """ImageNet from ``train/ID/*.JPEG`` and ``val``: splits train and val; label = rank of the WordNet id in sorted order.

    Validation pictures lie in class folders like those of train, or all in one folder as they are published; then their labels
    are taken from ``LOC_val_solution.csv`` or from ``ILSVRC2012_devkit_t12``, beside train and val or in ``root``. Names of
    the classes are taken from ``LOC_synset_mapping.txt`` or from the devkit where one of them is there. The classes are those
    that have a folder, so a part of ImageNet is read with labels of its own.
    """
    home = find_home(root, "ImageNet (ILSVRC 2012)", holds=["train", "val"], below=BELOW, source=SOURCE)
    places = (Path(root), home)
    problems: list[Problem] = []
    folders = {split: class_folders(home, split, SYNSET, problems) for split in (TRAIN, "val")}
    beside = pictures_in(home, "val", problems)
    flat = bool(beside) and not folders["val"]
    listed = _validation_labels(places) if flat else {}
    synsets = sorted({*folders[TRAIN], *folders["val"]}) or sorted(set(listed.values()))
    named = {TRAIN: pictures_by_synset(home, "train", synsets, problems)}
    if flat:
        named["val"] = _flat(beside, listed, synsets, problems)
    else:
        named["val"] = pictures_by_synset(home, "val", synsets, problems)
        problems += [Problem("picture outside a class folder", path, "lies beside them: left out") for path in beside]
    classes = synset_names(synsets, _descriptions(places), problems)
    return dataset_of("ImageNet", home, classes, named, reference=REFERENCE, problems=problems)


def read_imagenet_lt(root: str | Path, lists: str | Path | None = None) -> Dataset:
    """ImageNet-LT: pictures of ImageNet by its three lists, of lines ``path label``.

    Its val split is a part of ImageNet's train, and its test split is ImageNet's val, in class folders or all in one folder.

    Args:
        root: the folder of ImageNet, that holds train and val.
        lists: the folder of ``ImageNet_LT_train.txt``, ``_val.txt`` and ``_test.txt``; ``root`` by default.
    """
    home = find_home(root, "ImageNet (ILSVRC 2012)", holds=["train", "val"], below=BELOW, source=SOURCE)
    folder = find_home(lists or root, "the lists of ImageNet-LT", holds=list(LISTS.values()), source=LISTS_SOURCE)
    problems: list[Problem] = []
    synset_of: dict[int, str] = {}
    rows = {split: list(_listed(folder / file, synset_of, problems)) for split, file in LISTS.items()}
    if not class_folders(home, "val", SYNSET, problems):
        rows["test"] = [(_flattened(path), label) for path, label in rows["test"]]
    named = {
        split: NamedPictures([path for path, _ in listed], np.array([label for _, label in listed], np.int64))
        for split, listed in rows.items()
    }
    synsets = [synset_of.get(label, f"class {label}") for label in range(max(synset_of, default=-1) + 1)]
    classes = synset_names(synsets, _descriptions((Path(root), home)), problems)
    return dataset_of("ImageNet-LT", home, classes, named, reference=REFERENCE_LT, problems=problems)


def _listed(path: Path, synset_of: dict[int, str], problems: list[Problem]) -> Iterator[tuple[str, int]]:
    """Each picture of a list with its label; the folder of a picture tells the WordNet id of its label."""
    for line in text_lines(path, "a list of ImageNet-LT"):
        file, _, label = line.rpartition(" ")
        if not label.isdecimal() or file.count("/") < 2:
            problems.append(
                Problem("line that cannot be read", path.name, f"{line[:60]!r} is not a path and a label: left out")
            )
            continue
        synset = file.split("/")[-2]
        if synset_of.setdefault(int(label), synset) != synset:
            what = f"has label {label}, which is {synset_of[int(label)]} elsewhere: the label is kept"
            problems.append(Problem("label at odds with the folder", file, what))
        yield file.lstrip("/"), int(label)


def _flattened(path: str) -> str:
    """``val/n01440764/picture.JPEG`` → ``val/picture.JPEG``."""
    return f"val/{path.rpartition('/')[2]}" if path.startswith("val/") else path


def _flat(flat: Sequence[str], listed: Mapping[str, str], synsets: Sequence[str], problems: list[Problem]) -> NamedPictures:
    """Pictures of one folder, with the labels of a list; what only one of the two has is noted."""
    number = {synset: label for label, synset in enumerate(synsets)}
    there = set(flat)
    unlabelled = [path for path in flat if Path(path).stem not in listed]
    problems += [Problem("picture without a label", path, "is in no list: left out") for path in unlabelled]
    paths, labels = [], []
    for stem, synset in listed.items():
        path = f"val/{stem}.JPEG"
        if synset in number:
            paths.append(path)
            labels.append(number[synset])
        elif path in there:
            problems.append(Problem("unknown label", path, f"{synset} has no class folder in train: left out"))
    return NamedPictures(paths, np.array(labels, np.int64))


def _validation_labels(places: Sequence[Path]) -> dict[str, str]:
    """The WordNet id of each validation picture, by the name of its file without suffix."""
    for place in places:
        if (place / SOLUTION).is_file():
            return _solution(place / SOLUTION)
        if (place / DEVKIT).is_dir():
            return _ground_truth(place / DEVKIT)
    raise InputError(
        f"{printable(str(places[-1] / 'val'))}: expected class folders, or {SOLUTION} or {DEVKIT} in "
        f"{printable(str(places[0]))} to tell the labels of the pictures, got pictures alone"
    )


def _solution(path: Path) -> dict[str, str]:
    """From lines ``picture,id x y x y id x y x y …``: the first id is the label."""
    rows = list(csv.reader(text_lines(path, "the labels of the validation pictures")))
    if not rows or rows[0][:2] != ["ImageId", "PredictionString"]:
        got = ", ".join(rows[0]) if rows else "an empty file"
        raise InputError(f"{printable(str(path))}: expected the columns ImageId and PredictionString, got {got[:60]}")
    return {row[0]: row[1].split(None, 1)[0] for row in rows[1:] if len(row) > 1 and row[1].strip()}


def _ground_truth(devkit: Path) -> dict[str, str]:
    """Line i holds the number of the class of picture i, and numbers are not in the order of the WordNet ids."""
    path = devkit / "ILSVRC2012_validation_ground_truth.txt"
    numbers = text_lines(path, "the labels of the validation pictures")
    synset = {number: synset for number, synset, _ in _devkit_classes(devkit / "meta.mat")}
    wrong = next((text for text in numbers if not text.isdecimal() or int(text) not in synset), None)
    if wrong is not None:
        raise InputError(f"{printable(str(path))}: expected numbers of classes of meta.mat, got {wrong[:40]!r}")
    return {f"ILSVRC2012_val_{place:08d}": synset[int(text)] for place, text in enumerate(numbers, start=1)}


def _descriptions(places: Sequence[Path]) -> dict[str, str]:
    for place in places:
        if found := described_synsets(place / MAPPING):
            return found
        if (place / DEVKIT / "meta.mat").is_file():
            return {synset: words for _, synset, words in _devkit_classes(place / DEVKIT / "meta.mat")}
    return {}


def _devkit_classes(path: Path) -> list[tuple[int, str, str]]:
    """Number, WordNet id and description of each class of the devkit: the synsets that have no children."""
    from scipy.io import loadmat

    if not path.is_file():
        raise InputError(f"{printable(str(path))}: expected the classes of the devkit, got nothing")
    try:
        synsets = np.atleast_1d(loadmat(path, squeeze_me=True)["synsets"])
        return [(int(one[0]), str(one[1]), str(one[2])) for one in synsets if int(one[4]) == 0]
    except (ValueError, TypeError, KeyError, IndexError, OSError, NotImplementedError):
        raise InputError(
            f"{printable(str(path))}: expected the classes of the devkit, got a file that cannot be read so"
        ) from None
