"""Folders of runs as arguments of commands, and commands that continue a run."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from shortlist.cli.console import Outcome, say
from shortlist.errors import InputError
from shortlist.machine import is_first_process
from shortlist.runs import Run
from shortlist.training.interruption import Interrupted, Terminated

BY_ARGUMENT = "resume=True"  # how messages of the library advise to continue a run


def run_at(path: Path, network: str | None = None) -> Run | None:
    """The run in this folder; None if it holds none."""
    return Run(path, network) if path.is_dir() and Run.holds_run(path) else None


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
