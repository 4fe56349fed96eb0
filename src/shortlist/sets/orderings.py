"""Orderings: how plausible each label of each row is. A rule returns the labels on the right side of its threshold.

Two families. *Pointwise* orderings look at one probability at a time (p, p over the prior, 1 - p). *Prefix* orderings look
at the row in decreasing order of probability (rank, cumulative mass), so their sets are the first labels of the row; ties
are broken by lower index.
"""

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.fitting import Fitted
from shortlist.selection import count_rows, keep_largest, keep_top, sort_rows
from shortlist.tensors import Probs, Sets, Target, as_tensor, is_single_label, pick, row_blocks, shape_of, working

# Entries whose values are still near the processor when they are compared.
NEAR = 2**18
SMALLEST_PRIOR = 1e-30  # whose quotients float32 still holds


class Ordering(Fitted):
    """probs (N, C) → values (N, C); ``descending`` says that larger values are more plausible."""

    descending = False
    needs_probabilities = True  # false where any increasing function of them, such as the scores, serves as well

    def forward(self, probs: Probs) -> Tensor:
        """The value of every label of every row."""
        raise TypeError(f"{type(self).__name__} does not say how it orders")

    def at_labels(self, probs: Probs, target: Target) -> Tensor:
        """The values of the true labels, row by row, each by the very expression that :meth:`select` compares."""
        values: Tensor = self(probs)
        return values.gather(1, target[:, None]).squeeze(1) if is_single_label(target) else values[target]

    def select(self, probs: Probs, threshold: Tensor) -> Sets:
        """The labels within the threshold: one number, or one for each class."""
        sets = torch.empty(probs.shape, dtype=torch.bool, device=probs.device)
        compare = torch.ge if self.descending else torch.le
        for rows in row_blocks(len(probs), probs.shape[1], NEAR):
            values = working(self(probs[rows]))
            compare(values, threshold_in_dtype(threshold, values.dtype, self.descending), out=sets[rows])
        return sets

    def worst(self) -> float:
        """The threshold that every label passes."""
        return -torch.inf if self.descending else torch.inf


class Probability(Ordering):
    """p, or p over the class prior: the more, the more plausible."""

    descending = True
    prior: Tensor | None

    def __init__(self, prior: object = None):
        super().__init__()
        self.register_buffer("prior", None if prior is None else check_prior(prior))
        self.needs_probabilities = prior is not None

    def forward(self, probs: Probs) -> Tensor:
        """``probs``, or ``probs / prior``."""
        if self.prior is None:
            return probs
        if len(self.prior) != probs.shape[1]:
            raise InputError(f"prior: expected one number for each of {probs.shape[1]} classes, got {len(self.prior)}")
        values = working(probs)  # a rare class's quotient has no place in float16
        return values / self.prior.to(values.dtype)

    def select(self, probs: Probs, threshold: Tensor) -> Sets:
        """As declared by :class:`Ordering`; without a prior there is nothing to compute first."""
        if self.prior is not None:
            return super().select(probs, threshold)
        values = working(probs)
        return values >= threshold_in_dtype(threshold, values.dtype, self.descending)


class GivenLevel(Probability):
    """p against a probability that a person named, so p must be one.

    >>> GivenLevel().select(torch.tensor([[0.2, 0.7]]), torch.tensor(0.7, dtype=torch.float64))
    tensor([[False,  True]])
    """

    def __init__(self) -> None:
        super().__init__()
        self.needs_probabilities = True

    def select(self, probs: Probs, threshold: Tensor) -> Sets:
        """As declared by :class:`Ordering`, by the threshold rounded as the probabilities are: 0.7 is within 0.7 in all."""
        return probs >= threshold.to(probs.dtype)


class Improbability(Ordering):
    """1 - p, the non-conformity of LAC."""

    needs_probabilities = False

    def forward(self, probs: Probs) -> Tensor:
        """``1 - probs``."""
        return 1 - working(probs)

    def at_labels(self, probs: Probs, target: Target) -> Tensor:
        """As declared by :class:`Ordering`; only the entries that are asked for are computed."""
        return 1 - working(pick(probs, target) if is_single_label(target) else probs[target])


class Prefix(Ordering):
    """An ordering whose sets are the first labels of the row, by decreasing probability."""

    def steps(self, ordered: Tensor) -> Tensor:
        """The value of the first, second, … label of each row, non-decreasing, from probabilities in decreasing order."""
        raise TypeError(f"{type(self).__name__} does not say how it orders")

    def forward(self, probs: Probs) -> Tensor:
        """The values in the places of their labels."""
        ordered, places = probs.sort(dim=1, descending=True, stable=True)
        steps = self.steps(ordered)
        return torch.empty_like(steps).scatter_(1, places, steps)

    def at_labels(self, probs: Probs, target: Target) -> Tensor:
        """As declared by :class:`Ordering`; for one label a row without carrying places through the sort."""
        if not is_single_label(target):
            return super().at_labels(probs, target)
        values = torch.empty(len(probs), dtype=torch.float64, device=probs.device)
        for rows in row_blocks(*probs.shape):
            steps = self.steps(sort_rows(probs[rows], descending=True))
            values[rows] = steps.gather(1, ranks(probs[rows], target[rows]) - 1).squeeze(1)
        return values

    def select(self, probs: Probs, threshold: Tensor) -> Sets:
        """As declared by :class:`Ordering`."""
        if threshold.ndim:
            return super().select(probs, threshold)
        sets = torch.empty(probs.shape, dtype=torch.bool, device=probs.device)
        for rows in row_blocks(*probs.shape):
            ordered = sort_rows(probs[rows], descending=True)
            counts = count_rows(self.steps(ordered) <= threshold)
            sets[rows] = keep_first(probs[rows], ordered, counts)
        return sets


