"""Orderings: how plausible each label of each row is. A rule returns the labels on the right side of its threshold.

There are two families. *Pointwise* orderings use one probability at a time (p, p over the prior). *Prefix* orderings
use the row in decreasing order of probability (rank, cumulative mass), so their sets are the first labels of the row; ties
are broken by lower index.
"""

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import SLACK, decimal, flag, optional, random_generator, whole
from shortlist.class_names import by_class
from shortlist.errors import InputError
from shortlist.fitting import Fitted
from shortlist.row_order import count_rows, keep_largest, keep_top, sort_rows
from shortlist.sets.draws import CalibrationDraws, Drawn, RowDraws
from shortlist.sets.kinds import RulePart
from shortlist.tensors import Probs, Sets, Target, as_tensor, blocks_of, is_single_label, pick, shape_of, working

NEAR = 2**18  # entries compared at once, so that they are still in the processor's cache
SMALLEST_PRIOR = 1e-30  # p / prior still fits into float32


class Ordering(RulePart, Fitted):
    """Module, probs (N, C) → values (N, C) that say how plausible each label is.

    A subclass gives :meth:`forward`, and a ``kind`` under which rules that use it are saved and loaded.

    Attributes:
        descending: whether larger values are more plausible; otherwise smaller ones are.
        needs_probabilities: whether the values make sense for probabilities only, and not for scores that merely rank the
            labels.
        generator: the user's source of randomness of a randomised ordering, otherwise None.
        randomized: whether values are drawn at random.

    >>> class LogOdds(Ordering):
    ...     kind = "log-odds"
    ...     descending = True
    ...     def forward(self, probs):
    ...         return torch.logit(probs)
    >>> LogOdds().config()
    {'kind': 'log-odds'}
    """

    role = "ordering"
    kinds: ClassVar[dict[str, type[Any]]] = {}
    descending = False
    needs_probabilities = True
    generator: torch.Generator | None = None

    @property
    def randomized(self) -> bool:
        """Whether values are drawn at random."""
        return self.generator is not None

    def calibration_draws(self) -> CalibrationDraws | None:
        """Draws to be taken from the values at the labels of calibration rows; None if nothing is."""
        return None

    def keep_draws(self, drawn: Drawn) -> None:
        """Keep what new rows need of the draws of the calibration rows."""

    def row_draws(self) -> RowDraws | None:
        """Draws for new rows, one number a row, for :meth:`select`; None if the ordering is not randomised."""
        return None

    def forward(self, probs: Probs) -> Tensor:
        """The value of every label of every row."""
        raise TypeError(f"{type(self).__name__} does not define forward(probs)")

    @property
    def needs_prior(self) -> bool:
        """Whether the values depend on a class prior."""
        return False

    def check_buffers(self) -> None:
        """Raise an error if a loaded buffer holds values that the constructor would have refused."""

    def at_labels(self, probs: Probs, target: Target) -> Tensor:
        """The values of the true labels, row by row, computed exactly as :meth:`select` computes them."""
        values: Tensor = self(probs)
        return values.gather(1, target[:, None]).squeeze(1) if is_single_label(target) else values[target]

    def select(self, probs: Probs, threshold: Tensor) -> Sets:
        """The labels within the threshold: one number, or one for each class. A randomised ordering also takes the draws."""
        sets = torch.empty(probs.shape, dtype=torch.bool, device=probs.device)
        compare = torch.ge if self.descending else torch.le
        for rows in blocks_of(probs, NEAR):
            values = working(self(probs[rows]))
            compare(values, threshold_in_dtype(threshold, values.dtype, self.descending), out=sets[rows])
        return sets

    def worst(self) -> float:
        """The threshold that every label passes."""
        return -torch.inf if self.descending else torch.inf


class Probability(Ordering):
    """p, or p over the class prior.

    Args:
        prior: shares of the classes, (C,), all above 0; None (the default) orders by p itself.
    """

    kind = "probability"
    parameter_names = ()  # the prior is a buffer
    descending = True
    prior: Tensor | None

    def __init__(self, prior: object = None):
        super().__init__()
        self.register_buffer("prior", None if prior is None else check_prior(prior))

    @property
    def needs_probabilities(self) -> bool:  # type: ignore[override]
        """True with a prior: scores cannot be divided by one."""
        return self.needs_prior

    @property
    def needs_prior(self) -> bool:
        """Whether there is a prior."""
        return self.prior is not None

    def check_buffers(self) -> None:
        """As declared by :class:`Ordering`."""
        if self.prior is not None:
            check_prior(self.prior)

    def forward(self, probs: Probs) -> Tensor:
        """``probs``, or ``probs / prior``."""
        if self.prior is None:
            return probs
        if len(self.prior) != probs.shape[1]:
            raise InputError(f"prior: expected one number for each of {probs.shape[1]} classes, got {len(self.prior)}")
        values = working(probs)  # p / prior of a rare class overflows float16
        return values / self.prior.to(values.dtype)

    def at_labels(self, probs: Probs, target: Target) -> Tensor:
        """As declared by :class:`Ordering`; without a prior only the entries at the labels are looked at."""
        if self.prior is not None:
            return super().at_labels(probs, target)
        return working(pick(probs, target) if is_single_label(target) else probs[target])

    def select(self, probs: Probs, threshold: Tensor) -> Sets:
        """As declared by :class:`Ordering`; without a prior there is nothing to compute first."""
        if self.prior is not None:
            return super().select(probs, threshold)
        values = working(probs)
        return values >= threshold_in_dtype(threshold, values.dtype, self.descending)


