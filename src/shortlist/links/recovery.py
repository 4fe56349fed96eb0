"""Links that recover the probabilities from the minimiser of a loss whose link is neither sigmoid nor softmax."""

import math
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from shortlist.checks import number, per_class
from shortlist.class_names import by_class
from shortlist.errors import InputError, NotFittedError
from shortlist.links.fixed import softmax_log_odds
from shortlist.links.link import Link, invert_increasing
from shortlist.tensors import Probs, Scores, as_tensor


class SPA(Link):
    r"""The inverse link of the strictly proper asymmetric loss.

    .. math:: \mathrm{logit}\, p = \log\frac{k_{neg} ζ_{pos}}{k_{pos} ζ_{neg}}
              + \log σ(k_{neg} (v - b_{neg})) - \log σ(-k_{pos} (v - b_{pos}))

    With the default parameters a score of 0 has probability 0.054, and 0.952 has one half: do not threshold scores at 0.

    >>> SPA().probs(torch.tensor([[0.0, 0.95207]]))
    tensor([[0.0538, 0.5000]])

    Cheng, eq. 17, with the sign of both arguments reversed (as printed it decreases with the score).
    """

    kind = "spa"
    domains: ClassVar = {
        "zeta_pos": number(above=0),
        "k_pos": number(above=0),
        "b_pos": number(),
        "zeta_neg": number(above=0),
        "k_neg": number(above=0),
        "b_neg": number(),
    }
    parameter_names = tuple(domains)
    zeta_pos: float
    k_pos: float
    b_pos: float
    zeta_neg: float
    k_neg: float
    b_neg: float

    def __init__(
        self,
        zeta_pos: float = 1.0,
        k_pos: float = 1.0,
        b_pos: float = 0.0,
        zeta_neg: float = 5.0,
        k_neg: float = 3.0,
        b_neg: float = 1.0,
    ):
        super().__init__()
        self._set(zeta_pos=zeta_pos, k_pos=k_pos, b_pos=b_pos, zeta_neg=zeta_neg, k_neg=k_neg, b_neg=b_neg)

    def _log_odds(self, scores: Scores) -> Tensor:
        constant = math.log(self.k_neg * self.zeta_pos / (self.k_pos * self.zeta_neg))
        negative = logsigmoid(self.k_neg * (scores - self.b_neg))
        positive = logsigmoid(-self.k_pos * (scores - self.b_pos))
        return constant + negative - positive

    def _scores(self, probs: Probs) -> Scores:
        return invert_increasing(self._log_odds, torch.logit(probs))


class FocalRecovery(Link):
    r"""The probabilities recovered from the minimiser of the asymmetric focal loss, or of ASY.

    With ``z = σ(v)`` and ``u = (z - shift)+``,

    .. math:: p = \frac{h(u; γ_{neg})}{h(u; γ_{neg}) + h(1 - z; γ_{pos})}, \quad
              h(x; γ) = \frac{x^γ - γ x^{γ-1} (1 - x) \log(1 - x)}{1 - x}

    Without a shift it is a bijection. With one, every score with ``z ≤ shift`` has probability 0, so it has no inverse. If both
    gammas and the shift are 0 it is the sigmoid.

    >>> FocalRecovery(gamma_pos=0, gamma_neg=4, shift=0.05).probs(torch.tensor([[-5.0, 0.0, 50.0]]))
    tensor([[0.0000, 0.1276, 0.9637]])

    Cheng, eq. 14.
    """

    kind = "focal-recovery"
    domains: ClassVar = {"gamma_pos": number(least=0), "gamma_neg": number(least=0), "shift": number(least=0, below=1)}
    parameter_names = tuple(domains)
    gamma_pos: float
    gamma_neg: float
    shift: float

    def __init__(self, gamma_pos: float = 0.0, gamma_neg: float = 4.0, shift: float = 0.0):
        super().__init__()
        self._set(gamma_pos=gamma_pos, gamma_neg=gamma_neg, shift=shift)

    @property
    def reaches_zero(self) -> bool:
        """As declared by :class:`Link`: only with a shift."""
        return self.shift > 0

    def _log_odds(self, scores: Scores) -> Tensor:
        log_z, log_rest = logsigmoid(scores), logsigmoid(-scores)
        if self.shift == 0:
            log_u, log_not_u = log_z, log_rest
        else:
            u = log_z.exp() - self.shift
            below = u <= 0
            # A finite number instead of those below keeps their gradient 0 instead of NaN.
            log_u = torch.log(torch.where(below, 1.0, u))
            log_not_u = torch.log(log_rest.exp() + self.shift)
        odds = _log_h(log_u, log_not_u, self.gamma_neg) - _log_h(log_rest, log_z, self.gamma_pos)
        return odds if self.shift == 0 else torch.where(below, -torch.inf, odds)

    def _scores(self, probs: Probs) -> Scores:
        if self.shift > 0:
            return super()._scores(probs)
        return invert_increasing(self._log_odds, torch.logit(probs))


