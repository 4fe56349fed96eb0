"""``train``: a recipe and a folder → a trained, calibrated and measured classifier, with its predictions and history."""

import json
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import torch
from accelerate import Accelerator
from torch import Tensor

from shortlist.checks import whole
from shortlist.data.adapters import as_dataset
from shortlist.data.dataset import TRAIN, Split
from shortlist.errors import InputError, ShortlistWarning
from shortlist.evaluation import card_numbers, measure
from shortlist.evaluation.selections import has_outliers
from shortlist.machine import is_first_process, launched_processes, local_processes
from shortlist.models.classifier import Classifier
from shortlist.models.factories import GivenNetwork
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.models.quality import quality_for
from shortlist.predictions import Predictions
from shortlist.processes import asked_of_first, same_everywhere
from shortlist.training.assembly import as_predictions, assemble_classifier
from shortlist.training.beginning import Resume, begun_training, check_folder
from shortlist.training.callbacks import Callback, Callbacks, MetricsFile, tensorboard_if_installed
from shortlist.training.checkpoint import load_checkpoint
from shortlist.training.context import TrainingContext
from shortlist.training.criterion import Criterion
from shortlist.training.devices import Device, make_accelerator
from shortlist.training.fingerprint import fingerprint
from shortlist.training.interruption import ended_at_once
from shortlist.training.link_and_rule import base_link, make_rule
from shortlist.training.loaded_data import LoadedData, Progress, left_out, load_data
from shortlist.training.loop import Loop
from shortlist.training.monitor import make_monitor
from shortlist.training.network import check_same_network, network_record, network_to_train
from shortlist.training.recipe import PATH, Recipe, TestFit
from shortlist.training.row_sources import worker_deaths_reported
from shortlist.training.run_folder import RunFolder
from shortlist.training.scoring import score_rows
from shortlist.training.setting_checks import flag_or_auto
from shortlist.training.splits import TEST, VAL, TrainingSplits, split_for_training

WEIGHTS_KEPT = 11  # copies of the weights on disk: network, optimiser (two), average, best, in two checkpoints; classifier


@dataclass(frozen=True)
class TrainingResult:
    """What a training returns.

    Args:
        classifier: the trained classifier, with its link and rule.
        predictions: by split (val, calibration, test), with the classifier's link.
        history: one dictionary per epoch, as in metrics.jsonl.
        posterior: the true class probabilities of the test rows, if the data come with them.
        remarks: notes on the data, the link and the rule, in sentences.
        is_main_process: whether this process writes the files.
        test: the test rows themselves.
        had_ended: whether the run had ended before, and nothing was written.
    """

    classifier: Classifier
    predictions: Mapping[str, Predictions]
    history: list[dict[str, Any]]
    posterior: Tensor | None = None
    remarks: list[str] = field(default_factory=list)
    is_main_process: bool = True
    test: Split | None = None
    had_ended: bool = False


