"""The k-th largest of each row, NaN if the row has one: ``topk`` takes NaN for the largest, and the k-th would hide it."""

import torch
from torch import Tensor


def kth_value(values: Tensor, k: int) -> Tensor:
    """The k-th largest of each row, (N,)."""
    largest = values.topk(k, dim=1).values
    return torch.where(largest[:, 0].isnan(), largest[:, 0], largest[:, -1])


def kth_place(values: Tensor, k: int, *, by_index: bool = False) -> Tensor:
    """The index of the k-th largest of each row, (N, 1); of a NaN, if the row has one.

    Args:
        values: (N, C).
        k: 1 to C.
        by_index: whether ties go by lower index; otherwise to any of them.
    """
    largest, places = values.topk(k, dim=1)
    place = _first_in_order(values, largest[:, -1:], k) if by_index else places[:, -1:]
    return torch.where(largest[:, :1].isnan(), places[:, :1], place)


def _first_in_order(values: Tensor, value: Tensor, k: int) -> Tensor:
    above = (values > value).sum(1, keepdim=True)
    # Among the entries equal to it, in order of index, it is the (k - above)-th.
    tied = values == value
    return (tied & (tied.cumsum(1) == k - above)).to(torch.uint8).argmax(1, keepdim=True)
