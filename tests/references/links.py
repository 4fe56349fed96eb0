"""Links, literally: one score or one row at a time, in float64."""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def softmax(scores: Floats) -> Floats:
    out = np.empty(scores.shape)
    for i, row in enumerate(scores):
        top = max(row)
        weights = [math.exp(s - top) for s in row]
        out[i] = [w / math.fsum(weights) for w in weights]
    return out


def sigmoid(score: float) -> float:
    return 1 / (1 + math.exp(-score)) if score >= 0 else math.exp(score) / (1 + math.exp(score))


def logit(p: float) -> float:
    if p in (0.0, 1.0):
        return -math.inf if p == 0 else math.inf
    return math.log(p) - math.log1p(-p)


def spa_logit(v: float, zeta_pos=1.0, k_pos=1.0, b_pos=0.0, zeta_neg=5.0, k_neg=3.0, b_neg=1.0) -> float:
    """logit η = log(k⁻ζ⁺/(k⁺ζ⁻)) + log σ(k⁻(v - b⁻)) - log σ(-k⁺(v - b⁺))."""
    ratio = k_neg * zeta_pos / (k_pos * zeta_neg)
    return math.log(ratio) + math.log(sigmoid(k_neg * (v - b_neg))) - math.log(sigmoid(-k_pos * (v - b_pos)))


def spa_risk(v: float, eta: float, zeta_pos=1.0, k_pos=1.0, b_pos=0.0, zeta_neg=5.0, k_neg=3.0, b_neg=1.0) -> float:
    """η ℓ⁺(v) + (1-η) ℓ⁻(v), ℓ⁺ = softplus(-k⁺(v - b⁺))/ζ⁺, ℓ⁻ = softplus(k⁻(v - b⁻))/ζ⁻."""
    positive = np.logaddexp(0, -k_pos * (v - b_pos)) / zeta_pos
    negative = np.logaddexp(0, k_neg * (v - b_neg)) / zeta_neg
    return float(eta * positive + (1 - eta) * negative)


def focal_h(x: float, gamma: float) -> float:
    """h(x; γ) = (x^γ - γ x^{γ-1}(1-x) log(1-x)) / (1-x); 0 at x = 0 in the limit unless γ = 0."""
    if gamma == 0:
        return 1 / (1 - x)
    if x == 0:
        return 0.0
    return (x**gamma - gamma * x ** (gamma - 1) * (1 - x) * math.log(1 - x)) / (1 - x)


def phi(z: float, gamma_pos: float, gamma_neg: float, shift: float) -> float:
    """φ(z) = h(u; γ⁻)/(h(u; γ⁻) + h(1-z; γ⁺)), u = (z - m)+, with its limits at 0 and 1."""
    if z == 0 or (shift > 0 and z <= shift):
        return 0.0
    u = max(z - shift, 0.0)
    if z == 1:
        if u == 1 or gamma_pos > 0:
            return 1.0
        return focal_h(u, gamma_neg) / (focal_h(u, gamma_neg) + 1.0)
    return focal_h(u, gamma_neg) / (focal_h(u, gamma_neg) + focal_h(1 - z, gamma_pos))


def focal_risk(z: float, eta: float, gamma_pos: float, gamma_neg: float, shift: float) -> float:
    """η·(-(1-z)^γ⁺ log z) + (1-η)·(-u^γ⁻ log(1-u)), u = (z - m)+: what z minimises where φ(z) = η."""
    u = max(z - shift, 0.0)
    return -eta * (1 - z) ** gamma_pos * math.log(z) - (1 - eta) * u**gamma_neg * math.log(1 - u)


def softmax_focal_recovery(row: Floats, gamma: float) -> Floats:
    """p_j ∝ q_j / ((1-q_j)^γ - γ (1-q_j)^{γ-1} q_j log q_j), q the softmax of the row."""
    q = softmax(row[None])[0]
    weights = [x / ((1 - x) ** gamma - gamma * (1 - x) ** (gamma - 1) * x * math.log(x)) for x in q]
    return np.array([w / math.fsum(weights) for w in weights])


def ldam(row: Floats, margins: Floats, scale: float) -> Floats:
    """p_j ∝ e_j (Σ_{i≠j} e_i + e_j exp(-scale · m_j)), e_j = exp(scale · s_j)."""
    top = max(row)
    e = [math.exp(scale * (s - top)) for s in row]
    weights = []
    for j, own in enumerate(e):
        others = math.fsum(x for i, x in enumerate(e) if i != j)
        weights.append(own * (others + own * math.exp(-scale * margins[j])))
    return np.array([w / math.fsum(weights) for w in weights])


def sparse_top(row: Floats, k: float) -> Floats:
    """clip(s - λ, 0, 1) with the λ, found by bisection, at which it sums to k."""
    low, high = min(row) - 1, max(row)
    for _ in range(200):
        level = (low + high) / 2
        if math.fsum(min(max(s - level, 0.0), 1.0) for s in row) > k:
            low = level
        else:
            high = level
    return np.array([min(max(s - level, 0.0), 1.0) for s in row])


