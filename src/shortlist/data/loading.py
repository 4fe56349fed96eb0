"""Many pictures → batches of one size, decoded on all cores; unreadable pictures are recorded and left out.

Pillow releases Python's global lock while it decodes and resizes, so threads keep a few cores busy without copying pixels
between processes; many pictures on many cores are decoded by processes, :mod:`~shortlist.data.worker_processes`.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from shortlist.checks import one_of, whole
from shortlist.data.decoding import PictureError
from shortlist.data.pictures import PictureArray, Pictures, larger_side
from shortlist.data.problems import Problem, check_tolerance
from shortlist.errors import InputError
from shortlist.machine import usable_cores

Framing: TypeAlias = Literal["crop", "center", "stretch", "pad"]
UNREADABLE = "unreadable picture"
UNUSUAL = "unusual picture"


@dataclass(frozen=True, eq=False)
class Loaded:
    """Pictures of one size.

    Args:
        images: ``uint8 (M, 3, size, size)``.
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
        workers: number of threads; by default one for each core.
        tolerance: the share of unreadable pictures above which this fails.
        progress: callback, called with the number of rows done.
    """
    batches = list(picture_batches(pictures, size=size, fit=fit, rows=rows, workers=workers, progress=progress))
    total = sum(batch.asked for batch in batches)
    problems = [problem for batch in batches for problem in batch.problems]
    check_tolerance([problem for problem in problems if problem.kind == UNREADABLE], total, tolerance)
    if not batches:
        return Loaded(torch.zeros(0, 3, size, size, dtype=torch.uint8), torch.zeros(0, dtype=torch.int64), [], 0)
    return Loaded(torch.cat([batch.images for batch in batches]), torch.cat([batch.rows for batch in batches]), problems, total)


def picture_batches(
    pictures: Pictures,
    *,
    size: int,
    batch: int = 256,
    fit: Framing = "crop",
    rows: Tensor | None = None,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Loaded]:
    """The pictures in batches of at most ``batch`` rows; the next is decoded while one is used.

    Rows that could not be read are missing from their batch; the caller collects the problems and calls
    :func:`~shortlist.data.check_tolerance` at the end. Without ``workers``, many pictures on many cores are decoded by
    processes, which :func:`os.fork` starts.
    """
    _check_pictures(pictures)
    whole(1)("size", size), whole(1)("batch", batch), one_of(*get_args(Framing))("fit", fit)
    every = torch.arange(len(pictures)) if rows is None else rows
    blocks = every.split(batch) if len(every) else ()
    done = 0
    for loaded in _decoded(pictures, blocks, size, fit, workers):
        yield loaded
        done += loaded.asked
        if progress is not None:
            progress(done)


def _decoded(pictures: Pictures, blocks: Sequence[Tensor], size: int, fit: Framing, workers: int | None) -> Iterator[Loaded]:
    """By so many threads; by default by what suits the number of pictures and cores."""
    if workers is not None:
        return _by_threads(pictures, blocks, size, fit, whole(1)("workers", workers))
    cores, rows = usable_cores(), sum(map(len, blocks))
    if not isinstance(pictures, PictureArray):
        # Imported here because workers import this module.
        from shortlist.data.worker_processes import blocks_by_processes, worthwhile_workers

        processes = worthwhile_workers(rows, max(map(len, blocks), default=0), size, cores)
        if processes:
            return blocks_by_processes(pictures, blocks, size=size, fit=fit, workers=processes)
    return _by_threads(pictures, blocks, size, fit, cores)


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
    images = torch.empty(len(numbers), 3, size, size, dtype=torch.uint8)
    problems = [_fill(images, place, pictures, row, size, fit) for place, row in enumerate(numbers)]
    return _loaded(images, numbers, problems)


def _check_pictures(pictures: object) -> None:
    if not isinstance(pictures, Pictures):
        came = type(pictures).__name__
        raise InputError(f"pictures: expected the inputs of a split, open_dataset(…).splits[…].inputs, got {came}")


def _submit(pool: ThreadPoolExecutor, pictures: Pictures, rows: list[int], size: int, fit: Framing) -> Callable[[], Loaded]:
    """Start on these rows now; the answer waits for them."""
    images = torch.empty(len(rows), 3, size, size, dtype=torch.uint8)
    if isinstance(pictures, PictureArray) and pictures.images.shape[2:] == images.shape[2:] and fit != "center":
        return lambda: Loaded(pictures.images[torch.tensor(rows)], torch.tensor(rows), [], len(rows))
    found = [pool.submit(_fill, images, place, pictures, row, size, fit) for place, row in enumerate(rows)]

    return lambda: _loaded(images, rows, [future.result() for future in found])


def _loaded(images: Tensor, rows: list[int], problems: Sequence[Problem | None]) -> Loaded:
    """Without the places that stayed empty."""
    kept = [place for place, problem in enumerate(problems) if problem is None or problem.kind != UNREADABLE]
    whole = images if len(kept) == len(rows) else images[kept]
    numbers = torch.tensor([rows[place] for place in kept], dtype=torch.int64)
    return Loaded(whole, numbers, [problem for problem in problems if problem], len(rows))


def _fill(images: Tensor, place: int, pictures: Pictures, row: int, size: int, fit: Framing) -> Problem | None:
    """Decode one picture into its place."""
    try:
        decoded = pictures.decode(
            row
        )  # at full scale: what cannot be decoded at another, a loaded image, gives the same pixels
    except PictureError as error:
        return Problem(UNREADABLE, str(pictures.ids[row]), str(error))
    images[place] = fit_square(decoded.image, size, fit)
    return Problem(UNUSUAL, str(pictures.ids[row]), decoded.remark) if decoded.remark else None


def fit_square(image: Image.Image, size: int, fit: Framing = "crop") -> Tensor:
    """One picture as a square, ``uint8 (3, size, size)``, by Pillow's antialiased bilinear filter.

    ``"crop"`` gives the pixels of ``PIL.ImageOps.fit`` with that filter, so that they are easily had elsewhere.
    """
    if fit == "center":
        larger = larger_side(size)
        start = (larger - size) // 2
        return fit_square(image, larger)[:, start : start + size, start : start + size].contiguous()
    if image.size != (size, size):
        if fit == "pad":
            return _pixels(_padded(image, size))
        side = min(image.size)
        left, top = ((image.width - side) / 2, (image.height - side) / 2) if fit == "crop" else (0.0, 0.0)
        box = (left, top, image.width - left, image.height - top)
        image = image.resize((size, size), Image.Resampling.BILINEAR, box=box)
    return _pixels(image)


def _pixels(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.asarray(image).transpose(2, 0, 1).copy())


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