class GivenLevel(Probability):
    """p, compared with a probability that was stated by the user rather than fitted.

    >>> GivenLevel().select(torch.tensor([[0.2, 0.7]]), torch.tensor(0.7, dtype=torch.float64))
    tensor([[False,  True]])
    """

    kind = "given-level"
    needs_probabilities = True

    def __init__(self) -> None:
        super().__init__()

    def select(self, probs: Probs, threshold: Tensor) -> Sets:
        """As declared by :class:`Ordering`; the threshold is rounded like the probabilities, so that 0.7 ≥ 0.7 in any dtype."""
        return probs >= threshold.to(probs.dtype)


class Prefix(Ordering):
    """Base of orderings whose sets are the first labels of the row by decreasing probability; subclasses give :meth:`steps`."""

    def steps(self, ordered: Tensor) -> Tensor:
        """The value of the first, second, … label of each row, non-decreasing, from probabilities in decreasing order."""
        raise TypeError(f"{type(self).__name__} does not define steps(ordered)")

    def _drawn_steps(self, ordered: Tensor, draws: Tensor | None) -> Tensor:
        return self.steps(ordered) if draws is None else self.steps(ordered) - draws * ordered

    def forward(self, probs: Probs) -> Tensor:
        """The values in the places of their labels."""
        return self._drawn_values(probs, self._draws(probs))

    def _draws(self, probs: Probs) -> Tensor | None:
        draws = self.row_draws()
        return None if draws is None else draws(probs)

    def _drawn_values(self, probs: Probs, draws: Tensor | None) -> Tensor:
        ordered, places = probs.sort(dim=1, descending=True, stable=True)
        steps = self._drawn_steps(ordered, draws)
        return torch.empty_like(steps).scatter_(1, places, steps)

    def at_labels(self, probs: Probs, target: Target) -> Tensor:
        """As declared by :class:`Ordering`, without what is drawn, which :meth:`calibration_draws` is for.

        For one label a row, values are sorted without their indices, which is faster.
        """
        if not is_single_label(target):
            return self._drawn_values(probs, None)[target]
        values = torch.empty(len(probs), dtype=torch.float64, device=probs.device)
        for rows in blocks_of(probs):
            steps = self.steps(sort_rows(probs[rows], descending=True))
            values[rows] = steps.gather(1, ranks(probs[rows], target[rows]) - 1).squeeze(1)
        return values

    def select(self, probs: Probs, threshold: Tensor, draws: Tensor | None = None) -> Sets:
        """As declared by :class:`Ordering`.

        Args:
            probs: (N, C).
            threshold: one number, or one for each class.
            draws: for each row the share of a label's probability to subtract, (N, 1), if the ordering is randomised; drawn
                for these rows by default.
        """
        sets = torch.empty(probs.shape, dtype=torch.bool, device=probs.device)
        draws = self._draws(probs) if draws is None else draws
        for rows in blocks_of(probs):
            drawn = None if draws is None else draws[rows]
            if threshold.ndim:
                sets[rows] = self._drawn_values(probs[rows], drawn) <= threshold
                continue
            ordered = sort_rows(probs[rows], descending=True)
            counts = count_rows(self._drawn_steps(ordered, drawn) <= threshold)
            sets[rows] = keep_first(probs[rows], ordered, counts)
        return sets


class Rank(Prefix):
    """1 for the most probable label, 2 for the next, …"""

    kind = "rank"
    needs_probabilities = False

    def steps(self, ordered: Tensor) -> Tensor:
        """``1, 2, …, C``."""
        return torch.arange(1, ordered.shape[1] + 1, device=ordered.device, dtype=torch.float64).expand(ordered.shape)

    def select(self, probs: Probs, threshold: Tensor, draws: Tensor | None = None) -> Sets:
        """As declared by :class:`Ordering`; a partial sort is enough."""
        if threshold.ndim or not probs.numel():
            return super().select(probs, threshold, draws)
        return keep_top(probs, int(threshold.clamp(max=probs.shape[1])))


class MassAbove(Prefix):
    """The total probability of all labels that are more probable than this one."""

    kind = "mass-above"

    def steps(self, ordered: Tensor) -> Tensor:
        """``0, p₁, p₁ + p₂, …`` in float64."""
        total = ordered.cumsum(1, dtype=torch.float64)
        return torch.cat([torch.zeros_like(total[:, :1]), total[:, :-1]], dim=1)


