"""Scores of many rows by a network in training, on one process or shared among several."""

import torch
from torch import Tensor

from shortlist.models.inputs import Inputs
from shortlist.models.network import Network
from shortlist.processes import gathered, processes
from shortlist.training.rows import Rows, plain_batches


@torch.no_grad()
def score_rows(
    network: Network, rows: Rows, inputs: Inputs, *, batch_size: int, dtype: torch.dtype | None
) -> tuple[Tensor, Tensor]:
    """Scores float32 (M, C) and the numbers int64 (M,) of the rows that could be read, in order, the same on every process.

    Args:
        network: in the mode it is to be used in, ``eval`` as a rule.
        rows: what to score.
        inputs: how raw inputs are prepared.
        batch_size: rows at a time on each process.
        dtype: of autocast, None without.
    """
    process = torch.distributed.get_rank() if processes() > 1 else 0
    mine = torch.arange(len(rows)).tensor_split(processes())[process]
    found: list[Tensor] = []
    kept: list[Tensor] = []
    for batch in rows.batches([mine[place] for place in plain_batches(len(mine), batch_size)]):
        with torch.autocast(rows.device.type, dtype or torch.bfloat16, enabled=dtype is not None):
            found.append(network.label_scores(inputs.prepare(batch.inputs)).float())
        kept.append(batch.rows)
    scores = torch.cat(found) if found else torch.zeros(0, 0, device=rows.device)
    numbers = torch.cat(kept) if kept else torch.zeros(0, dtype=torch.int64)
    if processes() > 1:
        scores, numbers = _together(scores, numbers.to(rows.device))
    return scores.cpu(), numbers.cpu()


def _together(scores: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of all processes, in order."""
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
