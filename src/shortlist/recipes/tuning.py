"""Search over a grid: every combination is trained, and validation alone chooses.

========================= =======================================================================================
tuning.json               the recipe and the grid
trials.jsonl              a line for each trial that has ended: its values, what validation gave, where it is
trial-000, trial-001, …   the run of each, as :func:`~shortlist.training.train` leaves it
========================= =======================================================================================
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from shortlist.data.sources import open_dataset
from shortlist.errors import InputError
from shortlist.files import write_text
from shortlist.machine import launched_processes
from shortlist.recipes.grids import checked_grid, trial_recipes, written
from shortlist.training.callbacks import Callback, Callbacks
from shortlist.training.recipe import PATH, Recipe

if TYPE_CHECKING:
    from shortlist.data.dataset import Dataset
    from shortlist.report.table import Table
    from shortlist.training.devices import Device
    from shortlist.training.run import Trained

TUNING, TRIALS, BEGUN = "tuning.json", "trials.jsonl", "recipe.json"
FORMAT = "shortlist-tuning/1"
Train: TypeAlias = Callable[..., "Trained"]


@dataclass(frozen=True)
class Trial:
    """One combination, and what validation said about it.

    Args:
        folder: of its run, inside that of the search.
        values: the settings that it differs in.
        monitor: the validation metric that decides; None for a trial that failed.
        value: its best value over the epochs.
        epoch: the epoch that had it.
        seconds: of training, over all epochs.
        failed: the sentence it failed with; None for one that did not.
    """

    folder: str
    values: Mapping[str, Any]
    monitor: str | None = None
    value: float | None = None
    epoch: int | None = None
    seconds: float | None = None
    failed: str | None = None

    def __post_init__(self) -> None:
        # Lists are what JSON has for tuples.
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in self.values.items()}
        object.__setattr__(self, "values", MappingProxyType(values))

    def record(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {part.name: getattr(self, part.name) for part in fields(self)} | {"values": dict(self.values)}


@dataclass(frozen=True)
class Tuned:
    """What a search found.

    Args:
        trials: in the order of the grid.
        best: the one with the best validation value, the first of several.
        recipe: with the values of the best.
    """

    trials: Sequence[Trial]
    best: Trial
    recipe: Recipe

    def table(self) -> "Table":
        """A row for each trial, the best value of validation and its epoch; failed ones with their sentence."""
        from shortlist.report.table import Table

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
    dataset: "Dataset | None" = None,
) -> Tuned:
    """Train every combination of a grid and keep the one with the best validation value.

    Nothing looks at test rows to choose: a trial's value is that by which its own epochs were chosen. A search that was killed
    goes on with ``resume``: trials that ended well are kept, one that was cut short goes on from its checkpoint, one that
    failed is tried again.

    Args:
        recipe: what to train.
        folder: where the search goes; new or empty, unless it is to be resumed.
        grid: settings, each with its values; None: those that the recipe declares.
        resume: go on with what is there.
        device: as for :func:`~shortlist.training.train`.
        callback: is told how each trial goes.
        train: what trains; None: :func:`~shortlist.training.train`.
        dataset: used in place of the recipe's data; opened from the recipe by default.

    >>> import tempfile
    >>> recipe = Recipe("tiny", "flora:species=6,genera=2,train=64,val=32,test=32,size=8", backbone="plain-8", epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tuned = tune(recipe.with_settings(k=2, batch_size=32), folder, grid={"alpha": (0.1, 1.0)})
    >>> len(tuned.trials), tuned.best.monitor
    (2, 'average-2')
    """
    folder = Path(folder)
    if PATH in recipe.data and dataset is None:
        raise InputError(f"recipe {recipe.name} needs data: give the path of {recipe.data.replace(PATH, '…')}")
    if launched_processes() > 1:
        raise InputError("expected one process, as the trials of a search come one after another, got several: start it alone")
    checked = checked_grid(recipe.grid if grid is None else grid, recipe)
    wanted = trial_recipes(recipe, checked)
    search = _Search(folder, recipe, checked, wanted, device, callback, train, dataset)
    search.check_folder(resume)
    trials = search.run()
    best = _best(trials)
    return Tuned(tuple(trials), best, recipe.with_settings(**best.values))


def search_in(folder: str | Path) -> tuple[Recipe, dict[str, tuple[Any, ...]]]:
    """The recipe and the grid of the search in a folder."""
    described = Path(folder) / TUNING
    if not described.exists():
        raise InputError(f"{folder} holds no search to resume: leave --resume out to begin one")
    found = _read_json(described)
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("grid"), dict):
        raise InputError(f"cannot read {described}: expected a search of the format {FORMAT}")
    recipe = Recipe.from_record(found.get("recipe", {}))
    return recipe, {name: tuple(values) if isinstance(values, list) else () for name, values in found["grid"].items()}


def trials_in(folder: str | Path) -> list[Trial]:
    """The trials that have ended so far of the search in a folder."""
    path = Path(folder) / TRIALS
    if not path.exists():
        return []
    try:
        return [Trial(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"cannot read {path}: {error}; choose another folder") from error


class _Search:
    """A search in its folder."""

    def __init__(
        self,
        folder: Path,
        recipe: Recipe,
        grid: Mapping[str, Sequence[Any]],
        wanted: Sequence[Recipe],
        device: "Device",
        callback: Callback | None,
        train: Train | None,
        dataset: "Dataset | None",
    ):
        self.folder, self.recipe, self.grid, self.wanted = folder, recipe, grid, wanted
        self.device, self.callback, self.train = device, callback, train
        self._dataset = dataset
        self._heard: set[str] = set()

    def check_folder(self, resume: bool) -> None:
        """The folder is free, or holds this very search."""
        folder, described = self.folder, self.folder / TUNING
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: expected a folder for the search, got a file")
        if resume:
            self._check_same()
        elif described.exists():
            raise InputError(f"{folder} holds a search already: go on with it by --resume, or choose another folder with --out")
        elif folder.exists() and any(not entry.name.startswith(".") for entry in folder.iterdir()):
            raise InputError(f"{folder} has files in it: expected a new or empty folder for the search")

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
        """Every trial that has not ended well, in the order of the grid."""
        found = self._ended()
        if self._dataset is None and not all(name in found for name in self._names()):
            self._dataset = open_dataset(self.recipe.data)  # once: every trial has the same rows
        if not (self.folder / TUNING).exists():
            record = {"format": FORMAT, "recipe": self.recipe.record(), "grid": _plain(self.grid)}
            write_text(self.folder / TUNING, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
        for number, (name, wanted) in enumerate(zip(self._names(), self.wanted, strict=True), 1):
            if name in found:
                continue
            values = {setting: wanted.settings()[setting] for setting in self.grid}
            self._say(f"trial {number} of {len(self.wanted)}: {written(values)}")
            found[name] = self._trial(name, values, wanted)
            self._write([found[other] for other in self._names() if other in found])
        return [found[name] for name in self._names()]

    def _names(self) -> list[str]:
        return [f"trial-{number:03d}" for number in range(len(self.wanted))]

    def _trial(self, name: str, values: Mapping[str, Any], wanted: Recipe) -> Trial:
        place = self.folder / name
        # A run that was cut short, or that ended while its line was not written yet: both go on from what is there.
        begun = (place / BEGUN).exists()
        try:
            callback = None if self.callback is None else _Once(self.callback, self._heard)
            trained = self._train()(wanted, place, resume=begun, device=self.device, callback=callback, dataset=self._dataset)
        except InputError as error:
            self._say(f"{name} failed: {error}")
            return Trial(name, values, failed=str(error))
        return _measured(name, values, trained.history)

    def _train(self) -> Train:
        if self.train is not None:
            return self.train
        from shortlist.training.run import train

        return train

    def _say(self, sentence: str) -> None:
        if self.callback is not None:
            self.callback.message(sentence)

    def _write(self, trials: Sequence[Trial]) -> None:
        lines = [json.dumps(_plain(trial.record()), ensure_ascii=False) for trial in trials]
        write_text(self.folder / TRIALS, "".join(line + "\n" for line in lines))

    def _ended(self) -> dict[str, Trial]:
        """The trials that ended well, by the name of their folder."""
        return {trial.folder: trial for trial in trials_in(self.folder) if trial.failed is None}


class _Once(Callbacks):
    """Passes on what a trial says, but for what trials before it have said of the same data before they began to train."""

    def __init__(self, callback: Callback, heard: set[str]):
        super().__init__(callback)
        self.heard, self.begun = heard, False

    def training_started(self, steps: int, steps_per_epoch: int, rows: int, done: int) -> None:
        """From here on it is about this trial."""
        self.begun = True
        super().training_started(steps, steps_per_epoch, rows, done)

    def message(self, sentence: str) -> None:
        """Once, if it is about the data."""
        if self.begun or sentence not in self.heard:
            super().message(sentence)
        if not self.begun:
            self.heard.add(sentence)


def _measured(name: str, values: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> Trial:
    """The trial by the last epoch that was better than all before."""
    seconds = round(sum(line.get("seconds") or 0.0 for line in history), 3)
    best = next((line for line in reversed(history) if line.get("best")), None)
    if best is None:
        return Trial(name, values, seconds=seconds, failed="validation gave no number in any epoch: lower lr, or set clip=1")
    return Trial(name, values, str(best["monitor"]), float(best["value"]), int(best["epoch"]), seconds)


def _best(trials: Sequence[Trial]) -> Trial:
    """The best by the metric that decided all of them; the first of equals."""
    from shortlist.training.monitor import Monitor

    best: Trial | None = None
    for trial in trials:
        if trial.value is not None and trial.monitor is not None:
            monitor = Monitor(trial.monitor, 1, None)
            if monitor.better(trial.value, None if best is None else best.value):
                best = trial
    if best is None:
        raise InputError(f"every trial failed, so none can be chosen; the first, {trials[0].folder}: {trials[0].failed}")
    return best


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}; choose another folder") from error


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON gives it back."""
    found: dict[str, Any] = json.loads(json.dumps(dict(values)))
    return found


def _listed(grid: Mapping[str, Sequence[Any]]) -> str:
    return " ".join(f"{name}={';'.join(str(value) for value in values)}" for name, values in grid.items())
