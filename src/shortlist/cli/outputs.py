"""What a command may write: nothing that it reads, nothing of a run, a classifier, an index or a folder of parts."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from shortlist.data.sources import path_and_options
from shortlist.errors import InputError
from shortlist.files import without_links
from shortlist.models import artefact
from shortlist.predictions.parts import is_part_file
from shortlist.retrieval.manifest import is_index_file
from shortlist.training.run_folder import (
    CHECKPOINT,
    CLASSIFIER,
    FAILED_BATCH,
    METRICS,
    OPTIMUM,
    RECIPE,
    REPORT,
    RESULTS,
    ROWS,
    SPLITS,
    RunFolder,
)

# What training alone may write in the folder of a run; its report may be written again.
OWN_FILES = (RECIPE, METRICS, CHECKPOINT, FAILED_BATCH, ROWS, RESULTS, OPTIMUM, *(f"{split}.safetensors" for split in SPLITS))


def check_outputs(outputs: Sequence[Path | None], inputs: Sequence[Path | None]) -> None:
    """Raise an error if an output would overwrite an input, a file of a run, of a classifier, of an
    index or of a folder of parts, or another output.

    A command may read any file of a folder that it is given, so a file that exists there is never replaced; new ones may be
    written, and the report of a run may be written again.

    Args:
        outputs: the files that the command writes, None where it writes none.
        inputs: the files and folders that it reads.
    """
    written = [path for path in outputs if path is not None]
    for path in written:
        check_outside_runs(path)
    read = [path for path in inputs if path is not None and path.exists()]
    for path in written:
        _check_not_read(path, read)
    for place, path in enumerate(written):
        if _folded(path) in map(_folded, written[:place]):  # on some disks, names that differ only in case are one file
            raise InputError(f"expected different names for the outputs, got {path} twice")


def named_paths(texts: Sequence[str]) -> list[Path]:
    """Every path that the texts of datasets may name: as they stand, behind a dataset's name, before options, as an option."""
    bare = [part for text in texts for part in (text, text.partition(":")[2]) if part]
    read = [(text, *path_and_options(text)) for text in bare]
    return [Path(part) for text, path, options in read for part in (text, path, *options.values()) if part]


def check_outside_runs(path: Path) -> None:
    """Raise an error if an output would belong to a run, a classifier, an index or a folder of parts."""
    for place in (path.absolute(), without_links(path)):  # a run may contain links, and a link may lead into a run
        for folder in place.parents:
            inside = place.relative_to(folder)
            if (inside.parts[0] == CLASSIFIER or str(inside) in OWN_FILES) and RunFolder.holds_run(folder):
                raise InputError(f"{path} is part of the run in {folder}, which only training writes: choose another name")
        if artefact.is_own(place) and artefact.is_classifier(place.parent):
            raise InputError(f"{path} is part of the classifier in {place.parent}: choose another name")
        if is_part_file(place):
            raise InputError(
                f"{path} is part of the scores in {place.parent}, which only what wrote the folder writes: choose another name"
            )
        if is_index_file(place):
            raise InputError(
                f"{path} is part of the index in {place.parent}, which only shortlist index writes: choose another name"
            )


def _check_not_read(output: Path, inputs: Sequence[Path]) -> None:
    """Raise an error if this output exists, and is an input or a file in a folder among them, by whatever links."""
    if not output.exists():
        return
    there = output.resolve()
    for path in inputs:
        if is_same_file(path, there):
            raise InputError(f"{output} is read by this command and would be overwritten: choose another name")
        if path.is_dir() and not _is_report(there, path) and (_is_inside(there, path) or _is_linked_from(there, path)):
            raise InputError(
                f"{output} exists already in {path}, which this command reads, and would be overwritten: choose another name"
            )


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether a path without links is below a folder; compared as the system does, which may ignore case."""
    return any(is_same_file(folder, above) for above in path.parents)


def _is_linked_from(path: Path, folder: Path) -> bool:
    """Whether a link below the folder leads to this file, or to a folder that it is in."""
    return any(is_same_file(link, path) or _is_inside(path, link) for link in _links_below(folder))


def _links_below(folder: Path) -> Iterator[Path]:
    """The links below a folder, and below the folders that they lead to."""
    waiting, seen = [os.fspath(folder)], {folder.resolve()}
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    yield Path(entry.path)
                    there = Path(os.path.realpath(entry.path))
                    if there in seen:
                        continue
                    seen.add(there)
                with suppress(OSError):  # a link in a circle is no folder
                    if entry.is_dir():
                        waiting.append(entry.path)


def _is_report(path: Path, folder: Path) -> bool:
    return RunFolder.holds_run(folder) and is_same_file(folder / REPORT, path)


def is_same_file(path: Path, other: Path) -> bool:
    """Whether two paths lead to one file or folder that is there."""
    with suppress(OSError):  # one of them is not there, or is a link in a circle
        return path.samefile(other)
    return False


def _folded(path: Path) -> str:
    return str(without_links(path)).casefold()
