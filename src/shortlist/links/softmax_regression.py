"""Penalised softmax regression on log-probabilities, by Newton's method."""

from typing import NamedTuple

import torch
from torch import Tensor

from shortlist.errors import NotConvergedError

STEPS, TURNS, HALVINGS = 100, 300, 40


def weighted(logs: Tensor, weight: Tensor) -> Tensor:
    """``w log p`` of each row."""
    return logs * weight if weight.ndim == 1 else logs @ weight.t()


class Point(NamedTuple):
    """The common weight, what each weight differs from it by, and the intercepts; also a gradient or a step of them."""

    scale: Tensor
    weight: Tensor
    intercept: Tensor

    def plus(self, other: "Point", times: Tensor | float = 1.0) -> "Point":
        """This, and the other so many times."""
        return Point(*(mine + times * theirs for mine, theirs in zip(self, other, strict=True)))

    def dot(self, other: "Point") -> Tensor:
        """The inner product."""
        return torch.stack([(mine * theirs).sum() for mine, theirs in zip(self, other, strict=True)]).sum()

    def over(self, other: "Point") -> "Point":
        """Divided by the other, number by number."""
        return Point(*(mine / theirs for mine, theirs in zip(self, other, strict=True)))


class Problem(NamedTuple):
    """The penalised likelihood of labels; strictly convex where a temperature exists.

    Args:
        logs: float64 (n, C).
        own: 1 at the label of each row.
        penalties: of each weight and of an intercept.
    """

    logs: Tensor
    own: Tensor
    penalties: tuple[Tensor, float]

    def solved(self, scale: float, name: str) -> Point:
        """The optimum, by Newton's method with conjugate gradients, from temperature scaling on."""
        at = Point(
            scale * torch.ones_like(self.logs[0, 0]), torch.zeros_like(self.penalties[0]), torch.zeros_like(self.logs[0])
        )
        for _ in range(STEPS):
            probs = self._linear(at).softmax(1)
            slope = self._pulled(probs - self.own, at)
            if max(float(part.abs().max()) for part in slope) <= 1e-9 * len(self.logs):
                return at
            at = self._along(at, slope, self._direction(probs, slope))
        raise NotConvergedError(f"{name}: Newton's method did not converge in {STEPS} steps")

    def _linear(self, at: Point) -> Tensor:
        return at.scale * self.logs + weighted(self.logs, at.weight) + at.intercept

    def _pulled(self, rows: Tensor, at: Point) -> Point:
        """What a gradient in the rows of the linear map is in its numbers, with that of the penalty."""
        weights, intercepts = self.penalties
        parts = rows * self.logs
        weight = parts.sum(0) if at.weight.ndim == 1 else rows.t() @ self.logs
        return Point(parts.sum(), weight + weights * at.weight, rows.sum(0) + intercepts * at.intercept)

    def _value(self, at: Point) -> Tensor:
        linear = self._linear(at)
        weights, intercepts = self.penalties
        penalty = (weights * at.weight**2).sum() + intercepts * (at.intercept**2).sum()
        return (linear.logsumexp(1) - (linear * self.own).sum(1)).sum() + penalty / 2

    def _direction(self, probs: Tensor, slope: Point) -> Point:
        """Newton's step, nearly: conjugate gradients, scaled by the diagonal of the curvature."""
        spread, square = probs * (1 - probs), self.logs**2
        weights, intercepts = self.penalties
        own = (spread * square).sum(0) if weights.ndim == 1 else spread.t() @ square
        diagonal = Point((spread * square).sum(), own + weights, spread.sum(0) + intercepts)
        step, rest = slope.plus(slope, -1.0), slope.plus(slope, -2.0)
        scaled = rest.over(diagonal)
        way, size = scaled, rest.dot(scaled)
        begun = float(rest.dot(rest)) ** 0.5
        enough = begun * min(0.1, (begun / len(self.logs)) ** 0.5)
        for _ in range(TURNS):
            along = self._linear(way)
            bent = self._pulled(probs * (along - (probs * along).sum(1, keepdim=True)), way)
            length = size / way.dot(bent)
            step, rest = step.plus(way, length), rest.plus(bent, -length)
            if float(rest.dot(rest)) ** 0.5 <= enough:
                break
            scaled = rest.over(diagonal)
            before, size = size, rest.dot(scaled)
            way = scaled.plus(way, size / before)
        return step

    def _along(self, at: Point, slope: Point, step: Point) -> Point:
        """The step, halved until the value falls as it should."""
        before, falls, length = self._value(at), slope.dot(step), 1.0
        rounding = 1e-13 * before.abs()
        for _ in range(HALVINGS):
            if self._value(at.plus(step, length)) <= before + 1e-4 * length * falls + rounding:
                break
            length /= 2
        return at.plus(step, length)
