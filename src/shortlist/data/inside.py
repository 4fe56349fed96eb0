"""Paths that others wrote, in manifests and archives: they must stay inside their folder."""

import os
from collections.abc import Iterable
from pathlib import Path, PureWindowsPath

from shortlist.errors import InputError
from shortlist.words import printable, shown


def leads_outside(path: str) -> bool:
    """Whether a relative path was expected and this is none: absolute, with a drive letter, or with ``..`` in it.

    >>> [leads_outside(path) for path in ("train/oak/1.jpg", "../1.jpg", "/etc/passwd", "C:1.jpg", "a..b.jpg")]
    [False, True, True, True, False]
    """
    windows = PureWindowsPath(path)  # it knows both kinds of slashes, and drives
    return bool(windows.drive or windows.root or ".." in windows.parts) or "\0" in path


def check_inside(root: str | Path, paths: Iterable[str], source: str | Path) -> None:
    """Raise an error if a path leads outside the folder, by itself or through a symbolic link.

    Folders are listed once each, instead of following every path, which matters on network disks.

    Args:
        root: the folder.
        paths: relative to it, with ``/`` between folders.
        source: the file that lists the paths, for the message.
    """
    home = os.path.realpath(root)
    links: dict[str, frozenset[str]] = {}
    for path in (path.replace("\\", "/") for path in paths):  # as tables are read
        if leads_outside(path):
            raise InputError(f"{printable(str(source))}: expected paths inside its folder, got {shown(path)}: refused")
        folder, _, name = path.rpartition("/")
        if folder not in links:
            inside = _is_inside(os.path.join(root, folder), home)
            links[folder] = _links(os.path.join(root, folder)) if inside else frozenset([name])
        if name in links[folder] and not _is_inside(os.path.join(root, path), home):
            raise InputError(
                f"{printable(str(source))}: expected files in its folder, got {shown(path)}, a link to outside: refused"
            )


def _is_inside(path: str, home: str) -> bool:
    real = os.path.realpath(path)
    return real == home or real.startswith(home.rstrip(os.sep) + os.sep)


def _links(folder: str) -> frozenset[str]:
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_symlink())
    except OSError:  # no such folder: its pictures are absent, which is told elsewhere
        return frozenset()
