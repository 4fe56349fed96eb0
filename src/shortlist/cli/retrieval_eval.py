"""``shortlist retrieval-eval``: the options. What it does is in ``retrieval_scoring.py``, imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli import options
from shortlist.cli.commands import written_in


@written_in("retrieval_scoring")
def retrieval_eval(
    scores: options.ManyScores,
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    target_key: options.TargetKey = None,
    longest: Annotated[int, typer.Option("--longest", min=1, max=10, help="Maximum number of labels in a query.")] = 5,
    most: Annotated[int, typer.Option("--most", min=0, help="Ask all queries up to this number, then sample.")] = 1_000_000,
    sample: Annotated[int, typer.Option("--sample", min=1, help="Number of queries to sample of each longer length.")] = 10_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the samples.")] = 0,
    plot: Annotated[Path | None, typer.Option("--plot", help="Plot metrics by query length: .svg, .png or .pdf.")] = None,
    reliability: Annotated[
        Path | None,
        typer.Option("--reliability", help="Plot stated probability against frequency: .svg, .png or .pdf."),
    ] = None,
    as_json: options.Json = False,
    engine: options.EngineName = "local",
    address: options.Address = None,
    workers: options.Workers = None,
) -> None:
    """Measure retrieval by combined queries: some labels present, others absent."""
