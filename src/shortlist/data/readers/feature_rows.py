"""Rows of features that can be used: a finite number in every one."""

from collections.abc import Sequence

import numpy as np

from shortlist.data.problems import Problem, check_tolerance
from shortlist.tensors import Array


def usable_rows(features: Array, ids: Sequence[str], names: Sequence[str], tolerance: float) -> tuple[Array, list[Problem]]:
    """Which rows have a finite number in every feature, bool (N,), and a problem for each that has not.

    Args:
        features: (N, D).
        ids: the name of each row.
        names: the names of the features.
        tolerance: the share of other rows above which this fails.

    >>> usable, problems = usable_rows(np.array([[1.0, np.nan], [0.0, 2.0]]), ["a", "b"], ["width", "height"], 0.5)
    >>> usable, str(problems[0])
    (array([False,  True]), "a: has no number in 'height': left out")
    """
    finite = np.isfinite(features)
    usable: Array = np.logical_and.reduce(finite, axis=1)
    failures = [
        Problem("row with a missing feature", ids[row], f"has no number in {names[int(finite[row].argmin())]!r}: left out")
        for row in np.flatnonzero(~usable).tolist()
    ]
    check_tolerance(failures, len(usable), tolerance, "rows")
    return usable, failures
