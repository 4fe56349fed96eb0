"""Many pictures → batches of one size, decoded on all cores; unreadable pictures are recorded and left out.

Pillow releases Python's global lock while it decodes and resizes, so threads keep a few cores busy without copying pixels
between processes; many pictures on many cores are decoded by processes, :mod:`~shortlist.data.worker_processes`. Pictures with
one reader, those of other people's datasets, are decoded by the thread that asks for them.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar, get_args

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from shortlist.checks import one_of, whole
from shortlist.data.decoding import QUIET, PictureError
from shortlist.data.pictures import PictureArray, Pictures, larger_side
from shortlist.data.problems import Problem, check_tolerance
from shortlist.errors import InputError
from shortlist.machine import usable_cores
from shortlist.tensors import Array

Framing: TypeAlias = Literal["crop", "center", "stretch", "pad"]
Batch = TypeVar("Batch")
HANDED_OVER = 64  # pictures that a process decodes before it hands them over: with fewer the first batch is ready sooner
UNREADABLE = "unreadable picture"
UNUSUAL = "unusual picture"


@dataclass(frozen=True, eq=False)
class Loaded:
    """Pictures of one size.

    Args:
        images: ``uint8 (M, 3, size, size)``; those of a block or batch are in channels-last memory, as Pillow decodes them.
        rows: which rows of the source they are, int64 (M,).
        problems: the rows that could not be read, and remarks on those that were unusual.
        asked: how many rows were asked for, the unreadable ones included.
    """

    images: Tensor
    rows: Tensor
    problems: Sequence[Problem]
    asked: int

    def __len__(self) -> int:
        return len(self.images)

    def pin_memory(self) -> "Loaded":
        """The same in page-locked memory."""
        return Loaded(self.images.pin_memory(), self.rows, self.problems, self.asked)


def load_pictures(
    pictures: Pictures,
    *,
    size: int,
    fit: Framing = "crop",
    rows: Tensor | None = None,
    workers: int | None = None,
    tolerance: float = 0.01,
    progress: Callable[[int], None] | None = None,
) -> Loaded:
    """Load all pictures (or these rows) into memory, at one size.

    Args:
        pictures: where they come from.
        size: side of the square pictures, in pixels.
        fit: ``"crop"`` keeps the aspect ratio and crops the longer side; ``"center"`` does so at a side larger by 8/7 and keeps
            the central window, as in "resize to 256, crop 224"; ``"pad"`` keeps the aspect ratio and fills up with the mean
            colour of the border; ``"stretch"`` changes the aspect ratio.
        rows: only these, in this order.
        workers: number of threads; by default one for each core, or one alone for a dataset that need not allow more.
        tolerance: the share of unreadable pictures above which this fails.
        progress: callback, called with the number of rows done.
    """
    batches = list(picture_batches(pictures, size=size, fit=fit, rows=rows, workers=workers, progress=progress))
    total = sum(batch.asked for batch in batches)
    problems = [problem for batch in batches for problem in batch.problems]
    check_tolerance([problem for problem in problems if problem.kind == UNREADABLE], total, tolerance)
    if not batches:
        return Loaded(torch.zeros(0, 3, size, size, dtype=torch.uint8), torch.zeros(0, dtype=torch.int64), [], 0)
    images = torch.empty(sum(map(len, batches)), 3, size, size, dtype=torch.uint8)
    return Loaded(_put_together(batches, images), torch.cat([batch.rows for batch in batches]), problems, total)


def picture_batches(
    pictures: Pictures,
    *,
    size: int,
    batch: int = 256,
    fit: Framing = "crop",
    rows: Tensor | None = None,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
    pin: bool = False,
) -> Iterator[Loaded]:
    """The pictures in batches of at most ``batch`` rows; the next is decoded while one is used.

    Rows that could not be read are missing from their batch; the caller collects the problems and calls
    :func:`~shortlist.data.check_tolerance` at the end. Without ``workers``, many pictures on many cores are decoded by
    processes, which :func:`os.fork` starts; with ``pin`` their pictures are collected in page-locked memory, from where a GPU
    copies them without waiting.
    """
    _check_pictures(pictures)
    whole(1)("size", size), whole(1)("batch", batch), one_of(*get_args(Framing))("fit", fit)
    every = torch.arange(len(pictures)) if rows is None else rows
    blocks = every.split(batch) if len(every) else ()
    done = 0
    for loaded in _decoded(pictures, blocks, size, fit, workers, pin):
        yield loaded
        done += loaded.asked
        if progress is not None:
            progress(done)


def _decoded(
    pictures: Pictures, blocks: Sequence[Tensor], size: int, fit: Framing, workers: int | None, pin: bool
) -> Iterator[Loaded]:
    """By so many threads; by default by what suits the number of pictures and cores."""
    if workers is not None:
        return _by_threads(pictures, blocks, size, fit, whole(1)("workers", workers))
    if pictures.one_reader:
        return (load_block(pictures, block, size, fit) for block in blocks)
    cores, rows = usable_cores(), sum(map(len, blocks))
    if not isinstance(pictures, PictureArray):
        # Imported here because workers import this module.
        from shortlist.data.worker_processes import batches_by_processes, worthwhile_workers

        processes = worthwhile_workers(rows, HANDED_OVER, size, cores)
        if processes:
            return one_ahead(
                batches_by_processes(pictures, blocks, size=size, fit=fit, workers=processes, handed_over=HANDED_OVER, pin=pin)
            )
    return _by_threads(pictures, blocks, size, fit, cores)


def one_ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Each batch, the next being made by a thread while one is used; the first is made by the caller's, which may fork."""
    end = object()
    current: Batch | object = next(batches, end)
    with ThreadPoolExecutor(1) as pool:
        while current is not end:
            following = pool.submit(next, batches, end)
            yield current  # type: ignore[misc]
            current = following.result()


