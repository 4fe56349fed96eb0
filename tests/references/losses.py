"""Losses, literally: one row, one label, one set of labels at a time, in float64.

Every function takes the scores (N, C) and for each row the list of its labels. A loss that is a mean over rows gives the list
of its rows' values, one that couples the rows of a batch gives its mean. Where a gradient is stopped, ``held`` says at which
scores the stopped part is evaluated, so that differences of the rest are the gradient.
"""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np


def each_row(function):
    """A formula of one row and its labels, as a loss of all rows."""
    return lambda scores, labels, **keywords: [function(*pair, **keywords) for pair in zip(scores, labels, strict=True)]


def softplus(x):
    """log(1 + e^x), written such that large x do not overflow."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def sigmoid(x):
    return math.exp(-softplus(-x))


def mean(values):
    values = list(values)
    return math.fsum(values) / max(1, len(values))


def log_sum_exp(values):
    values = list(values)
    top = max(values)
    return top + math.log(math.fsum(math.exp(v - top) for v in values))


def log_softmax(row):
    return [s - log_sum_exp(row) for s in row]


def largest(row, k):
    return sorted(row, reverse=True)[k - 1]


@each_row
def cross_entropy_loss(row, own):
    """-log softmax_y, the mean of that over the labels of a row; 0 without labels."""
    return mean(-log_softmax(row)[y] for y in own)


@each_row
def focal_loss(row, own, gamma=2.0):
    """(1 - e^{-CE})^γ · CE."""
    return (-math.expm1(log_softmax(row)[own[0]])) ** gamma * -log_softmax(row)[own[0]]


def class_margins(counts, max_margin=0.5):
    """max_m · n_j^{-1/4} / max_i n_i^{-1/4}."""
    powers = [n**-0.25 for n in counts]
    return [max_margin * power / max(powers) for power in powers]


@each_row
def ldam_loss(row, own, margins, scale=30.0):
    """CE(scale · (s - m_y e_y), y)."""
    (y,) = own
    return -log_softmax([scale * (s - (margins[y] if j == y else 0.0)) for j, s in enumerate(row)])[y]


@each_row
def topk_hinge_loss(row, own, k, margin=1.0):
    """(margin + top_k(s without y) - s_y)+."""
    return max(margin + largest([s for j, s in enumerate(row) if j not in own], k) - row[own[0]], 0.0)


@each_row
def convex_topk_hinge_loss(row, own, k, margin=1.0):
    """(mean of the k largest of (s + margin·(1 - e_y)) - s_y)+."""
    raised = sorted((s + margin * (j not in own) for j, s in enumerate(row)), reverse=True)
    return max(mean(raised[:k]) - row[own[0]], 0.0)


@each_row
def calibrated_topk_hinge_loss(row, own, k, margin=1.0):
    """(margin + top_{k+1}(s) - s_y)+."""
    return max(margin + largest(row, k + 1) - row[own[0]], 0.0)


@each_row
def smooth_topk_hinge_loss(row, own, k, temperature=1.0):
    """τ log Σ_A exp((1[y∉A] + mean_A s)/τ) - τ log Σ_{A∋y} exp(mean_A s/τ), over every set A of k classes, one by one."""
    (y,) = own
    sets = [(y in chosen, mean(row[j] for j in chosen)) for chosen in itertools.combinations(range(len(row)), k)]
    everything = log_sum_exp(((0.0 if holds else 1.0) + value) / temperature for holds, value in sets)
    return temperature * (everything - log_sum_exp(value / temperature for holds, value in sets if holds))


def exceeds(score, level, epsilon):
    """P(score + εZ > level)."""
    return math.erfc((level - score) / epsilon / math.sqrt(2)) / 2


def noised_top(row, k, epsilon, draws):
    """(1/B) Σ_b top_k(s + ε Z_b)."""
    return mean(largest([s + epsilon * z for s, z in zip(row, draw, strict=True)], k) for draw in draws)


def expected_top(row, k, epsilon):
    """E top_k(s + εZ) = low + ∫ P(at least k exceed t) dt, the probability by enumeration of who exceeds."""
    low, high = min(row) - 9 * epsilon, max(row) + 9 * epsilon
    points = np.linspace(low, high, math.ceil((high - low) / epsilon * 8) + 1)
    above = np.array([[exceeds(s, t, epsilon) for t in points] for s in row])
    below = np.array([[exceeds(t, s, epsilon) for t in points] for s in row])
    enough = np.zeros(len(points))
    for number in range(k, len(row) + 1):
        for exceeding in itertools.combinations(range(len(row)), number):
            enough += np.prod([above[j] if j in exceeding else below[j] for j in range(len(row))], axis=0)
    return low + float(np.trapezoid(enough, points))


def soft_top(row, k, epsilon):
    """The τ with Σ_j Φ((s_j - τ)/ε) = k - ½, by bisection to the last digit."""
    low, high = min(row) - 40 * epsilon, max(row) + 40 * epsilon
    while low < (middle := (low + high) / 2) < high:
        above = math.fsum(exceeds(s, middle, epsilon) for s in row) > k - 0.5
        low, high = (middle, high) if above else (low, middle)
    return middle


def noised_topk_hinge_loss(scores, labels, k, epsilon=1.0, margin=1.0, scale=1.0, smoothing="", noise=None, samples=0):
    """(scale · (m_y + t - s_y))+, t a smoothed top_{k+1}."""
    out = []
    for i, (row, (y,)) in enumerate(zip(scores, labels, strict=True)):
        noised = functools.partial(noised_top, draws=[[0.0] * len(row)] if noise is None else noise[:, i])
        t = {"expected": expected_top, "soft": soft_top}.get(smoothing, noised)(row, k + 1, epsilon)
        own = margin if isinstance(margin, float) else margin[y]
        out.append(max(scale * (own + t - row[y]), 0.0))
    return out


def projection(row, k):
    """q = clip(s - λ, 0, 1) with Σ q = k and its λ, exactly: the sum is linear between neighbouring s and s - 1."""
    exact = [Fraction(float(s)) for s in row]

    def clipped(level):
        return [min(max(s - level, Fraction(0)), Fraction(1)) for s in exact]

    for left, right in itertools.pairwise(sorted({*exact, *(s - 1 for s in exact)})):
        more, less = sum(clipped(left)), sum(clipped(right))
        if more >= k >= less:
            level = left if more == less else left + (right - left) * (more - k) / (more - less)
            return clipped(level), level
    raise AssertionError("k lies between 0 and the number of classes")


@each_row
def sparse_top_loss(row, own):
    """Σ_{q=1}(s - ½) + ½ Σ_{0<q<1}(s² - λ²) + |Y|/2 - Σ_Y s, q the projection at k = |Y|; 0 without labels or with all."""
    if len(own) in (0, len(row)):
        return 0.0
    q, level = projection(row, len(own))
    exact = [Fraction(float(s)) for s in row]
    ones = sum(s - Fraction(1, 2) for s, p in zip(exact, q, strict=True) if p == 1)
    between = sum(s**2 - level**2 for s, p in zip(exact, q, strict=True) if 0 < p < 1)
    return float(ones + Fraction(between) / 2 + Fraction(len(own), 2) - sum(exact[j] for j in own))


@each_row
def assume_negative_loss(row, own):
    """-log σ(z_y) - (1/(C-1)) Σ_{j≠y} log(1 - σ(z_j)); of one class only the first term."""
    return softplus(-row[own[0]]) + mean(softplus(z) for j, z in enumerate(row) if j not in own)


def expected_number(scores):
    """K̂ = (1/B) Σ_ij σ(z_ij)."""
    return mean(math.fsum(sigmoid(z) for z in row) for row in scores)


def expected_positive_loss(scores, labels, k, beta=0.01):
    """mean_i -log σ(z_{i,y}) + β (K̂ - k)²."""
    observed = mean(softplus(-row[y]) for row, (y,) in zip(scores, labels, strict=True))
    return observed + beta * (expected_number(scores) - k) ** 2


def role_loss(scores, labels, estimates, k, weight=0.0, held=None):
    """½[ℓ⁺(F) + H(F, stop Θ) + λR(F)] + ½[ℓ⁺(Θ) + H(Θ, stop F) + λR(Θ)]."""
    held = held or {"scores": scores, "estimates": estimates}
    halves = 0.0
    for logits, teacher in ((scores, held["estimates"]), (estimates, held["scores"])):
        for i, (y,) in enumerate(labels):
            halves += softplus(-logits[i][y]) / len(labels)
            for z, t in zip(logits[i], teacher[i], strict=True):
                halves += (sigmoid(t) * softplus(-z) + sigmoid(-t) * softplus(z)) / len(labels)
        halves += weight * (expected_number(logits) - k) ** 2
    return halves / 2


def pseudo_positives(proposal_scores, labels, k):
    """The round-half-up((k-1)·B) largest entries of softmax, the true ones left out, ties by lower index; k as typed."""
    entries = []
    for i, (row, (y,)) in enumerate(zip(proposal_scores, labels, strict=True)):
        entries += [(-math.exp(p), i, j) for j, p in enumerate(log_softmax(row)) if j != y]
    number = math.floor((Fraction(str(k)) - 1) * len(labels) + Fraction(1, 2))
    return [(i, j) for _, i, j in sorted(entries)[:number]]


def average_k_loss(scores, labels, proposal_scores, k, alpha=1.0):
    """The proposal's cross-entropy, the true labels, the pseudo-positives and the rest, each a mean over its entries."""
    chosen = pseudo_positives(proposal_scores, labels, k)
    true, positive, rest = [], [], []
    for i, (row, (y,)) in enumerate(zip(scores, labels, strict=True)):
        for j, z in enumerate(row):
            part = true if j == y else positive if (i, j) in chosen else rest
            part.append(softplus(z if part is rest else -z))
    return mean(cross_entropy_loss(proposal_scores, labels)) + mean(true) + alpha * (mean(positive) + mean(rest))


