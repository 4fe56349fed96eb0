"""Blocks of pictures decoded by worker processes: what many cores need, as threads take turns at Pillow's Python code.

That code is a quarter of a millisecond a picture, so threads end at some thousand pictures a second, however many they are.
"""

import multiprocessing
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from shortlist.data.loading import Framing, Loaded, fill_block, load_block, readable_places
from shortlist.data.pictures import Pictures
from shortlist.data.problems import Problem

if TYPE_CHECKING:
    from torch.utils.data import Sampler

FEWEST_WORKERS = 4  # with fewer, threads do as well
FEWEST_PICTURES = 4_000  # below, they are done before as many processes have started
SHARED_MEMORY = Path("/dev/shm")  # where torch hands tensors from process to process
BLOCKS_AHEAD = 2  # that each worker has ready or in hand

Task: TypeAlias = tuple[int, list[int]]  # the slot to write to, and the rows
Filled: TypeAlias = tuple[int, list[int], list[Problem]]  # the slot, the places of the rows that were readable, the problems


def blocks_by_processes(
    pictures: Pictures, blocks: "Iterable[Tensor]", *, size: int, fit: Framing, workers: int, ahead: int = 1, pin: bool = False
) -> Iterator[Loaded]:
    """Each block of row numbers, decoded, in order.

    Args:
        pictures: where they come from.
        blocks: row numbers, taken from as they are needed.
        size: side of the squares.
        fit: how a picture becomes one, see :func:`~shortlist.data.load_pictures`.
        workers: processes; 0 decodes here.
        ahead: blocks that each worker has ready or in hand.
        pin: give them out in page-locked memory, from where a GPU copies without waiting.
    """
    sampler: Sampler[Tensor] | Iterable[Tensor] = blocks
    yield from DataLoader(
        _Blocks(pictures, size, fit),
        batch_size=None,
        sampler=sampler,
        num_workers=workers,
        prefetch_factor=ahead if workers else None,
        pin_memory=pin,
        multiprocessing_context="fork" if workers and can_fork() else None,
        worker_init_fn=EndsWithParent(os.getpid()) if workers else None,
    )


class _Blocks(Dataset[Loaded]):
    def __init__(self, pictures: Pictures, size: int, fit: Framing):
        self.pictures, self.size, self.fit = pictures, size, fit

    def __getitem__(self, rows: Tensor) -> Loaded:
        return load_block(self.pictures, rows, self.size, self.fit)


def batches_by_processes(
    pictures: Pictures, batches: Sequence[Tensor], *, size: int, fit: Framing, workers: int, handed_over: int, pin: bool = False
) -> Iterator[Loaded]:
    """Each batch of row numbers, decoded, in order.

    Workers decode into slots of shared memory that are used again and again, and pictures are copied once, into their batch:
    memory of its own for each block would have to be mapped, filled and freed by the process that feeds the device.

    Args:
        pictures: where they come from.
        batches: row numbers.
        size: side of the squares.
        fit: how a picture becomes one, see :func:`~shortlist.data.load_pictures`.
        workers: processes, which are forked.
        handed_over: rows that a worker decodes before it hands them over.
        pin: give them out in page-locked memory, from where a GPU copies without waiting.
    """
    # One for each block that workers have, and one for the block that is being copied.
    number = workers * BLOCKS_AHEAD + 1
    slots = torch.empty(number, handed_over, size, size, 3, dtype=torch.uint8).share_memory_()
    decoded = slots.numpy()  # numpy copies with one thread: those of torch would wait, spinning, on the cores of the workers
    parts = [batch.split(handed_over) for batch in batches]
    tasks = [part.tolist() for split in parts for part in split]
    filled = iter(
        DataLoader(
            _Slots(pictures, size, fit, slots),
            batch_size=None,
            sampler=[(place % number, rows) for place, rows in enumerate(tasks)],
            num_workers=workers,
            prefetch_factor=BLOCKS_AHEAD,
            multiprocessing_context="fork",
            worker_init_fn=EndsWithParent(os.getpid()),
        )
    )
    for batch, split in zip(batches, parts, strict=True):
        images = torch.empty(len(batch), size, size, 3, dtype=torch.uint8, pin_memory=pin)
        rows, problems, count = [], [], 0
        for part in split:
            slot, readable, found = next(filled)
            images.numpy()[count : count + len(readable)] = decoded[slot, : len(readable)]
            rows.append(part[readable])
            problems += found
            count += len(readable)
        yield Loaded(images[:count].permute(0, 3, 1, 2), torch.cat(rows), problems, len(batch))


class _Slots(Dataset[Filled]):
    """Fills slots, uint8 (n, rows, size, size, 3), with decoded pictures; numbers travel as lists, which need no memory."""

    def __init__(self, pictures: Pictures, size: int, fit: Framing, slots: Tensor):
        self.pictures, self.size, self.fit, self.slots = pictures, size, fit, slots

    def __getitem__(self, task: Task) -> Filled:
        slot, rows = task
        pixels = self.slots[slot].numpy()
        problems = fill_block(pixels, self.pictures, rows, self.size, self.fit)
        readable = readable_places(problems)
        if len(readable) < len(rows):
            pixels[: len(readable)] = pixels[readable]
        return slot, readable, [problem for problem in problems if problem]


class EndsWithParent:
    """Ends a worker process once its parent is gone.

    torch's own watch compares the parent with the one that a worker has when the watch begins: a parent killed just before
    leaves workers that wait for ever.

    Args:
        parent: the process that started the workers.
        seconds: between two looks.
    """

    def __init__(self, parent: int, seconds: float = 2.0):
        self.parent, self.seconds = parent, seconds

    def __call__(self, worker: int) -> None:
        """Watch from a thread, for as long as the worker lives."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while os.getppid() == self.parent:
            time.sleep(self.seconds)
        os._exit(1)


def can_fork() -> bool:
    """Whether a process can be split in two as it stands; elsewhere a worker begins by running the caller's script again."""
    return sys.platform == "linux" and not multiprocessing.current_process().daemon


def worthwhile_workers(rows: int, block: int, size: int, cores: int) -> int:
    """How many processes to decode with; 0 where threads do as well, or where there is no memory to hand pictures over.

    Args:
        rows: how many pictures there are.
        block: how many a process hands over at once.
        size: side of the squares.
        cores: that may be used.
    """
    if rows < FEWEST_PICTURES or not can_fork() or not SHARED_MEMORY.is_dir():
        return 0
    held = 2 * block * 3 * size**2  # by each worker: the block that is being read and the one that it works on
    workers = min(cores, -(-rows // block), shutil.disk_usage(SHARED_MEMORY).free // (2 * held))
    return workers if workers >= FEWEST_WORKERS else 0
