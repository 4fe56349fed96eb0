"""Predictions of every kind that an evaluation can meet."""

import torch

from shortlist import Predictions
from shortlist.report import evaluate
from shortlist.sets import threshold, top_k

COUNTS = [3, 19, 20, 100, 101, 500]
SUPERCLASSES = ["broad", "broad", "broad", "needle", "broad", "needle"]
CLASSES = ["ash", "beech", "elm", "fir", "oak", "yew"]
KINDS = ["single", "many", "none"]


def draw(kind="single", *, rows=90, link="softmax", counts=None, classes=CLASSES, superclasses=None, seed=0):
    """Scores with one label a row, many labels (some rows without any) or none; class 0 is absent among single labels."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(rows, len(CLASSES), generator=generator)
    target = None
    if kind == "single":
        target = 1 + torch.multinomial(scores[:, 1:].softmax(1), 1, generator=generator).squeeze(1)
    elif kind == "many":
        target = torch.rand(scores.shape, generator=generator) < scores.sigmoid() * 0.6
        link = "sigmoid" if link == "softmax" else link
    return Predictions(scores, target, classes, link, train_counts=counts, superclasses=superclasses)


def measured(kind="single", *, name="trees", rule=None, top_n=None, bins=15, shots=None, **settings):
    """The evaluation of such predictions; the default rule leaves some sets empty."""
    predictions = draw(kind, **settings)
    if rule is None:
        rule = top_k(2) if predictions.link is None else threshold(0.45)
    return evaluate(predictions, rule, name=name, top_n=top_n, calibration_bins=bins, shots=shots)
