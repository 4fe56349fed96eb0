"""How much calibration rows with weights still tell, and the refusal where that is too little."""

import numpy as np

from shortlist.errors import InputError
from shortlist.sets import effective_sample_size
from shortlist.tensors import Array

LEAST = 100  # rows of equal weight


def enough_rows(weights: Array, least: float = LEAST, missing: float = 0.0) -> float:
    """The effective number of rows with these weights; an error if it is below ``least``.

    Args:
        weights: of the calibration rows, (N,).
        least: the number that is needed.
        missing: the share of the new rows for which no calibration row speaks, which counts as one more row.

    >>> enough_rows(np.array([2.0, 1.0]), least=1)
    1.8
    >>> enough_rows(np.array([2.0, 1.0]))
    Traceback (most recent call last):
    shortlist.errors.InputError: calibration: 2 rows count like 2 among the new ones, at least 100 are needed: they are too \
different to re-weight; label some new rows, or pass least= to accept it
    """
    found = effective_sample_size(np.append(weights * ((1 - missing) / weights.sum()), missing) if missing else weights)
    if found < least:
        unlike = f", {missing:.1%} of which look like none of them" if missing else ""
        raise InputError(
            f"calibration: {len(weights)} rows count like {found:.0f} among the new ones{unlike}, at least {least:g} are "
            "needed: they are too different to re-weight; label some new rows, or pass least= to accept it"
        )
    return found
