"""Calibration rows that count by weights, or whose labels are votes: what each of their values counts for."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import torch

from shortlist.errors import InputError
from shortlist.rounds import Values, as_array
from shortlist.sets.batches import Batch, Batches
from shortlist.sets.conformal import AverageError
from shortlist.sets.constraints import AverageSize, Constraint, drawn
from shortlist.sets.draws import CalibrationDraws, Digest, digest_of
from shortlist.sets.multilabel import LabelObjective, Risk
from shortlist.sets.orderings import Ordering
from shortlist.sets.weighting import Weights, effective_sample_size
from shortlist.tensors import Array, Target, is_single_label, one_hot, pick

NO_LABEL = -1  # in the place of the label of a row without one


class Entries(NamedTuple):
    """Values of calibration rows with what they count for.

    Args:
        values: (n,).
        weights: of the row of each, float64 (n,).
        shares: the share of that weight by which each counts, float64 (n,).
        labels: the label of each, int64 (n,); -1 for a row without one, whose value every threshold returns.
        rows: the number of the row of each, int64 (n,).
        marked: the share of each weight for which the row has the label, float64 (n,), where values of other labels count too.
    """

    values: Array
    weights: Array
    shares: Array
    labels: Array
    rows: Array
    marked: Array | None = None

    @staticmethod
    def joined(parts: "Iterable[Entries]") -> "Entries":
        """Those of several batches."""
        parts = list(parts)
        marked = [part.marked for part in parts if part.marked is not None]
        joined = Entries(*(np.concatenate(kind) for kind in zip(*(part[:5] for part in parts), strict=True)))
        return joined._replace(marked=np.concatenate(marked) if marked else None)

    def of_label(self, label: int) -> "Entries":
        """Those with this label."""
        own = self.labels == label
        return Entries(*(part[own] for part in self[:5]))

    def worth(self) -> float:
        """How many rows of equal weight these rows are worth; no more than there are, whatever the rounding."""
        counted = self.weights * self.shares
        if not counted.any():
            return 0.0
        distinct, where = np.unique(self.rows, return_inverse=True)
        found = effective_sample_size(np.bincount(where, counted))
        return float(round(found)) if abs(found - round(found)) < 1e-9 * len(distinct) else found


def calibration_draws(
    constraint: Constraint, ordering: Ordering, batches: Batches, weights: Weights
) -> CalibrationDraws | None:
    """The draws of these rows, if the ordering draws any; what new rows need of them is kept in the ordering."""
    if not constraint.draws_from(ordering):
        return None
    digest = Digest()
    for batch in batches.whole_rows():
        weighs = weights.of_rows(batch.row_numbers) > 0  # the others draw nothing that counts, nor change what is drawn
        batch = batch if weighs.all() else batch.rows(weighs)
        labels = batch.labels if weights.votes is None else most_voted(batch, weights)
        digest = digest.merge(digest_of(batch.probs, labels, batch.row_numbers))
    draws = ordering.calibration_draws(digest)
    ordering.keep_draws(draws)
    return draws


def most_voted(batch: Batch, weights: Weights) -> Target:
    """The label of each row with the most votes."""
    return weights.votes_of(batch.row_numbers).argmax(1).to(batch.probs.device)


def checked_votes(batch: Batch, weights: Weights) -> torch.Tensor:
    """The share of each label among the votes for each row, float64 (N, C)."""
    votes = weights.votes_of(batch.row_numbers)
    if votes.shape[1] != batch.probs.shape[1]:
        raise InputError(f"target: expected votes for {batch.probs.shape[1]} classes, got {votes.shape[1]}")
    return votes


def relabelled(batches: Batches, labels: Callable[[Batch], Target]) -> Batches:
    """The same rows with these labels."""

    def passes() -> Iterable[Batch]:
        return (batch._replace(target=labels(batch)) for batch in batches.whole_rows())

    return Batches(passes, probabilities=batches.probabilities, widen=batches.widen)


def entries_of(
    constraint: Constraint, ordering: Ordering, batch: Batch, weights: Weights, draws: CalibrationDraws | None
) -> Entries:
    """What a constraint looks at in a batch of rows, and what each value counts for."""
    if isinstance(constraint, AverageSize | LabelObjective):
        return _of_all_labels(constraint, ordering, batch, weights)
    at, labels, shares = _labels_of(constraint, batch, weights)
    numbers = batch.row_numbers.cpu()
    own = weights.of_rows(numbers)[at]
    if weights.classes is not None:
        own = weights.of_new_rows(batch.probs.shape[1])[labels]
    single = len(at) == len(batch.probs) and bool((at == torch.arange(len(at))).all())
    target = labels if single else _marked(at, labels, tuple(batch.probs.shape))
    here = target.to(batch.probs.device)
    counted = Values(ordering.at_labels(batch.probs, here), len(batch.probs))
    if draws is not None:
        probs = (pick(batch.probs, here) if single else batch.probs[here]).double()
        counted = drawn(Values(counted.values, counted.rows, own=probs, numbers=batch.row_numbers[at.to(here.device)]), draws)
    found = Entries(as_array(counted.values), own.numpy(), shares.numpy(), labels.numpy(), numbers[at].numpy())
    return _with_rows_without_labels(found, ordering, batch, weights) if isinstance(constraint, Risk) else found


def _of_all_labels(constraint: Constraint, ordering: Ordering, batch: Batch, weights: Weights) -> Entries:
    if weights.classes is not None:
        raise InputError("class_weights: expected a conformal rule, which is fitted on labels: pass weights of rows")
    rows, classes = batch.probs.shape
    numbers = batch.row_numbers.cpu()
    own, labels = weights.of_rows(numbers), torch.arange(classes).repeat(rows)
    marked = None if not constraint.needs_labels else _shares(batch, weights).reshape(-1).numpy()
    values = as_array(ordering(batch.probs)).reshape(-1)
    each = own.repeat_interleave(classes).numpy()
    return Entries(values, each, np.ones(len(each)), labels.numpy(), numbers.repeat_interleave(classes).numpy(), marked)


def _shares(batch: Batch, weights: Weights) -> torch.Tensor:
    """How far each row has each label, float64 (N, C): its share of the votes, or 1 for every label of the row."""
    if weights.votes is None:
        return one_hot(batch.labels, batch.probs.shape[1]).cpu().double()
    return checked_votes(batch, weights)


def _labels_of(constraint: Constraint, batch: Batch, weights: Weights) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The place of the row of each label, the label, and its share of the row: of its votes, or of its risk."""
    if weights.votes is not None:
        votes = checked_votes(batch, weights)
        at, labels = votes.nonzero(as_tuple=True)
        return at, labels, votes[at, labels]
    target = batch.labels.cpu()
    if is_single_label(target):
        return torch.arange(len(target)), target, torch.ones(len(target), dtype=torch.float64)
    if isinstance(constraint, AverageError) and constraint.one_label:
        raise InputError(
            "target: expected one label a row, got many labels: use risk-control, which bounds the share of labels that is "
            "missed, or classwise"
        )
    at, labels = target.nonzero(as_tuple=True)
    shares = 1 / target.sum(1).double() if isinstance(constraint, Risk) else torch.ones(len(target), dtype=torch.float64)
    return at, labels, shares[at]


def _marked(at: torch.Tensor, labels: torch.Tensor, shape: tuple[int, ...]) -> Target:
    marks = torch.zeros(shape, dtype=torch.bool)
    marks[at, labels] = True
    return marks


def _with_rows_without_labels(found: Entries, ordering: Ordering, batch: Batch, weights: Weights) -> Entries:
    """And the rows without labels, of which no set misses any."""
    numbers = batch.row_numbers.cpu()
    bare = numbers[~torch.isin(numbers, torch.from_numpy(found.rows))]
    never = np.full(len(bare), -ordering.worst(), found.values.dtype)
    more = Entries(never, weights.of_rows(bare).numpy(), np.ones(len(bare)), np.full(len(bare), NO_LABEL), bare.numpy())
    return Entries.joined([found, more])
