"""Operators on score rows, literally: one row at a time, in float64, by enumeration and quadrature."""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq

Floats = NDArray[np.float64]


def kth_largest(row: Sequence[float], k: int) -> tuple[float, int]:
    """The k-th largest and its place, ties by lower index."""
    place = sorted(range(len(row)), key=lambda j: (-row[j], j))[k - 1]
    return float(row[place]), place


def noised_top(scores: Floats, k: int, epsilon: float, noise: Floats) -> tuple[Floats, Floats]:
    """(1/B) Σ_b top_k(s + ε Z_b) of each row, and the mean of the one-hot vectors at the k-th places."""
    values, gradient = np.zeros(len(scores)), np.zeros(scores.shape)
    for z in noise:
        for i in range(len(scores)):
            value, place = kth_largest([s + epsilon * n for s, n in zip(scores[i], z[i], strict=True)], k)
            values[i] += value / len(noise)
            gradient[i, place] += 1 / len(noise)
    return values, gradient


def normal_cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def normal_density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def logistic_cdf(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def logistic_density(x: float) -> float:
    return logistic_cdf(x) * logistic_cdf(-x)


LAWS: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "normal": (normal_cdf, normal_density),
    "logistic": (logistic_cdf, logistic_density),
}


def count_law(happens: Sequence[float], fails: Sequence[float] | None = None) -> list[float]:
    """P(n of the independent events happen), n = 0 .. C, summed over all sets of events."""
    fails = [1 - p for p in happens] if fails is None else fails
    law = [0.0] * (len(happens) + 1)
    for outcome in itertools.product([False, True], repeat=len(happens)):
        law[sum(outcome)] += math.prod(p if yes else q for yes, p, q in zip(outcome, happens, fails, strict=True))
    return law


def expected_top(row: Sequence[float], k: int, epsilon: float) -> tuple[float, Floats]:
    """E[top_k(s + εZ)] = a + ∫_a^b P(at least k exceed t) dt, and P(j is the k-th largest) for each j."""
    low, high = min(row) - 12 * epsilon, max(row) + 12 * epsilon
    cuts = sorted({low, high, *(s + x * epsilon for s in row for x in (-3, 0, 3))})

    def exceed(t: float, without: int | None = None) -> list[float]:
        return count_law([normal_cdf((s - t) / epsilon) for j, s in enumerate(row) if j != without])

    def integral(f: Callable[[float], float]) -> float:
        return math.fsum(quad(f, a, b, epsabs=1e-12 * epsilon, epsrel=1e-11)[0] for a, b in itertools.pairwise(cuts))

    value = low + integral(lambda t: math.fsum(exceed(t)[k:]))
    gradient = [
        integral(lambda t, j=j, s=s: normal_density((t - s) / epsilon) / epsilon * exceed(t, without=j)[k - 1])
        for j, s in enumerate(row)
    ]
    return value, np.array(gradient)


def soft_top(row: Sequence[float], k: int, epsilon: float, law: str = "normal") -> tuple[float, Floats]:
    """τ with Σ_j F((s_j - τ)/ε) = k - ½, and its gradient F'_j / Σ F'."""
    cdf, density = LAWS[law]
    # Below the first end every class, above the second none, exceeds by more than half a class in all.
    reach = epsilon * (40 + math.log(len(row)))
    level = brentq(
        lambda t: math.fsum(cdf((s - t) / epsilon) for s in row) - (k - 0.5),
        min(row) - reach,
        max(row) + reach,
        xtol=1e-13 * epsilon,
        rtol=1e-15,
        maxiter=2000,
    )
    slopes = np.array([density((s - level) / epsilon) for s in row])
    return float(level), slopes / slopes.sum()


def sparse_top(row: Sequence[float], k: float) -> Floats:
    """The nearest point of {0 ≤ q ≤ 1, Σ q = k}: of all faces (each entry 0, free or 1), the nearest feasible point.

    In fractions, because nearly equal distances decide.
    """
    exact = [Fraction(s) for s in row]
    best, nearest = None, None
    for face in itertools.product([0, None, 1], repeat=len(row)):
        free = [j for j, held in enumerate(face) if held is None]
        missing = Fraction(k) - sum(held for held in face if held is not None)
        if not free and missing != 0:
            continue
        shift = (sum(exact[j] for j in free) - missing) / len(free) if free else Fraction(0)
        q = [exact[j] - shift if held is None else Fraction(held) for j, held in enumerate(face)]
        if min(q) < 0 or max(q) > 1:
            continue
        distance = sum((s - x) ** 2 for s, x in zip(exact, q, strict=True))
        if nearest is None or distance < nearest:
            best, nearest = q, distance
    assert best is not None
    return np.array([float(x) for x in best])


def sparse_top_jacobian(q: Sequence[float]) -> Floats:
    """Diag(m) - m mᵀ / |m|, m the indicator of 0 < q < 1."""
    m = np.array([1.0 if 0 < x < 1 else 0.0 for x in q])
    return np.diag(m) - np.outer(m, m) / max(1.0, m.sum())
