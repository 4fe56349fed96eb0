"""Small datasets of pictures that can be told apart by their pixels."""

import torch

from shortlist.data import Dataset, PictureArray, PictureFiles, Split
from tests.data.drawings import noise, write_picture


def painted(labels, size=16):
    """A picture of noise for each label, ``uint8 (N, 3, size, size)``."""
    return torch.stack([torch.from_numpy(noise(size, size, seed=row)).permute(2, 0, 1) for row in range(len(labels))])


def garden(labels, classes, superclasses=None, *, name="garden", size=16, split="train"):
    """Pictures in memory with one label each, already of the size that a sheet will have."""
    ids = [str(row) for row in range(len(labels))]
    rows = Split(PictureArray(painted(labels, size), ids), torch.tensor(labels, dtype=torch.int64), ids)
    return Dataset(name, classes, {split: rows}, superclasses)


def meadow(marks, classes):
    """Pictures in memory with any number of labels each."""
    ids = [str(row) for row in range(len(marks))]
    target = torch.tensor(marks, dtype=torch.bool).reshape(len(marks), len(classes))
    return Dataset("meadow", classes, {"train": Split(PictureArray(painted(marks), ids), target, ids)})


def folder(path, broken=()):
    """Four files of one class, of which some are no pictures."""
    names = [f"{number}.png" for number in range(4)]
    for number, name in enumerate(names):
        write_picture(path / name, (10 * number, 200, 30), (16, 16))
        if number in broken:
            (path / name).write_bytes(b"no picture")
    return Dataset("folder", ["oak"], {"all": Split(PictureFiles(path, names), torch.zeros(4, dtype=torch.int64), names)})
