"""``shortlist.train``: from data to a trained, calibrated and measured classifier in one call."""

from pathlib import Path
from typing import Any

from shortlist.report import Optimum
from shortlist.runs.job import Job, resolve_job
from shortlist.runs.run import Run
from shortlist.tensors import is_single_label
from shortlist.training.beginning import Resume
from shortlist.training.recipe import Recipe
from shortlist.training.run import TrainingResult, train as run_training


def train(
    data: Any = None,
    *,
    recipe: str | Recipe | None = None,
    folder: str | Path | None = None,
    resume: Resume = False,
    network: Any = None,
    report: bool = True,
    device: str = "auto",
    callback: Any = None,
    **settings: Any,
) -> Run:
    """Train a classifier that answers with sets, calibrate it, measure it and write a report.

    Args:
        data: a folder with one subfolder per class, a table, ``NAME:PATH``, a :class:`~shortlist.data.Dataset`, a torch
            dataset, or arrays ``(X, y)``; see :func:`~shortlist.data.as_dataset`.
        recipe: the name of a recipe, or a recipe; by default ``pictures`` or ``table``, depending on the data.
        folder: the folder of the run, new or empty; ``runs/NAME`` by default.
        resume: continue the run in ``folder``; ``"auto"``: if there is one, else begin. Then a run that has ended is left as it
            is.
        network: a module, or a function that returns one, called with ``classes=``; it replaces the backbone and the head of
            the recipe. See :func:`shortlist.training.train`.
        report: whether to write the report.
        device: ``"auto"`` (a GPU if there is one), ``"cpu"`` or ``"cuda"``.
        callback: a :class:`~shortlist.training.Callback`.
        **settings: settings of the recipe or of its method: ``method``, ``k``, ``rule``, ``epochs``, ``backbone``, ``lr``, …

    Returns:
        The run: ``run.classifier``, ``run.predictions("test")``, ``run.history``, ``run.report()``.

    >>> import tempfile
    >>> import torch
    >>> generator = torch.Generator().manual_seed(0)
    >>> features = torch.randn(200, 4, generator=generator)
    >>> labels = features.argmax(1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = train((features, labels), folder=folder, k=2, epochs=1, device="cpu", report=False)
    ...     run.classifier.predict(features[:3]).sets.shape
    torch.Size([3, 4])
    """
    job = resolve_job(data, recipe, settings, folder, resume=resume)
    return train_job(job, resume=resume, network=network, report=report, device=device, callback=callback)[0]


def train_job(
    job: Job, *, resume: Resume = False, network: Any = None, report: bool = True, **options: Any
) -> tuple[Run, TrainingResult]:
    """Train a job, and write the optimum, if it is known, and the report; of a run that had ended, only what is missing."""
    result = run_training(job.recipe, job.folder, resume=resume, dataset=job.dataset, network=network, **options)
    run = Run(job.folder, network)
    if not result.is_main_process:
        return run, result
    test = result.predictions["test"]
    posterior = None if result.had_ended and run.read_optimum() is not None else result.posterior
    if posterior is not None and test.target is not None and is_single_label(test.target):
        run.write_optimum(Optimum.of(posterior, test.target).record())
    if report and not (result.had_ended and run.report_path.exists()):
        run.report(pictures=result.test if result.test is not None and result.test.input_kind == "pictures" else False)
    return run, result