class CumulativeMass(Prefix):
    """The total probability of all labels up to and including this one, plus ``penalty`` for each rank beyond ``k_reg``.

    Rows that sum to 1 up to rounding are divided by their sum, so that the last label has exactly 1.

    A randomised ordering subtracts a uniform share of the label's own probability, one draw a row: sets are then smaller and
    their coverage exact. See :mod:`shortlist.sets.draws` for where the draws come from.

    Args:
        penalty: added for each rank beyond ``k_reg``; 0 by default.
        k_reg: number of labels without a penalty; 0 by default.
        generator: makes the ordering randomised. With a seed, draws follow from the seed, the calibration rows and the row;
            a torch or numpy generator is drawn from in turn, so that two calls give different sets.
        randomized: whether to draw; true if a generator is given, and otherwise false by default. True without a generator
            is the same as the seed 0.
    """

    kind = "cumulative-mass"
    parameter_names = ("penalty", "k_reg", "randomized")
    seed: Tensor | None

    def __init__(self, penalty: float = 0.0, k_reg: int = 0, generator: Any = None, randomized: bool | None = None):
        super().__init__()
        self.penalty = float(decimal("penalty", penalty))
        if self.penalty < 0:
            raise InputError(f"penalty: expected a number from 0, got {penalty}")
        self.k_reg = whole(0)("k_reg", k_reg)
        self._randomized = optional(flag)("randomized", randomized) or generator is not None
        if generator is not None and randomized is False:
            raise InputError("generator: expected None with randomized=False, got a generator")
        seeded = random_generator("generator", generator)
        given = isinstance(generator, torch.Generator | np.random.Generator)
        self.generator, self._start = (seeded, 0) if given else (None, 0 if seeded is None else seeded.initial_seed())
        self.register_buffer("seed", None)  # of the draws of new rows; the fit chooses it

    @property
    def randomized(self) -> bool:
        """Whether the ordering draws random numbers."""
        return self._randomized

    def check_buffers(self) -> None:
        """As declared by :class:`Ordering`."""
        if self.seed is not None and (self.seed.dtype != torch.int64 or self.seed.ndim or not self.randomized):
            wanted = "int64 ()" if self.randomized else "none without randomness"
            raise InputError(f"seed: expected {wanted}, got {shape_of(self.seed)}")

    def calibration_draws(self) -> CalibrationDraws | None:
        """As declared by :class:`Ordering`."""
        return CalibrationDraws(self._start, self.generator) if self.randomized else None

    def keep_draws(self, drawn: Drawn) -> None:
        """As declared by :class:`Ordering`."""
        self.seed = drawn.seed

    def row_draws(self) -> RowDraws | None:
        """As declared by :class:`Ordering`."""
        if not self.randomized:
            return None
        return RowDraws(torch.zeros((), dtype=torch.int64) if self.seed is None else self.seed, self.generator)

    def steps(self, ordered: Tensor) -> Tensor:
        """``p₁, p₁ + p₂, …`` with the penalty, in float64."""
        total = ordered.cumsum(1, dtype=torch.float64)
        whole = total[:, -1:]
        total = total / torch.where((whole - 1).abs() <= SLACK, whole, 1.0)
        if self.penalty:
            rank = torch.arange(1, ordered.shape[1] + 1, device=ordered.device, dtype=torch.float64)
            total = total + self.penalty * (rank - self.k_reg).clamp(min=0)
        return total


def threshold_in_dtype(threshold: Tensor, dtype: torch.dtype, descending: bool) -> Tensor:
    """The threshold in the dtype of the values, rounded in the direction that lets in no additional label.

    Args:
        threshold: float64.
        dtype: the dtype of the values.
        descending: whether values at or above the threshold are selected, or those at or below it.

    >>> exact = torch.tensor(0.7, dtype=torch.float64)
    >>> bool(threshold_in_dtype(exact, torch.float32, descending=True).double() >= exact)
    True
    """
    rounded = threshold.to(dtype)
    loose = rounded < threshold if descending else rounded > threshold
    towards = torch.full_like(rounded, torch.inf if descending else -torch.inf)
    return torch.where(loose, torch.nextafter(rounded, towards), rounded)


def check_prior(prior: object) -> Tensor:
    """The prior as a float64 tensor (C,) with all entries above 0."""
    prior = by_class("prior", prior)
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
    rank = count_rows(probs > own) + 1
    tied = (count_rows(probs >= own) > rank).nonzero().squeeze(1)  # another label has the same probability
    if len(tied):
        earlier = torch.arange(probs.shape[1], device=probs.device) < label[tied]
        rank[tied] += count_rows((probs[tied] == own[tied]) & earlier)
    return rank[:, None]


def keep_first(probs: Probs, ordered: Tensor, counts: Tensor) -> Sets:
    """The ``counts[i]`` most probable labels of row i, given the row's values in decreasing order."""
    infinite = torch.full_like(ordered[:, :1], torch.inf)
    edges = torch.cat([infinite, ordered, -infinite], dim=1)
    cutoff, following = edges.gather(1, counts[:, None]), edges.gather(1, counts[:, None] + 1)
    return keep_largest(probs, counts, cutoff.squeeze(1), following.squeeze(1))
