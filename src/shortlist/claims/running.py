"""Running what is missing: every arm and seed that the results do not hold yet, side by side in processes."""

import multiprocessing
import os
import platform
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from shortlist.claims.experiment import Arm, Experiment, data_digest, folder_of
from shortlist.claims.results import Result, Results, plain
from shortlist.errors import InputError, ShortlistWarning

THREADS = 1  # of each process on a CPU, whatever their number: sums in another order would give other numbers


@dataclass(frozen=True)
class Task:
    """One arm with one seed.

    Args:
        experiment: id of the experiment.
        name: name of the arm.
        arm: the arm.
        seed: the seed.
        folder: folder of its data, if it needs any.
        data: digest of these data.
    """

    experiment: str
    name: str
    arm: Arm
    seed: int
    folder: Path | None = None
    data: str = ""

    def __str__(self) -> str:
        return f"{self.experiment}, {self.name}, seed {self.seed}"


@dataclass(frozen=True)
class Failure:
    """A task that ended with an error."""

    task: Task
    sentence: str


class Each(Protocol):
    """Does a job for each of some tasks: :meth:`shortlist.cluster.Pool.each`, say."""

    def __call__(
        self, job: "Callable[[Task], Result | Failure]", tasks: Iterable[Task]
    ) -> "Iterator[tuple[int, Result | Failure]]":
        """The answers in any order, each with the place of its task."""
        ...


# Called after each task with the number of tasks done, their total, and what came of it.
Report = Callable[[int, int, Result | Failure], None]


def missing_tasks(
    experiments: Mapping[str, Experiment],
    arms: Mapping[str, Iterable[str]],
    results: Results,
    *,
    seeds: int | None = None,
    data: Path | None = None,
) -> list[Task]:
    """What remains to be run, seed after seed, so that an interrupted run has complete seeds.

    Args:
        experiments: by id.
        arms: by experiment, the arms that are needed.
        results: what there is.
        seeds: how many, instead of those of the experiment.
        data: the folder that holds the data.
    """
    folders = {name: folder_of(experiments[name].data, data) for name in arms}
    of_data = {name: data_digest(experiments[name].data, folder) for name, folder in folders.items()}
    done = {
        name: {(result.arm, result.seed) for result in results.of(experiments[name]) if result.data in ("", of_data[name])}
        for name in arms
    }
    first = {name: experiments[name].first_seed for name in arms}
    last = {name: first[name] + (seeds or experiments[name].seeds) for name in arms}
    return [
        Task(name, arm, experiments[name].arms[arm], seed, folders[name], of_data[name])
        for seed in range(max(last.values(), default=0))
        for name, wanted in arms.items()
        if first[name] <= seed < last[name]
        for arm in experiments[name].arms
        if arm in set(wanted) and (arm, seed) not in done[name]
    ]


def run_tasks(
    tasks: Sequence[Task], results: Results, *, jobs: int = 1, report: Report | None = None, each: Each | None = None
) -> list[Failure]:
    """Run tasks and append their results as they come; those that fail are returned, and lose nothing of the others.

    Ctrl-C keeps what is done.

    Args:
        tasks: what to run.
        results: where results are appended.
        jobs: processes at a time; 1 runs in this process.
        report: called after each task.
        each: runs the tasks, in place of processes of this machine: the workers of a cluster.
    """
    failures: list[Failure] = []
    about = _provenance()

    def done(number: int, found: Result | Failure) -> None:
        if isinstance(found, Failure):
            failures.append(found)
        else:
            found = replace(found, **about | {"machine": found.machine or about["machine"]})
            results.append(found)
        if report is not None:
            report(number, len(tasks), found)

    if each is not None:
        there = [replace(task, folder=None if task.folder is None else task.folder.absolute()) for task in tasks]
        for number, (_, answer) in enumerate(each(run_task_there, there), 1):
            done(number, answer)
        return failures
    if jobs == 1:
        for number, task in enumerate(tasks, 1):
            done(number, run_task(task))
        return failures
    context = multiprocessing.get_context("spawn")  # a forked process cannot use a GPU
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(jobs, context, _quiet) as pool:
        waiting: dict[Future[Result | Failure], Task] = {pool.submit(run_task, task): task for task in tasks}
        number = 0
        try:
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    task, number = waiting.pop(future), number + 1
                    error = future.exception()
                    done(number, future.result() if error is None else Failure(task, f"its process ended: {error}"))
        except BaseException:  # do not wait for trainings that nobody wants any more
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - others:
                process.kill()  # a training answers SIGTERM with a checkpoint, which nobody wants either
                process.join()
            raise
    return failures


def run_task(task: Task) -> Result | Failure:
    """Compute one arm with one seed."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    start, processor = time.perf_counter(), time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ShortlistWarning
            )  # ties of thresholds, classes without rows: part of the experiment
            numbers = task.arm.compute(task.arm.settings, task.seed, task.folder)
    except InputError as error:
        return Failure(task, str(error))
    except Exception:
        return Failure(task, traceback.format_exc().strip().splitlines()[-1])
    finally:
        torch.set_num_threads(threads)
    return Result(
        task.experiment,
        task.name,
        task.seed,
        task.arm.fingerprint,
        plain(numbers),
        seconds=round(time.perf_counter() - start, 3),
        cpu_seconds=round(time.process_time() - processor, 3),
        data=task.data,
    )


def run_task_there(task: Task) -> Result | Failure:
    """The same by a worker of a cluster, whose machine the result names."""
    found = run_task(task)
    return replace(found, machine=machine()) if isinstance(found, Result) else found


def _quiet() -> None:
    """In a worker: Ctrl-C is for the parent, which ends its workers."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _provenance() -> dict[str, Any]:
    from shortlist.training.provenance import provenance

    return {**provenance(), "machine": machine(), "date": datetime.now(UTC).date().isoformat()}


def machine() -> str:
    """Processor, cores and accelerator of this machine."""
    import torch

    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
        model = next((line.split(":")[1].strip() for line in lines if "model name" in line), model)
    accelerator = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{model}, {os.cpu_count()} cores{accelerator}"
