"""ROLE: label estimates learnt together with the network (Cole et al. 2021), and where they are kept."""

import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from shortlist.checks import number, whole
from shortlist.errors import InputError
from shortlist.links import Link, Sigmoid
from shortlist.losses.domains import domains
from shortlist.losses.loss import Loss, global_rows, reduce_coupled
from shortlist.losses.positives import positives_excess
from shortlist.processes import processes, total
from shortlist.tensors import Reduction, Scores, Target, check_scores, check_single_label, pick, shape_of, working

START, OBSERVED = 0.6, 0.995


@domains(k=number(above=0), weight=number(least=0))
def role_loss(
    scores: Scores,
    target: Target,
    *,
    estimates: Tensor,
    k: float,
    weight: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Network and label estimates teach each other, both held to the observed label.

    With ``F = σ(scores)``, ``Θ = σ(estimates)``,

    .. math:: \tfrac12 [ℓ^+(F) + H(F, \bar Θ) + weight \cdot R(F)] + \tfrac12 [ℓ^+(Θ) + H(Θ, \bar F) + weight \cdot R(Θ)]

    where a bar stops the gradient, ``ℓ⁺(A)`` is the mean of ``-log A`` at the observed label, ``H(A, B)`` the binary
    cross-entropy of A with soft targets B, summed over labels and averaged over rows, and ``R(A) = (K̂ - k)²`` with K̂ the
    mean number of labels a row that A expects. Couples the batch: on several processes it is the global one.

    Elicits: nothing by itself (without weight, "every label, always" has loss 0). Link: sigmoid.

    Args:
        scores: (N, C).
        target: int64 (N,).
        estimates: the batch's rows of :class:`RoleEstimates`, logits (N, C), with gradient.
        k: the expected number of labels a row; it counts with a weight only.
        weight: 0 as on CIFAR-100; 1/C is Cole's own.
        reduction: "mean", or "sum", that times N.

    Shape: (N, C), (N,), (N, C) → scalar.

    >>> scores = torch.tensor([[2.0, 1.0, 0.0]])
    >>> role_loss(scores, torch.tensor([1]), estimates=torch.zeros(1, 3), k=2)
    tensor(2.8596)

    Cole, Mac Aodha, Lorieul, Perona, Morris, Jojic, "Multi-label learning from single positive labels", 2021.
    """
    check_single_label(scores, target)
    check_scores(estimates, "estimates")
    if estimates.shape != scores.shape or estimates.device != scores.device:
        raise InputError(f"estimates: expected floating point {tuple(scores.shape)} like scores, got {shape_of(estimates)}")
    scores, estimates = working(scores), working(estimates)
    rows = global_rows(scores)
    halves = [_half(one, target, other.detach(), k, weight, rows) for one, other in ((scores, estimates), (estimates, scores))]
    return reduce_coupled((halves[0] + halves[1]) / 2, rows, reduction)


def _half(logits: Tensor, target: Target, teacher: Tensor, k: float, weight: float, rows: Tensor) -> Tensor:
    """``ℓ⁺ + H + weight · R`` of one side."""
    observed = -logsigmoid(pick(logits, target)).sum()
    soft = teacher.sigmoid()
    cross = -(soft * logsigmoid(logits) + (1 - soft) * logsigmoid(-logits)).sum()
    loss = total(observed + cross) / rows
    return loss + weight * positives_excess(logits.sigmoid(), k, rows) if weight else loss


class RoleLoss(Loss):
    """Module form of :func:`role_loss`."""

    function = staticmethod(role_loss)
    couples = True

    def link(self) -> Link:
        """Sigmoid."""
        return Sigmoid()


class RoleEstimates(nn.Module):
    """A logit for every (training example, label), read and learnt by example index.

    In float16 it costs 2 n C bytes: 10 MB for CIFAR-100, 527 MB for Pl@ntNet-300K (243,916 × 1,081). With ``path`` that
    lies in a file that is mapped into memory, so that only the rows in use need to be there; a file that exists is
    continued. A row starts when it is first read: uniform logits up to ±logit 0.6, the observed label at logit 0.995.

    >>> store = RoleEstimates(1000, 3)
    >>> estimates = store(torch.tensor([7]), torch.tensor([1]))
    >>> loss = role_loss(torch.zeros(1, 3), torch.tensor([1]), estimates=estimates, k=2)
    >>> loss.backward()
    >>> store.step(rate=0.1)

    Steps are plain gradient descent on the rows last read, rounded to float16 at random in proportion, so that steps
    smaller than its resolution are taken on average.

    Args:
        n: training examples.
        classes: labels.
        path: a file to keep the estimates in.
        seed: of the start and of the rounding.
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
        if index.ndim != 1 or index.dtype != torch.int64 or index.shape != target.shape:
            raise InputError(f"index: expected int64 (N,) like target, got {shape_of(index)}")
        place = index.to(self.logits.device)
        if len(place) and (int(place.min()) < 0 or int(place.max()) >= len(self.logits)):
            raise InputError(
                f"index: expected examples from 0 to {len(self.logits) - 1}, got {_outside(place, len(self.logits))}"
            )
        fresh = (self.logits[place] == 0).all(1)  # a row that has started has its observed label far from 0
        if fresh.any():
            self._start(place[fresh], target.to(self.logits.device)[fresh])
        rows = self.logits[place].float().to(index.device).requires_grad_()
        self._open = (place, rows)
        return rows

    def get_extra_state(self) -> Tensor:
        """Where the random numbers stand, so that a training that is taken up again goes on as it would have."""
        return self._random.get_state()

    def set_extra_state(self, state: Tensor) -> None:
        """Go on from there."""
        self._random.set_state(state)

    def _start(self, place: Tensor, target: Target) -> None:
        edge = math.log(START / (1 - START))
        draw = torch.rand(len(place), self.logits.shape[1], generator=self._random) * (2 * edge) - edge
        draw = draw.to(self.logits.device).scatter_(1, target[:, None], math.log(OBSERVED / (1 - OBSERVED)))
        self.logits[place] = draw.to(self.logits.dtype)

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move the rows last read against their gradient; ten times the network's rate is Cole's choice."""
        number(above=0)("rate", rate)
        gradient = None if self._open is None else self._open[1].grad
        if self._open is None or gradient is None:
            raise InputError("step: expected estimates with a gradient, got none: read them, call backward, then step")
        # An example that came twice moves once, by both gradients.
        place, inverse = self._open[0].unique(return_inverse=True)
        # Losses multiply their gradient by the number of processes for the averaging of networks, which this is not.
        gradient = gradient.to(self.logits.device) / processes()
        slope = gradient.new_zeros(len(place), gradient.shape[1]).index_add_(0, inverse, gradient)
        self.logits[place] = round_at_random(self.logits[place].float() - rate * slope, self._random)
        self._open = None


def _outside(place: Tensor, n: int) -> int:
    return int(place[(place < 0) | (place >= n)][0])


def _mapped(path: Path, n: int, classes: int) -> Tensor:
    size = 2 * n * classes
    if path.exists() and path.stat().st_size != size:
        raise InputError(f"{path}: expected estimates of {n} × {classes}, {size} bytes, got {path.stat().st_size}")
    return torch.from_file(str(path), shared=True, size=n * classes, dtype=torch.float16).view(n, classes)


def round_at_random(values: Tensor, random: torch.Generator) -> Tensor:
    """Float32 to float16, up or down in proportion to the distance, so that the expectation is the value."""
    # Neighbours are 2^-10 of the leading power of two apart, and never less than 2^-24.
    exponent = torch.frexp(values).exponent
    spacing = torch.ldexp(torch.ones_like(values), (exponent - 11).clamp(min=-24))
    drawn = torch.rand(values.shape, generator=random).to(values.device)
    return (torch.floor(values / spacing + drawn) * spacing).half()