def train(
    recipe: Recipe,
    folder: str | Path,
    *,
    resume: Resume = False,
    device: Device = "auto",
    callback: Callback | None = None,
    progress: Progress | None = None,
    checkpoint_seconds: float = 30.0,
    dataset: Any = None,
    network: GivenNetwork | None = None,
    inputs: InputSpec | None = None,
    tensorboard: bool = False,
    until: int | None = None,
) -> TrainingResult:
    """Train, calibrate and measure a classifier; everything goes into the folder.

    A run that was killed continues with ``resume=True`` and ends with the weights that it would have had, bit for bit on a CPU
    with the same number of threads; if the data have changed since the run began, it is refused (pictures of a torch or Hugging
    Face dataset are compared by id and label only). With ``resume="auto"`` the same call begins a run, continues it, and leaves
    one that has ended as it is, so that a launcher that restarts its processes recovers by itself. Ctrl-C finishes the current
    step, writes a checkpoint and raises :class:`~shortlist.training.interruption.Interrupted`, a ``KeyboardInterrupt``; a
    second Ctrl-C stops immediately. SIGTERM does the same and raises :class:`~shortlist.training.interruption.Terminated`, a
    ``SystemExit`` with status 143. The folder is locked while it is written to.

    Args:
        recipe: what to do.
        folder: folder of the run; new or empty, unless the run is resumed.
        resume: continue the run in the folder; ``"auto"``: if there is one, else begin.
        device: ``"auto"`` uses a GPU if there is one.
        callback: called after each step and each epoch, and with remarks.
        progress: called with the name of a split, the rows read so far and their total.
        checkpoint_seconds: minimum time between checkpoints.
        dataset: used in place of the recipe's data; anything that :func:`~shortlist.data.as_dataset` takes.
        network: used in place of the recipe's backbone and the method's head: any ``nn.Module`` whose output is scores (N, C),
            or a ``TwoHeadScores`` pair if the method needs one; a function that returns a module, called with ``classes=`` and,
            if it takes it, ``inputs=``; or the import path of such a function. To put the method's head on a backbone of
            your own, return ``Network(backbone, head, inputs, classes)``.
        inputs: what the network reads; by default its own, or derived from the data: the recipe's size, and the mean and
            standard deviation of the training rows.
        tensorboard: also write curves for TensorBoard, if it is installed.
        until: pause after this epoch, unless it is the last: a checkpoint is saved and
            :class:`~shortlist.training.interruption.Paused` raised. Resumed, the training goes on as if it had not paused.

    >>> import tempfile
    >>> recipe = Recipe("tiny", "flora:species=6,genera=2,train=64,val=32,test=32,size=8", backbone="plain-8", epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     train(recipe.with_settings(k=2, batch_size=32), folder).classifier.rule.text
    'average-k:2'
    """
    if PATH in recipe.data and dataset is None:
        wanted = recipe.data.replace(PATH, "PATH")
        raise InputError(f"data: recipe {recipe.name} needs a path ({wanted}): give it with recipe.with_path(path)")
    recipe, inputs = _sized(recipe, network, inputs)
    resume = flag_or_auto("resume", resume)
    if until is not None:
        whole(1)("until", until)
    run = RunFolder(folder)
    writes = is_first_process()  # the others neither lock the folder nor write to it
    if writes:
        check_folder(run, recipe, network, resume)  # before others are waited for
    with ended_at_once() if launched_processes() > 1 else nullcontext():
        accelerator = make_accelerator(recipe.precision, device)
    with begun_training(run, recipe, network, resume) as beginning, worker_deaths_reported():
        data = split_for_training(as_dataset(recipe.data if dataset is None else dataset), recipe)
        _check_processes(recipe, accelerator)
        callbacks = _callbacks(run, callback, accelerator, tensorboard)
        warned = callback is None and writes  # else the callback has got it as a message
        _report(callbacks, data.remarks, data.warnings if warned else ())
        digest = _checked_data(run, data)
        if resume == "auto" and asked_of_first(lambda: _has_ended(run, recipe, digest)):
            callbacks.message("training had already finished: nothing is left to do")
            return _as_found(run, data, network, writes)
        processes_here = local_processes(accelerator.num_processes)
        loaded = load_data(data, recipe, accelerator.device, processes_here=processes_here, progress=progress, inputs=inputs)
        _report(callbacks, loaded.remarks, loaded.remarks if warned else ())
        if loaded.redrawn and writes:
            run.record_rows(fingerprint(loaded.splits, data.dataset.classes, data.dataset.superclasses))
        context = TrainingContext(accelerator, run, callbacks, checkpoint_seconds, data=digest, until=until)
        loop = _prepared(recipe, data, loaded, context, network)
        if network is not None and run.checkpoint_path.exists():
            check_same_network(run, loop.network)
        elif network is not None and writes:
            run.add_to_record(network=network_record(loop.network), inputs=loop.network.inputs.record())
        if beginning.resumed:
            _restore(loop)
        beginning.stays = True
        state = loop.run()
        return _finished(recipe, data, loaded, loop, state.history)


def _report(callbacks: Callback, remarks: Sequence[str], warned: Sequence[str]) -> None:
    for remark in remarks:
        callbacks.message(remark)
    for warning in warned:
        warnings.warn(warning, ShortlistWarning, stacklevel=3)


def _checked_data(run: RunFolder, data: TrainingSplits) -> str:
    """The digest of the data, which must be those that the run began with, and the same in every process."""
    found = fingerprint(data.splits, data.dataset.classes, data.dataset.superclasses)
    asked_of_first(lambda: run.check_data(found))
    if not same_everywhere(found.digest):
        raise InputError(f"{data.dataset.name}: expected every process to read the same data, got different rows or labels")
    return found.digest


