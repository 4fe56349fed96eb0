"""Sources of batches: rows in GPU memory, in main memory, or decoded by worker processes when needed."""

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.checks import whole
from shortlist.data.loading import UNREADABLE, Framing, Loaded
from shortlist.data.pictures import Pictures
from shortlist.data.problems import Problem
from shortlist.data.worker_processes import blocks_by_processes
from shortlist.errors import InputError
from shortlist.machine import cores_per_process
from shortlist.tensors import Target

AHEAD = 3  # batches prepared in advance
DEATH_SECONDS = 5  # within which torch hears of the death of a worker


@dataclass(frozen=True)
class Batch:
    """A batch on the device: raw inputs (uint8 pictures or float features), their target, and their row numbers."""

    inputs: Tensor
    target: Target
    rows: Tensor


class WorkersDiedError(InputError):
    """A worker process that decodes pictures was killed."""


class RowSource(ABC):
    """Inputs with their targets, from which batches are taken by row numbers."""

    target: Target
    device: torch.device
    problems: dict[str, Problem]  # unreadable pictures so far, by id

    def __len__(self) -> int:
        return len(self.target)

    @abstractmethod
    def batches(self, wanted: Iterable[Tensor]) -> Iterator[Batch]:
        """Yield a batch for each of these tensors of row numbers, in order."""


class DeviceRows(RowSource):
    """Rows in the memory of the device: a batch is one gather."""

    def __init__(self, inputs: Tensor, target: Target, device: torch.device):
        self.inputs, self.target, self.device, self.problems = inputs.to(device), target, device, {}
        self._labels = target.to(device)

    def batches(self, wanted: Iterable[Tensor]) -> Iterator[Batch]:
        """Gather on the device."""
        for rows in wanted:
            place = _moved(rows, self.device)
            yield Batch(self.inputs.index_select(0, place), self._labels.index_select(0, place), rows)


class HostRows(RowSource):
    """Rows in main memory: a thread gathers and pins the next batches while the device works."""

    def __init__(self, inputs: Tensor, target: Target, device: torch.device):
        self.inputs, self.target, self.device, self.problems = inputs, target, device, {}

    def batches(self, wanted: Iterable[Tensor]) -> Iterator[Batch]:
        """Gather in main memory and copy to the device."""
        pin = self.device.type == "cuda"

        def gather(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            inputs, target = self.inputs.index_select(0, rows), self.target.index_select(0, rows)
            return (inputs.pin_memory(), target.pin_memory(), rows) if pin else (inputs, target, rows)

        for inputs, target, rows in _ahead(gather, wanted):
            yield Batch(inputs.to(self.device, non_blocking=True), target.to(self.device, non_blocking=True), rows)


class StreamedRows(RowSource):
    """Pictures decoded by worker processes, a few batches ahead; unreadable ones are skipped and reported.

    Pictures with one reader are decoded here, unless ``workers`` says otherwise.
    """

    def __init__(
        self, pictures: Pictures, target: Target, device: torch.device, side: int, fit: Framing, workers: int | None = None
    ):
        self.target, self.device = target, device
        self.problems: dict[str, Problem] = {}
        self._pictures, self._side, self._fit = pictures, side, fit
        by_default = 0 if pictures.one_reader else cores_per_process()
        self._workers = by_default if workers is None else workers

    def batches(self, wanted: Iterable[Tensor]) -> Iterator[Batch]:
        """Decode the pictures; a batch lacks the rows that could not be read."""
        ahead = max(1, AHEAD // max(1, self._workers))
        pin = self.device.type == "cuda"
        decoded = blocks_by_processes(
            self._pictures, wanted, size=self._side, fit=self._fit, workers=self._workers, ahead=ahead, pin=pin
        )
        for loaded in _awaiting_deaths(decoded):
            self.problems |= {problem.where: problem for problem in loaded.problems if problem.kind == UNREADABLE}
            target = self.target.index_select(0, loaded.rows)
            # Adjacent columns, like those of pictures in memory: the arithmetic of augmentation must not differ.
            images = loaded.images.to(self.device, non_blocking=True).contiguous()
            yield Batch(images, _moved(target, self.device), loaded.rows)


def _awaiting_deaths(decoded: Iterable[Loaded]) -> Iterator[Loaded]:
    """The same blocks; a pipe that breaks because its worker died is reported as torch reports a death.

    The pipe may break before torch hears of the death, which it then raises wherever the program is: so wait for that here.
    """
    try:
        yield from decoded
    except (ConnectionError, EOFError) as error:
        time.sleep(DEATH_SECONDS)
        raise RuntimeError("DataLoader worker: its pipe broke") from error


@contextmanager
def worker_deaths_reported() -> Iterator[None]:
    """Context in which the death of a worker process, which torch reports as a RuntimeError at any moment, is a sentence."""
    try:
        yield
    except RuntimeError as error:
        if not is_worker_death(error):
            raise
        raise WorkersDiedError(
            "a worker process that decodes pictures was killed, perhaps for want of memory: free some memory, then continue "
            "with resume=True"
        ) from error


def is_worker_death(error: RuntimeError) -> bool:
    """Whether torch reports that a worker process has died."""
    return "DataLoader worker" in str(error)


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy to the device, without waiting for it."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def _ahead(
    work: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]], wanted: Iterable[Tensor]
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The results of ``work`` on each item, computed by a thread a few items ahead; its errors are raised here."""
    ready: queue.Queue[tuple[Tensor, Tensor, Tensor] | BaseException | None] = queue.Queue(AHEAD)
    stop = threading.Event()

    def put(item: tuple[Tensor, Tensor, Tensor] | BaseException | None) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def run() -> None:
        try:
            for item in wanted:
                if not put(work(item)):
                    return
            put(None)
        except BaseException as error:  # raised in the consuming thread
            put(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()


def sequential_batches(rows: int, size: int) -> Sequence[Tensor]:
    """Row numbers in order, ``size`` at a time."""
    return torch.arange(rows).split(whole(1)("batch_size", size)) if rows else ()
