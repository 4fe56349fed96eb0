"""``shortlist reproduce``: the options. What it does is in ``reproducing.py``, imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli import options
from shortlist.cli.commands import written_in

RESULTS = Path("claims.jsonl")


@written_in("reproducing")
def reproduce(
    claims: Annotated[
        list[str] | None,
        typer.Argument(metavar="CLAIM…", help="Claims, or papers such as garcin-2022 for all of theirs; all by default."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the claims, and run nothing.")] = False,
    seeds: Annotated[
        int | None, typer.Option("--seeds", "-n", min=1, help="Seeds, instead of those of each experiment.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only experiments that take minutes on two cores and need no data.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes at a time, on processors or on one GPU.")] = 1,
    results: Annotated[
        Path, typer.Option("--results", metavar="FILE", help="Results, which are appended to; what it holds is not run again.")
    ] = RESULTS,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FOLDER", help="Folder that holds cifar-100-binary and mulan.")
    ] = None,
    as_json: options.Json = False,
    engine: options.EngineName = "local",
    address: options.Address = None,
    workers: options.Workers = None,
) -> None:
    """Measure what the papers claim: train what is missing in the results, and say what holds, what fails, what is open."""
