"""One run: a recipe and a folder → a classifier, its predictions and its history, and everything needed to do it again.

========================= =======================================================================================
recipe.json               the resolved recipe, the versions of what computed, the commit
metrics.jsonl             a line an epoch
checkpoint.safetensors    where training stands, or stood when it ended
classifier/               weights, configuration, class names, model card
val, calibration, test    predictions, .safetensors each
========================= =======================================================================================
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from shortlist.data.dataset import TRAIN, Dataset
from shortlist.data.problems import problem_lines
from shortlist.data.sources import open_dataset
from shortlist.errors import InputError
from shortlist.evaluation import card_numbers, measure
from shortlist.files import write_text
from shortlist.models.backbones import check_backbone
from shortlist.models.classifier import Classifier
from shortlist.models.factories import GivenNetwork, NetworkNeededError, build_network, import_factory
from shortlist.models.heads import TwoHeadScores
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.predictions import Predictions
from shortlist.training.criterion import Criterion
from shortlist.training.devices import Device, make_accelerator
from shortlist.training.division import TEST, VAL, Division, divide
from shortlist.training.finishing import finish, scored
from shortlist.training.loop import Loop, Stage
from shortlist.training.material import Material, Progress, gather_material
from shortlist.training.monitor import monitor_of
from shortlist.training.provenance import provenance
from shortlist.training.reading import base_link
from shortlist.training.recipe import PATH, Recipe
from shortlist.training.scoring import score_rows
from shortlist.training.watching import MetricsFile, Watcher, Watchers, tensorboard_if_installed

RECIPE, CLASSIFIER = "recipe.json", "classifier"
WEIGHTS_KEPT = 11  # copies of the weights: network, optimiser (two), average, best, in an old and a new file; the classifier
WRITTEN = ("recipe", "metrics", "checkpoint", "failed-batch", "val", "calibration", "test", CLASSIFIER, "optimum", "report")


@dataclass(frozen=True)
class Trained:
    """What a run leaves.

    Args:
        classifier: ready to answer.
        predictions: by split, with the classifier's link: val, calibration, test.
        history: a line an epoch, as in metrics.jsonl.
        posterior: of the test rows, where it is known.
        remarks: what a person should know, in sentences.
    """

    classifier: Classifier
    predictions: Mapping[str, Predictions]
    history: list[dict[str, Any]]
    posterior: Tensor | None = None
    remarks: list[str] = field(default_factory=list)


def train(
    recipe: Recipe,
    folder: str | Path,
    *,
    resume: bool = False,
    device: Device = "auto",
    watcher: Watcher | None = None,
    progress: Progress | None = None,
    checkpoint_seconds: float = 30.0,
    dataset: Dataset | None = None,
    network: GivenNetwork | None = None,
    inputs: InputSpec | None = None,
    tensorboard: bool = False,
) -> Trained:
    """Train, calibrate and measure a classifier; everything goes into the folder.

    A run that was killed goes on with ``resume`` and ends with the weights that it would have had, bit for bit on a CPU with
    the same number of threads. At Ctrl-C the step in hand ends, the checkpoint is written, and
    :class:`~shortlist.training.interruption.Interrupted`, a ``KeyboardInterrupt``, is raised; a second leaves at once.

    Args:
        recipe: what to do.
        folder: where the run goes; new or empty, unless it is to be resumed.
        resume: go on with what is there.
        device: ``"auto"`` takes a GPU where there is one.
        watcher: callbacks, called after each step and epoch and with remarks.
        progress: callback, called with the number of pictures read so far.
        checkpoint_seconds: the least time between checkpoints.
        dataset: in place of the recipe's data, which then only names them.
        network: in place of the recipe's backbone and its method's head: any ``nn.Module`` whose output is scores (N, C), or a
            ``TwoHeadScores`` pair where the method needs one; a function that returns a module, called with ``classes=`` and,
            if it takes it, ``inputs=``; or the import path of such a function. To put the method's head on a backbone of
            your own, return ``Network(backbone, head, inputs, classes)``.
        inputs: what the network reads; by default its own, or derived from the data: the recipe's size, and the mean and
            standard deviation of the training rows.
        tensorboard: also write curves for TensorBoard, where it is installed.

    >>> import tempfile
    >>> recipe = Recipe("tiny", "flora:species=6,genera=2,train=64,val=32,test=32,size=8", backbone="plain-8", epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     train(recipe.with_settings(k=2, batch_size=32), folder).classifier.rule.text
    'average-k:2'
    """
    folder = Path(folder)
    if PATH in recipe.data and dataset is None:
        raise InputError(f"recipe {recipe.name} needs data: give the path of {recipe.data.replace(PATH, '…')}")
    recipe, inputs = _sized(recipe, network, inputs)
    _check_folder(folder, recipe, resume)
    if network is None:
        _check_needs_no_network(folder, resume)
        check_backbone(recipe.backbone)
    elif isinstance(network, str):
        import_factory(network)  # a path that leads nowhere is refused before any data is read
    accelerator = make_accelerator(recipe.precision, device)
    division = divide(open_dataset(recipe.data) if dataset is None else dataset, recipe)
    _check_processes(recipe, accelerator)
    watchers = _watchers(folder, watcher, accelerator, tensorboard)
    for remark in division.remarks:
        watchers.said(remark)
    material = gather_material(
        division, recipe, accelerator.device, processes_here=_local_processes(accelerator), progress=progress
    )
    for line in problem_lines(material.problems):
        watchers.said(line)
    if inputs is not None:
        material = replace(material, inputs=inputs)
    loop = _prepared(recipe, division, material, Stage(accelerator, folder, watchers, checkpoint_seconds), network)
    if accelerator.is_main_process and not resume:
        described = {"recipe": recipe.record()} | _network_record(loop.network) | provenance()
        write_text(folder / RECIPE, json.dumps(described, indent=2, ensure_ascii=False) + "\n")
    if resume:
        _clear_leftovers(folder, accelerator)
        if not loop.restore():
            watchers.said("no checkpoint yet: from the beginning")
    moment = loop.run()
    return _finished(recipe, division, material, loop, moment.history)


def _sized(recipe: Recipe, network: GivenNetwork | None, inputs: InputSpec | None) -> tuple[Recipe, InputSpec | None]:
    """What the network reads, where that is known before the data, and the recipe with pictures of that size."""
    if inputs is not None and network is None:
        raise InputError("inputs: expected None without a network of your own, which it describes; got an InputSpec")
    if inputs is None and isinstance(network, Network):
        inputs = network.inputs
    if inputs is None or not inputs.is_pictures:
        return recipe, inputs
    if inputs.fit != "crop":
        raise InputError(f"inputs: expected fit 'crop', which is how training pictures become squares, got {inputs.fit!r}")
    if recipe.size not in (None, inputs.size):
        raise InputError(f"inputs: expected pictures of size {recipe.size}, as the recipe says, got {inputs.size}")
    return recipe.with_settings(size=inputs.size), inputs


def _check_needs_no_network(folder: Path, resume: bool) -> None:
    """A run that was begun with a network of the user's own goes on with it."""
    made = run_network(folder) if resume else None
    if made is not None:
        factory = made.get("factory")
        shown = f"network={factory!r}" if factory else f"network=…, a {made.get('class')} or a function that returns one"
        raise NetworkNeededError(f"{folder}: this run trains a network of your own: resume it with {shown}", factory)


def run_network(folder: str | Path) -> dict[str, Any] | None:
    """The class and factory of the network of a run, where it was not built from names; None where it was."""
    return _described(folder).get("network")


def _network_record(network: Network) -> dict[str, Any]:
    return {"network": {"class": network.describe(), "factory": network.factory}} if network.foreign else {}


def _check_folder(folder: Path, recipe: Recipe, resume: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: expected a folder for the run, got a file")
    described = folder / RECIPE
    if not resume:
        if described.exists():
            raise InputError(f"{folder} holds a run already: go on with it by --resume, or choose another folder with --out")
        if folder.exists() and any(not entry.name.startswith(".") for entry in folder.iterdir()):
            raise InputError(f"{folder} has files in it: expected a new or empty folder for the run")
        _check_place(folder)
        return
    if not described.exists():
        raise InputError(f"{folder} holds no run to resume: leave --resume out to begin one")
    theirs = run_recipe(folder)
    changed = recipe.differences(theirs)
    if changed:
        shown = "; ".join(f"{name} {new!r} here, {old!r} there" for name, (new, old) in list(changed.items())[:5])
        raise InputError(
            f"{folder} holds a run of another recipe ({shown}): resume it with its own settings, or choose another folder"
        )


def _check_place(folder: Path) -> None:
    """Something can be written there, as far as can be known before anything is; room for it is another question."""
    there = _nearest(folder)
    # Systems show themselves as folders, such as /proc, in which there is no disk at all.
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK) or not shutil.disk_usage(there).total:
        what = "nothing can be written in" if there.is_dir() else "there is a file at"
        raise InputError(f"cannot write {folder}: {what} {there}: choose another folder with --out")


def _nearest(folder: Path) -> Path:
    """The folder, or the first above it that there is."""
    return next((above for above in (folder, *folder.parents) if above.exists()), Path())


def run_recipe(folder: str | Path) -> Recipe:
    """The recipe of the run in a folder."""
    try:
        return Recipe.from_record(_described(folder)["recipe"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"cannot read {Path(folder) / RECIPE}: {error}") from error


def _described(folder: str | Path) -> dict[str, Any]:
    path = Path(folder) / RECIPE
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    except FileNotFoundError as error:
        raise InputError(f"{folder}: expected the folder of a run, with a {RECIPE} in it") from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error


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


def _local_processes(accelerator: Accelerator) -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", accelerator.num_processes))


def _watchers(folder: Path, watcher: Watcher | None, accelerator: Accelerator, tensorboard: bool) -> Watcher:
    """The first process speaks for all."""
    if not accelerator.is_main_process:
        return Watcher()
    others = tensorboard_if_installed(folder) if tensorboard else []
    return Watchers(MetricsFile(folder), *others, *([watcher] if watcher is not None else []))


def _prepared(recipe: Recipe, division: Division, material: Material, stage: Stage, given: GivenNetwork | None = None) -> Loop:
    """The loop, ready for its first step; what cannot work is found out here."""
    classes = len(division.dataset.classes)
    torch.manual_seed(recipe.seed)
    network = _network(recipe, material.inputs, classes, given)
    _check_space(stage.folder, network)
    counts = material.splits[TRAIN].counts(classes)
    criterion = Criterion(recipe, counts, len(material.splits[TRAIN]))
    monitor = monitor_of(recipe, base_link(recipe, criterion.link), classes)
    if recipe.accumulate > 1 and criterion.loss.couples:
        stage.watcher.said(
            f"{recipe.method} couples the rows of a batch: with accumulate={recipe.accumulate} it couples those of each "
            f"micro-batch of {recipe.batch_size // recipe.accumulate} rows"
        )
    return Loop(recipe, network, criterion, network.inputs, material.rows[TRAIN], material.rows[VAL], monitor, stage)


def _network(recipe: Recipe, inputs: InputSpec, classes: int, given: GivenNetwork | None) -> Network:
    """The network to train: the recipe's, or the one that was given, whose output has to suit the method."""
    head = recipe.chosen_method.head_kind
    if given is None:
        return Network(recipe.backbone, head, inputs, classes, pretrained=recipe.pretrained)
    network = build_network(given, inputs, classes)
    if not any(weight.requires_grad for weight in network.parameters()):
        raise InputError(f"network: expected weights that can be trained, got none in {network.describe()}")
    pair = isinstance(network.check_output(), TwoHeadScores)
    if pair != (head == "two-head"):
        wanted, came = ("a TwoHeadScores pair", "scores") if not pair else ("scores", "a TwoHeadScores pair")
        raise InputError(
            f"network: expected {wanted} as output, which method {recipe.method} is trained with, got {came}: choose another "
            f"method, such as cross-entropy, or return Network(backbone, {head!r}, inputs, classes)"
        )
    return network


def _check_space(folder: Path, network: Network) -> None:
    """The disk has room for what the run will write."""
    size = sum(tensor.numel() * tensor.element_size() for tensor in network.state_dict().values())
    free = shutil.disk_usage(_nearest(folder)).free
    if free < WEIGHTS_KEPT * size:
        raise InputError(
            f"{folder}: expected {WEIGHTS_KEPT * size / 1e6:,.0f} MB of free space for checkpoints and the classifier, got "
            f"{free / 1e6:,.0f} MB: make room, or choose another folder with --out"
        )


def _clear_leftovers(folder: Path, accelerator: Accelerator) -> None:
    """Temporaries of writes that were cut short."""
    if accelerator.is_main_process:
        for entry in (entry for stem in WRITTEN for entry in folder.glob(f".{stem}.*")):
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


def _finished(recipe: Recipe, division: Division, material: Material, loop: Loop, history: list[dict[str, Any]]) -> Trained:
    """Score the held-out rows with the kept weights, calibrate, measure and write."""
    classes, counts = list(division.dataset.classes), material.splits[TRAIN].counts(len(division.dataset.classes))
    network = loop.kept
    assert isinstance(network, Network)
    found, splits = {}, {}
    for name, rows in material.rows.items():
        if name == TRAIN:
            continue
        scores, numbers = score_rows(network, rows, batch_size=loop.stage.validation_batch, dtype=None)
        splits[name] = (
            material.splits[name].rows(numbers) if len(numbers) < len(material.splits[name]) else material.splits[name]
        )
        found[name] = scored(scores, splits[name], classes, counts, division.dataset.superclasses)
    about = _about(recipe, division, material, history)
    link = loop.criterion.link
    classifier, predictions, remarks = finish(recipe, network.cpu(), None if link is None else link.cpu(), found, about)
    about["remarks"] = [*division.remarks, *remarks]
    about["numbers"] = card_numbers(measure(predictions[TEST], classifier.rule))
    classifier.about = about
    if loop.stage.accelerator.is_main_process:
        for name, part in predictions.items():
            part.save(loop.stage.folder / f"{name}.safetensors")
        classifier.save(loop.stage.folder / CLASSIFIER)
    loop.stage.accelerator.wait_for_everyone()
    return Trained(classifier, predictions, history, splits[TEST].posterior, about["remarks"])


def _about(recipe: Recipe, division: Division, material: Material, history: list[dict[str, Any]]) -> dict[str, Any]:
    rows = {name: len(split) for name, split in material.splits.items()}
    return {
        "name": recipe.name,
        "data": {"name": division.dataset.name, "rows": rows, "reference": division.dataset.reference},
        "method": {"name": recipe.method, "parameters": dict(recipe.parameters), "reference": recipe.chosen_method.reference},
        "epochs": len(history),
    }
