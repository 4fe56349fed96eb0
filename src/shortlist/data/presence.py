"""Which of many files exist: every folder is listed once, instead of testing every file."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shortlist.tensors import Array


def absent_paths(root: str | Path, paths: Sequence[str]) -> Array:
    """Which of these paths name no file, bool (N,).

    One listing replaces thousands of tests, which matters on network disks. Only a name that is not in the listing is tested by
    itself: the file system may accept it in other case or another Unicode form.

    Args:
        root: the folder that relative paths start from.
        paths: with ``/`` between folders; absolute ones are taken as they are.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "oak.jpg").write_bytes(b"")
    ...     absent_paths(folder, ["oak.jpg", "elm.jpg", "ash/1.jpg"])
    array([False,  True,  True])
    """
    root = os.fspath(root)
    listed: dict[str, frozenset[str] | None] = {}
    absent = np.zeros(len(paths), bool)
    for row, path in enumerate(paths):
        name = path.rpartition("/")[2]
        folder = path[: len(path) - len(name)]
        if folder not in listed:
            listed[folder] = _files(os.path.join(root, folder))
        names = listed[folder]
        absent[row] = names is None or (name not in names and not os.path.isfile(os.path.join(root, path)))
    return absent


def _files(folder: str) -> frozenset[str] | None:
    """The names of the files in a folder, through links; None where there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if _is_file(entry))
    except PermissionError:
        return frozenset()  # it may still be entered, so each name is asked for
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return None


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a circular link
        return False
