"""Scoring during training, in one process or shared among several."""

from typing import NamedTuple

import torch
from torch import Tensor

from shortlist.models.network import Network
from shortlist.models.quality import RowQuality
from shortlist.models.scoring import scored_batches
from shortlist.processes import gathered, processes, rank
from shortlist.training.row_sources import RowSource, sequential_batches


class ScoredRows(NamedTuple):
    """The readable rows, in order.

    Args:
        scores: float32 (M, C).
        numbers: of the rows, int64 (M,).
        quality: float64 (M,), if it was asked for.
    """

    scores: Tensor
    numbers: Tensor
    quality: Tensor | None = None


def score_rows(
    network: Network, rows: RowSource, *, batch_size: int, dtype: torch.dtype | None, quality: str | None = None
) -> ScoredRows:
    """The scores of the readable rows, the same in every process.

    Args:
        network: the network; it is in evaluation mode while it scores.
        rows: the rows to score.
        batch_size: rows per batch in each process.
        dtype: dtype of autocast; None computes in the precision of the weights.
        quality: the name of the quality to compute for each row, see :class:`~shortlist.models.quality.RowQuality`.
    """
    mine = torch.arange(len(rows)).tensor_split(processes())[rank()]
    wanted = [mine[place] for place in sequential_batches(len(mine), batch_size)]
    batches = ((batch.rows, batch.inputs) for batch in rows.batches(wanted))
    watched = None if quality is None else RowQuality(quality, len(rows))
    found = list(scored_batches(network, batches if watched is None else watched.watching(batches), autocast=dtype))
    scores = torch.cat([part for _, part in found]) if found else torch.zeros(0, 0)
    numbers = torch.cat([places for places, _ in found]) if found else torch.zeros(0, dtype=torch.int64)
    measured = None if watched is None else watched.values[numbers]
    if processes() > 1:  # through the device, which the processes communicate by
        places = numbers.to(rows.device)
        if measured is not None:
            measured = _together(measured[:, None].to(rows.device), places)[0][:, 0].cpu()
        scores, numbers = _together(scores.to(rows.device), places)
    return ScoredRows(scores.cpu(), numbers.cpu(), measured)


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
