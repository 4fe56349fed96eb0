"""Retrieval by combined queries: labels that must be present and labels that must be absent.

A query asks for labels P and against labels M; a row's score is ``Σ_P log p + Σ_M log(1 - p)``. The measure is average
precision, averaged over all queries with at least one label in P and at most ``max_length`` in all that some row satisfies.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shortlist.checks import whole_number
from shortlist.errors import InputError
from shortlist.metrics.ranking import rows_average_precision
from shortlist.tensors import BLOCK_ENTRIES, Probs, Target, as_target, as_tensor, check_target, one_hot

MOST_QUERIES = 2_000_000


@dataclass(frozen=True)
class RetrievalCurve:
    """Mean average precision for each query length from 1, with its standard error (0 where all queries were asked)."""

    maps: Tensor
    standard_errors: Tensor
    queries: Tensor  # how many satisfiable queries of each length there are (estimated, where they were sampled)

    def mean(self) -> Tensor:
        """The mean over all queries."""
        known = self.queries > 0
        return (self.maps * self.queries)[known].sum() / self.queries[known].sum()


def retrieval_map(probs: Any, target: Any, *, max_length: int = 5, sample: int | None = None, seed: int = 0) -> Tensor:
    """Mean average precision over all queries of up to ``max_length`` labels that some row satisfies.

    >>> probs = torch.tensor([[0.9, 0.2], [0.6, 0.7]])
    >>> retrieval_map(probs, torch.tensor([[True, False], [True, True]]))
    tensor(1., dtype=torch.float64)

    Cheng, section 4.
    """
    return retrieval_curve(probs, target, max_length=max_length, sample=sample, seed=seed).mean()


def retrieval_curve(
    probs: Any, target: Any, *, max_length: int = 5, sample: int | None = None, seed: int = 0
) -> RetrievalCurve:
    """Mean average precision by query length.

    Args:
        probs: (N, C).
        target: int64 (N,) or bool (N, C).
        max_length: the longest query.
        sample: ask this many queries of each length, drawn with the seed, where there are more; None asks all of them.
        seed: for the sample.
    """
    probs, target = as_tensor(probs), as_target(target)
    check_target(probs, target, "probs")
    classes = probs.shape[1]
    check_asked(max_length, sample)
    lengths = range(1, min(max_length, classes) + 1)
    asked = {length: min(count_queries(classes, length), sample or MOST_QUERIES + 1) for length in lengths}
    if sum(asked.values()) > MOST_QUERIES and sample is None:
        total = sum(count_queries(classes, length) for length in lengths)
        raise InputError(f"{classes} labels have {total:,} queries of up to {max_length}: pass sample=10000 to draw some")
    terms, truths = _columns(probs, one_hot(target, classes))
    found = [_measure(terms, truths, classes, length, asked[length], seed) for length in lengths]
    maps, errors, queries = (torch.tensor(column, dtype=torch.float64) for column in zip(*found, strict=True))
    return RetrievalCurve(maps, errors, queries)


def check_asked(max_length: int, sample: int | None) -> None:
    """There is something to ask."""
    whole_number(max_length, "max_length", 1)
    if sample is not None:
        whole_number(sample, "sample", 1)


def count_queries(classes: int, length: int) -> int:
    """How many queries of this length there are: any labels, each present or absent, not all of them absent."""
    return int(math.comb(classes, length) * (2**length - 1))


def _columns(probs: Probs, marks: Target) -> tuple[Tensor, Tensor]:
    """Row 2j: label j present; row 2j + 1: absent. Log probabilities in float64, and whether it is so."""
    p = probs.double().t()
    terms = torch.stack([p.log(), torch.log1p(-p)], dim=1).flatten(0, 1).contiguous()
    truths = torch.stack([marks.t(), ~marks.t()], dim=1).flatten(0, 1).contiguous()
    return terms, truths


def _measure(terms: Tensor, truths: Tensor, classes: int, length: int, number: int, seed: int) -> tuple[float, float, float]:
    total = count_queries(classes, length)
    queries = _all(classes, length) if number >= total else _some(classes, length, number, seed)
    block = max(1, BLOCK_ENTRIES // max(1, terms.shape[1]))
    values = []
    while chunk := list(itertools.islice(queries, block)):
        index = torch.tensor(chunk)
        truth = truths[index].all(1)
        asked = truth.any(1)
        values.append(rows_average_precision(terms[index[asked]].sum(1), truth[asked]))
    found = torch.cat(values)
    if not len(found):
        return math.nan, math.nan, 0.0
    error = 0.0 if number >= total else float(found.std()) / math.sqrt(len(found))
    return float(found.mean()), error, total * len(found) / number


def _all(classes: int, length: int) -> Iterator[tuple[int, ...]]:
    signs = list(itertools.product((0, 1), repeat=length))[:-1]  # the last has every label absent
    for labels in itertools.combinations(range(classes), length):
        for sign in signs:
            yield tuple(2 * label + absent for label, absent in zip(labels, sign, strict=True))


def _some(classes: int, length: int, number: int, seed: int) -> Iterator[tuple[int, ...]]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(number):
        labels = torch.randperm(classes, generator=generator)[:length]
        sign = int(torch.randint(2**length - 1, (), generator=generator))
        yield tuple(2 * label + (sign >> place & 1) for place, label in enumerate(labels.tolist()))
