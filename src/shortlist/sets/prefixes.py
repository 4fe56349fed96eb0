"""Orderings by the row in decreasing order of probability: rank, cumulative mass. Ties are broken by lower index."""

from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import SLACK, decimal, flag, optional, random_generator, whole
from shortlist.errors import InputError
from shortlist.kernels.choice import fused
from shortlist.kernels.prefix import Mass, exact_cumsum, prefix_sets, prefix_values
from shortlist.row_order import count_rows, keep_largest, keep_top, sort_rows
from shortlist.sets.draws import CalibrationDraws, Digest, RowDraws, WholeShares
from shortlist.sets.orderings import Ordering
from shortlist.tensors import Probs, Sets, Target, blocks_of, by_device, is_single_label, shape_of
from shortlist.words import shown

Randomized: TypeAlias = bool | Literal["calibration"] | None


class Prefix(Ordering):
    """Base of orderings whose sets are the first labels of the row by decreasing probability; subclasses give :meth:`steps`."""

    mass: Mass | None = None  # the same values for the GPU kernels, if they can be computed without sorting

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "steps" in cls.__dict__ and "mass" not in cls.__dict__:
            cls.mass = None  # other values than those of the parent

    def steps(self, ordered: Tensor) -> Tensor:
        """The value of the first, second, … label of each row, non-decreasing, from probabilities in decreasing order."""
        raise TypeError(f"{type(self).__name__} does not define steps(ordered)")

    def _drawn_steps(self, ordered: Tensor, draws: Tensor | None) -> Tensor:
        return self.steps(ordered) if draws is None else self.steps(ordered) - draws * ordered

    def forward(self, probs: Probs) -> Tensor:
        """The values in the places of their labels."""
        return self.drawn(probs, self._draws(probs))

    def _draws(self, probs: Probs) -> Tensor | None:
        draws = self.row_draws()
        return None if draws is None else draws(probs)

    def drawn(self, probs: Probs, draws: Tensor | None) -> Tensor:
        """As declared by :class:`Ordering`."""
        ordered, places = probs.sort(dim=1, descending=True, stable=True)
        steps = self._drawn_steps(ordered, draws)
        return torch.empty_like(steps).scatter_(1, places, steps)

    def at_labels(self, probs: Probs, target: Target) -> Tensor:
        """As declared by :class:`Ordering`, without what is drawn, which :meth:`calibration_draws` is for.

        For one label a row, values are sorted without their indices, which is faster.
        """
        if self.mass is not None and fused("prefix", probs):
            places, labels = (None, target) if is_single_label(target) else target.nonzero(as_tuple=True)
            return prefix_values(probs, places, labels, *self.mass)
        if not is_single_label(target):
            return self.drawn(probs, None)[target]
        values = torch.empty(len(probs), dtype=torch.float64, device=probs.device)
        for rows in blocks_of(probs):
            steps = self.steps(sort_rows(probs[rows], descending=True))
            values[rows] = steps.gather(1, ranks(probs[rows], target[rows]) - 1).squeeze(1)
        return values

    def select(self, probs: Probs, threshold: Tensor, draws: Tensor | None = None) -> Sets:
        """As declared by :class:`Ordering`.

        Args:
            probs: (N, C).
            threshold: one number, or one for each class.
            draws: for each row the share of a label's probability to subtract, (N, 1), if the ordering is randomised; drawn
                for these rows by default.
        """
        draws = self._draws(probs) if draws is None else draws
        if self.mass is not None and not threshold.ndim and fused("prefix", probs):
            return prefix_sets(probs, threshold, draws, *self.mass)
        sets = torch.empty(probs.shape, dtype=torch.bool, device=probs.device)
        for rows in blocks_of(probs):
            drawn = None if draws is None else draws[rows]
            if threshold.ndim:
                sets[rows] = self.drawn(probs[rows], drawn) <= threshold
                continue
            ordered = sort_rows(probs[rows], descending=True)
            counts = count_rows(self._drawn_steps(ordered, drawn) <= threshold)
            sets[rows] = keep_first(probs[rows], ordered, counts)
        return sets


