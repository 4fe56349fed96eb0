"""A classifier as a graph without branches on data: raw inputs → scores, probabilities, sets, for export.

Two things differ from the classifier itself; neither changes the results. Rules take the same steps for every row, where
:class:`~shortlist.sets.SetRule` takes shortcuts for rows that allow them. And elementary functions that runtimes compute less
accurately than torch (a logistic function that is 0 below -18, a literal ``log(1 + x)``) are written in terms of simpler ones
that every runtime computes well, and numbers beside float64 tensors as tensors, which the exporter does not round.
"""

import copy
import math
import struct
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from shortlist.data.focus import laplacian_variance
from shortlist.errors import InputError
from shortlist.links import Link, SparseTop
from shortlist.models.classifier import Classifier
from shortlist.models.quality import quality_for
from shortlist.sets import SetRule
from shortlist.sets.hierarchy import SurestNode
from shortlist.sets.orderings import GivenLevel, threshold_in_dtype
from shortlist.sets.prefixes import Prefix
from shortlist.tensors import Probs, Scores, Sets

HALVINGS = 28  # bisections of an interval of length 1: the rest is below the resolution of float32


class Graph(nn.Module):
    """Raw batch → ``(scores, probs, sets)``, without those the classifier lacks: a copy of it, on the CPU, in float32."""

    center: Tensor
    spread: Tensor

    def __init__(self, classifier: Classifier):
        super().__init__()
        check_exportable(classifier)
        self.outputs = outputs_of(classifier)
        self.network = copy.deepcopy(classifier.network).cpu().float().eval()
        self.link = None if classifier.link is None else plain_link(copy.deepcopy(classifier.link).cpu())
        self.rule = None if classifier.rule is None else GraphRule(copy.deepcopy(classifier.rule).cpu())
        self.raw = classifier.inputs.raw
        self.measures_sharpness = quality_for(classifier.rule, classifier.inputs, required=False) is not None
        self.takes_quality = takes_quality(classifier)
        for name, numbers in zip(("center", "spread"), classifier.inputs.standardisation(), strict=True):
            self.register_buffer(name, numbers[None])

    def forward(self, batch: Tensor, quality: Tensor | None = None) -> tuple[Tensor, ...]:
        """The tensors that :attr:`outputs` names, in that order; of a gate by sharpness the quality is computed here."""
        scores = self.network.label_scores(batch if self.raw else (batch.float() - self.center) / self.spread)
        found = [scores]
        with Careful():
            if self.link is not None:
                found.append(self.link.probs(scores))
            if self.rule is not None:
                found.append(self.rule(found[-1], laplacian_variance(batch) if self.measures_sharpness else quality))
        return tuple(found)


def outputs_of(classifier: Classifier) -> list[str]:
    """``scores``, ``probs`` where there is a link, ``sets`` where there is a rule."""
    parts = (("probs", classifier.link), ("sets", classifier.rule))
    return ["scores", *(name for name, part in parts if part is not None)]


def takes_quality(classifier: Classifier) -> bool:
    """Whether the graph has an input for the quality of rows, because it cannot be computed from the other one."""
    rule = classifier.rule
    return rule is not None and rule.needs_quality and quality_for(rule, classifier.inputs, required=False) is None


def check_exportable(classifier: Classifier) -> None:
    """Refuse a classifier whose answer is not a function of its input."""
    rule = classifier.rule
    if rule is not None and rule.ordering.randomized:
        raise InputError(
            f"cannot export {rule.text}: it is randomised, and a graph gives the same answer every time: fit it without "
            ":random (by default only the calibration is randomised)"
        )
    if classifier.link is not None:
        with torch.no_grad():  # raises if it has not been fitted
            classifier.link.probs(torch.zeros(1, len(classifier.classes), device=classifier.device))


