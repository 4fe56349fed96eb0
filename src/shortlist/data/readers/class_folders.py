"""Any folder of class folders: ``ROOT/class/picture`` or ``ROOT/split/class/picture``."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from shortlist.data.dataset import ALL, SPLIT_NAMES, TRAIN, Dataset, Split, classes_without_rows, usual_split_names
from shortlist.data.names import check_names, is_utf8, superclasses_of
from shortlist.data.picture_kinds import is_picture_name, is_unread_picture_name
from shortlist.data.pictures import PictureFiles
from shortlist.data.problems import Problem
from shortlist.errors import InputError
from shortlist.files import similar_paths
from shortlist.words import counted, listed, printable

NAMED = 3  # names in a message
RUN_FILES = ("recipe.json", "tuning.json")  # as training and searches write them


def read_class_folders(root: str | Path, *, superclass: str | None = None, group: str | None = None) -> Dataset:
    """Every folder below ``root`` is a class and holds its pictures, at any depth.

    If the folders below ``root`` are called train, val, test or similar, they are the splits and contain the class folders;
    otherwise there is one split, called all. Folders of runs, which training may have written there, are no classes.

    Args:
        root: the folder.
        superclass: how class names give their superclass: ``"first-word"`` (*Quercus robur* → *Quercus*), ``"last-word"``
            (*herring gull* → *gull*), or None.
        group: a regular expression whose first match in the path of a picture, or its first group if it has one, says which
            pictures belong together: ``"([^/]+)_"`` puts ``gull/nest7_1.jpg`` and ``gull/nest7_2.jpg`` into one. Splits that
            are drawn keep them on one side. A picture without a match is by itself.
    """
    root = Path(root)
    if not root.is_dir():
        raise InputError(
            f"{printable(str(root))}: expected a folder of class folders, got "
            + ("a file" if root.exists() else f"nothing{similar_paths(root)}")
        )
    found = FolderWalk(root)
    folders = _split_folders(found)
    by_split = {name: found.classes(folder) for name, folder in folders.items()} if folders else {ALL: found.classes(root)}
    classes = sorted({name for by_class in by_split.values() for name in by_class})
    if not any(paths for by_class in by_split.values() for paths in by_class.values()):
        if folders and not classes:
            taken = " and ".join(printable(folder.name) for folder in folders.values())
            how = "is read as a split" if len(folders) == 1 else "are read as splits"
            raise InputError(
                f"{printable(str(root))}: expected class folders in {taken}, which {how}, got none: rename {taken} if that is "
                "the name of a class"
            )
        raise InputError(
            f"{printable(str(root))}: expected folders with pictures in them, one folder a class, got "
            + (
                f"{len(classes):,} folder{'' if len(classes) == 1 else 's'} without a picture"
                if classes
                else "no folder below it"
            )
        )
    if len(classes) == 1 and (below := _folders_below(by_split, classes[0])):
        inner = f"{printable(str(root))}/{printable(classes[0])}"
        raise InputError(
            f"{printable(str(root))}: expected several class folders, got one, {printable(classes[0])}, with "
            f"{counted(len(below), 'folder')} of pictures in it ({listed_names(below)}): if these are the classes, give {inner}"
        )
    number = {name: label for label, name in enumerate(classes)}
    splits = {name: _split(root, by_class, number) for name, by_class in by_split.items()}
    if group is not None:
        splits = _grouped(splits, group)
    problems = [*found.problems, *check_names(classes), *_folders_of_folders(by_split, classes)]
    problems += classes_without_rows(splits, classes)
    name = printable(root.resolve().name)
    return Dataset(name, classes, splits, superclasses_of(classes, superclass), problems=problems)


def _folders_below(by_split: dict[str, dict[str, list[str]]], name: str) -> list[str]:
    """The folders that all pictures of a class lie in, if these are two or more and no picture lies beside them."""
    below: dict[str, None] = {}
    for split, by_class in by_split.items():
        above = 1 if split == ALL else 2  # the class, or its split and itself
        for path in by_class.get(name, ()):
            parts = path.split("/")[above:]
            if len(parts) == 1:
                return []
            below[parts[0]] = None
    return list(below) if len(below) > 1 else []


def _folders_of_folders(by_split: dict[str, dict[str, list[str]]], classes: list[str]) -> Iterator[Problem]:
    """Classes that are folders of folders: perhaps the classes are one level further down."""
    below = {name: found for name in classes if (found := _folders_below(by_split, name))}
    homes = Counter(folder for found in below.values() for folder in found)
    shared = [folder for folder, count in homes.items() if count > 1]
    if shared and len(below) > 1:
        names = listed_names([name for name, found in below.items() if not set(found).isdisjoint(shared)])
        what = f"is a folder in {names}, which are read as the classes: if {listed_names(shared)} are the classes, give one of "
        yield Problem("classes that look like datasets", shared[0], f"{what}the folders above them, or merge these")
        return
    for name, found in below.items():
        what = (
            f"holds no picture itself, but {counted(len(found), 'folder')} of them ({listed_names(found)}), read as one class"
        )
        yield Problem("folders in a class", name, f"{what}: if these are the classes, move them up")


def listed_names(names: Sequence[str]) -> str:
    """A few names for a message."""
    return listed([printable(name) for name in names], NAMED)


def _split_folders(found: "FolderWalk") -> dict[str, Path]:
    """The folders that are splits; none where the folders below the root are classes."""
    top = found.folders(found.root)
    usual = usual_split_names(folder.name for folder in top)
    meaning = {folder: SPLIT_NAMES.get(folder.name.casefold(), usual[folder.name]) for folder in top}
    called = [folder for folder in top if meaning[folder] in SPLIT_NAMES.values()]
    named = {meaning[folder]: folder for folder in called}
    folders = {name: named[name] for name in dict.fromkeys(SPLIT_NAMES.values()) if name in named}
    if len(folders) < len(called):
        names = " and ".join(folder.name for folder in called if folders[meaning[folder]] != folder)
        raise InputError(f"{printable(str(found.root))}: {names} means the same split as another folder: rename one")
    if TRAIN not in folders and len(called) < len(top):
        for folder in called:
            found.note("class called like a split", str(folder), "is read as a class, as other folders beside it are")
        return {}
    for folder in top:
        if folders and folder not in called:
            found.note("folder beside the splits", str(folder), f"lies beside {', '.join(folders)}: left out")
    if folders:
        found.note_stray_pictures(found.root)
    return folders


def _split(root: Path, by_class: dict[str, list[str]], number: dict[str, int]) -> Split:
    paths = [path for found in by_class.values() for path in found]
    labels = [number[name] for name, found in by_class.items() for _ in found]
    return Split(PictureFiles(root, paths), torch.tensor(labels, dtype=torch.int64), paths)


def _grouped(splits: dict[str, Split], pattern: str) -> dict[str, Split]:
    """The splits with groups by a pattern in the paths of their pictures."""
    try:
        match = re.compile(pattern)
    except re.error as error:
        raise InputError(f"group: expected a regular expression, such as '([^/]+)_', got {pattern!r}: {error}") from error
    found = {name: [match.search(path) for path in split.ids] for name, split in splits.items()}
    if not any(one for part in found.values() for one in part):
        some = next(iter(splits.values())).ids[0]
        raise InputError(
            f"group: expected a pattern that some path matches, such as {some!r}, got {pattern!r}, which none does"
        )
    return {
        name: replace(
            split, groups=[path if one is None else _key(one) for path, one in zip(split.ids, found[name], strict=True)]
        )
        for name, split in splits.items()
    }


def _key(match: re.Match[str]) -> str:
    """The first group of a pattern, or all that it matched where it has none."""
    return (match[1] or match[0]) if match.re.groups else match[0]


@dataclass
class FolderWalk:
    """Walks through folders in the order of their names, follows links once, and records what it leaves out.

    Args:
        root: the folder that paths are relative to.
        problems: what was left out, and why; filled while walking.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("oak.jpg", "elm.png", "notes.txt", ".hidden.jpg"):
    ...         _ = Path(folder, name).write_bytes(b"")
    ...     list(FolderWalk(Path(folder)).pictures())
    ['elm.png', 'oak.jpg']
    """

    root: Path
    problems: list[Problem] = field(default_factory=list)

    def folders(self, folder: Path) -> list[Path]:
        """The folders directly below, without hidden ones and those of runs, which training may have put there."""
        found = [Path(entry.path) for entry in self._entries(folder) if _is_folder(entry)]
        runs = [path for path in found if _holds_only_runs(path)]
        for path in runs:
            self._note_run(path)
        return [path for path in found if path not in runs]

    def classes(self, folder: Path) -> dict[str, list[str]]:
        """The pictures below each class folder, as paths below the root."""
        self.note_stray_pictures(folder)
        above = {self.root.resolve(), folder.resolve()}
        return {each.name: list(self.pictures(each, set(above))) for each in self.folders(folder)}

    def note_stray_pictures(self, folder: Path) -> None:
        """Record pictures beside the class folders."""
        for entry in self._entries(folder):
            if is_picture_name(entry.name) and not _is_folder(entry):
                self.note("picture outside a class folder", entry.path, "lies beside the class folders: left out")

    def pictures(self, folder: Path | None = None, seen: set[Path] | None = None) -> Iterator[str]:
        """The pictures below a folder at any depth, as paths below the root.

        Args:
            folder: where to look; the root by default.
            seen: folders that are not entered again, such as those above this one; folders that are entered are added.
        """
        folder, seen = self.root if folder is None else folder, set() if seen is None else seen
        real = folder.resolve()
        if real in seen:
            self.note("link to a folder read already", str(folder), "leads to a folder above it or beside it: not followed")
            return
        seen.add(real)
        for entry in self._entries(folder):
            if _is_folder(entry):
                if _is_run(Path(entry.path)):
                    self._note_run(Path(entry.path))
                else:
                    yield from self.pictures(Path(entry.path), seen)
            elif is_picture_name(entry.name):
                if os.path.isfile(entry.path):
                    yield os.path.relpath(entry.path, self.root).replace(os.sep, "/")
                else:
                    self.note("link to nothing", entry.path, "points at no file: left out")
            elif is_unread_picture_name(entry.name):
                suffix = os.path.splitext(entry.name)[1].lower()
                self.note("picture of a kind that is not read", entry.path, f"{suffix} files are not read: left out")

    def _note_run(self, folder: Path) -> None:
        self.note("folder of a run", str(folder), "holds runs of shortlist, not pictures of a class: left out")

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                seen = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
        except PermissionError:
            self.note("folder that may not be read", str(folder), "permission denied: left out")
            return []
        for entry in seen:
            if not is_utf8(entry.name):
                self.note("name that is not UTF-8", entry.path, "rename it: left out")
        return [entry for entry in seen if is_utf8(entry.name)]

    def note(self, kind: str, path: str, what: str) -> None:
        """Record a problem, once."""
        problem = Problem(kind, os.path.relpath(path, self.root), what)
        if problem not in self.problems[-100:]:  # a folder may be listed more than once
            self.problems.append(problem)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a circular link
        return False


def _holds_only_runs(folder: Path) -> bool:
    """Whether there are runs below this folder, which is called ``runs`` by default, and no pictures outside them."""
    runs, waiting, seen = 0, [folder], set()
    while waiting:
        here = waiting.pop()
        if _is_run(here):
            runs += 1
            continue
        real = here.resolve()
        if real in seen:
            continue
        seen.add(real)
        try:
            with os.scandir(here) as entries:
                for entry in entries:  # ends at the first picture, so that large classes are not listed twice
                    if entry.name.startswith("."):
                        continue
                    if _is_folder(entry):
                        waiting.append(Path(entry.path))
                    elif is_picture_name(entry.name):
                        return False
        except OSError:
            return False
    return runs > 0


def _is_run(folder: Path) -> bool:
    """Whether training or a search was started in this folder."""
    for name in RUN_FILES:
        try:
            content = json.loads((folder / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(content, dict) and isinstance(content.get("recipe"), dict):
            return True
    return False