def _put_together(parts: Sequence[Loaded], images: Tensor) -> Tensor:
    """Copy the pictures of the parts to ``images``, which has room for them all."""
    for place, part in zip(images.split([len(part) for part in parts]), parts, strict=True):
        place.copy_(part.images)
    return images


def _by_threads(pictures: Pictures, blocks: Sequence[Tensor], size: int, fit: Framing, threads: int) -> Iterator[Loaded]:
    with ThreadPoolExecutor(threads) as pool:
        ahead = _submit(pool, pictures, blocks[0].tolist(), size, fit) if blocks else None
        for place in range(len(blocks)):
            current = ahead
            ahead = _submit(pool, pictures, blocks[place + 1].tolist(), size, fit) if place + 1 < len(blocks) else None
            assert current is not None
            yield current()


def load_block(pictures: Pictures, rows: Tensor, size: int, fit: Framing) -> Loaded:
    """These rows, decoded one after the other."""
    numbers = rows.tolist()
    pixels = np.empty((len(numbers), size, size, 3), np.uint8)
    return _loaded(pixels, numbers, fill_block(pixels, pictures, numbers, size, fit))


def fill_block(pixels: Array, pictures: Pictures, rows: Sequence[int], size: int, fit: Framing) -> list[Problem | None]:
    """Decode these rows into ``pixels``, uint8 (n, size, size, 3); returns the problem of each, if it had one."""
    with QUIET:  # once for all of them
        return [_fill(pixels, place, pictures, row, size, fit) for place, row in enumerate(rows)]


def readable_places(problems: Sequence[Problem | None]) -> list[int]:
    """The places of a block that were filled."""
    return [place for place, problem in enumerate(problems) if problem is None or problem.kind != UNREADABLE]


def _check_pictures(pictures: object) -> None:
    if not isinstance(pictures, Pictures):
        came = type(pictures).__name__
        raise InputError(f"pictures: expected the inputs of a split, open_dataset(…).splits[…].inputs, got {came}")


def _submit(pool: ThreadPoolExecutor, pictures: Pictures, rows: list[int], size: int, fit: Framing) -> Callable[[], Loaded]:
    """Start on these rows now; the answer waits for them."""
    if isinstance(pictures, PictureArray) and tuple(pictures.images.shape[2:]) == (size, size) and fit != "center":
        return lambda: Loaded(pictures.images[torch.tensor(rows)], torch.tensor(rows), [], len(rows))
    pixels = np.empty((len(rows), size, size, 3), np.uint8)
    found = [pool.submit(_fill, pixels, place, pictures, row, size, fit) for place, row in enumerate(rows)]

    return lambda: _loaded(pixels, rows, [future.result() for future in found])


def _loaded(pixels: Array, rows: list[int], problems: Sequence[Problem | None]) -> Loaded:
    """Without the places that stayed empty."""
    kept = readable_places(problems)
    images = torch.from_numpy(pixels if len(kept) == len(rows) else pixels[kept]).permute(0, 3, 1, 2)
    numbers = torch.tensor([rows[place] for place in kept], dtype=torch.int64)
    return Loaded(images, numbers, [problem for problem in problems if problem], len(rows))


def _fill(pixels: Array, place: int, pictures: Pictures, row: int, size: int, fit: Framing) -> Problem | None:
    """Decode one picture into its place."""
    try:
        # At full scale: what cannot be decoded at another, a loaded image, gives the same pixels.
        decoded = pictures.decode(row)
    except PictureError as error:
        return Problem(UNREADABLE, str(pictures.ids[row]), str(error))
    pixels[place] = np.asarray(_square(decoded.image, size, fit))
    return Problem(UNUSUAL, str(pictures.ids[row]), decoded.remark) if decoded.remark else None


def fit_square(image: Image.Image, size: int, fit: Framing = "crop") -> Tensor:
    """One picture as a square, ``uint8 (3, size, size)``, by Pillow's antialiased bilinear filter.

    ``"crop"`` gives the pixels of ``PIL.ImageOps.fit`` with that filter, so that they are easily had elsewhere.
    """
    return torch.from_numpy(np.asarray(_square(image, size, fit)).transpose(2, 0, 1).copy())


def _square(image: Image.Image, size: int, fit: Framing) -> Image.Image:
    if fit == "center":
        larger = larger_side(size)
        start = (larger - size) // 2
        return _square(image, larger, "crop").crop((start, start, start + size, start + size))
    if image.size == (size, size):
        return image
    if fit == "pad":
        return _padded(image, size)
    side = min(image.size)
    left, top = ((image.width - side) / 2, (image.height - side) / 2) if fit == "crop" else (0.0, 0.0)
    box = (left, top, image.width - left, image.height - top)
    return image.resize((size, size), Image.Resampling.BILINEAR, box=box)


def _padded(image: Image.Image, size: int) -> Image.Image:
    """The picture, shrunk or grown to fit, in the middle of a square of its border's mean colour."""
    longer = max(image.size)
    width, height = (max(1, round(side * size / longer)) for side in image.size)
    fitted = image.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(fitted)
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    red, green, blue = (int(channel) for channel in border.mean(0).round())
    square = Image.new("RGB", (size, size), (red, green, blue))
    square.paste(fitted, ((size - width) // 2, (size - height) // 2))
    return square
