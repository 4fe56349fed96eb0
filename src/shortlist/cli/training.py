"""What ``shortlist train`` and ``shortlist recipes`` do, apart from their options, which need neither torch nor the data."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shortlist.cli.console import Bar, emit, emit_json, say, show, warn
from shortlist.cli.engines import LOCAL, Engine, imported_modules
from shortlist.cli.networks import networks_by_option
from shortlist.cli.progress import TrainingBar
from shortlist.cli.runs import resumable
from shortlist.errors import InputError
from shortlist.machine import is_first_process
from shortlist.recipes import all_recipes, find_recipe, published_numbers
from shortlist.recipes.published_tables import published_tables
from shortlist.report import Table, headline
from shortlist.runs import Job, Run, resolve_job, train_job
from shortlist.training import Recipe
from shortlist.training.beginning import Resume
from shortlist.training.run_folder import RunFolder


def requested_job(
    data: str | None, recipe: str | None, settings: dict[str, Any], out: Path | None, *, resume: Resume = False
) -> Job:
    """The job that the arguments describe; errors about missing ones name the options."""
    if data is None and recipe is None and not (resume and out is not None):
        raise InputError(
            "--resume: expected --out FOLDER, the folder of the run to continue"
            if resume
            else "expected data to train on, or --recipe NAME"
        )
    return resolve_job(data, recipe, settings, out, resume=resume)


def changes(given: dict[str, Any], settings: Sequence[str] | None) -> dict[str, Any]:
    """The settings given as options or with ``--set``."""
    found = {name: value for name, value in given.items() if value is not None}
    for text in settings or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--set: expected NAME=VALUE, such as lr=0.05, got {text!r}")
        found[name.strip().replace("-", "_")] = value.strip()
    return found


def run_training(
    job: Job,
    *,
    resume: Resume,
    device: str,
    tensorboard: bool = True,
    network: str | None = None,
    engine: Engine = LOCAL,
) -> None:
    """Train and show the result; of several processes, only the first prints."""
    how = {"resume": resume, "tensorboard": tensorboard, "network": network}
    with networks_by_option(), resumable("train", job.folder, RunFolder(job.folder).how_to_resume):
        _train_and_show(job, device, engine, **how)


def _train_and_show(job: Job, device: str, engine: Engine, **how: Any) -> None:
    recipe, bars = job.recipe, dict[str, Bar]()

    def reading(name: str, done: int, total: int) -> None:
        if is_first_process():
            bar.print_heading()
        bars.setdefault(name, Bar(f"reading {name}", total)).at(done)
        if done == total:
            bars.pop(name).__exit__(None, None, None)  # they may be read again, after a worker has died

    heading = f"training {how['network'] or recipe.backbone} with {recipe.method} on {recipe.data}, in {job.folder}"
    with TrainingBar(recipe.epochs, heading) as bar:
        run = _trained(job, device, engine, callback=bar, progress=reading, **how)
    if run is None:
        return
    show(headline(run.evaluate()).transposed())
    distance = run.distance_to_optimum()
    if distance is not None:
        say(distance.sentence(recipe.k_for(run.predictions().num_classes)))
    for remark in dict.fromkeys(run.remarks):
        if remark not in bar.messages:
            warn(remark)
    say(f"classifier: {run.classifier_path}", f"report: {run.report_path}")


def _trained(job: Job, device: str, engine: Engine, **how: Any) -> Run | None:
    """The run, trained here or by workers; None in other processes than the first."""
    if engine.name == "local":
        run, trained = train_job(job, device=device, **how)
        return run if trained.is_main_process else None
    from shortlist.cluster.training import check_begins, train_job as train_job_by_workers

    check_begins(job, how["network"], how["resume"])  # before Ray is started, which takes a while
    with engine.pool_on(device) as pool:
        assert pool is not None
        # Each worker opens the data for itself, as each process of a launcher does.
        return train_job_by_workers(pool, replace(job, dataset=None), imports=imported_modules(), **how)


def show_recipes(name: str | None, *, as_json: bool) -> None:
    """Print the list of recipes, or one of them."""
    if name is None:
        if as_json:
            emit_json([_record(recipe) for recipe in all_recipes()], indent=2)
        else:
            show(Table(["recipe", "method", "summary"], [[one.name, one.method, one.summary] for one in all_recipes()]))
        return
    recipe = find_recipe(name)
    if as_json:
        emit_json(_record(recipe), indent=2)
        return
    settings = recipe.settings()
    show(Table(["setting", "value"], [[key, "–" if value is None else str(value)] for key, value in settings.items()]))
    for heading, table in published_tables(recipe.name):
        emit(f"\n{heading}\n")
        show(table)
    if recipe.grid:
        grid = "; ".join(f"{key} {', '.join(map(str, values))}" for key, values in recipe.grid.items())
        emit(f"\ngrid of shortlist tune: {grid}\n")


def _record(recipe: Recipe) -> dict[str, Any]:
    return recipe.record() | {"published": [number.record() for number in published_numbers(recipe=recipe.name)]}
