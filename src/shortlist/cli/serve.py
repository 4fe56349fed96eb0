"""``shortlist serve``: the options. What it does is in ``serving.py``, imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli import options
from shortlist.cli.commands import written_in
from shortlist.cli.predict import ClassifierPath

KEY = "SHORTLIST_KEY"
REFERENCES = (
    "Labelled pictures to compare with, as `train` takes them; by default those that the run was trained on. `none` for none."
)
HOST = (
    "Address to listen at. Anything but the default makes the page reachable from other machines: votes and the review then "
    "need a key."
)


@written_in("serving")
def serve(
    run: ClassifierPath,
    host: Annotated[str, typer.Option("--host", help=HOST)] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 for any that is free.")] = 8000,
    references: Annotated[str | None, typer.Option("--references", metavar="DATA", help=REFERENCES)] = None,
    index: Annotated[Path | None, typer.Option("--index", metavar="INDEX", help="Index for the search page.")] = None,
    votes: Annotated[
        Path | None, typer.Option("--votes", metavar="FILE", help="File of the votes; votes.sqlite in the run by default.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            envvar=KEY,
            help="Key that votes and the review require; one is made up and shown if needed.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Further name under which the server may be addressed; repeatable."),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch/--no-watch",
            help="Watch whether the photographs are like the calibration rows; the review says so. Kept beside the votes.",
        ),
    ] = True,
    network: options.NetworkPath = None,
) -> None:
    """Start a page that identifies photographs, shows similar pictures, and collects votes."""