class GraphRule(nn.Module):
    """A fitted rule, the same steps for every row."""

    threshold: Tensor

    def __init__(self, rule: SetRule):
        super().__init__()
        if rule.groups is not None:
            raise InputError(
                f"rule {rule.text}: expected a rule with one threshold for all rows, as the graph knows no groups: export "
                "without the rule, and apply it to the probabilities"
            )
        self.ordering, self.least, self.most, self.gate = rule.ordering, rule.least, rule.most, rule.gate
        exact = rule.fitted_buffer("threshold")
        if isinstance(rule.ordering, Prefix | SurestNode):  # whose values are float64
            threshold = exact
        elif isinstance(rule.ordering, GivenLevel):
            threshold = exact.float()
        else:
            threshold = threshold_in_dtype(exact, torch.float32, rule.ordering.descending)
        self.register_buffer("threshold", threshold)

    def forward(self, probs: Probs, quality: Tensor | None = None) -> Sets:
        """bool (N, C); with the quality of the rows, float64 (N,), if the gate compares them by it."""
        values: Tensor = self.ordering(probs)
        sets: Sets = values >= self.threshold if self.ordering.descending else values <= self.threshold
        size = sets.sum(1, keepdim=True)
        bounded: Sets = sets
        # By place, not by value: a value may be infinite, and tie with what is filled in.
        places = ranks_of(values if self.ordering.descending else probs) if self.least or self.most is not None else size
        if self.least:
            filled = ranks_of((-places).masked_fill(sets, 1)) < self.least
            bounded = _choose(size < self.least, filled, bounded)
        if self.most is not None:
            cut = ranks_of((-places).masked_fill(~sets, -probs.shape[1])) < self.most
            bounded = _choose(size > self.most, cut, bounded)
        if self.gate is None:
            return bounded
        accepted = self.gate.accepts(probs) if quality is None else quality > self.gate.fitted_buffer("threshold")
        return bounded & accepted[:, None]


def _choose(which: Tensor, one: Sets, other: Sets) -> Sets:
    """``where`` for booleans, which onnxruntime lacks."""
    return (which & one) | (~which & other)


def ranks_of(values: Tensor) -> Tensor:
    """0 for the largest of each row, 1 for the next, ties by lower index, (N, C)."""
    places = values.sort(dim=1, descending=True, stable=True).indices
    numbers = torch.arange(values.shape[1], device=values.device).expand(values.shape)
    return torch.zeros_like(places).scatter(1, places, numbers)


class PlainSparseTop(SparseTop):
    """The projection by a fixed number of bisections, where :func:`~shortlist.operators.sparse_top` stops early."""

    def _probs(self, scores: Scores) -> Probs:
        """``clip(scores - λ, 0, 1)`` with ``λ`` within 1 below the ⌈k⌉-th largest score."""
        classes = scores.shape[1]
        if self.k in (0, classes):
            return torch.zeros_like(scores) + float(self.k > 0)
        rank = max(1, math.ceil(self.k))
        exact = scores.double()
        shifted = exact - exact.topk(rank, dim=1).values[:, rank - 1 :]
        low = torch.zeros_like(shifted[:, :1]) - 1
        for step in range(1, HALVINGS + 1):
            middle = low + 0.5**step
            low = torch.where(_total(shifted, middle) > self.k, middle, low)
        # Straight on from there, which is exact where no score changes sides within so short a way.
        above, below = _total(shifted, low), _total(shifted, low + 0.5**HALVINGS)
        fall = above - below
        level = low + 0.5**HALVINGS * torch.where(fall > 0, (above - self.k) / torch.where(fall > 0, fall, 1.0), 0.0).clamp(
            0, 1
        )
        return (shifted - level).clamp(0, 1).to(scores.dtype)


def _total(scores: Tensor, level: Tensor) -> Tensor:
    """``Σ clip(scores - level, 0, 1)`` of each row, which falls with the level."""
    return (scores - level).clamp(0, 1).sum(1, keepdim=True)


def plain_link(link: Link) -> Link:
    """The same link, with whatever branches on data replaced, in itself and in the links that it is fitted on."""
    if type(link) is SparseTop:
        return PlainSparseTop(link.k)
    base = getattr(link, "base", None)
    if isinstance(base, Link):
        link.base = plain_link(base)
    return link


