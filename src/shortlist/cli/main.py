"""The program: its commands, and how an error reaches a person."""

import os
import signal
import sys

import typer

from shortlist import __version__
from shortlist.cli.commands import SETTINGS, LazyCommands
from shortlist.cli.console import Outcome, complain
from shortlist.errors import InputError
from shortlist.files import is_full

app = typer.Typer(
    cls=LazyCommands,
    help="Classifiers that answer with a set of labels, and sets you can trust from anybody's scores.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"shortlist {__version__}")
        raise typer.Exit


@app.callback()
def _root(version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version.")) -> None:
    """Classifiers that answer with a set of labels, and sets you can trust from anybody's scores."""


def main() -> None:
    """Run the program; what a person got wrong is one sentence and exit code 1, never a traceback."""
    # Threads that wait for each other by spinning leave little of a machine that has other work to do.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is loaded, which no command has done yet
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that temporary files are removed
    try:
        app()
    except InputError as error:
        complain(str(error))
        sys.exit(Outcome.BAD_INPUT)
    except (OSError, MemoryError) as error:
        complain(_of_the_system(error))
        sys.exit(Outcome.BAD_INPUT)


def _of_the_system(error: OSError | MemoryError) -> str:
    """What nobody has put into words before it came here, with the file that it is about."""
    if isinstance(error, MemoryError):
        return f"too little memory: {error}" if str(error) else "too little memory"
    what = (error.strerror or str(error) or type(error).__name__).lower()
    where = f"{error.filename}: " if error.filename is not None else ""
    return f"{where}{what}" + (": make room, or write to another place" if is_full(error) else "")
