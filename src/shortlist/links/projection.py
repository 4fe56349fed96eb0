"""The link of the sparse-top loss: probabilities that are exactly 0 where the scores are low enough."""

import math

from shortlist.errors import InputError
from shortlist.links.link import Link
from shortlist.tensors import Probs, Scores


class SparseTop(Link):
    """The nearest point of ``{0 ≤ p ≤ 1, Σ p = k}``; with k = 1, sparsemax.

    >>> import torch
    >>> SparseTop().probs(torch.tensor([[1.0, 0.5, -3.0]]))
    tensor([[0.7500, 0.2500, 0.0000]])

    Garcin, thesis, section 6.2; Martins, Astudillo, "From softmax to sparsemax", 2016.
    """

    kind = "sparse-top"
    parameter_names = ("k",)

    def __init__(self, k: float = 1.0):
        super().__init__()
        if not 0 <= k < math.inf:
            raise InputError(f"k: expected a number from 0, got {k}")
        self.k = k

    def check_classes(self, classes: int) -> None:
        """There are as many labels to give."""
        if classes < self.k:
            raise InputError(f"{self}: expected scores of at least {self.k:g} classes, got {classes}")

    def _probs(self, scores: Scores) -> Probs:
        from shortlist.operators import sparse_top  # brings torch's compiler, a second that nobody else should wait for

        return sparse_top(scores, self.k)

    def _scores(self, probs: Probs) -> Scores:
        return probs
