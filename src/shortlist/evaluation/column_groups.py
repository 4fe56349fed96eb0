"""Numbers by groups of rows: those with the same entry of a column."""

import math
from typing import Any

import torch
from torch import Tensor

from shortlist.metrics.binned_pairs import frequency_bands
from shortlist.predictions.columns import as_names
from shortlist.tensors import Array

HITS, LABELS, SIZE = range(3)  # of the total ``outcomes``


def column_numbers(column: Array, outcomes: Tensor) -> dict[str, list[Any]]:
    """The columns of :meth:`Evaluation.by_column`, one entry for each group, in order of names.

    Args:
        column: the group of each row.
        outcomes: for each row its labels in its set, its labels and the size of its set, (3 or more, N).
    """
    names = as_names(column)
    groups = sorted(set(names))
    places = {name: place for place, name in enumerate(groups)}
    codes = torch.tensor([places[name] for name in names], dtype=torch.int64)
    parts = outcomes[: SIZE + 1].double().cpu()
    sums = torch.zeros(len(parts), len(groups), dtype=torch.float64).index_add_(1, codes, parts)
    empty = torch.zeros(len(groups), dtype=torch.float64).index_add_(0, codes, (parts[SIZE] == 0).double())
    rows = codes.bincount(minlength=len(groups)).double()
    hits, labels = sums[HITS], sums[LABELS]
    low, high = (end.where(labels > 0, math.nan) for end in frequency_bands(torch.stack([labels, labels, hits])))
    return {
        "group": groups,
        "rows": rows.long().tolist(),
        "labels": labels.long().tolist(),
        "coverage": (hits / labels).tolist(),
        "coverage_low": low.tolist(),
        "coverage_high": high.tolist(),
        "size": (sums[SIZE] / rows).tolist(),
        "empty_sets": (empty / rows).tolist(),
    }