def set_cost(row, y, size, size_weight, size_cost):
    """A miss of the label among the ``size`` highest scores costs 1, the set ``size_weight`` times its log or its size."""
    members = sorted(range(len(row)), key=lambda j: (-row[j], j))[:size]
    return (y not in members) + size_weight * (math.log(size) if size_cost == "log" else size)


def cardinality_aware_loss(scores, labels, size_scores, sizes, size_weight=0.05, size_cost="log"):
    """Cross-entropy, and Σ_j (1 - c_j / m) times that of choosing size j; m is the cost of a miss with the largest size."""
    out = []
    for row, choices, (y,) in zip(scores, size_scores, labels, strict=True):
        most = 1 + size_weight * (math.log(max(sizes)) if size_cost == "log" else max(sizes))
        worth = [1 - set_cost(row, y, size, size_weight, size_cost) / most for size in sizes]
        choosing = -math.fsum(w * v for w, v in zip(worth, log_softmax(list(choices)), strict=True))
        out.append(-log_softmax(row)[y] + choosing)
    return out


def conformal_threshold(values, alpha, spread):
    """The mean of the ordered values, weighted by a normal density around rank ⌈(m + 1)(1 - α)⌉, at most m."""
    m = len(values)
    rank = min(math.ceil((m + 1) * (1 - Fraction(str(alpha)))), m)
    weights = [math.exp(-(((place - rank) / spread) ** 2) / 2) if spread else place == rank for place in range(1, m + 1)]
    ordered = sorted(values, reverse=True)
    return math.fsum(w * v for w, v in zip(weights, ordered, strict=True)) / math.fsum(weights)


