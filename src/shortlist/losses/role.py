"""The ROLE loss (Cole et al. 2021), which learns label estimates together with the network, and the store that keeps them."""

import math
import os
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from shortlist.checks import number, whole
from shortlist.errors import InputError, ShortlistWarning
from shortlist.links import Link, Sigmoid
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss, LossState
from shortlist.losses.positives import positives_excess
from shortlist.losses.rows import IGNORING, Labels, global_rows, labelled_rows, reduce_coupled, sum_rows, without_ignored
from shortlist.processes import processes, total
from shortlist.tensors import Reduction, Scores, Target, TwoHeadScores, as_target, check_scores, pick, shape_of

START, OBSERVED = 0.6, 0.995
SHAPE_LINE, SHAPE_BYTES = "shortlist label estimates", 80  # the end of a file


@domains(k=number(above=0), weight=number(least=0), **IGNORING)
def role_loss(
    scores: Scores,
    target: Target,
    *,
    estimates: Tensor,
    k: float,
    weight: float = 0.0,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Trains the network on label estimates and the estimates on the network, both tied to the observed label.

    With ``F = σ(scores)``, ``Θ = σ(estimates)``,

    .. math:: \tfrac12 [ℓ^+(F) + H(F, \bar Θ) + weight \cdot R(F)] + \tfrac12 [ℓ^+(Θ) + H(Θ, \bar F) + weight \cdot R(Θ)]

    where a bar stops the gradient, ``ℓ⁺(A)`` is the mean of ``-log A`` at the observed label, ``H(A, B)`` the binary
    cross-entropy of A with soft targets B, summed over labels and averaged over rows, and ``R(A) = (K̂ - k)²`` with K̂ the
    mean number of labels per row that A expects. Couples the rows of the batch, which on several processes is the global batch.

    Elicits: nothing by itself (with weight 0, predicting every label always has loss 0). Link: sigmoid.

    Args:
        scores: (N, C).
        target: integers (N,).
        estimates: logits (N, C), with gradient: the batch's rows of :class:`RoleEstimates`.
        k: the expected number of labels per row; it has no effect if the weight is 0.
        weight: weight of the penalty R; 0 as on CIFAR-100, Cole's choice is 1/C.
        ignore_index: rows with this label are left out of the batch.
        reduction: "mean", or "sum", which is the mean times N.

    Shape: (N, C), (N,), (N, C) → scalar.

    >>> scores = torch.tensor([[2.0, 1.0, 0.0]])
    >>> role_loss(scores, torch.tensor([1]), estimates=torch.zeros(1, 3), k=2)
    tensor(2.8596)

    Cole, Mac Aodha, Lorieul, Perona, Morris, Jojic, "Multi-label learning from single positive labels", 2021.
    """
    labels, counted = labelled_rows(scores, target, ignore_index)
    check_scores(estimates, "estimates")
    if estimates.shape != scores.shape or estimates.device != scores.device:
        raise InputError(f"estimates: expected floating point {tuple(scores.shape)} like scores, got {shape_of(estimates)}")
    scores, estimates = counted, without_ignored(estimates, labels.kept)
    rows = global_rows(scores, labels.kept)
    halves = [_half(one, labels, other.detach(), k, weight, rows) for one, other in ((scores, estimates), (estimates, scores))]
    return reduce_coupled((halves[0] + halves[1]) / 2, rows, reduction, scores)


def _half(logits: Tensor, labels: Labels, teacher: Tensor, k: float, weight: float, rows: Tensor) -> Tensor:
    """``ℓ⁺ + H + weight · R`` of one side."""
    target, kept = labels
    observed = sum_rows(-logsigmoid(pick(logits, target)), kept)
    soft = teacher.sigmoid()
    cross = sum_rows(_cost(soft, logits) + _cost(1 - soft, -logits), kept)
    loss = total(observed + cross) / rows
    return loss + weight * positives_excess(logits.sigmoid(), kept, k, rows) if weight else loss


def _cost(share: Tensor, logits: Tensor) -> Tensor:
    """``share · -log σ(logits)``; without a share 0, even if the class is ruled out."""
    return torch.where(share == 0, 0.0, share * -logsigmoid(logits))


class RoleLoss(Loss):
    """Module form of :func:`role_loss`, with the learning rate of the estimates.

    ``estimates_rate`` is relative to that of the network: by default 1, which Garcin 2023 chose on CIFAR-100; Cole uses 10.
    """

    function = staticmethod(role_loss)
    couples = True
    keeps_row_state = True

    def __init__(
        self,
        *,
        k: float,
        weight: float = 0.0,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        estimates_rate: float = 1.0,
    ):
        super().__init__(k=k, weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.estimates_rate = number(above=0)("estimates_rate", estimates_rate)

    def forward(self, scores: Scores, target: Target, *, estimates: Tensor) -> Tensor:  # type: ignore[override]
        """The loss of these scores and of the estimates of the same rows."""
        return role_loss(scores, target, estimates=estimates, **self.keywords)

    def link(self) -> Link:
        """Sigmoid."""
        return Sigmoid()

    def extra_repr(self) -> str:
        """The parameters, as they would be typed."""
        return super().extra_repr() + (f", estimates_rate={self.estimates_rate!r}" if self.estimates_rate != 1 else "")

    def training_state(self, rows: int, classes: int, seed: int) -> "RoleState":
        """A store of estimates for every training row."""
        return RoleState(self, RoleEstimates(rows, classes, seed=seed))


class RoleEstimates(nn.Module):
    """A logit for every (training example, label), looked up and trained by example index.

    In float16 it takes 2 n C bytes: 10 MB for CIFAR-100, 527 MB for Pl@ntNet-300K (243,916 × 1,081). With ``path`` it is a
    memory-mapped file, so that only the rows in use need memory; it ends in a line with n and C, and an existing file of the
    same shape is continued. A row is initialised when it is first looked up: logits uniform up to ±logit(0.6), the observed
    label at logit(0.995).

    >>> store = RoleEstimates(1000, 3)
    >>> estimates = store(torch.tensor([7]), torch.tensor([1]))
    >>> loss = role_loss(torch.zeros(1, 3), torch.tensor([1]), estimates=estimates, k=2)
    >>> loss.backward()
    >>> store.step(rate=0.1)

    Steps are plain gradient descent on the rows looked up last, with stochastic rounding to float16, so that steps below its
    resolution are taken on average.

    Args:
        n: number of training examples.
        classes: number of classes.
        path: file for the estimates; default None, in memory.
        seed: seed of the initial values and of the rounding.
    """

    logits: Tensor

    def __init__(self, n: int, classes: int, *, path: str | Path | None = None, seed: int = 0):
        super().__init__()
        n, classes = whole(1)("n", n), whole(1)("classes", classes)
        self._random = torch.Generator().manual_seed(seed)
        logits = torch.zeros(n, classes, dtype=torch.float16) if path is None else _mapped(Path(path), n, classes)
        self.register_buffer("logits", logits, persistent=path is None)
        self._open: tuple[Tensor, Tensor] | None = None

    def forward(self, index: Tensor, target: Target) -> Tensor:
        """The estimates of these examples, float32 (N, C), a leaf whose gradient :meth:`step` uses."""
        target = as_target(target)
        if index.ndim != 1 or index.dtype != torch.int64 or index.shape != target.shape:
            raise InputError(f"index: expected int64 (N,) like target, got {shape_of(index)}")
        place = index.to(self.logits.device)
        if len(place) and (int(place.min()) < 0 or int(place.max()) >= len(self.logits)):
            raise InputError(
                f"index: expected examples from 0 to {len(self.logits) - 1}, got {_outside(place, len(self.logits))}"
            )
        fresh = (self.logits[place] == 0).all(1)  # an initialised row has its observed label far from 0
        fresh &= ((target >= 0) & (target < self.logits.shape[1])).to(fresh.device)  # rows to be ignored have no label yet
        if fresh.any():
            self._start(place[fresh], target.to(self.logits.device)[fresh])
        rows = self.logits[place].float().to(index.device).requires_grad_()
        self._open = (place, rows)
        return rows

    def get_extra_state(self) -> Tensor:
        """The state of the random generator, so that a resumed training continues exactly."""
        return self._random.get_state()

    def set_extra_state(self, state: Tensor) -> None:
        """Continue from this state of the random generator."""
        self._random.set_state(state)

    def _start(self, place: Tensor, target: Target) -> None:
        edge = math.log(START / (1 - START))
        draw = torch.rand(len(place), self.logits.shape[1], generator=self._random) * (2 * edge) - edge
        draw = draw.to(self.logits.device).scatter_(1, target[:, None], math.log(OBSERVED / (1 - OBSERVED)))
        self.logits[place] = draw.to(self.logits.dtype)

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Take a step of gradient descent on the rows looked up last; Cole uses ten times the network's learning rate."""
        number(above=0)("rate", rate)
        gradient = None if self._open is None else self._open[1].grad
        if self._open is None or gradient is None:
            raise InputError("step: expected estimates with a gradient, got none: look them up, call backward, then step")
        # An example that occurs twice takes one step, by the sum of its gradients.
        place, inverse = self._open[0].unique(return_inverse=True)
        # Losses multiply gradients by the number of processes, for an averaging that is not done here.
        gradient = gradient.to(self.logits.device) / processes()
        slope = gradient.new_zeros(len(place), gradient.shape[1]).index_add_(0, inverse, gradient)
        self.logits[place] = round_at_random(self.logits[place].float() - rate * slope, self._random)
        self._open = None


class _Lookup(NamedTuple):
    """The estimates that a micro-batch has looked up: a leaf that collects their gradient."""

    rows: Tensor
    target: Target
    values: Tensor


class RoleState(LossState):
    """The label estimates of all training rows; they take one step with each step of the optimiser."""

    def __init__(self, loss: RoleLoss, estimates: RoleEstimates):
        super().__init__(loss)
        self.estimates, self.rate = estimates, loss.estimates_rate
        self._lookups: list[_Lookup] = []  # of the micro-batches of the current step

    def forward(self, output: Scores | TwoHeadScores, target: Target, rows: Tensor) -> Tensor:
        """The loss of a micro-batch; its estimates are remembered until the step."""
        rows = rows.to(target.device)
        values: Tensor = self.estimates(rows, target)
        self._lookups.append(_Lookup(rows, target, values))
        loss: Tensor = self.loss(output, target, estimates=values)
        return loss

    def stepped(self, rate: float) -> None:
        """Move the estimates of the step's rows; a rate of 0 moves nothing."""
        lookups, self._lookups = self._lookups, []
        if rate == 0:
            return
        self.estimates.step(rate * self.rate)
        for part in lookups[:-1]:
            # The store moves the rows looked up last, so those of earlier micro-batches are looked up again.
            self.estimates(part.rows, part.target).grad = part.values.grad
            self.estimates.step(rate * self.rate)

    def skipped(self) -> None:
        """Forget the lookups of a dropped step."""
        self._lookups = []


def _outside(place: Tensor, n: int) -> int:
    return int(place[(place < 0) | (place >= n)][0])


def _mapped(path: Path, n: int, classes: int) -> Tensor:
    """The logits in a file, which ends in a line that says their shape."""
    if path.exists():
        _check_file(path, n, classes)
    else:
        _write_shape(path, n, classes)
    return torch.from_file(str(path), shared=True, size=n * classes, dtype=torch.float16).view(n, classes)


def _write_shape(path: Path, n: int, classes: int) -> None:
    """End a file of logits in its shape; those of a file that is not there are 0."""
    line = f"{SHAPE_LINE} {n} x {classes}".ljust(SHAPE_BYTES - 1) + "\n"
    path.touch()
    with path.open("r+b") as file:
        file.seek(2 * n * classes)
        file.write(line.encode())


def _check_file(path: Path, n: int, classes: int) -> None:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(-min(size, SHAPE_BYTES), os.SEEK_END)
        known = re.fullmatch(rf"{SHAPE_LINE} (\d+) x (\d+) *\n".encode(), file.read())
    if known and (shape := (int(known[1]), int(known[2]))) != (n, classes):
        raise InputError(f"{path}: expected estimates of {n} × {classes}, got {shape[0]} × {shape[1]}: choose another path")
    logits = size - SHAPE_BYTES if known else size
    if logits != 2 * n * classes:
        raise InputError(f"{path}: expected estimates of {n} × {classes}, {2 * n * classes} bytes, got {logits}")
    if not known:
        warnings.warn(
            f"{path} does not say its shape, since an earlier version wrote it: it is taken for {n} × {classes} from now on",
            ShortlistWarning,
            stacklevel=4,
        )
        _write_shape(path, n, classes)


def round_at_random(values: Tensor, random: torch.Generator) -> Tensor:
    """Stochastic rounding of float32 to float16: up or down in proportion to the distance, unbiased."""
    # Neighbours are 2^-10 of the leading power of two apart, and never less than 2^-24.
    exponent = torch.frexp(values).exponent
    spacing = torch.ldexp(torch.ones_like(values), (exponent - 11).clamp(min=-24))
    drawn = torch.rand(values.shape, generator=random).to(values.device)
    return (torch.floor(values / spacing + drawn) * spacing).half()
