"""SetRule: the labels within a threshold, the threshold chosen by a constraint, the size kept within bounds."""

import warnings
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from shortlist.checks import check_values, flag
from shortlist.errors import InputError, ShortlistWarning
from shortlist.predictions import Predictions
from shortlist.predictions.checks import as_quality
from shortlist.predictions.columns import as_column
from shortlist.row_names import check_same_rows
from shortlist.sets.batches import Batches, Progress, Source, as_probs, check_no_groups, check_no_quality, like_probs
from shortlist.sets.bounds import bounded, checked_bounds
from shortlist.sets.constraints import Constraint, check_threshold
from shortlist.sets.gates import Gate, needs_quality
from shortlist.sets.group_search import fit_by_group
from shortlist.sets.groups import Groups, needs_groups, select_by_group
from shortlist.sets.hints import notes_on_mass, warn_of_scale
from shortlist.sets.in_rounds import FittedInRounds
from shortlist.sets.orderings import Ordering
from shortlist.sets.origin import check_same_origin, origin_of
from shortlist.sets.sizes import SizeSummary
from shortlist.sets.weighted_fit import check_takes, fit_gate, fit_weighted, without_votes
from shortlist.sets.weighting import Weighting, Weights, as_weights, checked_weights, votes_among
from shortlist.tensors import Array, Sets, as_tensor

if TYPE_CHECKING:
    from shortlist.sets.blocks import SetsInBlocks