def quasibinary_log_normalizer(batches: list[tuple[Floats, int]], momentum: float = 0.9) -> float:
    """log C after batches of (scores, number of labels): C ← momentum·C + (1-momentum)·C_t, started at the first batch."""
    normalizer = None
    for scores, labels in batches:
        if labels == 0:
            continue
        this = math.fsum(math.exp(s) for s in scores.ravel()) / labels
        normalizer = this if normalizer is None else momentum * normalizer + (1 - momentum) * this
    assert normalizer is not None
    return math.log(normalizer)


def temperature_nll(temperature: float, scores: Floats, target: NDArray[np.generic]) -> float:
    """Summed -log-likelihood of softmax(scores/T) for labels (N,), of sigmoid(scores/T) for marks (N, C)."""
    if target.ndim == 1:
        probs = softmax(scores / temperature)
        return -math.fsum(math.log(probs[i, y]) for i, y in enumerate(target))
    total = 0.0
    for v, marked in zip((scores / temperature).ravel(), target.ravel(), strict=True):
        total += float(np.logaddexp(0, -v if marked else v))
    return total


def platt_objective(slope: float, intercept: float, odds: Floats, marks: NDArray[np.bool_]) -> float:
    """-Σ t log p + (1-t) log(1-p), p = σ(slope·x + intercept), t = (n₊+1)/(n₊+2) or 1/(n₋+2)."""
    positives = int(marks.sum())
    negatives = len(marks) - positives
    total = 0.0
    for x, marked in zip(odds, marks, strict=True):
        t = (positives + 1) / (positives + 2) if marked else 1 / (negatives + 2)
        z = slope * x + intercept
        total += t * float(np.logaddexp(0, -z)) + (1 - t) * float(np.logaddexp(0, z))
    return total


def pool_adjacent_violators(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The distinct x in order, and at each the least-squares non-decreasing fit to y."""
    points = sorted(set(x.tolist()))
    blocks: list[list[float]] = []  # [sum of y, number of values, number of points]
    for point in points:
        here = y[x == point]
        blocks.append([float(here.sum()), float(len(here)), 1.0])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last, strict=True)]
    levels = [total / number for total, number, width in blocks for _ in range(int(width))]
    return np.array(points), np.array(levels)


def beta_objective(a: float, b: float, c: float, odds: Floats, marks: NDArray[np.bool_]) -> float:
    """As Platt's, with p = σ(a ln s - b ln(1 - s) + c), s = σ(x)."""
    positives = int(marks.sum())
    negatives = len(marks) - positives
    total = 0.0
    for x, marked in zip(odds, marks, strict=True):
        t = (positives + 1) / (positives + 2) if marked else 1 / (negatives + 2)
        z = -a * float(np.logaddexp(0, -x)) + b * float(np.logaddexp(0, x)) + c
        total += t * float(np.logaddexp(0, -z)) + (1 - t) * float(np.logaddexp(0, z))
    return total


def venn_abers(x: Floats, y: NDArray[np.bool_], point: float) -> tuple[float, float]:
    """The isotonic fits at the point, to the rows and the point itself with outcome 0 and with outcome 1."""
    found = []
    for outcome in (0.0, 1.0):
        points, levels = pool_adjacent_violators(np.append(x, point), np.append(y.astype(float), outcome))
        found.append(float(levels[points == point][0]))
    return found[0], found[1]


def softmax_regression_objective(
    scale: float, weight: Floats, intercept: Floats, logs: Floats, target: NDArray[np.int64], penalty: float
) -> float:
    """-Σ log softmax((scale I + W) log p + b)_y + penalty/2 (100 Σ W_jj² + 1000 Σ_{i≠j} W_ij² + 10 Σ b_j²)."""
    total = 0.0
    for row, label in zip(logs, target, strict=True):
        z = [scale * x + math.fsum(w * y for w, y in zip(line, row, strict=True)) for x, line in zip(row, weight, strict=True)]
        z = [value + b for value, b in zip(z, intercept, strict=True)]
        top = max(z)
        total += top + math.log(math.fsum(math.exp(value - top) for value in z)) - z[label]
    own = math.fsum(weight[j, j] ** 2 for j in range(len(weight)))
    others = math.fsum((weight**2).ravel()) - own
    return total + penalty / 2 * (100 * own + 1000 * others + 10 * math.fsum(intercept**2))


def reweighted(probs: Floats, weights: Floats) -> Floats:
    """w_j q_j / Σ_i w_i q_i, row by row."""
    out = np.empty(probs.shape)
    for i, row in enumerate(probs):
        products = [w * q for w, q in zip(weights, row, strict=True)]
        out[i] = [one / math.fsum(products) for one in products]
    return out
