"""Links that mix or shift the log-probabilities of one label per row: vector scaling and Dirichlet calibration."""

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from shortlist.checks import number
from shortlist.errors import InputError
from shortlist.links.based import Base
from shortlist.links.fitted import FittedLink
from shortlist.links.fixed import softmax_log_odds
from shortlist.links.softmax_regression import Problem, weighted
from shortlist.links.temperature import best_scale
from shortlist.tensors import Probs, Scores, Target, is_single_label, one_hot, shape_of

# Penalties on squares beside the summed likelihood, that is variances of normal priors of 1/100, 1/1000 and 1/10: of the
# weight of a label's own log-probability, of that of another, and of an intercept. Chosen on two networks (docs/links.md).
OWN, OTHERS, INTERCEPT = 100.0, 1000.0, 10.0


class SoftmaxRegression(FittedLink):
    """``softmax(W log p + b)`` of the base's probabilities p, for rows with one label; as penalised, nearest to a temperature.

    The penalty is on ``W - I/T`` and b, with T fitted too: what few rows cannot tell stays as temperature scaling has it. It is
    a normal prior, so it fades as rows come in.
    """

    domains: ClassVar = {"penalty": number(above=0)}
    penalty: float
    weight: Tensor | None
    intercept: Tensor | None

    def __init__(self, base: Base = None, single: bool | None = None, penalty: float = 1.0):
        super().__init__(base, single)
        self._set(penalty=penalty)
        self.register_buffer("weight", None)
        self.register_buffer("intercept", None)

    def config(self) -> dict[str, Any]:
        """As declared by :class:`FittedLink`, with the penalty."""
        return {**super().config(), "penalty": self.penalty}

    def check_buffers(self) -> None:
        """As declared by :class:`Link`: finite numbers, as many as there are classes."""
        super().check_buffers()
        self._check_buffer("intercept", "(C,)")
        weight, intercept = self._buffers["weight"], self._buffers["intercept"]
        if weight is None or intercept is None:
            return
        expected = self._weight_shape(len(intercept))
        if tuple(weight.shape) != expected or not weight.is_floating_point():
            raise InputError(f"weight: expected floating point {expected}, got {shape_of(weight)}")
        if not weight.isfinite().all():
            raise InputError(f"weight: expected finite numbers, got {weight[~weight.isfinite()][0].item():g}")

    def check_classes(self, classes: int) -> None:
        """Raise unless there are as many classes as it was fitted on."""
        fitted = self._buffers["intercept"]
        if fitted is not None and classes != len(fitted):
            raise InputError(f"scores: the link {self} was fitted on {len(fitted)} classes, got {classes}")

    def _fit(self, scores: Scores, target: Target) -> None:
        if not is_single_label(target):
            raise InputError(f"target: {self.kind} is for one label per row, got any number of them: fit platt or beta instead")
        logs = self._logs(scores.double())
        if logs.shape[1] == 1:  # which is certain
            self.weight, self.intercept = logs.new_ones(self._weight_shape(1)), logs.new_zeros(1)
            return
        scale = best_scale(lambda rows: logs[rows], target, logs.shape, True)
        problem = Problem(logs, one_hot(target, logs.shape[1]).double(), self._penalties(logs))
        found = problem.solved(scale, self.kind)
        own = found.scale.expand(logs.shape[1])
        self.weight = found.weight + (own if found.weight.ndim == 1 else own.diag())
        self.intercept = found.intercept

    def _penalties(self, logs: Tensor) -> tuple[Tensor, float]:
        """Of each weight and of an intercept."""
        classes = logs.shape[1]
        own = logs.new_full((classes,), self.penalty * OWN)
        if len(self._weight_shape(classes)) == 1:
            return own, self.penalty * INTERCEPT
        return logs.new_full((classes, classes), self.penalty * OTHERS).fill_diagonal_(
            self.penalty * OWN
        ), self.penalty * INTERCEPT

    def _weight_shape(self, classes: int) -> tuple[int, ...]:
        """(C,) for a weight of each label's own, (C, C) for all."""
        raise NotImplementedError(f"{type(self).__name__} does not implement _weight_shape")

    def _logs(self, scores: Scores) -> Tensor:
        """The logarithms of the base's probabilities, so that a constant added to a row of scores changes nothing."""
        return logsigmoid(self._odds_of_base(scores))

    def _linear(self, scores: Scores) -> Tensor:
        logs = self._logs(scores)
        weight, intercept = (self.fitted_buffer(name).to(logs.dtype) for name in ("weight", "intercept"))
        return weighted(logs, weight) + intercept

    def _probs(self, scores: Scores) -> Probs:
        return torch.softmax(self._linear(scores), dim=1)

    def _log_odds(self, scores: Scores) -> Tensor:
        return softmax_log_odds(self._linear(scores))


class VectorScaling(SoftmaxRegression):
    """``softmax(w log p + b)`` with a weight and an intercept for each label.

    Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks", 2017, who take scores in place of log p. Here a
    constant added to a row of scores changes nothing.

    >>> scores = torch.tensor([[2.0, 0.0], [0.0, 2.0], [1.0, 0.0], [0.0, 1.0]]).repeat(100, 1)
    >>> link = VectorScaling().fit(scores, torch.tensor([0, 1, 1, 1]).repeat(100))
    >>> link.probs(scores[:4]).argmax(1)  # the second label was more frequent than its scores told
    tensor([0, 1, 1, 1])

    Args:
        penalty: times what pulls the weights to a common one, the inverse temperature, and the intercepts to 0.
    """

    kind = "vector-scaling"

    def _weight_shape(self, classes: int) -> tuple[int, ...]:
        return (classes,)


class Dirichlet(SoftmaxRegression):
    """``softmax(W log p + b)``, right where the probabilities of the rows of each class have a Dirichlet distribution.

    Off-diagonal weights and intercepts are regularised (ODIR), and the diagonal is pulled to a common value.

    Kull, Perelló Nieto, Kängsepp, Silva Filho, Song, Flach, "Beyond temperature scaling: obtaining well-calibrated multiclass
    probabilities with Dirichlet calibration", 2019.

    Args:
        penalty: times what pulls W to a multiple of the identity and b to 0.
    """

    kind = "dirichlet"

    def _weight_shape(self, classes: int) -> tuple[int, ...]:
        return (classes, classes)
