"""Rows of any number → scores, a batch at a time: the next batch is decoded and copied while the device works on this one.

On a GPU the host never waits for the batch it has just sent: batches go through page-locked memory on a stream of their own,
scores come back on the stream of the computation, and the wait is for the batch before.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from shortlist.data.pictures import PictureArray, Pictures
from shortlist.data.problems import Problem
from shortlist.errors import InputError
from shortlist.models.inputs import Inputs
from shortlist.tensors import Scores

AHEAD = 2  # batches in flight: one computed, one copied


def raw_batches(
    source: Pictures | Tensor, inputs: Inputs, batch_size: int, workers: int | None, problems: list[Problem] | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Row numbers and raw inputs, in order; without a list for problems, an unreadable picture raises."""
    matrix = _matrix(source, inputs)
    if matrix is None:
        assert isinstance(source, Pictures)
        yield from _decoded_batches(source, inputs, batch_size, workers, problems)
        return
    for start in range(0, len(matrix), batch_size):
        part = matrix[start : start + batch_size]
        yield torch.arange(start, start + len(part)), part


def _matrix(source: Pictures | Tensor, inputs: Inputs) -> Tensor | None:
    """The rows where they lie ready in memory: slices of them need no copy."""
    if isinstance(source, PictureArray) and tuple(source.images.shape[1:]) == inputs.shape:
        return source.images
    return source if isinstance(source, Tensor) else None


def _decoded_batches(
    source: Pictures, inputs: Inputs, batch_size: int, workers: int | None, problems: list[Problem] | None
) -> Iterator[tuple[Tensor, Tensor]]:
    from shortlist.data.loading import UNREADABLE, picture_batches

    if isinstance(source, PictureArray):  # decoded again, to be resized by the function that files go through
        source = PictureArray(source.images.cpu(), source.ids)
    for loaded in picture_batches(source, size=inputs.size, fit=inputs.fit, batch=batch_size, workers=workers):
        unreadable = [problem for problem in loaded.problems if problem.kind == UNREADABLE]
        if problems is not None:
            problems += loaded.problems
        elif unreadable:
            raise InputError(f"{unreadable[0]}; leave it out, or read around it with score_batches(…, problems=[])")
        if len(loaded):
            yield loaded.rows, loaded.images


def scored_batches(
    batches: Iterator[tuple[Tensor, Tensor]], score: Callable[[Tensor], Scores], device: torch.device
) -> Iterator[tuple[Tensor, Scores]]:
    """Row numbers and scores on the CPU, for raw batches and a function that scores a batch that is on the device."""
    if device.type != "cuda":
        for rows, batch in batches:
            yield rows, score(batch.to(device)).cpu().clone()
        return
    yield from _scored_on_cuda(batches, score, device)


def _scored_on_cuda(
    batches: Iterator[tuple[Tensor, Tensor]], score: Callable[[Tensor], Scores], device: torch.device
) -> Iterator[tuple[Tensor, Scores]]:
    lane = _Lane(device)
    waiting: list[tuple[Tensor, Tensor, Any]] = []
    for rows, batch in batches:
        scores = score(lane.send(batch))
        landed = torch.empty(scores.shape, dtype=scores.dtype, pin_memory=True)
        landed.copy_(scores, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record(torch.cuda.current_stream(device))
        waiting.append((rows, landed, arrived))
        if len(waiting) == AHEAD:
            yield _arrived(*waiting.pop(0))
    for rest in waiting:
        yield _arrived(*rest)


def _arrived(rows: Tensor, landed: Tensor, event: Any) -> tuple[Tensor, Scores]:
    event.synchronize()
    return rows, landed.clone()  # page-locked memory is dear: it goes back for the next batch


class _Lane:
    """Batches to a GPU through page-locked memory, on a stream beside the one that computes."""

    def __init__(self, device: torch.device):
        self.device, self.stream = device, torch.cuda.Stream(device)

    def send(self, batch: Tensor) -> Tensor:
        """The batch on the device; the computing stream waits for it, the host does not."""
        if batch.device.type == "cuda":
            return batch.to(self.device, non_blocking=True)
        staged = batch if batch.is_pinned() else batch.pin_memory()  # torch keeps such memory and hands it out again
        computing = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self.stream):
            sent = staged.to(self.device, non_blocking=True)
        computing.wait_stream(self.stream)
        sent.record_stream(computing)  # lest the memory go to the next copy while this batch is computed on
        return sent
