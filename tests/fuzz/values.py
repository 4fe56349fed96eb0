"""Random numbers of the kinds that break things: ties, zeros, ones, neighbours, few values, many."""

import random

import numpy as np

Array = np.ndarray


def probabilities(draw: random.Random, rows: int, classes: int, *, sum_to_1: bool) -> Array:
    """(rows, classes), float32 or float64, often with ties, zeros and ones."""
    seeded = np.random.default_rng(draw.getrandbits(32))
    kind = draw.choice(["plain", "grid", "sharp", "few", "neighbours"])
    if kind == "grid":
        values = seeded.integers(0, draw.choice([2, 3, 10]) + 1, (rows, classes)).astype(float)
        values /= values.max(initial=1)
    elif kind == "few":
        values = seeded.choice(seeded.uniform(size=draw.randint(1, 4)), (rows, classes))
    elif kind == "neighbours":
        values = np.nextafter(np.full((rows, classes), 0.3), seeded.choice([0.0, 1.0], (rows, classes)))
    elif kind == "sharp":
        values = 1 / (1 + np.exp(-30 * seeded.standard_normal((rows, classes))))
    else:
        values = seeded.uniform(size=(rows, classes))
    if sum_to_1:
        values = values + 1e-12 * (values.sum(1, keepdims=True) == 0)
        values = values / values.sum(1, keepdims=True)
    return values.astype(draw.choice([np.float32, np.float64]))


def one_label(draw: random.Random, rows: int, classes: int) -> Array:
    """int64 (rows,); some classes may be absent."""
    seeded = np.random.default_rng(draw.getrandbits(32))
    return seeded.integers(0, draw.randint(1, classes), rows)


def many_labels(draw: random.Random, rows: int, classes: int) -> Array:
    """bool (rows, classes); some rows and some classes may have none."""
    seeded = np.random.default_rng(draw.getrandbits(32))
    return seeded.uniform(size=(rows, classes)) < draw.choice([0.0, 0.1, 0.5, 1.0])
