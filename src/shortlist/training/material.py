"""The rows of a division, brought to where they are trained on: decoded, at one size, on the device where they fit."""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import psutil
import torch
from torch import Tensor

from shortlist.data.dataset import TRAIN, Split
from shortlist.data.loading import UNREADABLE, load_pictures
from shortlist.data.pictures import PictureArray, Pictures
from shortlist.data.problems import Problem, check_tolerance
from shortlist.errors import InputError
from shortlist.models.input_spec import InputSpec, check_finite_features
from shortlist.processes import agreed
from shortlist.training.augmentation import loaded_side
from shortlist.training.division import Division
from shortlist.training.recipe import Recipe
from shortlist.training.row_sources import DeviceRows, HostRows, RowSource, StreamedRows

DEFAULT_SIZE, SMALL = 64, 64
FEW_UNREADABLE = 3  # pictures that a training does without, however small the data
SAMPLE = 2_000  # pictures whose mean and spread stand for all
DEVICE_SHARE, HOST_SHARE = 0.4, 0.5  # of the free memory that pictures may take


@dataclass(frozen=True)
class Material:
    """What a training works on.

    Args:
        inputs: what the network sees.
        rows: by split.
        splits: the same rows' ids, targets and posteriors, without those that could not be read.
        problems: what was odd about the pictures.
    """

    inputs: InputSpec
    rows: Mapping[str, RowSource]
    splits: Mapping[str, Split]
    problems: list[Problem]


Progress = Callable[[str, int, int], None]  # what is read, rows done, rows in all


def gather_material(
    division: Division, recipe: Recipe, device: torch.device, *, processes_here: int = 1, progress: Progress | None = None
) -> Material:
    """Read every split.

    Pictures are decoded once and kept in memory at one size where half of the free memory (on a GPU, 40 % of its own) holds
    them; else worker processes decode them anew at every pass.
    """
    if isinstance(division.splits[TRAIN].inputs, Tensor):
        return _of_features(division, device)
    size = picture_size(division, recipe)
    side = loaded_side(recipe.augmentation, size)
    fit_in = _limits(device, processes_here)
    needed = {name: len(split) * 3 * (side if name == TRAIN else size) ** 2 for name, split in division.splits.items()}
    # Free memory differs from process to process; where rows are kept must not, for the order of rows hangs on it.
    streamed, on_device = agreed([sum(needed.values()) > fit_in.host, sum(needed.values()) < fit_in.device])
    rows: dict[str, RowSource] = {}
    splits: dict[str, Split] = {}
    problems: list[Problem] = []
    for name, split in division.splits.items():
        assert isinstance(split.inputs, Pictures)
        here = side if name == TRAIN else size
        if streamed and not isinstance(split.inputs, PictureArray):
            rows[name], splits[name] = StreamedRows(split.inputs, split.labels, device, here, "crop"), split
            continue
        loaded = load_pictures(split.inputs, size=here, tolerance=1.0, progress=_told(progress, name, len(split)))
        problems += [problem for problem in loaded.problems if problem.kind == UNREADABLE]
        if not len(loaded):
            raise InputError(f"{division.dataset.name}, split {name}: expected pictures that can be read, got none")
        splits[name] = split if len(loaded) == len(split) else split.rows(loaded.rows)
        kind = DeviceRows if on_device else HostRows
        rows[name] = kind(loaded.images, splits[name].labels, device)
    check_readable(problems, sum(map(len, division.splits.values())), recipe)
    return Material(_inputs(division, recipe, rows[TRAIN], size), rows, splits, problems)


def check_readable(unreadable: Sequence[Problem], total: int, recipe: Recipe) -> None:
    """Refuse data of which too many pictures cannot be read: more than the recipe's tolerance, and more than a few.

    Args:
        unreadable: those that cannot.
        total: how many pictures there are.
        recipe: whose tolerance counts; with 0 every picture has to be readable.
    """
    if len(unreadable) <= FEW_UNREADABLE and recipe.tolerance and len(unreadable) < total:
        return
    enough = min(100, math.ceil(100 * len(unreadable) / max(1, total))) / 100
    advice = (
        f"repair or remove such pictures, all of which shortlist data info {shlex.quote(recipe.data)} --check names, or leave "
        f"them out by tolerance={enough:g}"
    )
    check_tolerance(unreadable, total, recipe.tolerance, advice=advice)


def picture_size(division: Division, recipe: Recipe) -> int:
    """The side that the network sees: the recipe's, or that of small pictures of one size, or 64."""
    if recipe.size is not None:
        return recipe.size
    pictures = division.splits[TRAIN].inputs
    if isinstance(pictures, PictureArray) and max(pictures.images.shape[2:]) <= SMALL:
        return int(max(pictures.images.shape[2:]))
    return DEFAULT_SIZE


def _told(progress: Progress | None, name: str, total: int) -> Callable[[int], None] | None:
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


def _inputs(division: Division, recipe: Recipe, rows: RowSource, size: int) -> InputSpec:
    if recipe.pretrained:
        return InputSpec.imagenet(size)  # the statistics that published weights were trained with
    if isinstance(rows, DeviceRows | HostRows):
        return InputSpec.from_pictures(rows.inputs.index_select(0, _sample(len(rows)).to(rows.inputs.device)).cpu(), size)
    pictures = division.splits[TRAIN].inputs
    assert isinstance(pictures, Pictures)
    sample = _sample(len(rows))
    loaded = load_pictures(pictures, size=size, rows=sample, tolerance=1.0)
    if not len(loaded):
        raise InputError(f"{division.dataset.name}: expected pictures that can be read, got none in {len(sample)} tries")
    return InputSpec.from_pictures(loaded.images, size)


def _sample(rows: int) -> Tensor:
    """Numbers of rows spread evenly over all of them, which may be sorted by class."""
    return torch.linspace(0, rows - 1, min(SAMPLE, rows), dtype=torch.float64).long()


def _of_features(division: Division, device: torch.device) -> Material:
    rows: dict[str, RowSource] = {}
    inputs = InputSpec.from_features(division.splits[TRAIN].inputs)  # type: ignore[arg-type]
    for name, split in division.splits.items():
        assert isinstance(split.inputs, Tensor)
        features = split.inputs.float()
        try:
            inputs.check(features)
            check_finite_features(features)
        except InputError as error:
            raise InputError(f"{division.dataset.name}, split {name}: {error}") from error
        rows[name] = DeviceRows(features, split.labels, device)
    return Material(inputs, rows, division.splits, [])
