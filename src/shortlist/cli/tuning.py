"""What ``shortlist tune`` does, apart from its options, which need neither torch nor the data."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shortlist.cli.console import emit_json, say, show
from shortlist.cli.engines import Engine, imported_modules
from shortlist.cli.progress import TrialLines
from shortlist.cli.runs import resumable
from shortlist.cli.training import changes, requested_job
from shortlist.recipes import TuningResult, parse_grid, tune as search
from shortlist.recipes.trials import trials_in
from shortlist.recipes.tuning import TUNING, halving_in, search_in
from shortlist.runs import Job
from shortlist.runs.job import apply_settings


@dataclass(frozen=True)
class SearchOptions:
    """How to search.

    Args:
        resume: continue the search in the folder.
        device: as for ``train``.
        halving: see :func:`shortlist.recipes.tune`.
        engine: who trains.
    """

    resume: bool
    device: Any
    halving: int | None
    engine: Engine


def run_search(
    data: str | None,
    recipe: str | None,
    given: dict[str, Any],
    settings: Sequence[str] | None,
    grid: Sequence[str] | None,
    out: Path | None,
    how: SearchOptions,
    *,
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
        how: to search.
        as_json: print the trials as JSON.
    """
    wanted, resume = changes(given, settings), how.resume
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
    halving = halving_in(folder) if resume and how.halving is None else how.halving
    chosen = {"grid": values, "resume": resume, "callback": TrialLines(), "halving": halving}
    with resumable("tune", folder, lambda reached: _how_to_resume(folder)):
        found = _searched(job, folder, how, chosen)
    if as_json:
        emit_json([trial.record() for trial in found.trials], indent=2)
    else:
        show(found.table())
    best = ", ".join(f"{name} {value}" for name, value in found.best.values.items())
    say(f"best on validation: {best}, in {folder / found.best.folder}")


def _searched(job: Job, folder: Path, how: SearchOptions, chosen: dict[str, Any]) -> TuningResult:
    """What was found, by trials here or by workers."""
    if how.engine.name == "local":
        return search(job.recipe, folder, device=how.device, dataset=job.dataset, **chosen)
    with how.engine.pool_on(how.device) as pool:
        from shortlist.cluster import tune as search_by_workers

        assert pool is not None
        return search_by_workers(pool, job.recipe, folder, imports=imported_modules(), **chosen)


def _how_to_resume(folder: Path) -> str:
    """What to tell the user after Ctrl-C or SIGTERM."""
    if not (folder / TUNING).exists():
        return "stopped before the search began"
    number = math.prod(map(len, search_in(folder)[1].values()))
    command = f"shortlist tune --resume --out {shlex.quote(str(folder))}"
    return f"stopped after {len(trials_in(folder))} of {number} trials: continue with {command}"
