"""What ``shortlist tune`` does, apart from its options, which need neither torch nor the data."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shortlist.cli.console import emit, say, show
from shortlist.cli.progress import TrialLines
from shortlist.cli.runs import resumable
from shortlist.cli.training import changes, requested_job
from shortlist.recipes import parse_grid, tune as search
from shortlist.recipes.tuning import TUNING, search_in, trials_in
from shortlist.runs import Job
from shortlist.runs.job import apply_settings


def run_search(
    data: str | None,
    recipe: str | None,
    given: dict[str, Any],
    settings: Sequence[str] | None,
    grid: Sequence[str] | None,
    out: Path | None,
    *,
    resume: bool,
    device: Any,
    as_json: bool,
) -> None:
    """Search, or continue a search, and show the trials.

    Args:
        data: the data, as for ``train``.
        recipe: the name of a recipe.
        given: settings that have an option, None where it was not given.
        settings: settings given with ``--set``.
        grid: the values to try, as texts; the grid of the recipe by default.
        out: the folder of the search.
        resume: continue the search in the folder.
        device: as for ``train``.
        as_json: print the trials as JSON.
    """
    wanted = changes(given, settings)
    if resume and data is None and recipe is None and out is not None:
        job = Job(apply_settings(search_in(out)[0], wanted), out)
    else:
        job = requested_job(data, recipe, wanted, out, resume=resume)
    folder = out or Path("runs") / f"tune-{job.recipe.name}"
    values: Mapping[str, Sequence[Any]] | None = parse_grid(grid, job.recipe) if grid else None
    if values is not None and "k" in values and "rule" in wanted:
        values = {"rule": (job.recipe.rule,), **values}  # a rule that was typed does not follow k, as for train
    if resume and values is None:
        values = search_in(folder)[1]
    with resumable("tune", folder, lambda reached: _how_to_resume(folder)):
        found = search(
            job.recipe,
            folder,
            grid=values,
            resume=resume,
            device=device,
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
