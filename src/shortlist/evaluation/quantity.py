"""Quantity: a named number about an evaluation, its definition, and the group under which tables show it."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from shortlist.evaluation.evaluation import Evaluation

HEADLINE = "headline"
LONG_TAIL = "long tail"
GROUPS = ("sets", LONG_TAIL, "superclasses", "ranking", "calibration", "rows without a label")


def never(evaluation: Evaluation) -> bool:
    """For quantities that are not in the headline."""
    return False


def always(evaluation: Evaluation) -> bool:
    """For quantities that are in the headline wherever they are defined."""
    return True


@dataclass(frozen=True)
class Quantity:
    """A number about an evaluation.

    Args:
        name: key in records and columns.
        title: heading in tables; ``{n}`` stands for the evaluation's ``top_n``.
        definition: what it means, without a full stop; ``{n}`` as in the title, ``{bins}`` for the evaluation's
            ``calibration_bins``.
        value: computes it; None where it is not defined, NaN where there is nothing to measure.
        error: its standard error, where it has one.
        form: format specification.
        group: one of :data:`GROUPS`, under which tables show it.
        headline: whether it is among the few numbers of an evaluation that come first.
    """

    name: str
    title: str
    definition: str
    value: Callable[[Evaluation], float | None]
    error: Callable[[Evaluation], float] | None = None
    form: str = ".1%"
    group: str = "sets"
    headline: Callable[[Evaluation], bool] = never

    def heading(self, evaluation: Evaluation) -> str:
        """The title for this evaluation."""
        return self.title.format(n=evaluation.top_n)

    def meaning(self, evaluation: Evaluation) -> str:
        """The definition for this evaluation."""
        return self.definition.format(n=evaluation.top_n, bins=evaluation.calibration_bins)


def known(value: float | None) -> bool:
    """Whether there is a number: not None (undefined), not NaN (nothing to measure)."""
    return value is not None and not math.isnan(value)
