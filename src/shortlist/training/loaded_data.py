"""The rows of a training, loaded: pictures decoded at one size, in the memory of the device if they fit."""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import psutil
import torch
from torch import Tensor

from shortlist.data.dataset import TRAIN, Split
from shortlist.data.loading import UNREADABLE, Framing, load_pictures
from shortlist.data.pictures import PictureArray, Pictures
from shortlist.data.problems import Problem, check_tolerance
from shortlist.errors import InputError
from shortlist.models.input_spec import InputSpec, check_finite_features
from shortlist.processes import decided_by_first
from shortlist.training.augmentation import loading_size
from shortlist.training.recipe import Recipe
from shortlist.training.row_sources import DeviceRows, HostRows, RowSource, StreamedRows
from shortlist.training.splits import TrainingSplits

DEFAULT_SIZE, SMALL = 64, 64
WHOLE: Framing = "crop"  # of training pictures: the largest central square, from which augmentation cuts
FEW_UNREADABLE = 3  # unreadable pictures that are skipped however small the data
SAMPLE = 2_000  # pictures from which mean and standard deviation are estimated
DEVICE_SHARE, HOST_SHARE = 0.4, 0.5  # share of the free memory that pictures may take


@dataclass(frozen=True)
class LoadedData:
    """The loaded rows of a training.

    Args:
        inputs: what the network reads.
        rows: the rows to draw batches from, by split.
        splits: ids, targets and posteriors of the same rows, without unreadable ones.
        problems: unreadable pictures.
    """

    inputs: InputSpec
    rows: Mapping[str, RowSource]
    splits: Mapping[str, Split]
    problems: list[Problem]


Progress = Callable[[str, int, int], None]  # name of the split, rows read so far, rows in total


def load_data(
    data: TrainingSplits,
    recipe: Recipe,
    device: torch.device,
    *,
    processes_here: int = 1,
    progress: Progress | None = None,
    inputs: InputSpec | None = None,
) -> LoadedData:
    """Load every split.

    Pictures are decoded once and kept in memory at one size if they fit into half of the free memory (on a GPU, 40 % of its
    own); otherwise worker processes decode them again in every epoch.

    Args:
        data: the splits.
        recipe: sets the size and the augmentation.
        device: where training takes place.
        processes_here: processes on this machine, which share its memory.
        progress: called with the name of a split, the rows read so far and their total.
        inputs: what the network reads; by default derived from the training rows. Features are matched by name.
    """
    if isinstance(data.splits[TRAIN].inputs, Tensor):
        return _of_features(data, device, inputs)
    size = picture_size(data, recipe)
    side = loading_size(recipe.augmentation, size)
    fit_in = _limits(device, processes_here)
    needed = {name: len(split) * 3 * (side if name == TRAIN else size) ** 2 for name, split in data.splits.items()}
    # Free memory differs between processes; the choice must not, because the order of rows depends on it.
    streamed, on_device = decided_by_first([sum(needed.values()) > fit_in.host, sum(needed.values()) < fit_in.device])
    rows: dict[str, RowSource] = {}
    splits: dict[str, Split] = {}
    problems: list[Problem] = []
    for name, split in data.splits.items():
        assert isinstance(split.inputs, Pictures)
        here, fit = (side, WHOLE) if name == TRAIN else (size, recipe.test_fit)
        if streamed and not isinstance(split.inputs, PictureArray):
            rows[name], splits[name] = StreamedRows(split.inputs, split.labels, device, here, fit), split
            continue
        loaded = load_pictures(split.inputs, size=here, fit=fit, tolerance=1.0, progress=_reporter(progress, name, len(split)))
        problems += [problem for problem in loaded.problems if problem.kind == UNREADABLE]
        if not len(loaded):
            raise InputError(f"{data.dataset.name}, split {name}: expected readable pictures, got none")
        splits[name] = split if len(loaded) == len(split) else split.rows(loaded.rows)
        kind = DeviceRows if on_device else HostRows
        rows[name] = kind(loaded.images, splits[name].labels, device)
    check_readable(problems, sum(map(len, data.splits.values())), recipe)
    return LoadedData(_inputs(data, recipe, rows[TRAIN], size) if inputs is None else inputs, rows, splits, problems)


