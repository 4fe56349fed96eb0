"""Rows to answer for: pictures, tables and datasets whose labels may be there or not, and need not be there.

The readers of datasets leave a row without a label out, since nothing can be learnt from it. Here every row that has an input
is kept; labels come along only where all of the rows have one.
"""

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shortlist.data.dataset import Split
from shortlist.data.names import is_utf8
from shortlist.data.new_rows import Kind, NewRows
from shortlist.data.pictures import PictureFiles
from shortlist.data.problems import Problem
from shortlist.data.readers.class_folders import FolderWalk
from shortlist.data.readers.new_table import ARRAYS, read_new_table
from shortlist.data.sources import TABLE_SUFFIXES, open_dataset, path_and_options
from shortlist.errors import InputError
from shortlist.words import printable

TEST = "test"
LEFT_OUT = "left out"  # how a problem ends that cost a row


def read_new_rows(sources: Sequence[str | Path], *, split: str | None = None, kind: Kind | None = None) -> NewRows:
    """The rows of pictures, of a table, or of a dataset.

    Args:
        sources: files and folders of pictures in any mix, all without labels; or one table, see :func:`read_new_table`, with
            options after commas, ``leaves.csv,path_column=photo``; or one dataset as :func:`~shortlist.data.open_dataset`
            takes it, ``folders:PATH``.
        split: of a dataset, which split, ``"test"`` or else the only one by default; of a table with a column of splits, the
            rows of one, all by default.
        kind: what is wanted of a table, ``"pictures"`` or ``"features"``; whichever it holds by default.

    >>> rows = read_new_rows(["flora:species=4,genera=2,train=2,val=1,test=3,size=8"])
    >>> len(rows), rows.target.shape
    (3, torch.Size([3]))
    """
    texts = [os.fspath(source) for source in sources]
    if not texts or not all(texts):
        raise InputError("expected pictures, a table or a dataset, got nothing")
    if len(texts) == 1 and not Path(texts[0]).is_dir():
        path, options = path_and_options(texts[0])
        if Path(path).is_file() and _is_table(path):
            return read_new_table(path, split=split, kind=kind, **_checked(path, options))
        if not Path(path).is_file() or Path(path).suffix.lower() == ".arff":
            return _rows_of_dataset(texts[0], split)
    if split is not None:
        raise InputError(
            "split: expected one dataset or one table with a column of splits, got files or folders of pictures, which have "
            f"none; folders:{printable(texts[0])} reads a folder with its splits and labels"
        )
    return _rows_of_pictures(texts)


def _is_table(path: str) -> bool:
    return Path(path).suffix.lower() in (*TABLE_SUFFIXES, ARRAYS)


def _checked(path: str, options: Mapping[str, str]) -> dict[str, Any]:
    allowed = [name for name in inspect.signature(read_new_table).parameters if name not in ("path", "split", "kind")]
    unknown = next((name for name in options if name not in allowed), None)
    if unknown is not None:
        raise InputError(f"{printable(path)}: expected options among {', '.join(allowed)}, got {unknown!r}")
    return dict(options)


def _rows_of_dataset(source: str, split: str | None) -> NewRows:
    dataset = open_dataset(source)
    part = _chosen(dataset.splits, split, source)
    problems = [problem for problem in dataset.problems if problem.what.endswith(LEFT_OUT)]
    return NewRows(part.inputs, part.ids, part.target, dataset.classes, problems=problems)


def _chosen(splits: Mapping[str, Split], asked: str | None, source: str) -> Split:
    name = asked if asked is not None else TEST if TEST in splits or len(splits) != 1 else next(iter(splits))
    if name not in splits:
        came = f"got {asked!r}" if asked is not None else f"and there is no {TEST}: name one"
        raise InputError(f"split: expected one of the splits of {printable(source)} ({', '.join(splits)}), {came}")
    return splits[name]


def find_pictures(paths: Sequence[str | Path]) -> tuple[list[str], list[Problem]]:
    """The files that were named, and all pictures below the folders that were, in the order of their names, each once.

    Hidden files and folders are left out; a file that is named by itself is taken whatever it is called.

    Args:
        paths: files and folders.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("oak.jpg", "elm.png", "notes.txt", ".hidden.jpg"):
    ...         _ = Path(folder, name).write_bytes(b"")
    ...     [Path(path).name for path in find_pictures([folder])[0]]
    ['elm.png', 'oak.jpg']
    """
    found: dict[str, str] = {}
    problems: list[Problem] = []
    for path in [os.fspath(path) for path in paths]:
        for each in _below(path, problems):
            if not is_utf8(each):  # no report could name it
                problems.append(Problem("name that is not UTF-8", each, f"rename it: {LEFT_OUT}"))
            elif (place := os.path.abspath(each)) in found:
                problems.append(Problem("picture named twice", each, "is named more than once: answered once"))
            else:
                found[place] = each
    return list(found.values()), problems


def _below(path: str, problems: list[Problem]) -> Iterator[str]:
    if os.path.isdir(path):
        walk = FolderWalk(Path(path))
        yield from (os.path.join(path, below) for below in walk.pictures())
        problems += [Problem(problem.kind, os.path.join(path, problem.where), problem.what) for problem in walk.problems]
    elif os.path.isfile(path) and not _is_table(path):
        yield path
    elif os.path.exists(path):
        what = "a table, which is given by itself" if os.path.isfile(path) else "no ordinary file"
        raise InputError(f"{printable(path)}: expected a picture or a folder of pictures, got {what}")
    else:
        alone = "; a dataset, NAME:PATH, is given by itself" if ":" in path else ""
        raise InputError(f"{printable(path)}: there is no such file or folder{alone}")


def _rows_of_pictures(texts: Sequence[str]) -> NewRows:
    paths, problems = find_pictures(texts)
    if not paths:
        shown = ", ".join(map(printable, texts[:3])) + (", …" if len(texts) > 3 else "")
        first = f"; the first left out is {problems[0]}" if problems else ""
        raise InputError(f"{shown}: expected pictures, got none{first}")
    return NewRows(PictureFiles("", paths), paths, problems=problems)
