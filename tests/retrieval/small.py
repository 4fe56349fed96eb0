"""Small indexes, and what brute force in float64 finds in them."""

import random

import numpy as np
import torch

from shortlist import Predictions

LABELS = ("fork", "apple", "knife", "dining table", "car", "bus")


def predictions(rows=500, labels=LABELS, seed=0, link="sigmoid", ids=None, **more):
    """Random scores."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, len(labels), generator=generator) * 2 - 1
    return Predictions(scores, classes=list(labels), link=link, ids=ids, **more)


def exact_logs(given):
    """log η and log(1 - η), float64 (N, C), by the letter."""
    odds = given.link.log_odds(given.scores.double()).numpy()
    return -np.logaddexp(0, -odds), -np.logaddexp(0, odds)


def brute_force(query, logs, n):
    """Numbers and scores of the n best rows, in plain float64."""
    yes, no = logs
    scores = query.log_probability(dict(enumerate(yes.T)), dict(enumerate(no.T)))
    order = sorted(range(len(scores)), key=lambda row: (-scores[row], row))
    return [(row, scores[row]) for row in order if scores[row] > -np.inf][:n]


def random_query(draw: random.Random, labels=LABELS, depth=2):
    """A query of the language, any kind."""
    name = lambda: f'"{draw.choice(labels)}"'  # noqa: E731
    kind = draw.random()
    if depth == 0 or kind < 0.3:
        return ("not " if draw.random() < 0.3 else "") + name()
    if kind < 0.4:
        return f"{name()} {draw.choice(['>', '>=', '<', '<='])} {draw.random():.3f}"
    if kind < 0.5:
        return f"count {draw.choice(['>=', '<=', '>', '<', '='])} {draw.randint(0, len(labels))}"
    parts = [random_query(draw, labels, depth - 1) for _ in range(draw.randint(2, 3))]
    if kind < 0.6:
        return f"at least {draw.randint(1, len(parts))} of ({', '.join(parts)})"
    return "(" + f" {draw.choice(['and', 'and', 'or'])} ".join(parts) + ")"


def random_conjunction(draw: random.Random, labels=LABELS, most=5):
    """Some labels present, some absent."""
    chosen = draw.sample(labels, draw.randint(1, min(most, len(labels))))
    return " and ".join(("not " if place and draw.random() < 0.5 else "") + f'"{label}"' for place, label in enumerate(chosen))
