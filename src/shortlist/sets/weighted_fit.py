"""Fitting a rule on calibration rows that count by weights, or whose labels are votes; these rows are kept in memory."""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.rounds import Values, as_array
from shortlist.sets.batches import Batch, Batches
from shortlist.sets.conformal import AverageError, ErrorPerClass
from shortlist.sets.constraints import AverageSize, Constraint, FittedThreshold, drawn
from shortlist.sets.draws import CalibrationDraws, Digest, digest_of
from shortlist.sets.orderings import Ordering
from shortlist.sets.weighting import Ladder, Scale, Weighting, Weights, effective_sample_size
from shortlist.tensors import Array, is_single_label, pick

KINDS = (AverageError, ErrorPerClass, AverageSize)
NEAR = 0.02  # labels on average, from which a note says that an average size was missed


class Entries(NamedTuple):
    """Values of calibration rows with what they count by.

    Args:
        values: (n,).
        weights: float64 (n,).
        labels: the label of each, int64 (n,).
    """

    values: Array
    weights: Array
    labels: Array


def fit_weighted(
    constraint: Constraint, ordering: Ordering, batches: Batches, weights: Weights, kept: Weighting
) -> FittedThreshold:
    """The threshold for calibration rows that count by these weights; what new rows need of them is kept."""
    if type(constraint) not in KINDS:
        raise InputError(
            "weights: expected a conformal rule (lac, aps, raps, pas, sure-node, also classwise) or average-k, got one for "
            f"{getattr(type(constraint), 'kind', type(constraint).__name__)}"
        )
    if weights.kind == "votes" and not isinstance(constraint, AverageError):
        raise InputError("target: expected a conformal rule, which is fitted on labels: average-k needs none")
    if not batches.repeatable:
        raise InputError("probs: expected rows that can be read more than once with weights, got an iterator")
    if not ordering.in_rounds:
        raise InputError("weights: expected an ordering that chooses nothing first, such as that of raps:0.1")
    draws = _draws(constraint, ordering, batches, weights)
    parts = [_entries(constraint, ordering, batch, weights, draws) for batch in batches.whole_rows()]
    _check_rows(weights, batches.rows)
    if not sum(len(part.values) for part in parts):
        raise InputError("probs: expected labelled calibration rows, got none")
    entries = Entries(*(np.concatenate(kind) for kind in zip(*parts, strict=True)))
    classes = batches.classes or 0
    new = _weight_of_new_rows(weights, classes)
    scale = Scale.of(max(float(new.max()), float(entries.weights.max())), len(entries.values))
    kept.keep(weights.kind)
    if isinstance(constraint, AverageSize):
        return _average_size(constraint, ordering, entries, scale, batches.rows)
    assert isinstance(constraint, AverageError)
    whole, level, worst = scale.whole(entries.weights), constraint.level, ordering.worst()
    ladder, ones = Ladder.of(entries.values, whole, ordering.descending), [scale.one(one) for one in new.tolist()]
    if isinstance(constraint, ErrorPerClass):
        found = _per_class(entries, whole, ones, classes, level, ordering)
    else:
        found = ladder.quantiles(level, ones, worst)
    notes, always = _worth(weights, entries), int((found == worst).sum())
    if always == len(found):
        raise InputError(
            f"weights: expected calibration rows worth at least {constraint.fewest_rows} of equal weight for an error of "
            f"{constraint.alpha}, otherwise every label is returned: {' '.join(notes) or 'there are too few rows'}"
        )
    if always:
        notes += (f"{always} of {len(found)} classes have too little weight: they are in every set",)
    if isinstance(constraint, ErrorPerClass) or weights.classes is not None:
        return FittedThreshold(torch.from_numpy(found), notes)
    kept.keep(weights.kind, ladder, scale)
    return FittedThreshold(torch.tensor(found[0], dtype=torch.float64), notes)


def _check_rows(weights: Weights, rows: int) -> None:
    for name, part in (("weights", weights.rows), ("votes", weights.votes)):
        if part is not None and len(part) != rows:
            raise InputError(f"{name}: expected one for each of {rows:,} rows, got {len(part):,}")


def _rows_of(part: Tensor, batch: Batch, name: str) -> Tensor:
    if len(batch.probs) and int(batch.row_numbers.max()) >= len(part):
        least = int(batch.row_numbers.max()) + 1
        raise InputError(f"{name}: expected one for each row, got {len(part):,} for at least {least:,}")
    return part[batch.row_numbers.cpu()]


def _draws(constraint: Constraint, ordering: Ordering, batches: Batches, weights: Weights) -> CalibrationDraws | None:
    if not constraint.draws_from(ordering):
        return None
    digest = Digest()
    for batch in batches.whole_rows():
        labels = batch.labels if weights.votes is None else _rows_of(weights.votes, batch, "votes").argmax(1)
        digest = digest.merge(digest_of(batch.probs, labels, batch.row_numbers))
    draws = ordering.calibration_draws(digest)
    ordering.keep_draws(draws)
    return draws


