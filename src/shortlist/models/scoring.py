"""Scoring: any number of rows, a batch at a time; the next batch is decoded and copied while the device works on this one.

On a GPU the host never waits for the batch it has just sent: batches go through page-locked memory on a stream of their own,
scores come back on the computing stream, and the host waits only for the batch before.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from shortlist.data.pictures import PictureArray, Pictures
from shortlist.data.problems import Problem
from shortlist.errors import InputError
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network, evaluating
from shortlist.tensors import Scores

AHEAD = 2  # batches in flight: one being computed, one being copied


def raw_batches(
    source: Pictures | Tensor,
    inputs: InputSpec,
    batch_size: int,
    workers: int | None,
    problems: list[Problem] | None,
    pin: bool = False,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Row numbers and raw inputs, in order; an unreadable picture raises unless there is a list for problems.

    With ``pin``, pictures that worker processes decode come in page-locked memory.
    """
    matrix = _matrix(source, inputs)
    if matrix is None:
        assert isinstance(source, Pictures)
        yield from _decoded_batches(source, inputs, batch_size, workers, problems, pin)
        return
    for start in range(0, len(matrix), batch_size):
        part = matrix[start : start + batch_size]
        yield torch.arange(start, start + len(part)), part


def _matrix(source: Pictures | Tensor, inputs: InputSpec) -> Tensor | None:
    """The rows if they are already in memory at their size: slices of them need no copy."""
    if isinstance(source, PictureArray) and tuple(source.images.shape[1:]) == inputs.shape and inputs.fit != "center":
        return source.images
    return source if isinstance(source, Tensor) else None


def _decoded_batches(
    source: Pictures, inputs: InputSpec, batch_size: int, workers: int | None, problems: list[Problem] | None, pin: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    from shortlist.data.loading import UNREADABLE, picture_batches

    if isinstance(source, PictureArray):  # resized by the same function as files are
        source = PictureArray(source.images.cpu(), source.ids)
    for loaded in picture_batches(source, size=inputs.size, fit=inputs.fit, batch=batch_size, workers=workers, pin=pin):
        unreadable = [problem for problem in loaded.problems if problem.kind == UNREADABLE]
        if problems is not None:
            problems += loaded.problems
        elif unreadable:
            raise InputError(f"{unreadable[0]}; leave it out, or skip such pictures with score_batches(…, problems=[])")
        if len(loaded):
            yield loaded.rows, loaded.images


def score_batch(network: Network, batch: Tensor, autocast: torch.dtype | None = None) -> Scores:
    """Scores float32 (n, C) of one raw batch, where the network is and in the mode it is in.

    Args:
        network: what scores.
        batch: raw inputs on the network's device.
        autocast: the lower precision to compute in; None computes in that of the weights.
    """
    # Not inference mode: modules written elsewhere may keep tensors that are made here and train with them later.
    with torch.no_grad(), torch.autocast(batch.device.type, autocast or torch.bfloat16, enabled=autocast is not None):
        return network.label_scores(network.cast(network.inputs.prepare(batch))).float()


def scored_batches(
    network: Network, batches: Iterable[tuple[Tensor, Tensor]], *, autocast: torch.dtype | None = None
) -> Iterator[tuple[Tensor, Scores]]:
    """Row numbers and scores float32 (n, C) on the CPU, a batch at a time: the one iterator behind everything that scores.

    The network is in evaluation mode while this runs, and back in its own mode afterwards.

    Args:
        network: what scores.
        batches: row numbers and raw inputs, on any device.
        autocast: the lower precision to compute in; None computes in that of the weights.
    """
    with evaluating(network):
        if network.device.type == "cuda":
            yield from _scored_on_cuda(network, batches, autocast)
            return
        for rows, batch in batches:
            yield rows, score_batch(network, batch.to(network.device), autocast).cpu()


def _scored_on_cuda(
    network: Network, batches: Iterable[tuple[Tensor, Tensor]], autocast: torch.dtype | None
) -> Iterator[tuple[Tensor, Scores]]:
    device = network.device
    lane = _Lane(device)
    waiting: list[tuple[Tensor, Tensor, Any]] = []
    for rows, batch in batches:
        scores = score_batch(network, lane.send(batch), autocast)
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
    return rows, landed.clone()  # page-locked memory is scarce: it is reused for the next batch


class _Lane:
    """Batches to a GPU through page-locked memory, on a stream beside the one that computes."""

    def __init__(self, device: torch.device):
        self.device, self.stream = device, torch.cuda.Stream(device)

    def send(self, batch: Tensor) -> Tensor:
        """The batch on the device; the computing stream waits for it, the host does not."""
        if batch.device.type == "cuda":
            return batch.to(self.device, non_blocking=True)
        staged = batch if batch.is_pinned() else batch.pin_memory()  # torch caches such memory
        computing = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self.stream):
            sent = staged.to(self.device, non_blocking=True)
        computing.wait_stream(self.stream)
        sent.record_stream(computing)  # keeps the memory from being reused while this batch is computed on
        return sent
