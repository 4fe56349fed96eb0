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
    if not watches_mass(ordering, constraint, threshold) or not batches.repeatable:
        return ()
    rows = right = 0
    for probs, target in batches.labelled() if sizes.mean >= MANY else ():
        if not is_single_label(target):
            return ()
        rows, right = rows + len(target), right + int((probs.argmax(1) == target).sum())
    return mass_note(constraint, threshold, sizes, rows, right)


def watches_mass(ordering: Ordering, constraint: Constraint, threshold: Tensor | None) -> bool:
    """Whether :func:`mass_note` may have something to say."""
    plain = isinstance(ordering, CumulativeMass) and not ordering.penalty and ordering.row_draws() is None
    return plain and getattr(constraint, "alpha", None) is not None and _mass(threshold) > ALMOST_ALL


def _mass(threshold: Tensor | None) -> float:
    return 0.0 if threshold is None or threshold.numel() != 1 else float(threshold)


def mass_note(constraint: Constraint, threshold: Tensor | None, sizes: SizeSummary, rows: int, right: int) -> tuple[str, ...]:
    """The note of :func:`notes_on_mass`.

    Args:
        constraint: of the rule.
        threshold: what was fitted.
        sizes: of the sets of the calibration rows.
        rows: the number of calibration rows; 0 if it does not matter, or they do not have one label each.
        right: the number of these whose most probable label is right.
    """
    alpha = getattr(constraint, "alpha", None)
    if alpha is None or sizes.mean < MANY or rows < ENOUGH or right < (1 - decimal("alpha", alpha)) * rows:
        return ()
    return (
        f"the most probable label alone is right in {right / rows:.1%} of the calibration rows, yet sets hold "
        f"{sizes.mean:.3g} on average, up to a mass of {_mass(threshold):.6g}, most of almost no probability: lac:{alpha} or "
        f"aps:{alpha}, without :deterministic, gives smaller sets",
    )
