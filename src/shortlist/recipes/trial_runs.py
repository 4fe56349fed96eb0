"""The run of one trial of a search: by this process, which is told how it goes, or by any other, which tells in the end."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from shortlist.data.adapters import as_dataset
from shortlist.data.dataset import Dataset
from shortlist.errors import InputError
from shortlist.machine import take_the_place_of_another
from shortlist.recipes.grids import written
from shortlist.recipes.trials import Trial, measured_trial
from shortlist.training.callbacks import Callback, Callbacks
from shortlist.training.fingerprint import fingerprint
from shortlist.training.interruption import Paused
from shortlist.training.recipe import Recipe
from shortlist.training.run_folder import RunFolder

if TYPE_CHECKING:
    from shortlist.training.devices import Device
    from shortlist.training.run import TrainingResult

Train: TypeAlias = Callable[..., "TrainingResult"]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class TrialTask:
    """One trial to run.

    Args:
        name: of its folder.
        title: what it is called in messages.
        values: of the settings that are searched over.
        recipe: with these values.
        until: the epoch after which it pauses; None to go on to its end.
    """

    name: str
    title: str
    values: Mapping[str, Any]
    recipe: Recipe
    until: int | None = None

    @property
    def described(self) -> str:
        """The trial and its values, in words."""
        until = "" if self.until is None else f", up to epoch {self.until}"
        return f"{self.title}: {written(self.values)}{until}"


@dataclass(frozen=True)
class Ended:
    """What came of a trial.

    Args:
        trial: with the result of its best epoch so far.
        paused: whether it can go on.
        of_data: messages about the data, which other trials give too.
        messages: those that followed.
    """

    trial: Trial
    paused: bool = False
    of_data: Sequence[str] = ()
    messages: Sequence[str] = ()


class TrialJob(Protocol):
    """Runs trials."""

    def __call__(self, task: TrialTask) -> Ended:
        """Run one."""
        ...


class Each(Protocol):
    """Does a job for each of some tasks: :meth:`shortlist.cluster.Pool.each`, say."""

    def __call__(self, job: TrialJob, tasks: Iterable[TrialTask]) -> Iterator[tuple[int, Ended]]:
        """The answers in any order, each with the place of its task."""
        ...


def one_after_another(job: TrialJob, tasks: Iterable[TrialTask]) -> Iterator[tuple[int, Ended]]:
    """The same in this process."""
    for place, task in enumerate(tasks):
        yield place, job(task)


@dataclass
class Here:
    """Trials that this process runs.

    Args:
        folder: of the search.
        device: to train on.
        dataset: the data of all trials.
        train: trains one; :func:`~shortlist.training.train` by default.
        callback: notified as each trial proceeds.
    """

    folder: Path
    device: "Device"
    dataset: Dataset | None
    train: Train | None
    callback: Callback | None
    _told: set[str] = field(default_factory=set)

    def __call__(self, task: TrialTask) -> Ended:
        """Run one."""
        if self.callback is not None:
            self.callback.message(task.described)
        begun = RunFolder.holds_run(self.folder / task.name)  # interrupted, or finished but not yet recorded
        callback = None if self.callback is None else _Once(self.callback, self._told)
        return run_trial(self.folder, task, self.train, begun, self.device, callback, self.dataset)


@dataclass(frozen=True)
class Elsewhere:
    """Trials that workers run; files must be seen by all of them under their paths.

    Args:
        folder: of the search, absolute.
        device: to train on.
        source: the data, or where they are.
        digest: of the data.
        train: trains one; :func:`~shortlist.training.train` by default.
        where: a folder that relative paths start from, where a machine has it.
        imports: modules that define what the recipe names.
    """

    folder: Path
    device: "Device"
    source: Any
    digest: str
    train: Train | None = None
    where: str = ""
    imports: tuple[str, ...] = ()

    def __call__(self, task: TrialTask) -> Ended:
        """Run one; what is said about it is in the answer."""
        if self.where and os.path.isdir(self.where):
            os.chdir(self.where)
            if self.where not in sys.path:
                sys.path.append(self.where)
        for name in self.imports:
            __import__(name)
        data = _opened(self.source, self.digest) if isinstance(self.source, str) else self.source
        take_the_place_of_another()  # perhaps of a worker that died, whose lock may be kept for a while
        heard = _Kept()
        found = run_trial(self.folder, task, self.train, "auto", self.device, heard, data)
        return Ended(found.trial, found.paused, heard.of_data, heard.messages)


@lru_cache(maxsize=1)
def _opened(source: str, digest: str) -> Dataset:
    """The data, opened once by each process; an error if they are not those that the search reads."""
    data = as_dataset(source)
    if fingerprint(data.splits, data.classes, data.superclasses).digest != digest:
        raise InputError(f"{data.name}: expected every worker to read the same data, got different rows or labels")
    return data


def run_trial(
    folder: Path,
    task: TrialTask,
    train: Train | None,
    resume: Any,
    device: "Device",
    callback: Callback | None,
    dataset: Dataset | None,
) -> Ended:
    """Train one trial, to its end or to the epoch at which it pauses."""
    place = folder / task.name
    pausing = {} if task.until is None else {"until": task.until}
    try:
        history = (train or _train())(
            task.recipe, place, resume=resume, device=device, callback=callback, dataset=dataset, **pausing
        ).history
    except Paused:
        return Ended(measured_trial(task.name, task.values, RunFolder(place).history), paused=True)
    except InputError as error:
        return Ended(Trial(task.name, task.values, failed=str(error)))
    return Ended(measured_trial(task.name, task.values, history))


def _train() -> Train:
    from shortlist.training.run import train  # imports accelerate, which listing recipes does not need

    return train


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


class _Kept(Callback):
    """Keeps the messages of a trial."""

    def __init__(self) -> None:
        self.of_data: list[str] = []
        self.messages: list[str] = []
        self._begun = False

    def training_started(self, steps: int, steps_per_epoch: int, rows: int, done: int) -> None:
        """Messages from here on are about this trial."""
        self._begun = True

    def message(self, sentence: str) -> None:
        """Keep it."""
        (self.messages if self._begun else self.of_data).append(sentence)