class Careful(TorchFunctionMode):
    """Inside, functions that runtimes compute inaccurately are replaced by simpler ones, and numbers keep their digits."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The function itself, or its replacement."""
        return SPELLED_OUT.get(func, func)(*_with_all_digits(args), **(kwargs or {}))


def _with_all_digits(args: Any) -> Any:
    """Arguments whose numbers beside a float64 tensor are tensors: the exporter writes any other number as float32.

    With it a label that lies exactly at the threshold would be beyond it: 1 + 0.1, with 0.1 in float32, is more than 1.1.
    """
    if not any(isinstance(one, Tensor) and one.dtype == torch.float64 for one in args):
        return args
    return tuple(torch.tensor(one, dtype=torch.float64) if _loses_digits(one) else one for one in args)


def _loses_digits(number: Any) -> bool:
    return isinstance(number, float) and math.isfinite(number) and struct.unpack("f", struct.pack("f", number))[0] != number


def sigmoid(x: Tensor) -> Tensor:
    """``1 / (1 + exp(-x))``; onnxruntime's own is wrong by its own size at -17, and 0 from -18 on, which makes ties."""
    return 1 / (1 + torch.exp(-x))


def log1p(x: Tensor) -> Tensor:
    """``log(1 + x)`` with every digit of a small x: what rounding takes off 1 + x is given back (Kahan)."""
    whole = 1 + x
    same = whole == 1
    return torch.where(same, x, torch.log(whole) * (x / torch.where(same, 1.0, whole - 1)))


def expm1(x: Tensor) -> Tensor:
    """``exp(x) - 1`` with every digit of a small x, likewise."""
    whole = torch.exp(x)
    same, far = whole == 1, whole - 1 == -1
    middle = (whole - 1) / torch.where(same | far, 1.0, torch.log(whole)) * x
    return torch.where(same, x, torch.where(far, -1.0, middle))


def logsigmoid(x: Tensor) -> Tensor:
    """``log σ(x)``, which does not end where σ is 0."""
    return x.clamp(max=0) - log1p(torch.exp(-x.abs()))


def logaddexp(one: Tensor, other: Tensor) -> Tensor:
    """``log(exp(one) + exp(other))``, which does not overflow."""
    return torch.maximum(one, other) + log1p(torch.exp(-(one - other).abs()))


def logsumexp(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """``log Σ exp(x)`` after the largest is taken off; of nothing but -∞, -∞."""
    largest = x.amax(dim, keepdim=True)
    largest = torch.where(largest == -torch.inf, 0.0, largest)
    total = torch.log(torch.exp(x - largest).sum(dim, keepdim=True)) + largest
    return total if keepdim else total.squeeze(dim)


def nan_to_num(x: Tensor, nan: float, posinf: float, neginf: float) -> Tensor:
    """Infinite numbers drawn in; what is not a number stays so, because links never ask for anything else."""
    assert math.isnan(nan)
    return torch.where(x == torch.inf, posinf, torch.where(x == -torch.inf, neginf, x))


def searchsorted(knots: Tensor, points: Tensor) -> Tensor:
    """How many knots of its row, (C, K) ascending, lie below each point, (C, M): by halves, the same steps for all."""
    width = knots.shape[1]
    below = torch.zeros_like(points, dtype=torch.int64)
    for step in (2**power for power in reversed(range(width.bit_length()))):
        reached = below + step
        inside = (reached <= width) & (knots.gather(1, reached.clamp(max=width) - 1) < points)
        below = torch.where(inside, reached, below)
    return below


SPELLED_OUT: dict[Any, Callable[..., Tensor]] = {
    torch.sigmoid: sigmoid,
    torch.log1p: log1p,
    torch.expm1: expm1,
    torch.nn.functional.logsigmoid: logsigmoid,
    torch.logaddexp: logaddexp,
    torch.logsumexp: logsumexp,
    Tensor.logsumexp: logsumexp,
    torch.nan_to_num: nan_to_num,
    torch.searchsorted: searchsorted,
}
