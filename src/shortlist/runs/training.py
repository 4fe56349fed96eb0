"""``shortlist.train``: from data to a run, in one call."""

from pathlib import Path
from typing import Any

from shortlist.report import Optimum
from shortlist.runs.job import Job, resolve_job
from shortlist.runs.run import Run
from shortlist.tensors import is_single_label
from shortlist.training.recipe import Recipe
from shortlist.training.run import Trained, train as run_training


def train(
    data: Any = None,
    *,
    recipe: str | Recipe | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    network: Any = None,
    report: bool = True,
    device: str = "auto",
    callback: Any = None,
    **settings: Any,
) -> Run:
    """Train a classifier that answers with sets, calibrate it, measure it and write a report.

    Args:
        data: a folder of class folders, a table, ``NAME:PATH``, a :class:`~shortlist.data.Dataset`, a torch dataset, or arrays;
            see :func:`~shortlist.data.as_dataset`.
        recipe: the name of a recipe, or a recipe; ``pictures`` or ``table`` by default, whichever the data are.
        folder: where the run goes; ``runs/NAME`` by default.
        resume: continue the run in ``folder``.
        network: a module, or a function ``classes → module``, in place of the recipe's backbone and head.
        report: whether to write the report too.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        callback: a :class:`~shortlist.training.Callback`.
        **settings: of the recipe or of its method: ``method``, ``k``, ``rule``, ``epochs``, ``backbone``, ``lr``, …

    Returns:
        The run: ``run.classifier``, ``run.predictions("test")``, ``run.history``, ``run.report()``.
    """
    job = resolve_job(data, recipe, settings, folder, resume=resume)
    return train_job(job, resume=resume, network=network, report=report, device=device, callback=callback)[0]


def train_job(
    job: Job, *, resume: bool = False, network: Any = None, report: bool = True, **options: Any
) -> tuple[Run, Trained]:
    """Train a job; keep the optimum where it is known, and write the report."""
    result = run_training(job.recipe, job.folder, resume=resume, dataset=job.dataset, network=network, **options)
    run = Run(job.folder, network)
    if not result.is_main_process:
        return run, result
    test = result.predictions["test"]
    if result.posterior is not None and test.target is not None and is_single_label(test.target):
        run.write_optimum(Optimum.of(result.posterior, test.target).record())
    if report:
        run.report()
    return run, result
