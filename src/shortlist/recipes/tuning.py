"""Grid search: every combination is trained, and the best one is chosen on validation rows.

========================= =======================================================================================
tuning.json               the recipe, the grid and a digest of the data
rows.safetensors          fingerprint of every row of the data, to tell what has changed when the search is resumed
trials.jsonl              one line per finished trial, in the order of the grid: its values, its validation result, its folder
trial-000, trial-001, …   the run of each trial, as :func:`~shortlist.training.train` writes it
========================= =======================================================================================
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shortlist.checks import whole
from shortlist.data.adapters import as_dataset
from shortlist.errors import InputError
from shortlist.files import write_text
from shortlist.locks import locked_folder
from shortlist.machine import launched_processes
from shortlist.recipes.grids import MANY, checked_grid, trial_recipes
from shortlist.recipes.halving import Round, going_on, rounds_of
from shortlist.recipes.trial_runs import Each, Elsewhere, Ended, Here, Train, TrialJob, TrialTask, one_after_another
from shortlist.recipes.trials import Trial, best_of, measured_trial, trials_in, write_trials
from shortlist.report.table import Table
from shortlist.training.callbacks import Callback
from shortlist.training.fingerprint import DataFingerprint, fingerprint
from shortlist.training.recipe import PATH, Recipe
from shortlist.training.run_folder import ROWS, RunFolder, data_changed

if TYPE_CHECKING:
    from shortlist.training.devices import Device

TUNING = "tuning.json"
FORMAT = "shortlist-tuning/1"


@dataclass(frozen=True)
class TuningResult:
    """The result of a grid search.

    Args:
        trials: all trials, in the order of the grid.
        best: the trial with the best validation value; of equals the one with the lowest log-loss, then the first.
        recipe: the recipe with the values of the best trial.
    """

    trials: Sequence[Trial]
    best: Trial
    recipe: Recipe

    def table(self) -> Table:
        """One row per trial: its values, its best validation value and epoch, or the reason why it failed."""
        names = list(self.best.values)
        rows = [
            [trial.folder, *(trial.values[name] for name in names), trial.value, trial.epoch, trial.seconds, trial.failed or ""]
            for trial in self.trials
        ]
        columns = ["trial", *names, str(self.best.monitor), "epoch", "seconds", "failed"]
        formats = ["", *[""] * len(names), ".4f", "", ".1f", ""]
        if any(trial.stopped is not None for trial in self.trials):
            rows = [[*row, trial.stopped] for row, trial in zip(rows, self.trials, strict=True)]
            columns, formats = [*columns, "stopped after"], [*formats, ""]
        return Table(columns, rows, formats)


def tune(
    recipe: Recipe,
    folder: str | Path,
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    resume: bool = False,
    device: "Device" = "auto",
    callback: Callback | None = None,
    train: Train | None = None,
    dataset: Any = None,
    halving: int | None = None,
    each: Each | None = None,
    imports: Sequence[str] = (),
) -> TuningResult:
    """Train every combination of a grid and find the one with the best validation value.

    Test rows are never used to choose: the value of a trial is that of the metric by which its own epoch was chosen. A search
    that was killed continues with ``resume=True``: finished trials are kept, an interrupted one continues from its checkpoint,
    failed ones are tried again.

    Args:
        recipe: the recipe to start from.
        folder: folder of the search; new or empty, unless the search is resumed.
        grid: settings, each with its values; by default the grid of the recipe.
        resume: continue the search in the folder.
        device: ``"auto"`` uses a GPU if there is one.
        callback: notified as each trial proceeds.
        train: the function that trains; :func:`~shortlist.training.train` by default.
        dataset: used in place of the recipe's data; anything that :func:`~shortlist.data.as_dataset` takes.
        halving: stop the worse trials early: in each of several rounds, only one in so many goes on (see
            :mod:`shortlist.recipes.halving`). None trains all to their end.
        each: runs the trials, in place of this process: ``Pool.each`` of a cluster, see :func:`shortlist.cluster.tune`.
        imports: modules that workers import first.

    >>> import tempfile
    >>> recipe = Recipe("tiny", "flora:species=6,genera=2,train=64,val=32,test=32,size=8", backbone="plain-8", epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tuned = tune(recipe.with_settings(k=2, batch_size=32), folder, grid={"alpha": (0.1, 1.0)})
    >>> len(tuned.trials), tuned.best.monitor
    (2, 'average-2')
    """
    folder = Path(folder)
    if PATH in recipe.data and dataset is None:
        wanted_data = recipe.data.replace(PATH, "PATH")
        raise InputError(f"data: recipe {recipe.name} needs a path ({wanted_data}): give it with recipe.with_path(path)")
    if launched_processes() > 1:
        raise InputError(
            "tune: expected a single process, since trials run one after another, got several: start it without a launcher"
        )
    checked = checked_grid(recipe.grid if grid is None else grid, recipe)
    opened = None if dataset is None else as_dataset(dataset)
    wanted = trial_recipes(recipe, checked, MANY if opened is None else len(opened.classes))
    plan = [] if halving is None else rounds_of(wanted, whole(2)("halving", halving))
    search = _Search(folder, recipe, checked, wanted, device, callback, train, opened, halving, plan, each, tuple(imports))
    search.check_folder(resume)
    with locked_folder(folder):
        search.check_folder(resume)  # again, now that no other process can write to it
        trials = search.run()
    best = best_of(trial for trial in trials if trial.stopped is None)
    if best is None:
        failed = next(trial for trial in trials if trial.failed is not None)
        every = "every trial" if halving is None else "every trial that was not stopped"
        raise InputError(f"{every} failed; the first, {failed.folder}, with: {failed.failed}")
    return TuningResult(tuple(trials), best, wanted[trials.index(best)])


def search_in(folder: str | Path) -> tuple[Recipe, dict[str, tuple[Any, ...]]]:
    """The recipe and the grid of the search in a folder."""
    found = _description(folder)
    recipe = Recipe.from_record(found.get("recipe", {}))
    return recipe, {name: tuple(values) if isinstance(values, list) else () for name, values in found["grid"].items()}


def halving_in(folder: str | Path) -> int | None:
    """The factor by which the search in a folder halves, if it does."""
    found = _description(folder).get("halving")
    return None if found is None else whole(2)("halving", found)


def _description(folder: str | Path) -> dict[str, Any]:
    described = Path(folder) / TUNING
    if not described.exists():
        raise InputError(f"{folder} holds no search to resume: check the folder, or begin a search without resuming")
    found = _read_json(described)
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("grid"), dict):
        raise InputError(f"cannot read {described}: expected a search of the format {FORMAT}")
    return found


class _Search:
    """A grid search and its folder."""

    def __init__(
        self,
        folder: Path,
        recipe: Recipe,
        grid: Mapping[str, Sequence[Any]],
        wanted: Sequence[Recipe],
        device: "Device",
        callback: Callback | None,
        train: Train | None,
        dataset: Any,
        halving: int | None,
        plan: Sequence[Round],
        each: Each | None,
        imports: tuple[str, ...],
    ):
        self.folder, self.recipe, self.grid, self.wanted = folder, recipe, grid, wanted
        self.device, self.callback, self.train = device, callback, train
        self.halving, self.plan, self.each, self.imports = halving, plan, each, imports
        self._given = self._dataset = dataset
        self._digest = ""
        self._messages: set[str] = set()
        names = [f"trial-{number:03d}" for number in range(len(wanted))]
        self._tasks = {
            name: TrialTask(name, f"trial {number} of {len(wanted)}", {key: one.settings()[key] for key in grid}, one)
            for number, (name, one) in enumerate(zip(names, wanted, strict=True), 1)
        }

    def check_folder(self, resume: bool) -> None:
        """Raise an error unless the folder is new or, to resume, holds this search."""
        folder, described = self.folder, self.folder / TUNING
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: expected a folder for the search, got a file")
        if resume:
            self._check_same()
        elif described.exists():
            raise InputError(f"{folder} already holds a search: continue it with resume=True, or choose another folder")
        elif folder.exists() and any(not entry.name.startswith(".") for entry in folder.iterdir()):
            raise InputError(f"{folder}: expected a new or empty folder for the search, got one with files in it")

    def _check_same(self) -> None:
        theirs, grid = search_in(self.folder)
        changed = self.recipe.differences(theirs)
        if changed:
            shown = "; ".join(f"{name} {new!r} here, {old!r} there" for name, (new, old) in list(changed.items())[:5])
            raise InputError(
                f"{self.folder} holds a search of another recipe ({shown}): resume it with its own settings, or choose another "
                "folder"
            )
        if list(_plain(self.grid).items()) != list(_plain(grid).items()):
            raise InputError(
                f"{self.folder} holds a search over another grid ({_listed(self.grid)} here, {_listed(grid)} there): "
                "resume it with its own grid, or choose another folder"
            )
        halving = halving_in(self.folder)
        if halving != self.halving:
            raise InputError(f"halving: expected {halving}, as the search in {self.folder} began, got {self.halving}")

    def run(self) -> list[Trial]:
        """Train all trials that have not succeeded yet, in the order of the grid."""
        found = self._ended()
        new = not (self.folder / TUNING).exists()
        if new:
            self._describe()
        try:
            if self._dataset is None and not all(name in found for name in self._tasks):
                self._dataset = as_dataset(self.recipe.data)  # opened once for all trials
            if self._dataset is not None:
                data = fingerprint(self._dataset.splits, self._dataset.classes, self._dataset.superclasses)
                self._check_data(data)
                self._digest = data.digest
        except BaseException:
            if new:
                (self.folder / TUNING).unlink()
            raise
        job = self._job()
        for one in self.plan:
            self._pause(job, found, one)
        waiting = [task for name, task in self._tasks.items() if name not in found]
        for ended in self._run(job, waiting):
            self._record(found, ended.trial)
        return [found[name] for name in self._tasks]

    def _job(self) -> TrialJob:
        if self.each is None:
            return Here(self.folder, self.device, self._dataset, self.train, self.callback)
        source = self.recipe.data if self._given is None else self._given
        folder = self.folder.absolute()
        return Elsewhere(folder, self.device, source, self._digest, self.train, os.getcwd(), self.imports)

    def _run(self, job: TrialJob, tasks: Sequence[TrialTask]) -> Iterator[Ended]:
        """Run some trials, and say what came of them."""
        for place, ended in (self.each or one_after_another)(job, tasks):
            new = [sentence for sentence in ended.of_data if sentence not in self._messages]
            self._messages.update(new)
            trial = ended.trial
            if self.each is not None:
                reached = "" if trial.value is None else f" ({trial.monitor} {trial.value:.4f}, epoch {trial.epoch})"
                new += [tasks[place].described + reached, *ended.messages]
            for sentence in new:
                self._say(sentence)
            if trial.failed is not None:
                self._say(f"{trial.folder} failed: {trial.failed}")
            yield ended

    def _pause(self, job: TrialJob, found: dict[str, Trial], one: Round) -> None:
        """Let all trials that are still there come to a pause, and stop the worse of them."""
        if any(trial.stopped == one.until for trial in found.values()):
            return  # decided before the search was interrupted
        waiting = [
            replace(task, until=one.until)
            for name, task in self._tasks.items()
            if name not in found and len(RunFolder(self.folder / name).history) < one.until
        ]
        for ended in self._run(job, waiting):
            if not ended.paused or ended.trial.failed is not None:
                self._record(found, ended.trial)
        there = [self._reached(name, one.until) for name in self._tasks if name not in found or found[name].is_whole]
        kept = going_on(there, one.keep)
        worse = [trial for trial in there if trial.folder not in kept and trial.folder not in found]
        for trial in worse:
            self._say(f"{trial.folder} is stopped after epoch {one.until}: {len(kept)} of {len(there)} go on")
        if worse:
            found |= {trial.folder: replace(trial, stopped=one.until) for trial in worse}
            self._write(found)

    def _reached(self, name: str, until: int) -> Trial:
        """What a trial had reached after this epoch, as its run recorded it."""
        history = [line for line in RunFolder(self.folder / name).history if line["epoch"] <= until]
        return measured_trial(name, self._tasks[name].values, history)

    def _record(self, found: dict[str, Trial], trial: Trial) -> None:
        found[trial.folder] = trial
        self._write(found)

    def _write(self, found: Mapping[str, Trial]) -> None:
        """The lines of all trials that have ended, in the order of the grid, whoever ended first."""
        write_trials(self.folder, [found[name] for name in self._tasks if name in found])

    def _describe(self, **more: Any) -> None:
        halving = {} if self.halving is None else {"halving": self.halving}
        record = {"format": FORMAT, "recipe": self.recipe.record(), "grid": _plain(self.grid), **halving, **more}
        write_text(self.folder / TUNING, json.dumps(record, indent=2, ensure_ascii=False) + "\n")

    def _check_data(self, data: DataFingerprint) -> None:
        """Raise an error if the data are not those that the search began with; those of a new search are recorded."""
        record = _read_json(self.folder / TUNING).get("data")
        if record is None and not any(map(RunFolder.holds_run, map(self.folder.joinpath, self._tasks))):
            data.save(self.folder / ROWS)
            self._describe(data=data.record())
        elif not isinstance(record, dict) or record.get("digest") != data.digest:
            raise data_changed(self.folder, "search", data)

    def _say(self, sentence: str) -> None:
        if self.callback is not None:
            self.callback.message(sentence)

    def _ended(self) -> dict[str, Trial]:
        """The trials that are not run again, by the name of their folder.

        Those that failed are tried again, unless others have been stopped since: who goes on was decided without them.
        """
        trials = trials_in(self.folder)
        decided = any(trial.stopped is not None for trial in trials)
        return {trial.folder: trial for trial in trials if trial.failed is None or decided}


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {path}: {error}; choose another folder") from error


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values after a round trip through JSON."""
    found: dict[str, Any] = json.loads(json.dumps(dict(values)))
    return found


def _listed(grid: Mapping[str, Sequence[Any]]) -> str:
    return " ".join(f"{name}={';'.join(str(value) for value in values)}" for name, values in grid.items())