def _has_ended(run: RunFolder, recipe: Recipe, digest: str) -> bool:
    """Whether nothing is left to do in a run of this recipe on these data; an error if it was trained by another recipe."""
    if not run.has_results:
        return False
    if not run.checkpoint_path.exists():  # removed, to save space
        return True
    last = load_checkpoint(run.checkpoint_path)
    last.check_recipe(recipe, run.path)
    ended = last.state.finished and last.data == digest
    if ended:
        MetricsFile(run.metrics_path).put_back(last.state.history)
    return ended


def _as_found(run: RunFolder, data: TrainingSplits, network: GivenNetwork | None, is_main: bool) -> TrainingResult:
    """The result of a run that had ended, from its folder."""
    classifier = Classifier.load(run.classifier_path, network=network)
    predictions = {name: run.predictions(name) for name in run.splits}
    test, remarks = data.splits[TEST], list(map(str, classifier.about.get("remarks", [])))
    posterior = test.posterior if len(test) == len(predictions[TEST].scores) else None
    return TrainingResult(classifier, predictions, run.history, posterior, remarks, is_main, test, had_ended=True)


def _restore(loop: Loop) -> None:
    """Continue from the checkpoint, if there is one: the same in every process."""
    context = loop.context
    writes = context.accelerator.is_main_process
    if writes:
        context.run.put_back_classifier()
    restored = loop.restore()
    if writes:
        context.run.remove_leftovers()
        if restored:  # until the next epoch ends, and there may be none, nothing else writes it
            MetricsFile(context.run.metrics_path).put_back(loop.state.history)
    if not restored:
        context.callback.message("no checkpoint yet: training starts from the beginning")
    elif loop.state.finished:
        context.callback.message("training had already finished: only its results are written again")
    if not same_everywhere(json.dumps(vars(loop.state))):
        raise InputError(
            f"{context.run.path}: expected every process to read the same checkpoint, got different ones: the folder of a run "
            "must be on a disk that all machines share"
        )


def _sized(recipe: Recipe, network: GivenNetwork | None, inputs: InputSpec | None) -> tuple[Recipe, InputSpec | None]:
    """What the network reads, where that is known before the data, and the recipe with pictures of that size."""
    if inputs is not None and network is None:
        raise InputError("inputs: expected None without a network of your own, which it describes; got an InputSpec")
    if inputs is None and isinstance(network, Network):
        inputs = network.inputs
    if inputs is None or not inputs.is_pictures:
        return recipe, inputs
    if inputs.fit not in get_args(TestFit):
        raise InputError(f"inputs: expected fit 'crop' or 'center', as training pictures are squares, got {inputs.fit!r}")
    if recipe.test_fit not in ("crop", inputs.fit):
        raise InputError(f"inputs: expected fit {recipe.test_fit!r}, as test_fit of the recipe says, got {inputs.fit!r}")
    if recipe.size not in (None, inputs.size):
        raise InputError(f"inputs: expected pictures of size {recipe.size}, as the recipe says, got {inputs.size}")
    return recipe.with_settings(size=inputs.size, test_fit=inputs.fit), inputs


def _check_processes(recipe: Recipe, accelerator: Accelerator) -> None:
    row_state = recipe.chosen_method.keeps_row_state
    if row_state and recipe.precision == "float16":
        raise InputError(
            f"method {recipe.method}: what it learns about each training row does not support the gradient scaling of float16: "
            "use bfloat16 or float32"
        )
    if accelerator.num_processes == 1:
        return
    if row_state:
        raise InputError(
            f"method {recipe.method} learns something about every training row, which processes cannot share: use one process"
        )
    smallest = recipe.batch_size // recipe.accumulate
    if smallest < accelerator.num_processes:
        raise InputError(
            f"batch_size: expected a row or more for each of the {accelerator.num_processes} processes in each micro-batch, "
            f"got {smallest}"
        )


