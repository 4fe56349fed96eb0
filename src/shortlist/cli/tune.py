"""``shortlist tune``, grid search over the settings of a recipe: its options. What it does is in ``tuning.py``."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli import options
from shortlist.cli.train import BackboneName, DeviceName, Epochs, MethodName, RecipeName, RuleText, Seed, Settings, Size, Source


def tune(
    data: Source = None,
    recipe: RecipeName = None,
    method: MethodName = None,
    k: Size = None,
    rule: RuleText = None,
    epochs: Epochs = None,
    backbone: BackboneName = None,
    seed: Seed = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid",
            "-g",
            metavar="NAME=V1,V2,…",
            help="Values to try, such as lr=0.1,0.3, or epsilon=paper for those of the papers; repeatable. By default the grid "
            "of the recipe.",
        ),
    ] = None,
    settings: Settings = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Folder of the search; runs/tune-NAME by default.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the search in --out.")] = False,
    halving: Annotated[
        int | None,
        typer.Option(
            "--halving",
            metavar="N",
            help="Stop the worse trials early: in each of several rounds, only the best one in N goes on.",
        ),
    ] = None,
    device: DeviceName = "auto",
    as_json: options.Json = False,
    engine: options.EngineName = "local",
    address: options.Address = None,
    workers: options.Workers = None,
) -> None:
    """Search over a grid of settings and choose the best on validation rows; every trial is a run of its own."""
    from shortlist.checks import whole
    from shortlist.cli.engines import Engine
    from shortlist.cli.tuning import SearchOptions, run_search

    if halving is not None:
        whole(2)("--halving", halving)
    given = {"method": method, "k": k, "rule": rule, "epochs": epochs, "backbone": backbone, "seed": seed}
    how = SearchOptions(resume, device, halving, Engine(engine, address, workers))
    run_search(data, recipe, given, settings, grid, out, how, as_json=as_json)
