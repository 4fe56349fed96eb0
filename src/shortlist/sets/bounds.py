"""Bounds on the size of sets: a floor fills sets up, a cap cuts them."""

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.row_order import count_rows, keep_top
from shortlist.sets.orderings import Ordering
from shortlist.tensors import Probs, Sets


def checked_bounds(least: int, most: int | None) -> tuple[int, int | None]:
    """The floor and the cap of a rule; an error if no size is within both."""
    if most is not None and least > most:
        raise InputError(f"expected a floor up to the cap, got floor {least} and cap {most}")
    return least, most


def bounded(ordering: Ordering, probs: Probs, sets: Sets, least: int, most: int | None) -> Sets:
    """Sets with fewer than ``least`` labels filled up with the next most plausible, those with more than ``most`` cut."""
    sizes = count_rows(sets)
    short = (sizes < least).nonzero().squeeze(1)
    long = sizes[:0] if most is None else (sizes > most).nonzero().squeeze(1)
    if not len(short) and not len(long):
        return sets
    result = sets.clone()
    result[short] = keep_top(_plausible(ordering, probs[short]).masked_fill(sets[short], torch.inf), least)
    if most is not None:
        result[long] = keep_top(_plausible(ordering, probs[long]).masked_fill(~sets[long], -torch.inf), most)
    return result


def _plausible(ordering: Ordering, probs: Probs) -> Tensor:
    """Values of which larger are more plausible. Cumulative mass orders labels as p does, but rounding makes ties."""
    values: Tensor = ordering(probs) if ordering.descending else probs
    if values.isfinite().all():
        return values
    order = values.argsort(dim=1, descending=True, stable=True)  # places instead, so that an infinite fill ties with nothing
    return -order.argsort(dim=1).double()
