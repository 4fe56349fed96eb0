"""Folders of runs as arguments of commands, and commands that continue a run."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from shortlist.cli.console import Outcome, say
from shortlist.errors import InputError
from shortlist.machine import is_first_process
from shortlist.models import artefact
from shortlist.retrieval.manifest import is_index_file
from shortlist.runs import Run
from shortlist.training.interruption import Interrupted, Terminated
from shortlist.training.run_folder import (
    CHECKPOINT,
    CLASSIFIER,
    FAILED_BATCH,
    METRICS,
    OPTIMUM,
    RECIPE,
    RESULTS,
    ROWS,
    SPLITS,
    RunFolder,
)

BY_ARGUMENT = "resume=True"  # how messages of the library advise to continue a run
# What training alone may write in the folder of a run; its report may be written again.
OWN_FILES = (RECIPE, METRICS, CHECKPOINT, FAILED_BATCH, ROWS, RESULTS, OPTIMUM, *(f"{split}.safetensors" for split in SPLITS))


def run_at(path: Path, network: str | None = None) -> Run | None:
    """The run in this folder; None if it holds none."""
    return Run(path, network) if path.is_dir() and Run.holds_run(path) else None


def check_outside_runs(path: Path) -> None:
    """Raise an error if an output would be a file of a run, a classifier or an index, or be inside the classifier of a run."""
    for place in (path.absolute(), path.resolve()):  # a run may contain links, and a link may lead into a run
        for folder in place.parents:
            inside = place.relative_to(folder)
            if (inside.parts[0] == CLASSIFIER or str(inside) in OWN_FILES) and RunFolder.holds_run(folder):
                raise InputError(f"{path} is part of the run in {folder}, which only training writes: choose another name")
        if place.name in artefact.OWN_FILES and artefact.is_classifier(place.parent):
            raise InputError(f"{path} is part of the classifier in {place.parent}: choose another name")
        if is_index_file(place):
            raise InputError(
                f"{path} is part of the index in {place.parent}, which only shortlist index writes: choose another name"
            )


@contextmanager
def resumable(command: str, folder: Path, how: Callable[[str], str]) -> Iterator[None]:
    """Context of work that can be continued: errors name the command that does it, and Ctrl-C and SIGTERM print it.

    Args:
        command: ``"train"`` or ``"tune"``.
        folder: the folder of the work.
        how: what to say after a signal, given how far the work got; an empty text if it was stopped at once.
    """
    try:
        yield
    except InputError as error:
        if BY_ARGUMENT not in str(error):
            raise
        by_option = f"shortlist {command} --resume --out {shlex.quote(str(folder))}"
        raise InputError(str(error).replace(BY_ARGUMENT, by_option)) from error
    except (KeyboardInterrupt, SystemExit) as stopped:
        if isinstance(stopped, SystemExit) and stopped.code != Outcome.TERMINATED:
            raise
        if is_first_process():
            say(how(str(stopped) if isinstance(stopped, Interrupted | Terminated) else ""))
        outcome = Outcome.STOPPED if isinstance(stopped, KeyboardInterrupt) else Outcome.TERMINATED
        raise typer.Exit(outcome) from stopped
