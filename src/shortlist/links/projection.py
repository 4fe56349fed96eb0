"""The link of the sparse-top loss: probabilities that are exactly 0 for low scores."""

from typing import ClassVar

from shortlist.checks import number
from shortlist.errors import InputError
from shortlist.links.link import Link
from shortlist.tensors import Probs, Scores


class SparseTop(Link):
    """The nearest point of ``{0 ≤ p ≤ 1, Σ p = k}``; sparsemax for k = 1.

    For rows with several labels, k has to be their number. Where it is not known, fit a link to the scores instead
    (:class:`~shortlist.links.Platt`), as training does.

    >>> import torch
    >>> SparseTop().probs(torch.tensor([[1.0, 0.5, -3.0]]))
    tensor([[0.7500, 0.2500, 0.0000]])

    Garcin, thesis, section 6.2; Martins, Astudillo, "From softmax to sparsemax", 2016.
    """

    kind = "sparse-top"
    domains: ClassVar = {"k": number(least=0)}
    parameter_names = tuple(domains)
    k: float

    def __init__(self, k: float = 1.0):
        super().__init__()
        self._set(k=k)

    def check_classes(self, classes: int) -> None:
        """Raise unless there are at least k classes."""
        if classes < self.k:
            raise InputError(f"{self}: expected scores of at least {self.k:g} classes, got {classes}")

    @property
    def exclusive(self) -> bool:
        """Whether k is 1: the probabilities of a row sum to k."""
        return self.k == 1

    def for_rows(self, *, single: bool) -> Link | None:
        """As declared by :class:`Link`: with k = 1 the labels of a row share one, which is wrong if it may have several."""
        return self if single or self.k != 1 else None

    def _probs(self, scores: Scores) -> Probs:
        from shortlist.operators import sparse_top  # loads torch's compiler, which takes a second

        return sparse_top(scores, self.k)

    def _scores(self, probs: Probs) -> Scores:
        return probs
