"""Picture files and folders of them, without labels."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from shortlist.data.dataset import ALL, Dataset, Split
from shortlist.data.names import is_utf8
from shortlist.data.pictures import PictureFiles
from shortlist.data.problems import LEFT_OUT, Problem, first_of
from shortlist.data.readers.addresses import read_parquet_folder
from shortlist.data.readers.class_folders import FolderWalk
from shortlist.data.readers.file_kinds import ARRAY_SUFFIX, TABLE_SUFFIXES
from shortlist.errors import InputError
from shortlist.files import similar_paths
from shortlist.words import listed, printable

NAMED = 3  # paths in a message


def read_picture_files(paths: Sequence[str | Path]) -> Dataset:
    """All pictures of these files and folders, in one split without labels.

    A folder stands for all pictures below it, at any depth, in the order of their names, or, if there are none, for the rows
    of its Parquet files that hold pictures. Hidden files and folders are left out. A file that is named by itself is read
    whatever its suffix. Each picture is read once.

    Args:
        paths: files and folders.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("oak.jpg", "elm.png", "notes.txt", ".hidden.jpg"):
    ...         _ = Path(folder, name).write_bytes(b"")
    ...     dataset = read_picture_files([folder])
    >>> [Path(path).name for path in dataset.splits["all"].ids], dataset.splits["all"].target
    (['elm.png', 'oak.jpg'], None)
    """
    texts = [os.fspath(path) for path in paths]
    if not texts or not all(texts):
        raise InputError("expected pictures, a table or a dataset, got nothing")
    found: dict[str, str] = {}
    problems: list[Problem] = []
    for text in texts:
        for path in _pictures_at(text, problems):
            if not is_utf8(path):  # neither JSON nor a report could hold its name
                problems.append(Problem("name that is not UTF-8", path, f"rename it: {LEFT_OUT}"))
            elif (place := os.path.abspath(path)) in found:
                problems.append(Problem("picture named twice", path, "is named more than once: read once"))
            else:
                found[place] = path
    if not found:
        if len(texts) == 1 and os.path.isdir(texts[0]) and (inside := read_parquet_folder(texts[0])) is not None:
            return inside
        raise InputError(
            f"{listed([printable(text) for text in texts], NAMED)}: expected pictures, got none{first_of(problems)}"
        )
    ids = list(found.values())
    name = printable(Path(texts[0]).resolve().name) if len(texts) == 1 else "pictures"
    return Dataset(name, [], {ALL: Split(PictureFiles("", ids), None, ids)}, problems=problems)


def _pictures_at(path: str, problems: list[Problem]) -> Iterator[str]:
    if os.path.isdir(path):
        walk = FolderWalk(Path(path))
        yield from (os.path.join(path, below) for below in walk.pictures())
        problems += [Problem(problem.kind, os.path.join(path, problem.where), problem.what) for problem in walk.problems]
    elif os.path.isfile(path) and Path(path).suffix.lower() not in (*TABLE_SUFFIXES, ARRAY_SUFFIX):
        yield path
    elif os.path.exists(path):
        what = "a table: give it alone" if os.path.isfile(path) else "neither"
        raise InputError(f"{printable(path)}: expected a picture or a folder of pictures, got {what}")
    else:
        alone = "; a dataset (NAME:PATH) must be given alone" if ":" in path else ""
        raise InputError(f"{printable(path)}: there is no such file or folder{alone or similar_paths(Path(path))}")
