"""What a rule needs of its calibration rows, and what it promises: both follow from its parts."""

from torch import Tensor

from shortlist.checks import decimal
from shortlist.fitting import Fitted
from shortlist.sets.constraints import Constraint
from shortlist.sets.gates import Gate
from shortlist.sets.orderings import Ordering


class Promises(Fitted):
    """Base of :class:`~shortlist.sets.SetRule`: what follows from the ordering, the constraint, the bounds and the gate."""

    ordering: Ordering
    constraint: Constraint
    gate: Gate | None
    least: int
    most: int | None
    threshold: Tensor | None

    @property
    def needs_fit(self) -> bool:
        """Whether anything is chosen on calibration rows: the threshold, unless it is given, or that of the gate."""
        return self.chooses_threshold or self.gate is not None

    @property
    def chooses_threshold(self) -> bool:
        """Whether the threshold is chosen on calibration rows, rather than given."""
        return self.constraint.fixed() is None

    @property
    def fitted(self) -> bool:
        """Whether the rule, and its gate if it has one, have their thresholds."""
        return self.threshold is not None and (self.gate is None or self.gate.fitted)

    @property
    def needs_labels(self) -> bool:
        """Whether the calibration rows must have labels."""
        return self.constraint.needs_labels or self.gate is not None

    @property
    def needs_prior(self) -> bool:
        """Whether the rule uses a class prior."""
        return self.ordering.needs_prior

    @property
    def needs_probabilities(self) -> bool:
        """Whether the rule needs probabilities, rather than any scores that rank the labels."""
        gated = self.gate is not None and self.gate.needs_probabilities
        return self.ordering.needs_probabilities or self.constraint.needs_probabilities or gated

    @property
    def needs_quality(self) -> bool:
        """Whether the gate compares rows by a quality that must be given with them."""
        return self.gate is not None and self.gate.needs_quality

    @property
    def alpha(self) -> float | None:
        """The allowed error, if the rule has one."""
        alpha = getattr(self.constraint, "alpha", None)
        return None if alpha is None else float(decimal("alpha", alpha))

    @property
    def k(self) -> int | float | None:
        """The size, or average size, of the sets, if the rule is given one."""
        k = getattr(self.constraint, "k", None)
        return k if k is None or isinstance(k, int | float) else float(decimal("k", k))

    @property
    def guarantee(self) -> str:
        """What the rule promises, and on what assumption, in one sentence."""
        parts = [self.constraint.guarantee.removesuffix(".")]
        if self.ordering.promise and self.constraint.takes_draws:
            parts.append(self.ordering.promise)
        if self.most is not None:
            parts.append(f"the cap of {self.most} may remove labels")
        if self.least:
            parts.append(f"the floor of {self.least} may add labels")
        if self.gate is not None:
            parts.append(f"all this for the rows that are answered: {self.gate.guarantee}")
        return "; ".join(parts) + "."
