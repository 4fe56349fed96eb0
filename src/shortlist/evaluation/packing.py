"""Numbers by row in few bytes: those that are whole, few or float32 are sent as such, and come back to the last bit."""

from collections.abc import Mapping

import numpy as np

from shortlist.leading_bits import narrow, steps
from shortlist.tensors import Array


def packed(numbers: Array) -> dict[str, Array]:
    """The same numbers, float64 (n,), as arrays of few bytes; for :func:`unpacked`.

    >>> {name: array.dtype.name for name, array in packed(np.array([3.0, 0.0, 250.0])).items()}
    {'values': 'uint8'}
    >>> {name: array.dtype.name for name, array in packed(np.array([0.0, 0.1, 0.0, 0.0])).items()}
    {'places': 'uint8', 'values': 'float64'}
    """
    places = np.flatnonzero(numbers.view(np.uint64))  # -0 is not left out
    whole = {"values": _narrowest(numbers)}
    if 2 * len(places) >= len(numbers):
        return whole
    few = {"places": steps(places), "values": _narrowest(numbers[places])}
    return min(few, whole, key=lambda arrays: sum(array.nbytes for array in arrays.values()))


def unpacked(arrays: Mapping[str, Array], length: int) -> Array:
    """The numbers that :func:`packed` gave.

    Args:
        arrays: what it gave.
        length: how many numbers they are.
    """
    if "places" not in arrays:
        return arrays["values"].astype(np.float64)
    found = np.zeros(length)
    found[np.cumsum(arrays["places"], dtype=np.int64)] = arrays["values"]
    return found


def _narrowest(numbers: Array) -> Array:
    """In the narrowest type in which they have the same bits."""
    if not len(numbers) or bool((np.abs(numbers) < 2.0**53).all()):
        whole = numbers.astype(np.int64)
        if _same_bits(whole, numbers):
            return narrow(whole)
    with np.errstate(over="ignore", invalid="ignore"):
        halves = (numbers.astype(kind) for kind in (np.float16, np.float32))
        return next((found for found in halves if _same_bits(found, numbers)), numbers)


def _same_bits(found: Array, numbers: Array) -> bool:
    return np.array_equal(found.astype(np.float64).view(np.uint64), numbers.view(np.uint64))