def _callbacks(run: RunFolder, callback: Callback | None, accelerator: Accelerator, tensorboard: bool) -> Callback:
    """All callbacks of the main process; the others have none."""
    if not accelerator.is_main_process:
        return Callback()
    others = tensorboard_if_installed(run.path) if tensorboard else []
    return Callbacks(MetricsFile(run.metrics_path), *others, *([callback] if callback is not None else []))


def _prepared(
    recipe: Recipe, data: TrainingSplits, loaded: LoadedData, context: TrainingContext, given: GivenNetwork | None = None
) -> Loop:
    """Build the training loop; errors that can be known before the first step are raised here."""
    classes = len(data.dataset.classes)
    torch.manual_seed(recipe.seed)
    begun = context.run.checkpoint_path.exists()  # then the weights are those of the checkpoint
    network = network_to_train(recipe, loaded.inputs, classes, given, None if begun else context.callback)
    weights = sum(tensor.numel() * tensor.element_size() for tensor in network.state_dict().values())
    context.run.check_space(WEIGHTS_KEPT * weights)
    counts = loaded.splits[TRAIN].counts(classes)
    criterion = Criterion(recipe, counts, len(loaded.splits[TRAIN]))
    link = base_link(recipe, criterion.link, single=data.single_label)
    monitor = make_monitor(recipe, link, classes, outliers=has_outliers(loaded.splits[VAL].target))
    if recipe.accumulate > 1 and criterion.loss.couples:
        context.callback.message(
            f"{recipe.method} couples the rows of a batch: with accumulate={recipe.accumulate} it couples those of each "
            f"micro-batch of {recipe.batch_size // recipe.accumulate} rows"
        )
    return Loop(recipe, network, criterion, network.inputs, loaded.rows[TRAIN], loaded.rows[VAL], monitor, context)


def _finished(
    recipe: Recipe, data: TrainingSplits, loaded: LoadedData, loop: Loop, history: list[dict[str, Any]]
) -> TrainingResult:
    """Score the held-out rows with the best weights, calibrate, measure, and write everything to the folder."""
    classes, counts = list(data.dataset.classes), loaded.splits[TRAIN].counts(len(data.dataset.classes))
    network = loop.evaluated
    assert isinstance(network, Network)
    found, splits = {}, {}
    rule = make_rule(recipe, len(classes), counts.double() / counts.sum(), data.dataset.superclasses)
    wanted = quality_for(rule, network.inputs)
    for name, rows in loaded.rows.items():
        if name == TRAIN:
            continue
        scores, numbers, quality = score_rows(
            network, rows, batch_size=loop.context.validation_batch, dtype=None, quality=wanted
        )
        splits[name] = loaded.splits[name].rows(numbers) if len(numbers) < len(loaded.splits[name]) else loaded.splits[name]
        found[name] = as_predictions(scores, splits[name], classes, counts, data.dataset.superclasses, quality)
    about = _about(recipe, data, loaded, history)
    link = loop.criterion.link
    classifier, predictions, remarks = assemble_classifier(
        recipe, network.cpu(), None if link is None else link.cpu(), found, about
    )
    late = {name: [*rows.problems.values()] for name, rows in loaded.rows.items() if rows.problems}
    about["remarks"] = [*data.remarks, *loaded.remarks, *left_out(data.dataset.name, late), *remarks]
    about["numbers"] = card_numbers(measure(predictions[TEST], classifier.rule))
    classifier.about = about
    if loop.context.accelerator.is_main_process:
        for name, part in predictions.items():
            loop.context.run.write_predictions(name, part)
        loop.context.run.write_classifier(classifier)
    loop.context.accelerator.wait_for_everyone()
    main = loop.context.accelerator.is_main_process
    test = data.splits[TEST]
    return TrainingResult(classifier, predictions, history, splits[TEST].posterior, about["remarks"], main, test)


def _about(recipe: Recipe, data: TrainingSplits, loaded: LoadedData, history: list[dict[str, Any]]) -> dict[str, Any]:
    rows = {name: len(split) for name, split in loaded.splits.items()}
    return {
        "name": recipe.name,
        "data": {"name": data.dataset.name, "rows": rows, "reference": data.dataset.reference},
        "method": {"name": recipe.method, "parameters": dict(recipe.parameters), "reference": recipe.chosen_method.reference},
        "epochs": len(history),
    }
