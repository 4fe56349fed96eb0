"""Cumulative mass with a penalty that is chosen on a part of the calibration rows: RAPS without anything to guess."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.row_order import count_rows
from shortlist.sets.batches import Batch, Batches
from shortlist.sets.draws import CalibrationDraws, digest_of
from shortlist.sets.orderings import Weighed
from shortlist.sets.prefixes import CumulativeMass, Randomized, ranks
from shortlist.tensors import Probs, Target, is_single_label
from shortlist.words import shown

PENALTIES = (0.001, 0.01, 0.1, 0.2, 0.5)  # the grid of the paper
SHARE = 0.2  # of the calibration rows
ENTRIES = 2**24  # of probabilities that are kept to choose on; rows beyond them are for the calibration
SPLIT = CalibrationDraws(0x5EED, torch.tensor(0))  # the rows are chosen by their numbers, whatever is in them


class TunedMass(CumulativeMass):
    """Cumulative mass whose penalty is chosen for the smallest average size of sets.

    A fifth of the calibration rows, chosen by their numbers, decide: ``k_reg`` is the conformal quantile of the ranks of their
    labels, and the penalty is that of a grid whose sets, with the threshold for these rows, are smallest on these rows; the
    smallest of equally good ones. The other rows, which had no part in it, calibrate, so a conformal guarantee holds as it is.

    Args:
        generator: as for :class:`CumulativeMass`.
        randomized: as for :class:`CumulativeMass`.
        penalty: what was chosen; 0 before a fit.
        k_reg: what was chosen; 0 before a fit.

    Attributes:
        chosen: both, float64 (2,), so that a state dict has them; None before a fit.

    Angelopoulos, Bates, Malik, Jordan, "Uncertainty sets for image classifiers using conformal prediction", 2021, appendix E.
    """

    kind = "tuned-cumulative-mass"
    in_rounds = False
    chosen: Tensor | None

    def __init__(self, generator: Any = None, randomized: Randomized = None, penalty: float = 0.0, k_reg: int = 0):
        super().__init__(penalty, k_reg, generator, randomized)
        self.register_buffer("chosen", None)

    def check_buffers(self) -> None:
        """As declared by :class:`Ordering`."""
        super().check_buffers()
        if self.chosen is not None and (
            self.chosen.dtype != torch.float64 or self.chosen.tolist() != [self.penalty, self.k_reg]
        ):
            raise InputError(
                f"chosen: expected a penalty from 0 and the k that goes with it, got {shown(self.chosen.tolist())}"
            )

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        if self.chosen is not None and self.chosen.shape == (2,):
            penalty, k_reg = self.chosen.tolist()
            self.penalty, self.k_reg = max(penalty, 0.0), max(int(k_reg), 0) if math.isfinite(k_reg) else 0

    def tuned(self, batches: Batches, rank: Callable[[int], int], weighed: Weighed | None = None) -> Batches:
        """As declared by :class:`Ordering`: the penalty is chosen on a fifth of the rows; returns the others."""
        if not batches.repeatable:
            raise InputError(
                "probs: expected rows that can be read twice, because the penalty is chosen on a part of them first: pass a "
                "matrix, predictions or a function that starts a new pass; got an iterator"
            )
        found = [part for batch in batches.whole_rows() if len((part := _part(batch, chosen=True)).probs)]
        if not batches.rows:
            raise InputError("probs: expected labelled calibration rows, got none")
        weights = [torch.ones(len(part.probs), dtype=torch.int64) if weighed is None else weighed.of(part) for part in found]
        found = [part if (own > 0).all() else part.rows(own > 0) for part, own in zip(found, weights, strict=True)]
        weights = [own[own > 0] for own in weights]
        new = 1 if weighed is None else weighed.new
        rows, total = sum(map(len, weights)), sum(int(part.sum()) for part in weights)
        if not rows or rank(total + new - 1) > total:
            raise InputError(
                f"probs: expected more calibration rows: a fifth of them, to choose the penalty on, is {rows}, too few for a "
                "threshold; or give the penalty, raps:ALPHA:0.01:5"
            )
        self._choose(
            torch.cat([part.probs for part in found]),
            torch.cat([part.labels for part in found]),
            torch.cat([part.row_numbers for part in found]),
            torch.cat(weights),
            rank(total + new - 1),
        )
        return self.calibrating(batches)

    def calibrating(self, batches: Batches) -> Batches:
        """As declared by :class:`Ordering`: the rows that the penalty was not chosen on."""

        def rest() -> Any:
            return (_part(batch, chosen=False) for batch in batches.whole_rows())

        return Batches(rest, probabilities=batches.probabilities, widen=batches.widen)

    def _choose(self, probs: Probs, target: Target, numbers: Tensor, weights: Tensor, reached: int) -> None:
        if not is_single_label(target):
            raise InputError("target: expected one label a row, to choose the penalty of raps on, got many labels")
        self.k_reg = int(_first_reaching(ranks(probs, target).flatten(), weights, reached))
        shares = CalibrationDraws.of(digest_of(probs, target, numbers), self._start, None).shares(numbers).to(probs.device)
        own = probs.gather(1, target[:, None]).double().squeeze(1)
        whole = None if self.row_draws() is None else torch.ones_like(own)[:, None]
        sizes = []
        for penalty in PENALTIES:
            candidate = CumulativeMass(penalty, self.k_reg)
            values = candidate.at_labels(probs, target) - (0.0 if whole is None else shares * own)
            counts = count_rows(candidate.select(probs, _first_reaching(values, weights, reached), whole))
            sizes.append(float((counts.cpu().double() * weights).sum()))
        self.penalty = PENALTIES[sizes.index(min(sizes))]
        self.chosen = torch.tensor([self.penalty, self.k_reg], dtype=torch.float64)


def _first_reaching(values: Tensor, weights: Tensor, reached: int) -> Tensor:
    """The smallest value up to which the weights reach this sum."""
    order = values.argsort(stable=True)
    return values[order[int(torch.searchsorted(weights[order.cpu()].cumsum(0), reached))]]


def _part(batch: Batch, *, chosen: bool) -> Batch:
    """The rows of a batch that the penalty is chosen on, or the others."""
    numbers = batch.row_numbers.cpu()
    few = numbers < ENTRIES / (SHARE * batch.probs.shape[1])
    kept = ((SPLIT.shares(numbers) < SHARE) & few) == chosen

    def of(part: Any) -> Any:
        if part is None:
            return None
        return part[kept.to(part.device) if isinstance(part, Tensor) else kept.numpy()]

    return Batch(*map(of, batch))
