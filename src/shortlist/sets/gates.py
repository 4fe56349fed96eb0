"""Gate: which rows are answered at all; the others are refused, because they hold nothing that the classifier knows.

A gate gives each row one number, by which rows with a label should rank above rows without one, and refuses the rows that do
not exceed a threshold. The number is computed from the probabilities of the row, or is a quality that is given with it. The
threshold is fitted on rows without a label alone, so rows with a label that pass are exchangeable, and the guarantee of a
conformal rule holds for the rows that are answered.
"""

import math
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import as_typed, decimal, one_of
from shortlist.errors import InputError
from shortlist.fitting import Fitted
from shortlist.leading_bits import BitCounts, first_round, ranked
from shortlist.predictions.checks import as_quality
from shortlist.rounds import Values, as_array, in_rounds
from shortlist.sets.batches import Batch, Batches
from shortlist.sets.ladder import Ladder, Scale
from shortlist.sets.weighting import Weights
from shortlist.tensors import Probs, Target, is_single_label, shape_of

RowMeasure: TypeAlias = Literal["confidence", "any-label"]
ROW_MEASURES = ("confidence", "any-label")
GateMeasure: TypeAlias = RowMeasure | Literal["quality", "sharpness"]
SHARPNESS = "sharpness"  # a quality that classifiers of pictures compute themselves
QUALITIES = ("quality", SHARPNESS)


def row_measure(probs: Probs, by: RowMeasure) -> Tensor:
    """One number for each row, by which rows with a label should rank above rows without one, float64 (N,).

    Args:
        probs: (N, C).
        by: ``confidence``, the largest probability of the row, or ``any-label``, the probability of at least one label if
            labels are independent, ``1 - Π (1 - p)``, as ``-log Π (1 - p)``, which does not round to 1.
    """
    if by == "confidence":
        return probs.amax(1).double()
    # Sorted, so that rows with the same probabilities in another order tie.
    return -torch.log1p(-probs.double().clamp(0, 1).sort(1).values).sum(1)  # rounding can leave some slightly above 1


class Gate(Fitted):
    """Refuses rows: of rows like the calibration rows without a label, at least a given share.

    Args:
        refuse: the share of rows without a label to refuse, between 0 and 1.
        by: what rows are compared by: a measure of their probabilities (see :func:`row_measure`), or ``quality`` or
            ``sharpness``, the quality that is given with them.

    Attributes:
        threshold: rows above it are accepted, float64 (); None before the fit.
    """

    threshold: Tensor | None

    def __init__(self, refuse: Any, by: GateMeasure = "confidence"):
        super().__init__()
        if not 0 < decimal("refuse", refuse) < 1:
            raise InputError(f"refuse: expected a share between 0 and 1, such as 0.95, got {refuse}")
        self.refuse = as_typed("refuse", refuse)
        self.by: GateMeasure = one_of(*ROW_MEASURES, *QUALITIES)("by", by)
        self.register_buffer("threshold", None)

    @property
    def text(self) -> str:
        """The modifier of a rule that has this gate."""
        return f"gate:{self.refuse}" + ("" if self.by == "confidence" else f":{self.by}")

    @property
    def fitted(self) -> bool:
        """Whether the gate has its threshold."""
        return self.threshold is not None

    @property
    def needs_quality(self) -> bool:
        """Whether rows are compared by a quality that must be given with them."""
        return self.by in QUALITIES

    @property
    def needs_probabilities(self) -> bool:
        """Whether rows are compared by their probabilities."""
        return not self.needs_quality

    @property
    def fewest_rows(self) -> int:
        """How many calibration rows without a label the gate needs."""
        share = decimal("refuse", self.refuse)
        return math.ceil(share / (1 - share))

    @property
    def guarantee(self) -> str:
        """What the gate promises, as the end of a sentence."""
        share = float(decimal("refuse", self.refuse))
        return f"a row like the calibration rows without a label is refused with probability at least {share:g}"

    def accepts(self, probs: Probs, quality: Tensor | None = None) -> Tensor:
        """Whether each row is answered, bool (N,).

        Args:
            probs: (N, C).
            quality: (N,), if rows are compared by it.
        """
        return self._measure(probs, quality) > self.fitted_buffer("threshold").to(probs.device)

    def _measure(self, probs: Probs, quality: Tensor | None) -> Tensor:
        """The number by which each row is compared, float64 (N,), on the device of its probabilities."""
        if self.by == "quality" or self.by == "sharpness":
            if quality is None:
                raise needs_quality(self.text)
            return as_quality(quality, len(probs)).to(probs.device)
        return row_measure(probs, self.by)

    def fit(self, batches: Batches, weights: Tensor | None = None) -> None:
        """Take the ``⌈(n + 1) · refuse⌉``-th smallest number of the n rows without a label as the threshold.

        Args:
            batches: calibration rows with and without a label.
            weights: what each of all rows counts for, float64 (N,): the threshold is then the first number up to which there is
                a share ``refuse`` of the weight of the rows without a label and of a new row as heavy as the heaviest.
        """
        if weights is not None:
            self.threshold = self._weighted(batches, weights)
            return
        read = lambda: map(self.values, batches.whole_rows())  # noqa: E731
        self.threshold = in_rounds(read, first_round(), self.step, repeatable=batches.repeatable)

    def values(self, batch: Batch) -> Values:
        """The numbers of the rows without a label, by which the threshold is chosen."""
        without = ~has_label(batch.labels)
        measured = self._measure(batch.probs, batch.quality)
        return Values(measured[without.to(measured.device)], len(batch.probs))

    def step(self, counts: BitCounts) -> BitCounts | Tensor:
        """The threshold from the counts of these numbers, or the next round."""
        if not counts.rows:
            raise InputError("probs: expected calibration rows, got none")
        rank = math.ceil((counts.seen + 1) * decimal("refuse", self.refuse))
        if rank > counts.seen:
            raise InputError(
                f"{self.text}: expected at least {self.fewest_rows:,} calibration rows without a label, got {counts.seen:,}"
            )
        place = ranked(counts, np.array([counts.seen + 1 - rank]))
        if not counts.resolved:
            return counts.opening(counts.codes[place])
        return torch.tensor(counts.values()[place[0]], dtype=torch.float64)

    def _weighted(self, batches: Batches, weights: Tensor) -> Tensor:
        found, own = [], []
        for batch in batches.whole_rows():
            found.append(as_array(self.values(batch).values))
            own.append(Weights(weights).of_rows(batch.row_numbers)[~has_label(batch.labels).cpu()].numpy())
        values, counted = np.concatenate([np.zeros(0), *found]), np.concatenate([np.zeros(0), *own])
        heaviest = float(weights.max())
        scale = Scale.of(heaviest, len(values))
        ladder = Ladder.of(values, scale.whole(counted), descending=False)
        [threshold] = ladder.quantiles(1 - decimal("refuse", self.refuse), [scale.one(heaviest)], np.inf)
        if threshold == np.inf:
            raise InputError(
                f"{self.text}: expected calibration rows without a label worth at least {self.fewest_rows:,} as heavy as the "
                f"heaviest row, got {counted.sum() / heaviest:,.1f}"
            )
        return torch.tensor(threshold, dtype=torch.float64)

    def config(self) -> dict[str, Any]:
        """The parameters, as JSON holds them."""
        return {"refuse": self.refuse, "by": self.by}

    def check_threshold(self) -> None:
        """Raise an error unless a threshold that was loaded can be one."""
        threshold = self.threshold
        if threshold is not None and (threshold.dtype != torch.float64 or threshold.ndim or bool(threshold.isnan())):
            raise InputError(f"gate.threshold: expected one float64 number, got {shape_of(threshold)}")