class SetRule(FittedInRounds):
    """Module, probs (N, C) → sets bool (N, C): the labels whose ordering is within the threshold.

    Args:
        text: the rule as text, by which reports name it; :func:`~shortlist.sets.parse_rule` reads it if it is registered.
        ordering: how plausible each label is.
        constraint: what the threshold is chosen for.
        least: the smallest size of a set (``floor``); 0 by default.
        most: the largest size of a set (``cap``); None (the default) is no limit.
        gate: refuses rows, which get an empty set whatever ``least`` says; None (the default) answers every row.
        groups: which column rows are grouped by, each group with a threshold of its own; None (the default) has one for all.

    Attributes:
        threshold: the threshold, float64, () or (C,); None before the fit.
        notes: what the user should know about the last fit.
        calibrated: the sizes of the sets on the calibration rows; None before a fit, and if they could be read only once.
        origin: the number of classes of the calibration rows, their names and link where they are known; None before a fit.
        fitted_labels: the number of labels that the threshold was chosen on, () or (C,), if a guarantee depends on it; see
            :func:`~shortlist.sets.coverage_law`.
        fitted_ties: how many more of these labels are within the threshold than were needed, because they tie with the last
            one, () or (C,); -1 if none more are, but those that were needed tie; None where that is not known.
    """

    threshold: Tensor | None
    notes: tuple[str, ...]
    calibrated: SizeSummary | None
    origin: dict[str, Any] | None
    fitted_labels: Tensor | None
    fitted_ties: Tensor | None

    def __init__(
        self,
        text: str,
        ordering: Ordering,
        constraint: Constraint,
        least: int = 0,
        most: int | None = None,
        gate: Gate | None = None,
        groups: Groups | None = None,
    ):
        super().__init__()
        if not isinstance(ordering, Ordering):
            raise InputError(f"ordering: expected an Ordering, got {type(ordering).__name__}")
        if not isinstance(constraint, Constraint):
            raise InputError(f"constraint: expected a Constraint, got {type(constraint).__name__}")
        self.text, self.ordering, self.constraint, self.gate = text, ordering, constraint, gate
        self.groups, self.weighting = groups, Weighting()
        self.least, self.most = checked_bounds(least, most)
        self.notes, self.calibrated, self.origin = (), None, None
        self.fitted_labels = self.fitted_ties = None
        fixed = constraint.fixed()
        self.register_buffer("threshold", None if fixed is None else torch.tensor(fixed, dtype=torch.float64))

    @torch.no_grad()
    def fit(
        self,
        probs: Source,
        target: Any = None,
        *,
        quality: Any = None,
        groups: Any = None,
        weights: Any = None,
        class_weights: Any = None,
        progress: Progress | None = None,
        keep: bool = False,
    ) -> Self:
        """Choose the threshold on calibration rows, and measure the sizes of the sets there.

        The sizes are kept in :attr:`calibrated`; if the sets of new rows are larger or smaller than that by more than chance,
        the new rows come from elsewhere. A rule without anything to fit is only measured.

        A gate is fitted on the rows without a label; the threshold is then chosen, and the sizes measured, on the rows with a
        label that it accepts. If anything of this fails, the rule and its gate stay as they were.

        Args:
            probs: probabilities (N, C) as a tensor, an array, a data frame or a nested list; predictions; batches of
                ``probs``, ``(probs, target)``, ``(probs, target, quality)`` or ``(probs, target, quality, groups)``, such as a
                ``DataLoader``; or a function that starts a new pass over batches.
            target: labels of the rows of a matrix, if the rule needs them; or votes for each label, float (N, C), also beside
                predictions: every label that has votes then counts by its share of them.
            quality: one number for each row of a matrix, if the gate compares rows by it.
            groups: the group of each row of a matrix, texts or numbers, if the rule has a threshold for each; an empty text is
                a row whose group is not known.
            weights: what each row counts for, numbers from 0, (N,): how much more often rows like it are among new rows than
                among the calibration rows. Conformal rules, risk control, per-label and
                average-k take them.
            class_weights: the same by class, (C,), where new rows differ in the shares of their classes.
            progress: callback, called with the number of rows read so far; every pass over the rows starts from 0.
            keep: whether a conformal rule keeps the values of its calibration rows, for :meth:`p_values`; saved with the rule.
        """
        if isinstance(probs, Predictions):
            check_no_quality(quality, probs)
            check_no_groups(groups, probs)
            self.check_reads(probs)
        self._check_wants(groups)
        target, votes = votes_among(target)
        kind = {"probabilities": self.needs_probabilities, "widen": self.needs_fit}
        from shortlist.sets.p_values import keep_values

        batches = Batches(probs, target, progress, quality=quality, groups=groups, column=self.column, **kind)
        check_same_rows(probs, weights, "weights")
        known = batches.whole if batches.whole is not None else probs.scores if isinstance(probs, Predictions) else None
        shape = None if known is None else (len(known), known.shape[1])
        names = probs.classes if isinstance(probs, Predictions) else batches.names
        gated = self.gate is not None
        counted = checked_weights(weights, class_weights, votes, names, shape, some_without=gated)
        check_takes(self.text, self.constraint, self.gate, batches, counted)
        if batches.whole is not None and self.chooses_threshold and not self.needs_probabilities:
            warn_of_scale(batches.whole)
        with self.whole_or_not():
            self._fit(batches, probs, counted)
            self.forget_kept()
            if flag("keep", keep):
                keep_values(self, batches, counted)
            for note in self.notes:
                # One frame up is the wrapper that torch.no_grad puts around this method, the next is the caller.
                warnings.warn(f"{self.text}: {note}", ShortlistWarning, stacklevel=3)
        return self

    def _fit(self, rows: Batches, probs: Source, weights: Weights | None) -> None:
        from shortlist.sets.blocks import measured

        batches = rows if self.gate is None else fit_gate(self.gate, self.constraint, rows, weights)
        if self.chooses_threshold:
            self._choose_threshold(batches, probs.device if isinstance(probs, Tensor) else torch.device("cpu"), weights)
        else:
            self.weighting.keep(None if weights is None else weights.kind)
        if weights is not None:
            weights.check_rows(rows.rows)
        known = weights is None and (batches.repeatable or not self.needs_fit)  # sizes on other rows say nothing about new ones
        self.calibrated = measured(self, batches) if known else None
        if self.calibrated is not None and not self.notes:
            self.notes = notes_on_mass(self.ordering, self.constraint, batches, self.threshold, self.calibrated)
        self.origin = None  # a rule without a fit goes with any link and any number of classes
        if self.needs_fit:
            self.origin = {"classes": rows.classes, **origin_of(probs, rows.names)}

    def _choose_threshold(self, batches: Batches, device: torch.device, weights: Weights | None) -> None:
        weights = weights if self.constraint.needs_labels or self.gate is None else without_votes(weights)
        if weights is not None:
            found = fit_weighted(self.constraint, self.ordering, batches, weights, self.weighting, self.groups)
        elif self.groups is None:
            self.weighting.keep(None)
            found = self.constraint.fit(self.ordering, batches)
        else:
            found = fit_by_group(self.groups, self.constraint, self.ordering, batches)
        threshold = as_tensor(found.threshold, "threshold").double()
        check_threshold(threshold, self.constraint, batches.classes, by_class=self.weighting.kind == "classes")
        self.threshold, self.notes = threshold.to(device), tuple(found.notes)
        self.fitted_labels, self.fitted_ties = found.labels, found.tied

    def check_reads(self, predictions: Predictions) -> None:
        """Raise an error if the rule needs probabilities, or a quality, that these predictions do not have."""
        if predictions.link is None and self.needs_probabilities:
            raise InputError(
                f"the scores cannot be interpreted as probabilities, which {self.text} needs: set the link they were trained "
                "for (softmax, sigmoid, …), or identity if they are probabilities"
            )
        if self.needs_quality and predictions.quality is None:
            raise needs_quality(self.text, "use predictions.with_quality(…)")
        if self.column is not None and self.column not in predictions.columns:
            raise needs_groups(self.text, self.column)

    def check_origin(self, predictions: Predictions) -> None:
        """Raise an error if these predictions have other classes or another link than the calibration rows."""
        check_same_origin(self.text, self.origin, predictions)
        self._say_unknown(self.groups_in(predictions), len(predictions))

    def groups_in(self, predictions: Predictions) -> Array | None:
        """The group of each of these rows, if the rule has groups that are a column."""
        return None if self.column is None else predictions.columns.get(self.column)

    def checked_groups(self, probs: Any, groups: Any, rows: int) -> Array | None:
        """The group of each of so many rows that were given as a matrix; unknown ones are told."""
        self._check_wants(groups)
        check_same_rows(probs, groups, "groups")
        found = None if groups is None else as_column(groups, rows, "groups")
        self._say_unknown(found, rows)
        return found

    def _check_wants(self, groups: Any) -> None:
        """Raise an error if groups are given to a rule that would ignore them."""
        if groups is not None and self.column is None:
            how = "their most probable labels are the groups" if self.groups is not None else f"add them with {self.text},by:…"
            raise InputError(f"groups: expected None, because {self.text} has no threshold for each of them, got some: {how}")

    def _say_unknown(self, groups: Any, rows: int) -> None:
        sentence = None if self.groups is None or groups is None else self.groups.unknown(groups, rows)
        if sentence:
            warnings.warn(f"{self.text}: {sentence}", ShortlistWarning, stacklevel=5)

    def size_shift(self, reached: SizeSummary) -> str | None:
        """A sentence if sets of new rows are larger or smaller than on the calibration rows by more than chance, or None.

        None for a rule behind a gate, too: how many of its new rows should be refused is not known.
        """
        return None if self.calibrated is None or self.gate is not None else reached.shift_from(self.calibrated)

    @torch.no_grad()
    def forward(self, probs: Any, quality: Any = None, groups: Any = None, weights: Any = None) -> Any:
        """The sets, bool (N, C).

        Args:
            probs: probabilities (N, C), without NaN, or predictions. Rules that only order the labels (``needs_probabilities``
                is false) take any scores.
            quality: one number for each row, (N,), if the gate compares rows by it; predictions bring their own.
            groups: the group of each row, N texts or numbers, if the rule has a threshold for each; predictions bring their
                own. Rows of other groups than the calibration rows are answered by the common threshold, with a warning.
            weights: what each row counts for, (N,), if the rule was fitted with weights: each is then compared with the
                threshold for its own weight. By default a new row counts as much as the heaviest calibration row.

        Returns:
            A tensor for a tensor and for predictions, a data frame for a pandas data frame, otherwise a numpy array.
        """
        if isinstance(probs, Predictions):
            check_no_quality(quality, probs)
            check_no_groups(groups, probs)
            self.check_reads(probs)
            self.check_origin(probs)
            own = None if weights is None else as_weights(weights, shape=(len(probs),), only_zeros=True)
            return self.in_blocks()(as_probs(probs.plausibility()), probs.scores, probs.quality, self.groups_in(probs), own)
        values = as_probs(probs)
        check_same_rows(probs, quality, "quality")
        quality = None if quality is None else as_quality(quality, len(values))
        groups = self.checked_groups(probs, groups, len(values))
        self.check_classes(values)
        check_same_origin(self.text, self.origin, probs)
        check_values(values, "probabilities" if self.needs_probabilities else "scores")
        if self.chooses_threshold and not self.needs_probabilities:
            warn_of_scale(values)
        check_same_rows(probs, weights, "weights")
        own = None if weights is None else as_weights(weights, shape=(len(values),), only_zeros=True)
        sets = self.in_blocks()(values, None, quality, groups, own)
        return like_probs(sets, probs)

    def check_classes(self, probs: Tensor) -> None:
        """Raise an error if the calibration rows had another number of classes."""
        fitted_on = None if self.origin is None else self.origin.get("classes")
        if fitted_on is not None and probs.ndim == 2 and probs.shape[1] != fitted_on:
            raise InputError(f"probs: {self.text} was fitted on {fitted_on} classes, got {probs.shape[1]}")

    def predict(self, probs: Any, quality: Any = None, groups: Any = None, weights: Any = None) -> Any:
        """The sets, bool (N, C): the same as calling the rule.

        >>> from shortlist.sets import top_k
        >>> top_k(2).predict([[0.2, 0.5, 0.3]])
        array([[False,  True,  True]])
        """
        return self(probs, quality, groups, weights)

    def in_blocks(self) -> "SetsInBlocks":
        """A function that gives the sets of rows that come a block at a time, the same as those of all rows in one call."""
        from shortlist.sets.blocks import SetsInBlocks

        return SetsInBlocks(self)

    def sets(
        self, probs: Tensor, draws: Tensor | None = None, quality: Tensor | None = None, groups: Array | None = None
    ) -> Sets:
        """The sets of values that have been checked already, such as those of :class:`~shortlist.Predictions`.

        Args:
            probs: (N, C).
            draws: one random number for each row, (N, 1), for a randomised rule; drawn for these rows by default.
            quality: (N,), if the gate compares rows by it.
            groups: the group of each row, (N,), if there is a threshold for each.
        """
        return self.gated(probs, self.bounded(probs, self.unbounded(probs, draws, groups)), quality)

    def unbounded(
        self, probs: Tensor, draws: Tensor | None = None, groups: Array | None = None, weights: Tensor | None = None
    ) -> Sets:
        """The sets before the cap, the floor and the gate."""
        threshold = self.fitted_buffer("threshold")
        if threshold.ndim and len(threshold) != probs.shape[1]:
            raise InputError(f"probs: the rule was fitted for {len(threshold)} classes, got {probs.shape[1]}")
        if not self.chooses_threshold:
            self.constraint.check_classes(probs.shape[1])
        if self.groups is not None:
            every = torch.cat([self.groups.fitted_buffer("thresholds").to(threshold.device), threshold[None]])
            codes = self.groups.codes(groups, probs)
            return select_by_group(self.ordering, probs, self.constraint.limit(every), codes, draws)
        if weights is not None:
            level = getattr(self.constraint, "level", Fraction(1))
            limits, codes = self.weighting.limits(weights, level, self.ordering.worst())
            return select_by_group(self.ordering, probs, self.constraint.limit(limits), codes, draws)
        drawn = () if draws is None else (draws,)  # an ordering that draws nothing need not know of draws
        return self.ordering.select(probs, self.constraint.limit(threshold).to(probs.device), *drawn)

    def bounded(self, probs: Tensor, sets: Sets) -> Sets:
        """These sets after the cap and the floor."""
        if self.least > probs.shape[1]:
            raise InputError(f"floor: expected at most the number of classes, {probs.shape[1]}, got {self.least}")
        if not self.least and self.most is None:
            return sets
        return bounded(self.ordering, probs, sets, self.least, self.most)

    def gated(self, probs: Tensor, sets: Sets, quality: Tensor | None = None) -> Sets:
        """These sets without those of the rows that the gate refuses, which are empty."""
        return sets if self.gate is None else sets & self.gate.accepts(probs, quality)[:, None]

    def bounded_by(self, text: str, *, least: int | None = None, most: int | None = None) -> "SetRule":
        """The same rule with another bound on the size of its sets."""
        rule = self.twin()
        rule.text = f"{self.text},{text}"
        limits = [bound for bound in (self.most, most) if bound is not None]
        rule.least, rule.most = checked_bounds(max(self.least, least or 0), min(limits, default=None))
        rule.calibrated = None  # the sizes of other sets
        return rule

    def behind(self, gate: Gate) -> "SetRule":
        """The same rule, which answers only the rows that the gate accepts."""
        rule = self.twin()
        rule.text, rule.gate = f"{self.text},{gate.text}", gate
        rule._forget()  # of other rows
        return rule

    def under(self, text: str, constraint: Constraint) -> "SetRule":
        """The same rule with another constraint, not fitted yet."""
        gate, groups = self.gate and self.gate.twin(), self.groups and self.groups.twin()
        return SetRule(f"{self.text},{text}", self.ordering.twin(), constraint, self.least, self.most, gate, groups)

    def by_group(self, groups: Groups) -> "SetRule":
        """The same rule with a threshold for each of these groups."""
        rule = self.twin()
        rule.text, rule.groups = f"{self.text},{groups.text}", groups
        rule._forget()
        return rule

    def _forget(self) -> None:
        self.weighting.keep(None)
        if self.chooses_threshold:
            self._buffers["threshold"], self.origin, self.fitted_labels, self.fitted_ties = None, None, None, None
        self.calibrated = None

    def record(self) -> dict[str, Any]:
        """The rule without its tensors (its state dict), as JSON holds it; for :func:`~shortlist.sets.rule_from_record`."""
        return {
            "text": self.text,
            "ordering": self.ordering.config(),
            "constraint": self.constraint.config(),
            "least": self.least,
            "most": self.most,
            "gate": None if self.gate is None else self.gate.config(),
            "groups": None if self.groups is None else self.groups.config(),
            "weighting": self.weighting.kind,
            "tensors": sorted(self.state_dict()),
            "notes": list(self.notes),
            "origin": self.origin,
            "calibrated": None if self.calibrated is None else self.calibrated.record(),
            "labels": None if self.fitted_labels is None else self.fitted_labels.tolist(),
        } | ({} if self.fitted_ties is None else {"tied": self.fitted_ties.tolist()})  # a rule that was saved before has none

    def save(self, path: str | Path) -> None:
        """Write the rule and its threshold as one safetensors file."""
        from shortlist.sets.storage import save_rule

        save_rule(self, path)

    @staticmethod
    def load(path: str | Path) -> "SetRule":
        """The rule that :meth:`save` wrote; a module that defines its ordering or constraint must have been imported."""
        from shortlist.sets.storage import load_rule

        return load_rule(path)