class Rank(Prefix):
    """1 for the most probable label, 2 for the next."""

    needs_probabilities = False

    def steps(self, ordered: Tensor) -> Tensor:
        """``1, 2, …, C``."""
        return torch.arange(1, ordered.shape[1] + 1, device=ordered.device, dtype=torch.float64).expand(ordered.shape)

    def select(self, probs: Probs, threshold: Tensor) -> Sets:
        """The threshold's number of labels; none of the others needs sorting."""
        if threshold.ndim or not probs.numel():
            return super().select(probs, threshold)
        return keep_top(probs, int(threshold.clamp(max=probs.shape[1])))


class MassAbove(Prefix):
    """The probability of all labels that are more plausible than this one."""

    def steps(self, ordered: Tensor) -> Tensor:
        """``0, p₁, p₁ + p₂, …`` in float64."""
        total = ordered.cumsum(1, dtype=torch.float64)
        return torch.cat([torch.zeros_like(total[:, :1]), total[:, :-1]], dim=1)


class CumulativeMass(Prefix):
    """The probability of all labels up to and with this one, and ``penalty`` for each rank beyond ``k_reg``.

    With a generator, a uniform share of the label's own probability is left out, one draw a row: the sets are then smaller
    and their coverage exact, and two calls answer differently.
    """

    def __init__(self, penalty: float = 0.0, k_reg: int = 0, generator: torch.Generator | None = None):
        super().__init__()
        self.penalty, self.k_reg, self.generator = penalty, k_reg, generator

    def steps(self, ordered: Tensor) -> Tensor:
        """``p₁, p₁ + p₂, …`` with the penalty, in float64."""
        total = ordered.cumsum(1, dtype=torch.float64)
        if self.generator is not None:
            draw = torch.rand(len(ordered), 1, generator=self.generator, dtype=torch.float64, device=self.generator.device)
            total = total - draw.to(ordered.device) * ordered
        if self.penalty:
            rank = torch.arange(1, ordered.shape[1] + 1, device=ordered.device, dtype=torch.float64)
            total = total + self.penalty * (rank - self.k_reg).clamp(min=0)
        return total


def threshold_in_dtype(threshold: Tensor, dtype: torch.dtype, descending: bool) -> Tensor:
    """The threshold as the values compare with it: where rounding to their dtype would let in more, the next number.

    Args:
        threshold: float64.
        dtype: of the values.
        descending: whether values from the threshold up are within it, or values up to it.

    >>> exact = torch.tensor(0.7, dtype=torch.float64)
    >>> bool(threshold_in_dtype(exact, torch.float32, descending=True).double() >= exact)
    True
    """
    rounded = threshold.to(dtype)
    loose = rounded < threshold if descending else rounded > threshold
    towards = torch.full_like(rounded, torch.inf if descending else -torch.inf)
    return torch.where(loose, torch.nextafter(rounded, towards), rounded)


def check_prior(prior: object) -> Tensor:
    """A prior as a float64 tensor (C,) with everything above 0."""
    values = as_tensor(np.asarray(prior, np.float64) if isinstance(prior, list | tuple) else prior, "prior").double()
    if values.ndim != 1:
        raise InputError(f"prior: expected one number for each class, (C,), got {shape_of(values)}")
    wrong = ~(values >= SMALLEST_PRIOR) | ~values.isfinite()
    if wrong.any():
        label = int(wrong.nonzero()[0])
        raise InputError(f"prior: expected numbers above 0 (from 1e-30), got {values[label]:g} for class {label}")
    return values


def ranks(probs: Probs, target: Target) -> Tensor:
    """The rank of the true label of each row, from 1, ties by lower index, (N, 1)."""
    label = target[:, None]
    own = probs.gather(1, label)
    reached = count_rows(probs >= own)
    rank = count_rows(probs > own) + 1
    tied = (reached > rank).nonzero().squeeze(1)  # somebody else has the same probability
    if len(tied):
        earlier = torch.arange(probs.shape[1], device=probs.device) < label[tied]
        rank[tied] += count_rows((probs[tied] == own[tied]) & earlier)
    return rank[:, None]


def keep_first(probs: Probs, ordered: Tensor, counts: Tensor) -> Sets:
    """The counts[i] most probable labels of row i, given the row's (largest) values in decreasing order."""
    infinite = torch.full_like(ordered[:, :1], torch.inf)
    edges = torch.cat([infinite, ordered, -infinite], dim=1)
    cutoff, following = edges.gather(1, counts[:, None]), edges.gather(1, counts[:, None] + 1)
    return keep_largest(probs, counts, cutoff.squeeze(1), following.squeeze(1))


def bounded(ordering: Ordering, probs: Probs, sets: Sets, least: int, most: int | None) -> Sets:
    """The sets filled up with the most plausible others to the least size, and cut to the most plausible at the most."""
    sizes = count_rows(sets)
    short = (sizes < least).nonzero().squeeze(1)
    long = sizes[:0] if most is None else (sizes > most).nonzero().squeeze(1)
    if not len(short) and not len(long):
        return sets
    result = sets.clone()
    result[short] = keep_top(_plausible(ordering, probs[short]).masked_fill(sets[short], torch.inf), least)
    if most is not None:
        result[long] = keep_top(_plausible(ordering, probs[long]).masked_fill(~sets[long], -torch.inf), most)
    return result


def _plausible(ordering: Ordering, probs: Probs) -> Tensor:
    """Larger is more plausible. 1 - p and cumulative mass order labels as p does, but round small probabilities to ties."""
    values: Tensor = ordering(probs) if ordering.descending else probs
    return values
