"""Grid search: every combination is trained, and the best one is chosen on validation rows.

========================= =======================================================================================
tuning.json               the recipe, the grid and a digest of the data
rows.safetensors          fingerprint of every row of the data, to tell what has changed when the search is resumed
trials.jsonl              one line per finished trial: its values, its validation result, its folder
trial-000, trial-001, …   the run of each trial, as :func:`~shortlist.training.train` writes it
========================= =======================================================================================
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from shortlist.checks import Check, number as number_check, optional, text, whole
from shortlist.data.adapters import as_dataset
from shortlist.errors import InputError
from shortlist.files import write_text
from shortlist.locks import locked_folder
from shortlist.machine import launched_processes
from shortlist.recipes.grids import MANY, checked_grid, trial_recipes, written
from shortlist.report.table import Table
from shortlist.training.callbacks import Callback, Callbacks
from shortlist.training.fingerprint import DataFingerprint, fingerprint
from shortlist.training.monitor import Monitor
from shortlist.training.recipe import PATH, Recipe
from shortlist.training.run_folder import ROWS, RunFolder, data_changed
from shortlist.words import listed, shown

if TYPE_CHECKING:
    from shortlist.training.devices import Device
    from shortlist.training.run import TrainingResult

TUNING, TRIALS = "tuning.json", "trials.jsonl"
FORMAT = "shortlist-tuning/1"
Train: TypeAlias = Callable[..., "TrainingResult"]


@dataclass(frozen=True)
class Trial:
    """One combination of the grid and its validation result.

    Args:
        folder: name of the folder of its run, inside that of the search.
        values: the values of the settings that are searched over.
        monitor: the validation metric that trials are compared by; None for a failed trial.
        value: its best value over the epochs.
        epoch: the epoch with this value.
        metrics: all validation metrics of that epoch; those that :class:`~shortlist.training.monitor.Monitor` breaks ties by
            decide between trials of equal value.
        seconds: training time, over all epochs.
        failed: the error message of a failed trial, else None.
    """

    folder: str
    values: Mapping[str, Any]
    monitor: str | None = None
    value: float | None = None
    epoch: int | None = None
    seconds: float | None = None
    failed: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # JSON has lists for tuples.
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in self.values.items()}
        object.__setattr__(self, "values", MappingProxyType(values))
        object.__setattr__(self, "metrics", MappingProxyType(dict(self.metrics)))

    @staticmethod
    def from_record(record: Any) -> "Trial":
        """The trial that was read from a file; an error names what cannot be part of one."""
        if not isinstance(record, dict) or record.keys() != CHECKS.keys():
            raise InputError(f"trial: expected {listed(list(CHECKS))}, got {shown(record)}")
        return Trial(**{name: check(name, record[name]) for name, check in CHECKS.items()})

    def record(self) -> dict[str, Any]:
        """The trial as plain values, for JSON."""
        return {part.name: getattr(self, part.name) for part in fields(self)} | {
            "values": dict(self.values),
            "metrics": dict(self.metrics),
        }


def _values(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{name}: expected values by name, got {shown(value)}")
    return value


def _numbers(name: str, value: Any) -> dict[str, float]:
    return {str(key): number_check()(f"{name}[{key!r}]", found) for key, found in _values(name, value).items()}


CHECKS: Mapping[str, Check] = {
    "folder": text,
    "values": _values,
    "monitor": optional(text),
    "value": optional(number_check()),
    "epoch": optional(whole(1)),
    "seconds": optional(number_check(least=0)),
    "failed": optional(text),
    "metrics": _numbers,
}


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
        formats = ["", *[""] * len(names), ".4f", "", ".1f", ""]
        return Table(["trial", *names, str(self.best.monitor), "epoch", "seconds", "failed"], rows, formats)


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
    search = _Search(folder, recipe, checked, wanted, device, callback, train, opened)
    search.check_folder(resume)
    with locked_folder(folder):
        search.check_folder(resume)  # again, now that no other process can write to it
        trials = search.run()
    best = _best(trials)
    return TuningResult(tuple(trials), best, wanted[trials.index(best)])


def search_in(folder: str | Path) -> tuple[Recipe, dict[str, tuple[Any, ...]]]:
    """The recipe and the grid of the search in a folder."""
    described = Path(folder) / TUNING
    if not described.exists():
        raise InputError(f"{folder} holds no search to resume: check the folder, or begin a search without resuming")
    found = _read_json(described)
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("grid"), dict):
        raise InputError(f"cannot read {described}: expected a search of the format {FORMAT}")
    recipe = Recipe.from_record(found.get("recipe", {}))
    return recipe, {name: tuple(values) if isinstance(values, list) else () for name, values in found["grid"].items()}


def trials_in(folder: str | Path) -> list[Trial]:
    """The finished trials of the search in a folder."""
    path = Path(folder) / TRIALS
    if not path.exists():
        return []
    try:
        return [Trial.from_record(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {path}: {error}; choose another folder") from error


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
    ):
        self.folder, self.recipe, self.grid, self.wanted = folder, recipe, grid, wanted
        self.device, self.callback, self.train = device, callback, train
        self._dataset = dataset
        self._messages: set[str] = set()

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

    def run(self) -> list[Trial]:
        """Train all trials that have not succeeded yet, in the order of the grid."""
        found = self._ended()
        new = not (self.folder / TUNING).exists()
        if new:
            self._describe()
        try:
            if self._dataset is None and not all(name in found for name in self._names()):
                self._dataset = as_dataset(self.recipe.data)  # opened once for all trials
            if self._dataset is not None:
                self._check_data(fingerprint(self._dataset.splits, self._dataset.classes, self._dataset.superclasses))
        except BaseException:
            if new:
                (self.folder / TUNING).unlink()
            raise
        for number, (name, wanted) in enumerate(zip(self._names(), self.wanted, strict=True), 1):
            if name in found:
                continue
            values = {setting: wanted.settings()[setting] for setting in self.grid}
            self._say(f"trial {number} of {len(self.wanted)}: {written(values)}")
            found[name] = self._trial(name, values, wanted)
            self._write([found[other] for other in self._names() if other in found])
        return [found[name] for name in self._names()]

    def _describe(self, **more: Any) -> None:
        record = {"format": FORMAT, "recipe": self.recipe.record(), "grid": _plain(self.grid), **more}
        write_text(self.folder / TUNING, json.dumps(record, indent=2, ensure_ascii=False) + "\n")

    def _check_data(self, data: DataFingerprint) -> None:
        """Raise an error if the data are not those that the search began with; those of a new search are recorded."""
        record = _read_json(self.folder / TUNING).get("data")
        if record is None and not any(map(RunFolder.holds_run, map(self.folder.joinpath, self._names()))):
            data.save(self.folder / ROWS)
            self._describe(data=data.record())
        elif not isinstance(record, dict) or record.get("digest") != data.digest:
            raise data_changed(self.folder, "search", data)

    def _names(self) -> list[str]:
        return [f"trial-{number:03d}" for number in range(len(self.wanted))]

    def _trial(self, name: str, values: Mapping[str, Any], wanted: Recipe) -> Trial:
        place = self.folder / name
        begun = RunFolder.holds_run(place)  # interrupted, or finished but not yet recorded
        try:
            callback = None if self.callback is None else _Once(self.callback, self._messages)
            trained = self._train()(wanted, place, resume=begun, device=self.device, callback=callback, dataset=self._dataset)
        except InputError as error:
            self._say(f"{name} failed: {error}")
            return Trial(name, values, failed=str(error))
        return _measured(name, values, trained.history)

    def _train(self) -> Train:
        if self.train is not None:
            return self.train
        from shortlist.training.run import train  # imports accelerate, which listing recipes does not need

        return train

    def _say(self, sentence: str) -> None:
        if self.callback is not None:
            self.callback.message(sentence)

    def _write(self, trials: Sequence[Trial]) -> None:
        lines = [json.dumps(_plain(trial.record()), ensure_ascii=False) for trial in trials]
        write_text(self.folder / TRIALS, "".join(line + "\n" for line in lines))

    def _ended(self) -> dict[str, Trial]:
        """The successful trials, by the name of their folder."""
        return {trial.folder: trial for trial in trials_in(self.folder) if trial.failed is None}


class _Once(Callbacks):
    """Passes on the messages of a trial, except those about the data that earlier trials have already given."""

    def __init__(self, callback: Callback, messages: set[str]):
        super().__init__(callback)
        self.messages, self.begun = messages, False

    def training_started(self, steps: int, steps_per_epoch: int, rows: int, done: int) -> None:
        """Messages from here on are about this trial."""
        self.begun = True
        super().training_started(steps, steps_per_epoch, rows, done)

    def message(self, sentence: str) -> None:
        """Pass it on; only once if it is about the data."""
        if self.begun or sentence not in self.messages:
            super().message(sentence)
        if not self.begun:
            self.messages.add(sentence)


def _measured(name: str, values: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> Trial:
    """The trial with the result of its best epoch."""
    seconds = round(sum(line.get("seconds") or 0.0 for line in history), 3)
    best = next((line for line in reversed(history) if line.get("best")), None)
    if best is None:
        return Trial(
            name, values, seconds=seconds, failed="the validation metric was NaN in every epoch: lower lr, or set clip=1"
        )
    measured = {key: value for key, value in best["metrics"].items() if value is not None and math.isfinite(value)}
    return Trial(name, values, str(best["monitor"]), float(best["value"]), int(best["epoch"]), seconds, metrics=measured)


def _best(trials: Sequence[Trial]) -> Trial:
    """The trial with the best value; of equals the first of those that the tie breakers of the monitor prefer."""
    best: Trial | None = None
    for trial in trials:
        if trial.value is not None and trial.monitor is not None:
            monitor = Monitor(trial.monitor, 1, None)
            if monitor.better(trial.metrics, None if best is None else best.metrics):
                best = trial
    if best is None:
        raise InputError(f"every trial failed; the first, {trials[0].folder}, with: {trials[0].failed}")
    return best


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
