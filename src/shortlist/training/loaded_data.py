"""The rows of a training, loaded: pictures decoded at one size, in the memory of the device if they fit."""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import psutil
import torch
from torch import Tensor

from shortlist.data.dataset import TRAIN, Split
from shortlist.data.loading import UNREADABLE, Framing, load_pictures, picture_batches
from shortlist.data.lookalikes import SMALLEST, Signatures, sentence_on_lookalikes
from shortlist.data.pictures import PictureArray, Pictures, larger_side
from shortlist.data.problems import Problem, check_tolerance, problem_lines
from shortlist.errors import InputError
from shortlist.models.input_spec import InputSpec, check_finite_features
from shortlist.processes import decided_by_first, from_all, processes, rank
from shortlist.training.augmentation import loading_size
from shortlist.training.recipe import Recipe
from shortlist.training.row_sources import DeviceRows, HostRows, RowSource, StreamedRows
from shortlist.training.splits import TrainingSplits, drawn_again, remarks_on_readable
from shortlist.words import counted

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
        remarks: notes on them, in sentences.
        redrawn: whether the splits are others than those asked for, because a class would have had no training row.
    """

    inputs: InputSpec
    rows: Mapping[str, RowSource]
    splits: Mapping[str, Split]
    remarks: list[str]
    redrawn: bool = False


Progress = Callable[[str, int, int], None]  # name of the split, rows read so far, rows in total
Read = tuple[Tensor, Tensor, Sequence[Problem], Signatures]  # pictures, their row numbers, problems, signatures
Report = Callable[[int, int], None]  # rows read so far, rows in total


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
    own); otherwise worker processes decode them again in every epoch. Either way all are decoded once here, unreadable ones are
    left out, and mean and standard deviation are those of the same pictures: memory decides about speed alone.

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
    # Free memory differs between processes; the choice must not, because processes decode streamed pictures together.
    streamed, on_device = decided_by_first([sum(needed.values()) > fit_in.host, sum(needed.values()) < fit_in.device])
    rows: dict[str, RowSource] = {}
    splits: dict[str, Split] = {}
    unreadable: dict[str, list[Problem]] = {}
    seen: dict[str, Signatures] = {}
    for name, split in data.splits.items():
        assert isinstance(split.inputs, Pictures)
        here, fit = (side, WHOLE) if name == TRAIN else (size, recipe.test_fit)
        decoded_again = streamed and not isinstance(split.inputs, PictureArray)
        read = _opened if decoded_again else _kept
        # What test pictures show of a square, so that the two can be compared.
        window = size / larger_side(size) if name == TRAIN and recipe.test_fit == "center" else 1.0
        images, readable, problems, seen[name] = read(split.inputs, here, fit, _reporter(progress, name), window)
        unreadable[name] = [problem for problem in problems if problem.kind == UNREADABLE]
        if not len(readable):
            raise InputError(f"{data.dataset.name}, split {name}: expected readable pictures, got none")
        splits[name] = split if len(readable) == len(split) else split.rows(readable)
        if decoded_again:
            pictures = splits[name].inputs
            assert isinstance(pictures, Pictures)
            rows[name] = StreamedRows(pictures, splits[name].labels, device, here, fit)
        else:
            kind = DeviceRows if on_device else HostRows
            rows[name] = kind(images, splits[name].labels, device)
    check_readable([*chain(*unreadable.values())], sum(map(len, data.splits.values())), recipe)
    remarks = left_out(data.dataset.name, unreadable)
    if remarks and (again := drawn_again(data, splits, recipe)) is not None:
        del rows
        loaded = load_data(again, recipe, device, processes_here=processes_here, progress=progress, inputs=inputs)
        return replace(loaded, remarks=[*remarks, *again.remarks, *loaded.remarks], redrawn=True)
    if remarks:
        remarks += remarks_on_readable(data, splits, recipe)
    if size >= SMALLEST:
        alike = sentence_on_lookalikes(seen, {name: part.ids for name, part in splits.items()}, recipe.duplicates)
        remarks += [] if alike is None else [f"{data.dataset.name}: {alike}"]
    if inputs is None:
        inputs = replace(_inputs(recipe, splits[TRAIN], rows[TRAIN], size, side), mirror=recipe.mirror)
    return LoadedData(inputs, rows, splits, remarks)


def _kept(pictures: Pictures, side: int, fit: Framing, report: Report | None, window: float) -> Read:
    """The pictures that can be read, their row numbers, problems, and their signatures."""
    loaded = load_pictures(pictures, size=side, fit=fit, tolerance=1.0, progress=_of(report, len(pictures)))
    return loaded.images, loaded.rows, loaded.problems, Signatures.of(loaded.images, window)


def _opened(pictures: Pictures, side: int, fit: Framing, report: Report | None, window: float) -> Read:
    """As :func:`_kept`, but no picture is kept; processes divide the rows among them.

    Decoding all of them once costs about as much as an epoch. In return the rows of a training, and so its steps, their order
    and its result, are the same however much memory is free.
    """
    mine = torch.arange(len(pictures)).tensor_split(processes())[rank()]
    rows: list[int] = []
    problems: list[Problem] = []
    seen: list[Signatures] = []
    for block in picture_batches(pictures, size=side, fit=fit, rows=mine, progress=_of(report, len(mine))):
        rows += block.rows.tolist()
        problems += block.problems
        seen.append(Signatures.of(block.images, window))
    everyone = from_all((rows, problems, Signatures.joined(seen)))
    readable = torch.tensor([row for part, _, _ in everyone for row in part], dtype=torch.int64)
    signatures = Signatures.joined([part for _, _, part in everyone])
    return torch.empty(0), readable, [problem for _, part, _ in everyone for problem in part], signatures


def left_out(dataset: str, unreadable: Mapping[str, Sequence[Problem]]) -> list[str]:
    """A sentence on the unreadable pictures of some splits; no sentence where there is none.

    >>> left_out("garden", {"train": [Problem(UNREADABLE, "oak/7.jpg", "there is no such file")], "val": []})
    ['garden: 1 unreadable picture left out (train 1): oak/7.jpg: there is no such file']
    """
    every = [*chain(*unreadable.values())]
    if not every:
        return []
    counts = ", ".join(f"{name} {len(found):,}" for name, found in unreadable.items() if found)
    pictures = counted(len(every), "unreadable picture")
    return [f"{dataset}: {pictures} left out ({counts}): {'; '.join(problem_lines(every, most=3))}"]


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


def _reporter(progress: Progress | None, name: str) -> Report | None:
    return None if progress is None else lambda done, total: progress(name, done, total)


def _of(report: Report | None, total: int) -> Callable[[int], None] | None:
    return None if report is None else lambda done: report(done, total)


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


def _inputs(recipe: Recipe, train: Split, rows: RowSource, size: int, side: int) -> InputSpec:
    """What the network reads, with statistics of training pictures at the side at which they are loaded."""
    if recipe.pretrained:
        return InputSpec.imagenet(size, fit=recipe.test_fit)  # the statistics that pretrained weights expect
    sampled = _sample(len(rows))
    if isinstance(rows, DeviceRows | HostRows):
        sample = rows.inputs.index_select(0, sampled.to(rows.inputs.device)).cpu()
    else:
        assert isinstance(train.inputs, Pictures)
        sample = load_pictures(train.inputs, size=side, fit=WHOLE, rows=sampled, tolerance=1.0).images
    return InputSpec.from_pictures(sample, size, recipe.test_fit)


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
            order = given.columns_of(names) if given is not None and given.feature_names else None  # else it takes these names
        except InputError as error:
            raise InputError(f"{data.dataset.name}, split {name}: {error}") from error
        rows[name] = DeviceRows(features if order is None else features[:, order], split.labels, device)
    return LoadedData(inputs if given is None else given.named(names), rows, data.splits, [])