def conformal_training_loss(scores, labels, alpha=0.01, temperature=1.0, size_weight=1.0, target_size=1.0, spread=1.0):
    """log mean over odd rows of 1 - C_y + w (Σ C - κ)+, C = σ((log p - τ)/T), τ from the even rows; 0 without odd rows."""
    rows = [(log_softmax(row), y) for row, (y,) in zip(scores, labels, strict=True)]
    if len(rows) < 2:
        return 0.0
    threshold = conformal_threshold([row[y] for row, y in rows[::2]], alpha, spread)
    logs = []
    for row, y in rows[1::2]:
        away = sorted(((v - threshold) / temperature for v in row), reverse=True)
        logs.append(-softplus((row[y] - threshold) / temperature))
        # 1 - C of the largest is σ(-away), which keeps its digits where C is nearly 1.
        excess = math.fsum([1 - target_size, -sigmoid(-away[0]), *(sigmoid(v) for v in away[1:])])
        if excess > 0 and size_weight > 0:
            logs.append(math.log(size_weight * excess))
    return log_sum_exp(logs) - math.log(len(rows[1::2]))


@each_row
def binary_cross_entropy_loss(row, own):
    return mean(softplus(-v) if j in own else softplus(v) for j, v in enumerate(row))


def asymmetric_focal_loss(scores, labels, gamma_pos=0.0, gamma_neg=4.0, shift=0.0, detach_weight=False, held=None):
    """ℓ⁺ = -(1-p)^γ⁺ log p, ℓ⁻ = -u^γ⁻ log(1-u), u = (p - m)+, mean over labels; ``held``: the scores of the powers."""
    out = []
    for row, at, own in zip(scores, held["scores"] if held else scores, labels, strict=True):
        costs = []
        for j, (v, w) in enumerate(zip(row, at, strict=True)):
            if j in own:
                costs.append(sigmoid(-w) ** gamma_pos * softplus(-v))
            elif sigmoid(v) > shift:  # 1 - u = 1 - p + m
                rest = softplus(v) if shift == 0 else -math.log(sigmoid(-v) + shift)
                costs.append((sigmoid(w) - shift) ** gamma_neg * rest)
        out.append(math.fsum(costs) / len(row))
    return out


