"""The best possible accuracies: those of the optimal rules when the posterior is known."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from shortlist.errors import InputError
from shortlist.tensors import Array, as_tensor


@dataclass(frozen=True, eq=False, repr=False)
class Limits:
    """The best accuracies that any rule can reach, for sets of k labels and for sets of k labels on average.

    Args:
        k: the sizes, int64 (K,).
        top_k: of exactly k labels: the k most probable.
        average_k: of k labels on average: all above one threshold, a share of those at it.
        macro_top_k: the mean over classes, of exactly k labels: the k largest ratios of posterior to prior.
        macro_average_k: the mean over classes, of k labels on average.
        error: the standard error of each of these by name, from the sampling of observations; 0 where none were sampled.
    """

    k: Array
    top_k: Array
    average_k: Array
    macro_top_k: Array
    macro_average_k: Array
    error: dict[str, Array]

    def __repr__(self) -> str:
        rows = zip(self.k, self.top_k, self.average_k, strict=True)
        shown = "; ".join(f"k={k}: {top:.4f}, {average:.4f}" for k, top, average in rows)
        return f"Limits(top-k and average-k accuracy, {shown})"

    def rows(self) -> list[dict[str, float]]:
        """One row for each k, for a table."""
        names = ("top_k", "average_k", "macro_top_k", "macro_average_k")
        return [
            {"k": int(size)}
            | {name: float(getattr(self, name)[place]) for name in names}
            | {f"{name}_error": float(self.error[name][place]) for name in names}
            for place, size in enumerate(self.k)
        ]


def best_accuracies(posterior: Array | Tensor, prior: Array | Tensor, ks: Sequence[int], weight: Array | None = None) -> Limits:
    r"""The limits over observations with known posterior.

    For a set S(x) the accuracy is :math:`E \sum_{y \in S(x)} P(y|x)`, and the mean over classes
    :math:`E \sum_{y \in S(x)} P(y|x) / (C\, prior_y)`. Both add up over labels, so the best sets take the labels with the
    largest gain: k in each row, or, under a bound on the mean size, as many as fit, the most valuable first.

    Args:
        posterior: (N, C).
        prior: the probability of each class, (C,).
        ks: set sizes from 1 to C.
        weight: the probability of each observation where they are all there is; None for a sample.

    The standard error of a sample is that of a mean over its rows. Under a bound on the mean size the threshold λ is chosen on
    the same rows, and to first order the accuracy is the mean of gain - λ · (size - k): the error is taken of that.
    """
    posterior, prior = (as_tensor(values, "posterior").double().numpy() for values in (posterior, prior))
    _check(posterior, prior, weight)
    rows, classes = posterior.shape
    sizes = np.asarray(list(ks))
    if sizes.dtype.kind not in "iu" or not len(sizes) or sizes.min() < 1 or sizes.max() > classes:
        raise InputError(f"ks: expected set sizes from 1 to {classes}, got {list(ks)[:8]}")
    sampled = weight is None
    mass = np.full(rows, 1 / rows) if weight is None else weight
    macro = posterior / (classes * prior)
    curves: dict[str, Array] = {}
    error: dict[str, Array] = {}
    for name, gain in (("top_k", posterior), ("macro_top_k", macro)):
        of_row = np.cumsum(-np.sort(-gain, axis=1), axis=1)[:, sizes - 1]
        curves[name] = mass @ of_row
        error[name] = _standard_error(of_row) if sampled else np.zeros(len(sizes))
    for name, gain in (("average_k", posterior), ("macro_average_k", macro)):
        curves[name], error[name] = _of_average_size(gain, mass, sizes, sampled)
    return Limits(sizes, **curves, error=error)


def _check(posterior: Array, prior: Array, weight: Array | None) -> None:
    if posterior.ndim != 2 or not len(posterior) or prior.shape != posterior.shape[1:]:
        raise InputError(f"posterior, prior: expected (N, C) and (C,), N at least 1, got {posterior.shape} and {prior.shape}")
    if not (prior > 0).all():
        raise InputError("prior: expected a probability above 0 of every class, got one that is not: leave such classes out")
    if weight is not None and (weight.shape != posterior.shape[:1] or not np.isclose(weight.sum(), 1)):
        raise InputError("weight: expected a probability of each observation, which sum to 1")


def _of_average_size(gain: Array, mass: Array, sizes: Array, sampled: bool) -> tuple[Array, Array]:
    """Fill the mean size with the largest gains of all rows: a knapsack whose items may be split."""
    order = np.argsort(-gain, axis=None, kind="stable")
    row_of = order // gain.shape[1]
    filled = np.cumsum(mass[row_of])
    gained = np.cumsum(mass[row_of] * gain.ravel()[order])
    accuracy = np.interp(sizes, filled, gained)
    error = np.zeros(len(sizes))
    if sampled:
        for place, size in enumerate(sizes):
            threshold = gain.ravel()[order[min(int(np.searchsorted(filled, size)), len(order) - 1)]]
            error[place] = _standard_error(np.where(gain >= threshold, gain, 0).sum(1) - threshold * (gain >= threshold).sum(1))
    return accuracy, error


def _standard_error(values: Array) -> Array:
    found: Array = values.std(0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.full(values.shape[1:], np.inf)
    return found