class Rank(Prefix):
    """1 for the most probable label, 2 for the next, …"""

    kind = "rank"
    needs_probabilities = False

    def steps(self, ordered: Tensor) -> Tensor:
        """``1, 2, …, C``."""
        return torch.arange(1, ordered.shape[1] + 1, device=ordered.device, dtype=torch.float64).expand(ordered.shape)

    def select(self, probs: Probs, threshold: Tensor, draws: Tensor | None = None) -> Sets:
        """As declared by :class:`Ordering`; a partial sort is enough."""
        if threshold.ndim or not probs.numel():
            return super().select(probs, threshold, draws)
        return keep_top(probs, int(threshold.clamp(max=probs.shape[1])))


class MassAbove(Prefix):
    """The total probability of all labels that are more probable than this one."""

    kind = "mass-above"
    mass = Mass(inclusive=False)

    def steps(self, ordered: Tensor) -> Tensor:
        """``0, p₁, p₁ + p₂, …`` in float64."""
        total = by_device(CUMSUM, ordered)(ordered)
        return torch.cat([torch.zeros_like(total[:, :1]), total[:, :-1]], dim=1)


class CumulativeMass(Prefix):
    """The total probability of all labels up to and including this one, plus ``penalty`` for each rank beyond ``k_reg``.

    Rows that sum to 1 up to rounding are divided by their sum, so that the last label has exactly 1. Sums are not rounded:
    0.4 + 0.2 and 0.6 do not tie, but 1 - 1e-14 and 1 do not either, which sets of a confident classifier depend on.

    A randomised ordering subtracts a uniform share of the label's own probability, one draw a row: sets are then smaller and
    their coverage exact. See :mod:`shortlist.sets.draws` for where the draws come from. If only the calibration is randomised,
    the whole probability is subtracted in new rows: their sets hold the label at the boundary, whatever would have been drawn.

    Args:
        penalty: added for each rank beyond ``k_reg``; 0 by default.
        k_reg: number of labels without a penalty; 0 by default.
        generator: makes the ordering randomised. With a seed, draws follow from the seed, the calibration rows and the row;
            a torch or numpy generator is drawn from in turn, so that two calls give different sets.
        randomized: whether to draw: True for calibration rows and new rows, ``"calibration"`` for calibration rows alone; true
            if a generator is given, and otherwise false by default. Without a generator the seed is 0.
    """

    kind = "cumulative-mass"
    parameter_names = ("penalty", "k_reg", "randomized")
    seed: Tensor | None

    def __init__(self, penalty: float = 0.0, k_reg: int = 0, generator: Any = None, randomized: Randomized = None):
        super().__init__()
        self.penalty = float(decimal("penalty", penalty))
        if self.penalty < 0:
            raise InputError(f"penalty: expected a number from 0, got {penalty}")
        self.k_reg = whole(0)("k_reg", k_reg)
        self._randomized = _checked_randomized(randomized, generator is not None)
        if generator is not None and randomized is False:
            raise InputError("generator: expected None with randomized=False, got a generator")
        seeded = random_generator("generator", generator)
        given = isinstance(generator, torch.Generator | np.random.Generator)
        self.generator, self._start = (seeded, 0) if given else (None, 0 if seeded is None else seeded.initial_seed())
        self.register_buffer("seed", None)  # of the draws of new rows; the fit chooses it

    @property
    def randomized(self) -> bool:
        """Whether answers are drawn at random."""
        return self._randomized is True

    @property
    def promise(self) -> str:  # type: ignore[override]
        """As declared by :class:`Ordering`."""
        if self._randomized == "calibration":
            return (
                "only the calibration is randomised: sets hold every label that a draw could include, so they are a little "
                "larger than randomised ones, whose coverage is exact"
            )
        return ""

    def config(self) -> dict[str, Any]:
        """As declared by :class:`~shortlist.sets.kinds.RulePart`; randomness as it was asked for."""
        return super().config() | {"randomized": self._randomized}

    def span(self, classes: int) -> tuple[float, float]:
        """As declared by :class:`Ordering`: 0, and all mass with all penalties."""
        return 0.0, 1.0 + self.penalty * max(0, classes - self.k_reg)

    def check_buffers(self) -> None:
        """As declared by :class:`Ordering`."""
        if self.seed is not None and (self.seed.dtype != torch.int64 or self.seed.ndim or not self.randomized):
            wanted = "int64 ()" if self.randomized else "none without randomness"
            raise InputError(f"seed: expected {wanted}, got {shape_of(self.seed)}")

    def of_answers(self) -> Ordering:
        """As declared by :class:`Ordering`."""
        own = type(self).steps is not CumulativeMass.steps
        return self if own or self._randomized != "calibration" else MassBefore(self.penalty, self.k_reg)

    def calibration_draws(self, digest: Digest) -> CalibrationDraws:
        """As declared by :class:`Ordering`."""
        return CalibrationDraws.of(digest, self._start, self.generator)

    def keep_draws(self, draws: CalibrationDraws) -> None:
        """As declared by :class:`Ordering`."""
        self.seed = draws.seed_of_new_rows if self.randomized else None

    def row_draws(self) -> RowDraws | WholeShares | None:
        """As declared by :class:`Ordering`."""
        if not self.randomized:
            return WholeShares() if self._randomized else None
        return RowDraws(torch.zeros((), dtype=torch.int64) if self.seed is None else self.seed, self.generator)

    @property
    def mass(self) -> Mass:  # type: ignore[override]
        """As declared by :class:`Prefix`."""
        return Mass(True, SLACK, self.penalty, self.k_reg)

    def steps(self, ordered: Tensor) -> Tensor:
        """``p₁, p₁ + p₂, …`` with the penalty, in float64."""
        total = by_device(CUMSUM, ordered)(ordered)
        return self._penalised(total, total[:, -1:])

    def _penalised(self, total: Tensor, whole: Tensor) -> Tensor:
        total = total / torch.where((whole - 1).abs() <= SLACK, whole, 1.0)
        if self.penalty:
            rank = torch.arange(1, total.shape[1] + 1, device=total.device, dtype=torch.float64)
            total = total + self.penalty * (rank - self.k_reg).clamp(min=0)
        return total


