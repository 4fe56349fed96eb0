"""Tiny ImageNet: 200 classes of ImageNet at 64 pixels."""

from pathlib import Path

import numpy as np

from shortlist.data.dataset import TRAIN, Dataset
from shortlist.data.problems import Problem
from shortlist.data.readers.layout import class_folders, find_home, text_lines
from shortlist.data.readers.named_pictures import NamedPictures, dataset_of
from shortlist.data.readers.synsets import SYNSET, described_synsets, pictures_by_synset, synset_names

SOURCE = "Stanford's course CS231n (cs231n.stanford.edu) offers tiny-imagenet-200.zip: give the folder that it unpacks to"


def read_tiny_imagenet(root: str | Path) -> Dataset:
    """Tiny ImageNet from the folder ``tiny-imagenet-200``, or from one that holds it: splits train and val.

    The layout is ``train/ID/images/*.JPEG``, ``val/images/*.JPEG`` with their ids in ``val/val_annotations.txt``, the ids of
    the classes in ``wnids.txt`` and their descriptions in ``words.txt``. Two label orders are in use, that of ``wnids.txt``
    and the sorted one; here label = rank of the id in sorted order, as with every reader of class folders. The test pictures
    are published without labels and are not read.
    """
    home = find_home(root, "Tiny ImageNet", holds=["wnids.txt"], below=["tiny-imagenet-200"], source=SOURCE)
    problems: list[Problem] = []
    synsets = sorted(set(text_lines(home / "wnids.txt", "the ids of the classes")))
    unknown = sorted(set(class_folders(home, "train", SYNSET, problems)) - set(synsets))
    problems += [Problem("unknown label", f"train/{folder}", "is not in wnids.txt: left out") for folder in unknown]
    classes = synset_names(synsets, described_synsets(home / "words.txt"), problems)
    named = {
        TRAIN: pictures_by_synset(home, "train", synsets, problems, "/images"),
        "val": _validation(home, synsets, problems),
    }
    return dataset_of("Tiny ImageNet", home, classes, named, problems=problems)


def _validation(home: Path, synsets: list[str], problems: list[Problem]) -> NamedPictures:
    """The pictures that the list names, by its first two columns: file and id. The others hold a box."""
    number = {synset: label for label, synset in enumerate(synsets)}
    paths, labels = [], []
    for line in text_lines(home / "val" / "val_annotations.txt", "the labels of the validation pictures"):
        file, synset = [*line.split("\t"), ""][:2]
        if synset in number:
            paths.append(f"val/images/{file}")
            labels.append(number[synset])
        else:
            problems.append(Problem("unknown label", f"val/images/{file}", f"{synset!r} is not in wnids.txt: left out"))
    return NamedPictures(paths, np.array(labels, np.int64))
