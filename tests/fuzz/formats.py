"""Scores in files of every format, columns in any order, in every precision: what is read, and the numbers about it."""

import math
import random
from pathlib import Path

import numpy as np
import pandas as pd

from shortlist import Predictions
from shortlist.report import evaluate
from shortlist.sets import parse_rule
from tests.references.links import softmax


def numbers_do_not_depend_on_the_file(draw: random.Random, folder: Path) -> None:
    """Write scores with one label a row, read them, evaluate top-k: everything equals its definition, typed out here."""
    random_numbers = np.random.default_rng(draw.getrandbits(32))
    rows, classes = draw.choice([1, 2, 7, 40]), draw.choice([1, 2, 3, 9])
    scores = draw.choice([0.1, 2.0, 20.0]) * random_numbers.normal(size=(rows, classes))
    scores = (scores.round() if draw.random() < 0.3 else scores).astype(draw.choice(["float16", "float32", "float64"]))  # ties
    label = random_numbers.integers(0, classes, rows)
    names = [f"class {number}" for number in range(classes)]
    found = _written_and_read(draw, folder, scores, label, names)
    place = [list(found.class_names).index(name) for name in names]
    assert np.array_equal(found.scores.double().numpy()[:, place], scores.astype(np.float64))
    assert [found.class_names[number] for number in found.target.tolist()] == [names[number] for number in label]
    _check_numbers(draw, found)


def _written_and_read(draw, folder, scores, label, names):
    form = draw.choice(["npz", "safetensors", "csv", "parquet"])
    path = folder / f"scores.{form}"
    if form == "npz":
        np.savez(path, scores=scores, target=label, classes=np.array(names))
        return Predictions.load(path, link="softmax")
    if form == "safetensors":
        Predictions(scores, label, names, "softmax").save(path)
        return Predictions.load(path)
    columns = {f"p.{name}": scores[:, number].astype(np.float64) for number, name in enumerate(names)}
    columns |= {"target": [names[number] for number in label], "id": [f"row {row}" for row in range(len(label))]}
    order = draw.sample(list(columns), len(columns))
    frame = pd.DataFrame(columns)[order]
    frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path)
    return Predictions.load(path, link="softmax", scores_key="p.*")


def _check_numbers(draw, found):
    label, probs = found.target.tolist(), found.probs().double().tolist()
    k = draw.randint(1, found.num_classes)
    ranked = [sorted(range(len(row)), key=lambda number, row=row: (-row[number], number)) for row in probs]
    hits = [own in order[:k] for own, order in zip(label, ranked, strict=True)]
    by_class = {own: [hit for hit, other in zip(hits, label, strict=True) if other == own] for own in label}
    exact = softmax(found.scores.double().numpy()).tolist()
    losses = [-math.log(row[own]) for row, own in zip(exact, label, strict=True)]
    numbers = evaluate(found, parse_rule(f"top-k:{k}")).numbers()
    expected = {
        "coverage": sum(hits) / len(hits),
        "macro_coverage": sum(sum(own) / len(own) for own in by_class.values()) / len(by_class),
        "size": float(k),
        "top1": sum(own == order[0] for own, order in zip(label, ranked, strict=True)) / len(label),
        "log_loss": sum(losses) / len(losses),
    }
    for name, value in expected.items():
        assert math.isclose(numbers[name], value, rel_tol=1e-4, abs_tol=1e-6), (name, numbers[name], value)
