"""Classes named by WordNet ids (n01440764), as ImageNet and its kin have them; label = rank of the id in sorted order."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from shortlist.data.problems import Problem
from shortlist.data.readers.layout import pictures_in, text_lines
from shortlist.data.readers.named_pictures import NamedPictures, distinct_names

SYNSET = re.compile(r"n\d{8}")


def described_synsets(path: Path) -> dict[str, str]:
    """The description of each id, from a file of lines ``id description``; none where there is no such file."""
    if not path.is_file():
        return {}
    lines = (line.split(None, 1) for line in text_lines(path, "the names of the classes"))
    return {parts[0]: parts[1].strip() for parts in lines if len(parts) == 2}


def synset_names(synsets: Sequence[str], descriptions: Mapping[str, str], problems: list[Problem]) -> list[str]:
    """A name of its own for each class: its description, with the id where two are described alike; else the id."""
    problems += [
        Problem("class without a name", synset, "has no description: called by its id")
        for synset in synsets
        if synset not in descriptions
    ]
    return distinct_names([descriptions.get(synset, synset) for synset in synsets], synsets)


def pictures_by_synset(
    root: Path, folder: str, synsets: Sequence[str], problems: list[Problem], inner: str = ""
) -> NamedPictures:
    """The pictures of ``folder/id`` (or of ``folder/id/inner``) for each id, labelled by its place in the sequence."""
    listed = [pictures_in(root, f"{folder}/{synset}{inner}", problems) for synset in synsets]
    labels = np.repeat(np.arange(len(synsets)), [len(paths) for paths in listed])
    return NamedPictures([path for paths in listed for path in paths], labels)