@each_row
def spa_loss(row, own, zeta_pos=1.0, k_pos=1.0, b_pos=0.0, zeta_neg=5.0, k_neg=3.0, b_neg=1.0):
    """ℓ⁺ = softplus(-k⁺(v - b⁺))/ζ⁺, ℓ⁻ = softplus(k⁻(v - b⁻))/ζ⁻, mean over labels."""
    positive = [softplus(-k_pos * (v - b_pos)) / zeta_pos for v in row]
    negative = [softplus(k_neg * (v - b_neg)) / zeta_neg for v in row]
    return mean(positive[j] if j in own else negative[j] for j in range(len(row)))


def two_way_loss(scores, labels, positive_temperature=4.0, negative_temperature=1.0):
    """softplus(T_n·lse_neg(v/T_n) + T_p·lse_pos(-v/T_p)) over rows and over classes that have a positive, averaged, added."""
    rows = [[(v, j in own) for j, v in enumerate(row)] for row, own in zip(scores, labels, strict=True)]
    loss = 0.0
    for lines in (rows, list(zip(*rows, strict=True))):
        values = []
        for line in lines:
            present = [-v / positive_temperature for v, marked in line if marked]
            absent = [v / negative_temperature for v, marked in line if not marked]
            if present and absent:
                high, low = negative_temperature * log_sum_exp(absent), positive_temperature * log_sum_exp(present)
                values.append(softplus(high + low))
            elif present:
                values.append(0.0)
        loss += mean(values)
    return loss


@each_row
def label_pair_penalty(row, own):
    """(2/(T(T-1))) Σ_{t∈P, u∈M} softplus(r_u - r_t)."""
    labels = range(len(row))
    pairs = [softplus(row[u] - row[t]) for t in labels for u in labels if t in own and u not in own]
    return 2 * math.fsum(pairs) / (len(row) * (len(row) - 1)) if pairs else 0.0


def quasibinary_loss(scores, labels, log_normalizer=None):
    """(1/B) Σ [-y log q + (log q)+], log q = v - log C; without labels and without C every q is 0."""
    if log_normalizer is None:
        if not any(labels):
            return 0.0
        log_normalizer = log_sum_exp(v for row in scores for v in row) - math.log(sum(len(own) for own in labels))
    costs = []
    for row, own in zip(scores, labels, strict=True):
        log_q = [v - float(log_normalizer) for v in row]
        costs += [-log_q[j] for j in own] + [max(x, 0.0) for x in log_q]
    return math.fsum(costs) / len(scores)


@each_row
def uniform_outlier_loss(row, own):
    """-log C - mean_j log softmax_j, 0 with a label."""
    return 0.0 if own else -math.log(len(row)) - mean(log_softmax(row))


@each_row
def confidence_outlier_loss(row, own):
    """max_j log softmax_j, 0 with a label."""
    return 0.0 if own else max(log_softmax(row))
