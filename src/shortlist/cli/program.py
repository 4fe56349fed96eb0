"""The program: its commands, and how errors are shown to the user."""

import importlib
import io
import os
import signal
import sys
import warnings
from typing import Annotated

import typer

from shortlist import __version__
from shortlist.cli.commands import SETTINGS, LazyCommands
from shortlist.cli.console import Outcome, complain, emit, show_traceback, show_warning
from shortlist.errors import InputError, ShortlistWarning
from shortlist.files import is_full
from shortlist.machine import exit_on_sigterm

app = typer.Typer(
    cls=LazyCommands,
    help="Classifiers that answer with sets of labels, and reliable label sets from the scores of any model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)


def _version(shown: bool) -> None:
    if shown:
        emit(f"shortlist {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version and exit."),
    imports: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="Import this Python module first, for rules and other parts that it defines; may be repeated. Goes before "
            "the command.",
        ),
    ] = None,
) -> None:
    """Classifiers that answer with sets of labels, and reliable label sets from the scores of any model."""
    for name in imports or ():
        import_module(name)


def import_module(name: str) -> None:
    """Import a module that the user named, from the installed packages or the current folder."""
    here = os.getcwd()
    added = here not in sys.path
    if added:
        sys.path.append(here)  # at the end, so that no file there replaces an installed package
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise InputError(
                f"--import: expected a module in the current folder or an installed package, got {name!r}, which was not found"
            ) from None
        raise InputError(f"--import: {name} could not be imported: {error}") from error
    except Exception as error:
        raise InputError(f"--import: {name} could not be imported: {type(error).__name__}: {error}") from error
    finally:
        if added:
            sys.path.remove(here)


def main() -> None:
    """Run the program. An error in what the user gave is one sentence and exit code 1, never a traceback."""
    # Threads that spin while they wait for each other take the cores from other work.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is loaded, which no command has done yet
    signal.signal(signal.SIGTERM, exit_on_sigterm)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # what the encoding of the terminal lacks is no error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", ShortlistWarning)  # a warning is printed, whatever Python was told to do with it
            warnings.showwarning = show_warning
            app()
    except InputError as error:
        complain(*error.lines)
        sys.exit(Outcome.BAD_INPUT)
    except (OSError, MemoryError) as error:
        complain(_system_message(error))
        sys.exit(Outcome.BAD_INPUT)
    except Exception as error:  # a fault of ours: shown in full, but as safely as anything else
        show_traceback(error)
        sys.exit(Outcome.BAD_INPUT)


def _system_message(error: OSError | MemoryError) -> str:
    """An error of the operating system as one sentence, with the file that it concerns."""
    if isinstance(error, MemoryError):
        return f"out of memory: {error}" if str(error) else "out of memory"
    what = (error.strerror or str(error) or type(error).__name__).lower()
    where = f"{error.filename}: " if error.filename is not None else ""
    return f"{where}{what}" + (": make room, or write to another place" if is_full(error) else "")
