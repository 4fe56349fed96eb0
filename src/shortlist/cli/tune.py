"""``shortlist tune``: grid search over the settings of a recipe."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from shortlist.cli import options
from shortlist.cli.console import emit, say, show
from shortlist.cli.progress import TrialLines
from shortlist.cli.runs import resumable
from shortlist.cli.train import DeviceName, MethodName, RecipeName, Settings, Size, Source, changes, requested_job
from shortlist.recipes import parse_grid, tune as search
from shortlist.recipes.tuning import TUNING, search_in, trials_in
from shortlist.runs import Job
from shortlist.runs.job import apply_settings


def tune(
    data: Source = None,
    recipe: RecipeName = None,
    method: MethodName = None,
    k: Size = None,
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
    device: DeviceName = "auto",
    as_json: options.Json = False,
) -> None:
    """Search over a grid of settings and choose the best on validation rows; every trial is a run of its own."""
    wanted = changes({"method": method, "k": k}, settings)
    if resume and data is None and recipe is None and out is not None:
        job = Job(apply_settings(search_in(out)[0], wanted), out)
    else:
        job = requested_job(data, recipe, wanted, out, resume=resume)
    folder = out or Path("runs") / f"tune-{job.recipe.name}"
    values: Mapping[str, Sequence[Any]] | None = parse_grid(grid, job.recipe) if grid else None
    if resume and values is None:
        values = search_in(folder)[1]
    with resumable("tune", folder, lambda reached: _how_to_resume(folder)):
        found = search(
            job.recipe,
            folder,
            grid=values,
            resume=resume,
            device=device,  # type: ignore[arg-type]
            callback=TrialLines(),
            dataset=job.dataset,
        )
    if as_json:
        emit(json.dumps([trial.record() for trial in found.trials], indent=2, ensure_ascii=False) + "\n")
    else:
        show(found.table())
    best = ", ".join(f"{name} {value}" for name, value in found.best.values.items())
    say(f"best on validation: {best}, in {folder / found.best.folder}")


def _how_to_resume(folder: Path) -> str:
    """What to tell the user after Ctrl-C or SIGTERM."""
    if not (folder / TUNING).exists():
        return "stopped before the search began"
    number = math.prod(map(len, search_in(folder)[1].values()))
    command = f"shortlist tune --resume --out {shlex.quote(str(folder))}"
    return f"stopped after {len(trials_in(folder))} of {number} trials: continue with {command}"
