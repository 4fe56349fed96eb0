"""Orderings: how plausible each label of each row is. A rule returns the labels on the right side of its threshold.

There are two families. *Pointwise* orderings use one probability at a time (p, p over the prior). *Prefix* orderings
use the row in decreasing order of probability (rank, cumulative mass), so their sets are the first labels of the row; they
are in ``prefixes.py``.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from shortlist.class_names import by_class
from shortlist.errors import InputError
from shortlist.fitting import Fitted
from shortlist.sets.draws import CalibrationDraws, Digest, RowDraws, WholeShares
from shortlist.sets.kinds import RulePart
from shortlist.tensors import Probs, Sets, Target, as_tensor, blocks_of, is_single_label, pick, shape_of, working

if TYPE_CHECKING:
    from shortlist.sets.batches import Batch, Batches

NEAR = 2**18  # entries compared at once, so that they are still in the processor's cache
SMALLEST_PRIOR = 1e-30  # p / prior still fits into float32


class Weighed(NamedTuple):
    """What calibration rows count for, as whole numbers.

    Args:
        of: the number of each row of a batch, int64 (N,).
        new: that of a new row.
    """

    of: "Callable[[Batch], Tensor]"
    new: int


class Ordering(RulePart, Fitted):
    """Module, probs (N, C) → values (N, C) that say how plausible each label is.

    A subclass gives :meth:`forward`, and a ``kind`` under which rules that use it are saved and loaded.

    Attributes:
        descending: whether larger values are more plausible; otherwise smaller ones are.
        needs_probabilities: whether the values make sense for probabilities only, and not for scores that merely rank the
            labels.
        generator: the user's source of randomness of a randomised ordering, otherwise None.
        randomized: whether answers are drawn at random.
        promise: what drawing at random does to a guarantee of the constraint; empty if nothing.
        in_rounds: whether it can be fitted on rows in several places.

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
    promise: str = ""
    in_rounds: ClassVar[bool] = True

    def tuned(self, batches: "Batches", rank: Callable[[int], int], weighed: Weighed | None = None) -> "Batches":
        """Choose what the ordering leaves open on some of the calibration rows; returns the others, all by default.

        Args:
            batches: all calibration rows.
            rank: the conformal rank among n values, a function of n.
            weighed: what each row counts for; as much as a new row by default.
        """
        return batches

    def calibrating(self, batches: "Batches") -> "Batches":
        """The rows that :meth:`tuned` returned."""
        return batches

    def drawn(self, probs: Probs, draws: Tensor | None) -> Tensor:
        """The value of every label of every row with these draws, which an ordering without randomness does not have."""
        values: Tensor = self(probs)
        return values

    @property
    def randomized(self) -> bool:
        """Whether answers are drawn at random."""
        return self.generator is not None

    def calibration_draws(self, digest: Digest) -> CalibrationDraws:
        """The draws of calibration rows with this digest, to be taken from the values at their labels, if it is randomised."""
        raise TypeError(f"{type(self).__name__} does not define calibration_draws(digest)")

    def keep_draws(self, draws: CalibrationDraws) -> None:
        """Keep what new rows need of the draws of the calibration rows."""

    def of_answers(self) -> "Ordering":
        """What answers compare where nothing is drawn: this ordering, unless the calibration alone is randomised."""
        return self

    def row_draws(self) -> RowDraws | WholeShares | None:
        """Draws for new rows, one number a row, for :meth:`select`; None if not even the calibration is randomised."""
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

    def span(self, classes: int) -> tuple[float, float] | None:
        """The smallest and the largest value that a label can have; None (the default) if they are not known."""
        return None


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

    def span(self, classes: int) -> tuple[float, float]:
        """As declared by :class:`Ordering`: of probabilities, 0 and 1, or 1 over the smallest prior."""
        return 0.0, 1.0 if self.prior is None else 1.0 / float(self.prior.min())

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
        return pick(probs, target) if is_single_label(target) else probs[target]

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
