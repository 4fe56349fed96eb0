"""Training by processes of a cluster: the one loop, which goes on after any of them has died."""

import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from shortlist.cluster.group import together
from shortlist.cluster.member import WARNED, Event, Tell
from shortlist.cluster.pooling import Pool
from shortlist.errors import InputError, ShortlistWarning
from shortlist.machine import launched_processes
from shortlist.runs import Job, Run, resolve_job, train_job as train_job_here
from shortlist.training.beginning import Resume, check_folder
from shortlist.training.callbacks import Callback
from shortlist.training.recipe import Recipe
from shortlist.training.run_folder import RunFolder

READING = "reading"  # the event of rows that were read


class _Telling(Callback):
    """Tells what happens to the process that asked for the training."""

    def __init__(self, tell: Tell):
        self.tell = tell

    def training_started(self, steps: int, steps_per_epoch: int, rows: int, done: int) -> None:
        """Tell it."""
        self.tell("training_started", steps, steps_per_epoch, rows, done)

    def step_ended(self, step: int, loss: float) -> None:
        """Tell it."""
        self.tell("step_ended", step, loss)

    def epoch_ended(self, line: dict[str, Any], history: Sequence[dict[str, Any]]) -> None:
        """Tell it; the history grows meanwhile."""
        self.tell("epoch_ended", line, list(history))

    def message(self, sentence: str) -> None:
        """Tell it."""
        self.tell("message", sentence)


@dataclass(frozen=True)
class _Training:
    """A job: one process of a training.

    Args:
        job: what to train.
        resume: whether to resume at the first attempt; later ones go on with what is there.
        where: a folder that relative paths start from and that modules are found in, where a machine has it.
        imports: modules that define what the recipe names.
        options: of :func:`shortlist.runs.train_job`.
    """

    job: Job
    resume: Resume
    where: str
    imports: tuple[str, ...]
    options: dict[str, Any]

    def __call__(self, attempt: int, tell: Tell) -> None:
        """Take part."""
        if os.path.isdir(self.where):
            os.chdir(self.where)
            sys.path.append(self.where)
        for name in self.imports:
            importlib.import_module(name)
        resume = self.resume if attempt == 0 else "auto"
        train_job_here(self.job, resume=resume, callback=_Telling(tell), progress=partial(tell, READING), **self.options)


def train(
    pool: Pool,
    data: Any = None,
    *,
    recipe: str | Recipe | None = None,
    folder: str | Path,
    resume: Resume = False,
    network: Any = None,
    report: bool = True,
    callback: Any = None,
    **settings: Any,
) -> Run:
    """Train as :func:`shortlist.train` does, by all workers of a pool together, as one process of ``torchrun`` each.

    If a worker dies, all start again and go on from the last checkpoint; the weights at the end are those of a training by as
    many processes that nothing happened to, bit for bit on CPUs with the same number of threads.

    Args:
        pool: workers; they use a GPU each if it was opened with ``gpus_per_worker=1``, else the CPU.
        data: as for :func:`shortlist.train`; files must be seen by all machines under their paths.
        recipe: as for that function.
        folder: of the run, on a disk that all machines share.
        resume: as for that function.
        network: as for that function; a module or a function of one's own is sent to the workers.
        report: whether to write the report.
        callback: called in this process.
        **settings: of the recipe or of its method.
    """
    job = resolve_job(data, recipe, settings, folder, resume=resume)
    if isinstance(data, str | Path):  # each worker opens it for itself
        job = replace(job, dataset=None)
    return train_job(pool, job, resume=resume, network=network, report=report, callback=callback)


def train_job(
    pool: Pool,
    job: Job,
    *,
    resume: Resume = False,
    network: Any = None,
    callback: Callback | None = None,
    progress: Any = None,
    imports: Sequence[str] = (),
    **options: Any,
) -> Run:
    """Train a job, as :func:`shortlist.runs.train_job` does.

    Args:
        pool: workers.
        job: its data are sent to the workers if they are open already.
        resume: whether to resume the run in its folder.
        network: of one's own.
        callback: called in this process.
        progress: called with the name of a split, the rows read so far and their total.
        imports: modules that define what the recipe names.
        **options: of that function.
    """
    if pool.gpus not in (0, 1):
        raise InputError(f"gpus_per_worker: expected 1 or 0 for workers that train together, got {pool.gpus:g}")
    own = RunFolder(job.folder.absolute())
    check_begins(job, network, resume)
    callback = callback or Callback()

    def listen(event: Event) -> None:
        name, given = event
        if name == WARNED:
            warnings.warn(given[0], ShortlistWarning, stacklevel=4)
        elif name != READING:
            getattr(callback, name)(*given)
        elif progress is not None:
            progress(*given)

    options |= {"network": network, "device": "cuda" if pool.gpus else "cpu"}
    work = _Training(replace(job, folder=own.path), resume, os.getcwd(), tuple(imports), options)
    together(pool, work, listen, lambda: _saved(own))
    return Run(job.folder, network)


def check_begins(job: Job, network: Any, resume: Resume) -> None:
    """Raise an error if the folder of the run allows no such training: here too, before anybody is waited for."""
    if launched_processes() > 1:
        raise InputError(
            f"train: expected a single process, which asks workers to train, got {launched_processes()}: start it without a "
            "launcher"
        )
    check_folder(RunFolder(job.folder), job.recipe, network, resume)


def _saved(run: RunFolder) -> int | None:
    """When the last checkpoint was written."""
    try:
        return run.checkpoint_path.stat().st_mtime_ns
    except OSError:
        return None
