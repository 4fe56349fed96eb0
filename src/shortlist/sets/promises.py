"""What a rule needs of its calibration rows, and what it promises: both follow from its parts."""

from typing import Any

from torch import Tensor

from shortlist.checks import decimal
from shortlist.fitting import Fitted
from shortlist.sets.constraints import Constraint
from shortlist.sets.gates import Gate
from shortlist.sets.groups import Groups
from shortlist.sets.orderings import Ordering
from shortlist.sets.weighting import MEANINGS, Weighting

# Values of the calibration rows, if they are asked for: in order, with their labels, weights and groups, and the weight of a
# new row.
KEPT = ("kept", "kept_labels", "kept_weights", "kept_new", "kept_groups")


class Promises(Fitted):
    """Base of :class:`~shortlist.sets.SetRule`: what follows from the ordering, the constraint, the bounds and the gate."""

    ordering: Ordering
    constraint: Constraint
    gate: Gate | None
    groups: Groups | None
    weighting: Weighting
    least: int
    most: int | None
    threshold: Tensor | None
    kept: Tensor | None
    kept_labels: Tensor | None
    kept_weights: Tensor | None
    kept_new: Tensor | None
    kept_groups: Tensor | None
    text: str

    def __init__(self) -> None:
        super().__init__()
        for name in KEPT:
            self.register_buffer(name, None)

    def forget_kept(self) -> None:
        """Keep no values of calibration rows."""
        self.kept = self.kept_labels = self.kept_weights = self.kept_new = self.kept_groups = None

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
        parts = (part for part in (self.gate, self.groups) if part is not None)
        return self.threshold is not None and all(part.fitted for part in parts)

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
        shrunk = self.groups is not None and self.groups.shrink is not None  # an infinite threshold counts as 0 or 1
        return self.ordering.needs_probabilities or self.constraint.needs_probabilities or gated or shrunk

    @property
    def needs_quality(self) -> bool:
        """Whether the gate compares rows by a quality that must be given with them."""
        return self.gate is not None and self.gate.needs_quality

    @property
    def column(self) -> str | None:
        """The column that holds the group of each row, if the rule has groups that are a column."""
        return None if self.groups is None or self.groups.predicted else self.groups.column

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
        kind = self.weighting.kind
        parts = [self.constraint.guarantee.removesuffix(".")]
        if kind is not None:
            parts.append(MEANINGS[kind])
        if self.ordering.promise and self.constraint.takes_draws:
            parts.append(self.ordering.promise)
        if self.groups is not None:
            parts.append(self.groups.guarantee(self.constraint, weighted=kind not in (None, "votes")))
        if self.most is not None:
            parts.append(f"the cap of {self.most} may remove labels")
        if self.least:
            parts.append(f"the floor of {self.least} may add labels")
        if self.gate is not None:
            parts.append(f"all this for the rows that are answered: {self.gate.guarantee}")
        return "; ".join(parts) + "."

    def p_values(self, probs: Any, weights: Any = None, groups: Any = None) -> Any:
        """The p-value of every label, float64 (N, C), of a conformal rule that was fitted with ``keep=True``.

        It is the share of values at least as extreme as that of the label, among those of the calibration rows and itself:
        ``(1 + #{calibration values at least as extreme}) / (n + 1)``. Before the cap, the floor and the gate, a label is in the
        set if and only if its p-value exceeds alpha. Class by class, values are compared with those of the rows of that class,
        and by group with those of the group, where it has a threshold of its own, else with those of all rows.
        Where calibration rows count by weights, so do these shares, and the new row counts by its own weight.

        Args:
            probs: as for the rule itself; the answer has the same form.
            weights: as for the rule itself: by default a new row counts as much as the heaviest calibration row.
            groups: as for the rule itself.

        >>> from shortlist.sets import lac
        >>> rule = lac(0.5).fit([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [0, 1, 1], keep=True)
        >>> rule.p_values([[0.85, 0.15]])
        array([[0.75, 0.25]])
        """
        from shortlist.sets.p_values import p_values
        from shortlist.sets.rule import SetRule

        assert isinstance(self, SetRule)
        return p_values(self, probs, weights, groups)

    def __repr__(self) -> str:
        threshold = self._buffers["threshold"]
        if threshold is None:
            return f"{type(self).__name__}({self.text}, not fitted)"
        if threshold.ndim:
            return f"{type(self).__name__}({self.text}, {len(threshold)} thresholds)"
        return f"{type(self).__name__}({self.text}, threshold {threshold.item():.6g})"
