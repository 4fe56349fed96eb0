"""Scoring during training, in one process or shared among several."""

import torch
from torch import Tensor

from shortlist.models.network import Network
from shortlist.models.scoring import scored_batches
from shortlist.processes import gathered, processes, rank
from shortlist.training.row_sources import RowSource, sequential_batches


def score_rows(network: Network, rows: RowSource, *, batch_size: int, dtype: torch.dtype | None) -> tuple[Tensor, Tensor]:
    """Scores float32 (M, C) and row numbers int64 (M,) of the readable rows, in order, the same in every process.

    Args:
        network: the network; it is in evaluation mode while it scores.
        rows: the rows to score.
        batch_size: rows per batch in each process.
        dtype: dtype of autocast; None computes in the precision of the weights.
    """
    mine = torch.arange(len(rows)).tensor_split(processes())[rank()]
    wanted = [mine[place] for place in sequential_batches(len(mine), batch_size)]
    batches = ((batch.rows, batch.inputs) for batch in rows.batches(wanted))
    found = list(scored_batches(network, batches, autocast=dtype))
    scores = torch.cat([part for _, part in found]) if found else torch.zeros(0, 0)
    numbers = torch.cat([places for places, _ in found]) if found else torch.zeros(0, dtype=torch.int64)
    if processes() > 1:  # through the device, which the processes communicate by
        scores, numbers = _together(scores.to(rows.device), numbers.to(rows.device))
    return scores.cpu(), numbers.cpu()


def _together(scores: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Gather the rows of all processes, in order."""
    shapes = gathered(torch.tensor(scores.shape, device=scores.device))
    longest, classes = (int(size) for size in shapes.amax(0))
    padded = scores.new_zeros(longest, classes)
    padded[: len(scores), : scores.shape[1]] = scores
    places = numbers.new_full((longest,), -1)
    places[: len(numbers)] = numbers
    everything, names = gathered(padded).flatten(0, 1), gathered(places).flatten()
    there = names >= 0
    order = names[there].argsort()
    return everything[there][order], names[there][order]