def _entries(
    constraint: Constraint, ordering: Ordering, batch: Batch, weights: Weights, draws: CalibrationDraws | None
) -> Entries:
    rows = len(batch.probs)
    own = torch.ones(rows, dtype=torch.float64) if weights.rows is None else _rows_of(weights.rows, batch, "weights")
    if isinstance(constraint, AverageSize):
        values = as_array(ordering(batch.probs)).reshape(-1)
        classes = torch.arange(batch.probs.shape[1]).repeat(rows)
        own = own.repeat_interleave(batch.probs.shape[1])
        if weights.classes is not None:
            raise InputError("class_weights: expected a conformal rule, which is fitted on labels: pass weights of rows")
        return Entries(values, own.numpy(), classes.numpy())
    if weights.votes is not None:
        shares = _rows_of(weights.votes, batch, "votes")
        if shares.shape[1] != batch.probs.shape[1]:
            raise InputError(f"target: expected votes for {batch.probs.shape[1]} classes, got {shares.shape[1]}")
        target = shares > 0
    else:
        target = batch.labels.cpu()
    if isinstance(constraint, AverageError) and constraint.one_label and weights.votes is None and not is_single_label(target):
        raise InputError("target: expected one label a row, got many labels: use classwise")
    single = is_single_label(target)
    at, labels = (torch.arange(rows), target) if single else target.nonzero(as_tuple=True)
    here = target.to(batch.probs.device)
    counted = Values(ordering.at_labels(batch.probs, here), rows)
    if draws is not None:
        probs = (pick(batch.probs, here) if single else batch.probs[here]).double()
        numbers = batch.row_numbers[at.to(batch.probs.device)]
        counted = drawn(Values(counted.values, rows, own=probs, numbers=numbers), draws)
    found = own[at]
    if weights.votes is not None:
        found = found * _rows_of(weights.votes, batch, "votes")[at, labels]
    if weights.classes is not None:
        _weight_of_new_rows(weights, batch.probs.shape[1])  # checks that there is one for each class
        found = weights.classes[labels]
    return Entries(as_array(counted.values), found.numpy(), labels.numpy())


def _weight_of_new_rows(weights: Weights, classes: int) -> Tensor:
    """What a new row counts for: with each label as much as that, else as much as the heaviest calibration row."""
    if weights.classes is not None:
        if len(weights.classes) != classes:
            raise InputError(f"class_weights: expected one for each of {classes} classes, got {len(weights.classes)}")
        return weights.classes
    return torch.ones(1, dtype=torch.float64) if weights.rows is None else weights.rows.max()[None]


def _per_class(entries: Entries, whole: Array, new: list[int], classes: int, level: Fraction, ordering: Ordering) -> Array:
    """The quantile of each class by itself."""
    found = np.empty(classes)
    for label, weight in enumerate(new if len(new) == classes else new * classes):
        own = entries.labels == label
        ladder = Ladder.of(entries.values[own], whole[own], ordering.descending)
        [found[label]] = ladder.quantiles(level, [weight], ordering.worst())
    return found


def _average_size(constraint: AverageSize, ordering: Ordering, entries: Entries, scale: Scale, rows: int) -> FittedThreshold:
    """The midpoint between the values where the weight of what is returned comes nearest to k for each row; below if equal."""
    classes = len(entries.values) // rows
    constraint.check_classes(classes)
    ladder = Ladder.of(entries.values, scale.whole(entries.weights), ordering.descending)
    wanted = constraint.size * ladder.total / classes
    upper = int(np.searchsorted(ladder.sums, math.ceil(wanted)))  # the first with at least this weight
    sums = np.concatenate([[0], ladder.sums])
    upper = min(upper, len(ladder.sums) - 1)
    kept = upper + 1 if wanted - int(sums[upper]) > int(sums[upper + 1]) - wanted else upper  # the number of values returned
    if constraint.size == classes or kept == len(ladder.values):
        return FittedThreshold(torch.tensor(ordering.worst(), dtype=torch.float64))
    if not kept:
        return FittedThreshold(torch.tensor(-ordering.worst(), dtype=torch.float64))
    last, following = ladder.values[kept - 1], ladder.values[kept]
    middle = float(entries.values.dtype.type((last + following) / 2))
    reached = float(Fraction(int(sums[kept])) * classes / ladder.total)
    notes = (
        ()
        if abs(reached - float(constraint.size)) < NEAR
        else (f"many labels tie at the cut, or few rows weigh much: sets hold {reached:.4g} labels on average",)
    )
    return FittedThreshold(torch.tensor(middle if middle not in (last, following) else last, dtype=torch.float64), notes)


def _worth(weights: Weights, entries: Entries) -> tuple[str, ...]:
    """How many rows of equal weight there are, if these are few."""
    given = weights.rows if weights.kind != "classes" else torch.from_numpy(entries.weights)
    if given is None:
        return ()
    worth = effective_sample_size(given)
    if 2 * worth >= len(given):
        return ()
    return (f"the weights of {len(given):,} calibration rows are worth {worth:,.1f} rows of equal weight",)
