"""Retrieval by combined queries: labels that must be present and labels that must be absent.

A query asks for labels P and excludes labels M. The score of a row is ``Σ_P log η + Σ_M log(1 - η)``, the log-probability
that it has all of P and none of M if labels are independent given the row. The metric is average precision, averaged over all
queries with at least one label in P and at most ``max_length`` labels in total that some row satisfies. How the queries are
asked, sampled and ranked is the business of :mod:`shortlist.query_rankings`.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import check_labels, whole
from shortlist.errors import InputError
from shortlist.metrics.inputs import checked
from shortlist.metrics.retrieval_scores import RetrievalScores, scores_of
from shortlist.predictions import Predictions
from shortlist.query_rankings.asking import Across, Progress as BatchProgress, Table, ask, ask_all, count_queries, on_all_cores
from shortlist.query_rankings.ranking import Floats
from shortlist.query_rankings.sampling import Stratum, frame_of, shares
from shortlist.query_rankings.totals import Totals
from shortlist.tensors import Target, as_target, as_tensor, check_target, one_hot

Progress: TypeAlias = Callable[[int, int], None]

MOST_QUERIES = 2_000_000


@dataclass(frozen=True)
class RetrievalCurve:
    """Mean average precision for each query length from 1, with its standard error (0 if all queries were asked).

    Args:
        maps: mean average precision by length, float64 (L,).
        standard_errors: of the means, float64 (L,).
        queries: number of satisfiable queries of each length, float64 (L,); an estimate for lengths that were sampled.
    """

    maps: Tensor
    standard_errors: Tensor
    queries: Tensor

    def mean(self) -> Tensor:
        """Mean average precision over all queries."""
        known = self.queries > 0
        return (self.maps * self.queries)[known].sum() / self.queries[known].sum()


def retrieval_map(probs: Any, target: Any, *, max_length: int = 5, sample: int | None = None, seed: int = 0) -> Tensor:
    """Mean average precision over all queries of up to ``max_length`` labels that some row satisfies.

    Args:
        probs: (N, C).
        target: int64 (N,) or bool (N, C).
        max_length: maximum number of labels in a query.
        sample: number of queries to draw of each length that has more; None (the default) asks all of them.
        seed: seed of the sample.

    >>> probs = torch.tensor([[0.9, 0.2], [0.6, 0.7]])
    >>> retrieval_map(probs, torch.tensor([[True, False], [True, True]]))
    tensor(1., dtype=torch.float64)

    Cheng, sections 4 and 5.3.
    """
    return retrieval_curve(probs, target, max_length=max_length, sample=sample, seed=seed).mean()


def retrieval_curve(
    probs: Any, target: Any, *, max_length: int = 5, sample: int | None = None, seed: int = 0
) -> RetrievalCurve:
    """Mean average precision by query length; :func:`evaluate_retrieval` also gives precision at 10 and reliability.

    Args:
        probs: (N, C).
        target: int64 (N,) or bool (N, C).
        max_length: maximum number of labels in a query.
        sample: number of queries to draw of each length that has more; None (the default) asks all of them.
        seed: seed of the sample.

    Cheng, figure 3.
    """
    probs, target = checked(probs, target, "probabilities")
    classes = probs.shape[1]
    check_asked(max_length, sample)
    counts = _counts(classes, max_length)
    if sample is None and sum(counts) > MOST_QUERIES:
        raise InputError(
            f"sample: expected a number, because {classes} labels have {sum(counts):,} queries of up to {max_length}, "
            "got None: pass sample=10000"
        )
    within = [count <= (sample or MOST_QUERIES) for count in counts]
    p: Floats = probs.detach().cpu().double().numpy()
    with np.errstate(divide="ignore"):
        table = _table(np.log(p), np.log1p(-p), target)
    full = within.index(False) if False in within else len(counts)
    strata = _strata(table, len(counts), full, sample or MOST_QUERIES, seed, None)
    found = [scores_of(_of_length(strata, length)) for length in range(1, len(counts) + 1)]
    columns = ([one.map for one in found], [one.error for one in found], [one.queries for one in found])
    maps, errors, queries = (torch.tensor(column, dtype=torch.float64) for column in columns)
    return RetrievalCurve(maps, errors, queries)


def evaluate_retrieval(
    log_yes: Any,
    log_no: Any,
    target: Any,
    *,
    max_length: int = 5,
    most: int = 1_000_000,
    sample: int = 10_000,
    seed: int = 0,
    progress: Progress | None = None,
    across: Across = on_all_cores,
) -> RetrievalScores:
    """Measure retrieval by combined queries: mean average precision, precision at 10 and reliability, by query length.

    A query is a set P of at least one label that must be present and a disjoint set M of labels that must be absent. Rows are
    ranked by ``Σ_P log η + Σ_M log(1 - η)`` in float64, and every query that some row satisfies has the same weight. All
    queries of a length are asked while the queries up to that length are at most ``most``; longer ones are sampled,
    separately for every |P|, and the means then have standard errors.

    Args:
        log_yes: log η, (N, C), at most 0; -inf for a probability of 0.
        log_no: log(1 - η), (N, C).
        target: bool (N, C), or int64 (N,).
        max_length: maximum number of labels in a query.
        most: number of queries up to which all queries of a length are asked.
        sample: number of queries drawn of each longer length.
        seed: seed of the samples.
        progress: callback, called with the number of queries done and their total.
        across: does the work: :meth:`shortlist.cluster.Pool.in_order`, or by default this process.

    >>> eta = np.array([[0.9, 0.2], [0.6, 0.7], [0.7, 0.1]])
    >>> found = evaluate_retrieval(np.log(eta), np.log(1 - eta), np.array([[True, False], [True, True], [False, False]]))
    >>> [round(one.map, 4) for one in found.by_length], found.overall.exact
    ([0.9167, 1.0], True)

    Cheng, sections 4 and 5.3, equation 23 and figure 3.
    """
    for name, number in (("max_length", max_length), ("most", most), ("sample", sample), ("seed", seed)):
        whole(1 if name in ("max_length", "sample") else 0)(name, number)
    target = as_target(target).cpu()
    logs = [_logs(values, target, name) for values, name in ((log_yes, "log_yes"), (log_no, "log_no"))]
    if logs[0].shape != logs[1].shape:
        raise InputError(f"log_no: expected {logs[0].shape} like log_yes, got {logs[1].shape}")
    check_labels(target, logs[0].shape[1])
    table = _table(logs[0], logs[1], target)
    counts = _counts(table.classes, max_length)
    full = sum(total <= most for total in itertools.accumulate(counts))
    strata = _strata(table, len(counts), full, sample, seed, progress, across)
    return RetrievalScores(
        scores_of(strata),
        tuple(scores_of(_of_length(strata, length), length) for length in range(1, len(counts) + 1)),
        tuple(scores_of([one], one.present + one.absent, one.present) for one in strata),
        len(logs[0]),
        table.classes,
        seed,
    )


def logs_of(predictions: Predictions) -> tuple[Floats, Floats]:
    """Compute ``log η`` and ``log(1 - η)`` of every score with its link, float64 (N, C), for :func:`evaluate_retrieval`.

    With r the log odds, ``log η = -log(1 + e^-r)`` and ``log(1 - η) = -log(1 + e^r)``, which are exact even where η itself
    would round to 0 or 1.

    >>> yes, no = logs_of(Predictions(torch.tensor([[0.0, 800.0]]), link="sigmoid"))
    >>> yes.tolist(), no.tolist()
    ([[-0.6931471805599453, -0.0]], [[-0.6931471805599453, -800.0]])
    """
    link = predictions.link
    if link is None:
        raise InputError(
            "predictions: expected scores with a link, because queries combine probabilities, got none: "
            "set the link that the scores were trained for (sigmoid, spa, …), or fit one"
        )
    odds = np.empty((len(predictions), predictions.num_classes))
    start = 0
    for block in predictions.blocks():
        with torch.no_grad():
            odds[start : start + len(block)] = link.log_odds(block.scores.double()).cpu().numpy()
        start += len(block)
    return -np.logaddexp(0, -odds), -np.logaddexp(0, odds)


def check_asked(max_length: int, sample: int | None) -> None:
    """Check the parameters of :func:`retrieval_curve`."""
    whole(1)("max_length", max_length)
    if sample is not None:
        whole(1)("sample", sample)


def _counts(classes: int, max_length: int) -> list[int]:
    """Number of queries of each length."""
    return [count_queries(classes, length) for length in range(1, min(max_length, classes) + 1)]


def _logs(values: Any, target: Target, name: str) -> Floats:
    tensor = as_tensor(values, name).detach().cpu()
    check_target(tensor, target, name)
    logs: Floats = tensor.double().numpy()
    if not (logs <= 0).all():
        row, label = np.argwhere(~(logs <= 0))[0].tolist()
        raise InputError(
            f"{name}: expected logarithms of probabilities, at most 0, got {logs[row, label]} in row {row}, class {label}"
        )
    return logs


def _table(log_yes: Floats, log_no: Floats, target: Target) -> Table:
    """Interleave the columns: row 2j is label j present, row 2j + 1 label j absent."""
    rows, classes = log_yes.shape
    marks = one_hot(target.cpu(), classes).numpy()
    logs = np.stack([log_yes.T, log_no.T], axis=1).reshape(2 * classes, rows)
    return Table(np.ascontiguousarray(logs), np.stack([marks.T, ~marks.T], axis=1).reshape(2 * classes, rows))


def _strata(
    table: Table,
    longest: int,
    full: int,
    sample: int,
    seed: int,
    progress: Progress | None,
    across: Across = on_all_cores,
) -> list[Stratum]:
    """Ask all queries of lengths up to ``full``, and a sample of each longer kind."""
    marks = table.truths[::2].T
    frames, numbers = [], []
    for length in range(full + 1, longest + 1):
        kinds = [frame_of(marks, present, length - present) for present in range(1, length + 1)]
        frames += kinds
        numbers += shares([frame.size for frame in kinds], sample)
    done = None if progress is None else _counter(progress, sum(_counts(table.classes, full)) + sum(numbers))
    found = [
        Stratum(present, absent, kind.drawn, kind)
        for (present, absent), kind in (ask_all(table, full, done, across) if full else Totals()).items()
    ]
    for frame, number in zip(frames, numbers, strict=True):
        # A generator for each kind, so that the draws of one do not depend on the number of draws of another.
        generator = np.random.default_rng([seed, frame.present, frame.absent])
        queries = frame.all() if number == frame.size else frame.draw(number, generator)
        kind = ask(table, queries, frame.present, done, across).kind(frame.present, frame.absent)
        found.append(Stratum(frame.present, frame.absent, frame.size, kind))
    return sorted(found, key=lambda one: (one.present + one.absent, one.present))


def _counter(progress: Progress, total: int) -> BatchProgress:
    """Turn the sizes of completed batches into calls of ``progress(done, total)``."""
    done = 0

    def add(queries: int) -> None:
        nonlocal done
        done += queries
        progress(done, total)

    return add


def _of_length(strata: Sequence[Stratum], length: int) -> list[Stratum]:
    return [one for one in strata if one.present + one.absent == length]
