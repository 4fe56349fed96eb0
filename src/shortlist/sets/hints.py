"""Hints on what rules are fitted on: values that are probabilities on another scale, and networks too confident for a rule."""

import warnings

from torch import Tensor

from shortlist.checks import decimal
from shortlist.errors import ShortlistWarning
from shortlist.sets.batches import Batches
from shortlist.sets.constraints import ENOUGH, Constraint
from shortlist.sets.orderings import Ordering
from shortlist.sets.prefixes import CumulativeMass
from shortlist.sets.scales import other_scale
from shortlist.sets.sizes import SizeSummary
from shortlist.tensors import is_single_label

MANY = 2.0  # labels in an average set that are too many where one would do
ALMOST_ALL = 0.99  # mass beyond which labels are added that the classifier all but excludes


def warn_of_scale(probs: Tensor) -> None:
    """Warn if values that a rule only orders the labels by are probabilities on another scale."""
    scale = other_scale(probs)
    if scale is not None:
        warnings.warn(
            f"probs: {scale}; a threshold that is fitted on one scale does not apply to the other",
            ShortlistWarning,
            stacklevel=4,
        )


def notes_on_mass(
    ordering: Ordering, constraint: Constraint, batches: Batches, threshold: Tensor | None, sizes: SizeSummary
) -> tuple[str, ...]:
    """A note if cumulative mass returns labels of almost no probability where the most probable label alone would do.

    Args:
        ordering: of the rule; notes are on plain cumulative mass alone (``aps``).
        constraint: of the rule, with its ``alpha``.
        batches: the calibration rows.
        threshold: what was fitted on them.
        sizes: those of their sets.
    """
    plain = isinstance(ordering, CumulativeMass) and not ordering.penalty and not ordering.randomized
    alpha = getattr(constraint, "alpha", None)
    mass = None if threshold is None or threshold.numel() != 1 else float(threshold)
    if not plain or alpha is None or mass is None or mass <= ALMOST_ALL or sizes.mean < MANY or not batches.repeatable:
        return ()
    rows = right = 0
    for probs, target in batches.labelled():
        if not is_single_label(target):
            return ()
        rows, right = rows + len(target), right + int((probs.argmax(1) == target).sum())
    if rows < ENOUGH or right < (1 - decimal("alpha", alpha)) * rows:
        return ()
    return (
        f"the most probable label alone is right in {right / rows:.1%} of the calibration rows, yet sets hold "
        f"{sizes.mean:.3g} on average, up to a mass of {mass:.6g}, most of almost no probability: lac:{alpha} or "
        f"aps:{alpha}:random gives smaller sets",
    )