class MassBefore(CumulativeMass):
    """The total probability of the labels before this one, plus the penalty: what a rule whose calibration alone is randomised
    compares in new rows.

    It is added up without the label, where subtracting its probability would leave rounding errors: the first label of every
    row has exactly 0 and the penalty, and a threshold there keeps all first labels.

    >>> MassBefore()(torch.tensor([[0.3, 0.1, 0.6]], dtype=torch.float64))
    tensor([[0.6000, 0.9000, 0.0000]], dtype=torch.float64)
    """

    kind = "mass-before"

    def steps(self, ordered: Tensor) -> Tensor:
        """``0, p₁, p₁ + p₂, …`` with the penalty, in float64."""
        total = by_device(CUMSUM, ordered)(ordered)
        return self._penalised(torch.cat([torch.zeros_like(total[:, :1]), total[:, :-1]], dim=1), total[:, -1:])


def _checked_randomized(randomized: Any, given: bool) -> bool | Literal["calibration"]:
    """What is drawn at random: everything, the calibration rows or nothing; everything by default if a generator is given."""
    if isinstance(randomized, str) and randomized == "calibration":
        return "calibration"
    if isinstance(randomized, str):
        raise InputError(f"randomized: expected True, False or 'calibration', got {shown(randomized)}")
    return optional(flag)("randomized", randomized) or given


def _cumsum_in_order(ordered: Tensor) -> Tensor:
    return ordered.cumsum(1, dtype=torch.float64)


# Elsewhere the order of additions is not fixed, and the value of a label must not depend on how it was computed.
CUMSUM = {"cpu": _cumsum_in_order, "any": exact_cumsum}


def ranks(probs: Probs, target: Target) -> Tensor:
    """The rank of the true label of each row, from 1, ties by lower index, (N, 1)."""
    label = target[:, None]
    own = probs.gather(1, label)
    rank = count_rows(probs > own) + 1
    tied = (count_rows(probs >= own) > rank).nonzero().squeeze(1)  # another label has the same probability
    if len(tied):
        earlier = torch.arange(probs.shape[1], device=probs.device) < label[tied]
        rank[tied] += count_rows((probs[tied] == own[tied]) & earlier)
    return rank[:, None]


def keep_first(probs: Probs, ordered: Tensor, counts: Tensor) -> Sets:
    """The ``counts[i]`` most probable labels of row i, given the row's values in decreasing order."""
    infinite = torch.full_like(ordered[:, :1], torch.inf)
    edges = torch.cat([infinite, ordered, -infinite], dim=1)
    cutoff, following = edges.gather(1, counts[:, None]), edges.gather(1, counts[:, None] + 1)
    return keep_largest(probs, counts, cutoff.squeeze(1), following.squeeze(1))