class SoftmaxFocalRecovery(Link):
    r"""The probabilities recovered from the minimiser of the focal loss for one label per row.

    With ``q = softmax(scores)``,

    .. math:: p_j \propto \frac{q_j}{(1 - q_j)^γ - γ (1 - q_j)^{γ - 1} q_j \log q_j}

    The softmax of a network trained with the focal loss is underconfident; this link corrects that. For γ = 0 it is the
    softmax.

    >>> SoftmaxFocalRecovery(gamma=2.0).probs(torch.tensor([[2.0, 1.0, 0.0]]))
    tensor([[0.8838, 0.0875, 0.0287]])

    Charoenphakdee, Vongkulbhisal, Chairatanakul, Sugiyama, "On focal loss for class-posterior probability estimation",
    2021.
    """

    kind = "softmax-focal-recovery"
    domains: ClassVar = {"gamma": number(least=0)}
    parameter_names = tuple(domains)
    gamma: float

    @property
    def exclusive(self) -> bool:
        """True: the probabilities of a row sum to one."""
        return True

    def __init__(self, gamma: float = 2.0):
        super().__init__()
        self._set(gamma=gamma)

    def _log_weights(self, scores: Scores) -> Tensor:
        if scores.shape[1] == 1:
            return 0 * scores
        # From the log-odds p and 1 - p are both exact; the bound keeps gamma times them from overflowing.
        most = torch.finfo(scores.dtype).max / (8 * (1 + self.gamma))
        odds = softmax_log_odds(scores).clamp(-most, most)
        return -_log_h(logsigmoid(-odds), logsigmoid(odds), self.gamma)

    def _probs(self, scores: Scores) -> Probs:
        return torch.softmax(self._log_weights(scores), dim=1)

    def _log_odds(self, scores: Scores) -> Tensor:
        return softmax_log_odds(self._log_weights(scores))


class LDAM(Link):
    r"""The probabilities recovered from the minimiser of the LDAM loss.

    With ``e_j = exp(scale · scores_j)``,

    .. math:: p_j \propto e_j \Big(\sum_{i \ne j} e_i + e_j \exp(-scale \cdot margins_j)\Big)

    Without margins it is the softmax of the scaled scores. (Setting the gradient of the expected loss to zero gives
    ``p_j / D_j ∝ e_j`` with ``D_j`` the bracket.)

    >>> LDAM(torch.tensor([0.1, 0.5]), scale=10.0).probs(torch.tensor([[0.2, 0.1]]))
    tensor([[0.6661, 0.3339]])
    """

    kind = "ldam"
    domains: ClassVar = {"margins": per_class(), "scale": number(above=0)}
    parameter_names = ("scale",)
    margins: Tensor | None
    scale: float

    @property
    def exclusive(self) -> bool:
        """True: the probabilities of a row sum to one."""
        return True

    def __init__(self, margins: Tensor | None = None, scale: float = 30.0):
        super().__init__()
        self._set(scale=scale)
        if margins is not None:
            given = as_tensor(by_class("margins", margins), "margins").detach()
            margins = self.domains["margins"]("margins", given).clone()
        self.register_buffer("margins", margins)

    def check_buffers(self) -> None:
        """As declared by :class:`Link`."""
        self._check_buffer("margins", "(C,)")

    def check_classes(self, classes: int) -> None:
        """Raise unless there is a margin for each class."""
        margins = self._buffers["margins"]
        if margins is None:
            raise NotFittedError(f"{self} has no margins: use LDAM(margins, scale), or the loss's link()")
        if margins.shape != (classes,):
            raise InputError(f"{self}: expected scores of {len(margins)} classes, one for each margin, got {classes}")

    def _log_weights(self, scores: Scores) -> Tensor:
        # Bounded, because the difference of two infinite numbers below would be NaN.
        least = -torch.finfo(scores.dtype).max / 8
        scaled = (self.scale * (scores - scores.detach().amax(1, keepdim=True))).clamp(min=least)
        lowered = scaled - self.scale * self.fitted_buffer("margins").to(scores)
        return scaled + torch.logaddexp(scaled - softmax_log_odds(scaled), lowered)

    def _probs(self, scores: Scores) -> Probs:
        return torch.softmax(self._log_weights(scores), dim=1)

    def _log_odds(self, scores: Scores) -> Tensor:
        return softmax_log_odds(self._log_weights(scores))


def _log_h(log_x: Tensor, log_rest: Tensor, gamma: float) -> Tensor:
    """``log h(x; γ)`` from ``log x`` and ``log(1 - x)``: ``γ log x - log(1-x) + log(1 + γ·ratio)``."""
    if gamma == 0:
        return -log_rest
    # ratio = -(1-x) log(1-x) / x runs from 1 at x = 0 to 0 at x = 1.
    x = log_x.exp()
    far = x > 1e-12  # closer to 0 the gradient of the quotient would underflow; there 1 - x/2 is exact
    entropy = -log_rest.exp() * log_rest.clamp(min=-1e4)  # 0 at x = 1, where log_rest is -inf
    ratio = torch.where(far, entropy / torch.where(far, x, 1.0), 1 - x / 2)
    return gamma * log_x - log_rest + torch.log1p(gamma * ratio)