def check_readable(unreadable: Sequence[Problem], total: int, recipe: Recipe) -> None:
    """Raise an error if more pictures are unreadable than the recipe tolerates, and more than a few.

    Args:
        unreadable: the unreadable pictures.
        total: the number of pictures.
        recipe: sets the tolerance; with 0 every picture has to be readable.
    """
    if len(unreadable) <= FEW_UNREADABLE and recipe.tolerance and len(unreadable) < total:
        return
    enough = min(100, math.ceil(100 * len(unreadable) / max(1, total))) / 100
    advice = (
        f"repair or remove these pictures (shortlist data info {shlex.quote(recipe.data)} --check lists them all), or skip "
        f"them with tolerance={enough:g}"
    )
    check_tolerance(unreadable, total, recipe.tolerance, advice=advice)


def picture_size(data: TrainingSplits, recipe: Recipe) -> int:
    """The side of the pictures that the network reads: the recipe's size, or that of small pictures of one size, or 64."""
    if recipe.size is not None:
        return recipe.size
    pictures = data.splits[TRAIN].inputs
    if isinstance(pictures, PictureArray) and max(pictures.images.shape[2:]) <= SMALL:
        return int(max(pictures.images.shape[2:]))
    return DEFAULT_SIZE


def _reporter(progress: Progress | None, name: str, total: int) -> Callable[[int], None] | None:
    return None if progress is None else lambda done: progress(name, done, total)


@dataclass(frozen=True)
class _Limits:
    host: float
    device: float


def _limits(device: torch.device, processes_here: int) -> _Limits:
    host = HOST_SHARE * psutil.virtual_memory().available / max(1, processes_here)
    if device.type != "cuda":
        return _Limits(host, host)
    free, _ = torch.cuda.mem_get_info(device)
    return _Limits(host, DEVICE_SHARE * free)


def _inputs(data: TrainingSplits, recipe: Recipe, rows: RowSource, size: int) -> InputSpec:
    if recipe.pretrained:
        return InputSpec.imagenet(size, fit=recipe.test_fit)  # the statistics that pretrained weights expect
    if isinstance(rows, DeviceRows | HostRows):
        sample = rows.inputs.index_select(0, _sample(len(rows)).to(rows.inputs.device))
        return InputSpec.from_pictures(sample.cpu(), size, recipe.test_fit)
    pictures = data.splits[TRAIN].inputs
    assert isinstance(pictures, Pictures)
    sampled = _sample(len(rows))
    loaded = load_pictures(pictures, size=size, rows=sampled, tolerance=1.0)
    if not len(loaded):
        raise InputError(f"{data.dataset.name}: expected readable pictures, got none among {len(sampled)} sampled")
    return InputSpec.from_pictures(loaded.images, size, recipe.test_fit)


def _sample(rows: int) -> Tensor:
    """Row numbers spread evenly over all rows, which may be sorted by class."""
    return torch.linspace(0, rows - 1, min(SAMPLE, rows), dtype=torch.float64).long()


def _of_features(data: TrainingSplits, device: torch.device, given: InputSpec | None) -> LoadedData:
    rows: dict[str, RowSource] = {}
    names = data.splits[TRAIN].feature_names
    inputs = InputSpec.from_features(data.splits[TRAIN].inputs, names)  # type: ignore[arg-type]
    for name, split in data.splits.items():
        assert isinstance(split.inputs, Tensor)
        features = split.inputs.float()
        try:
            inputs.check(features)
            check_finite_features(features)
            order = None if given is None else given.columns_of(names)
        except InputError as error:
            raise InputError(f"{data.dataset.name}, split {name}: {error}") from error
        rows[name] = DeviceRows(features if order is None else features[:, order], split.labels, device)
    return LoadedData(inputs if given is None else given.named(names), rows, data.splits, [])
