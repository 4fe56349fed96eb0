"""Known label laws, the expected loss of scores under them, and its minimiser."""

import itertools

import numpy as np
import torch
from scipy.optimize import linprog, minimize

SHOWN: set[tuple[str, str]] = set()


def shows(word, *losses):
    """Marks a test as the one that shows what these losses elicit."""

    def mark(test):
        SHOWN.update((loss, word) for loss in losses)
        return test

    return mark


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def minimiser(risk, shape, start=None, tolerance=1e-7):
    """Scores that minimise a smooth risk; the gradient there is checked to be 0."""

    def value_and_slope(x):
        scores = tensor(x).view(shape).requires_grad_()
        value = risk(scores)
        value.backward()
        return value.item(), scores.grad.numpy().ravel()

    start = np.zeros(shape) if start is None else np.asarray(start, dtype=np.float64)
    found = minimize(value_and_slope, start.ravel(), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 3000})
    assert np.abs(found.jac).max() < tolerance
    return tensor(found.x).view(shape)


def one_label_risk(loss, law):
    """``Σ_y p_y loss(scores, y)`` of scores (C,); the loss has a value a row."""
    law, labels = tensor(law), torch.arange(len(law))
    return lambda scores: (loss(scores.expand(len(law), -1), labels) * law).sum()


def all_sets(classes, size=None):
    """Every set of labels, or every one of this size, bool (sets, C)."""
    sets = [marks for marks in itertools.product([False, True], repeat=classes) if size is None or sum(marks) == size]
    return torch.tensor(sets)


def random_law(outcomes, seed):
    return np.random.default_rng(seed).dirichlet(np.ones(outcomes))


def set_risk(loss, sets, law):
    """The expected loss of scores (C,) where these sets of labels have these probabilities."""
    law = tensor(law)
    return lambda scores: (loss(scores.expand(len(law), -1), sets) * law).sum()


def marginals(sets, law):
    return tensor(law) @ sets.double()


def independent(marginal):
    """All sets, and their law where labels are independent."""
    sets, marginal = all_sets(len(marginal)), tensor(marginal)
    return sets, torch.where(sets, marginal, 1 - marginal).prod(1).tolist()


def batch_of_sets(marginal, parts=10):
    """Inputs (R, C) of independent labels as a batch with exact proportions: the input of each row, and its labels."""
    grid = torch.tensor(list(itertools.product(range(parts), repeat=len(marginal[0]))))
    marks = [grid < (tensor(row) * parts).round() for row in marginal]
    return torch.arange(len(marginal)).repeat_interleave(len(grid)), torch.cat(marks)


def batch_of_labels(laws, parts):
    """Inputs (R, C) of one label a row as a batch with exact proportions: the input of each row, and its label."""
    counts = torch.tensor([[round(p * parts) for p in law] for law in laws])
    assert (counts.sum(1) == parts).all()
    labels = torch.arange(counts.shape[1]).repeat(len(laws))
    return torch.arange(len(laws)).repeat_interleave(parts), labels.repeat_interleave(counts.ravel())


def order(values):
    return torch.as_tensor(values).argsort(descending=True, stable=True).tolist()


def top_sets(scores, k):
    """All sets that could be called the k largest of a row: several where there is a tie."""
    sets = itertools.combinations(range(len(scores)), k)
    return [a for a in sets if min(scores[j] for j in a) >= max(s for j, s in enumerate(scores) if j not in a)]


def hinge_minimum(rivals, law, k, chosen=None, gap=0.0):
    """Least expected hinge over all scores whose k largest are ``chosen``, ahead of the others by ``gap``: value, scores.

    Inside the cone of one ordering the hinge of label y is the largest of 0 and of some ``constant + weights · s - s_y``, which
    ``rivals(ordering, y)`` lists, so that a linear program finds the exact minimum; all orderings together leave nothing out.
    """
    classes = len(law)
    best = np.inf, None
    for ordering in itertools.permutations(range(classes)):
        if chosen is not None and set(ordering[:k]) != set(chosen):
            continue
        rows, limits = [], []
        for place in range(classes - 1):
            row = np.zeros(2 * classes)
            row[ordering[place + 1]], row[ordering[place]] = 1, -1
            rows.append(row)
            limits.append(-gap if place == k - 1 else 0.0)
        for y in range(classes):
            for constant, weights in rivals(ordering, y):  # slack_y ≥ constant + weights · s - s_y
                row = np.r_[weights, np.zeros(classes)]
                row[y] -= 1
                row[classes + y] = -1
                rows.append(row)
                limits.append(-constant)
        bounds = [(0, 10)] * classes + [(0, None)] * classes
        found = linprog(np.r_[np.zeros(classes), law], A_ub=np.array(rows), b_ub=limits, bounds=bounds)
        if found.fun < best[0] - 1e-12:
            best = found.fun, tensor(found.x[:classes])
    return best