def needs_quality(what: str, do: str = "pass quality=, or batches (probs, target, quality)") -> InputError:
    """The error for rows without the quality that a gate compares them by.

    Args:
        what: the gate, or the rule behind it.
        do: what to do about it.
    """
    return InputError(f"{what}: expected a quality, one number for each row, got none: {do}")


def has_label(target: Target) -> Tensor:
    """Whether each row has a label, bool (N,); targets that cannot lack one are refused."""
    if is_single_label(target):
        raise InputError("target: expected bool (N, C), some rows of which have no label, for the gate; got one label a row")
    return target.any(1)


def none_accepted(gate: Gate) -> InputError:
    """The error for calibration rows that the gate refuses, all of them."""
    return InputError(
        f"{gate.text}: expected calibration rows with a label that the gate accepts, got none: it refuses all of them, "
        f"because rows without a label {'are as good' if gate.needs_quality else 'look as sure'}"
    )


def answered(batches: Batches, gate: Gate, *, one_label: bool, part: bool = False) -> Batches:
    """The rows with a label that the gate accepts, which a rule behind it is fitted on.

    Args:
        batches: calibration rows with and without a label.
        gate: fitted.
        one_label: whether the labels are given one a row; no row may have two.
        part: whether these are not all calibration rows, so that there need not be any that are accepted.
    """
    if not batches.repeatable and not part:
        raise InputError(
            f"probs: expected rows that can be read more than once, because {gate.text} is fitted first: pass a matrix, "
            "predictions or a function that starts a new pass; got an iterator"
        )

    def passes() -> Any:
        found = False
        for batch in batches.whole_rows():
            kept = has_label(batch.labels) & gate.accepts(batch.probs, batch.quality)
            found = found or bool(kept.any())
            rows = batch._replace(scores=None).rows(kept)
            yield rows._replace(target=_only_labels(rows.labels)) if one_label else rows
        if not found and not part:
            raise none_accepted(gate)

    return Batches(passes, probabilities=batches.probabilities, widen=batches.widen)


def _only_labels(target: Target) -> Target:
    """The label of each row, int64 (N,); rows with several are left as they are, and refused by the rule that needs one."""
    return target.int().argmax(1) if bool((target.sum(1) == 1).all()) else target
