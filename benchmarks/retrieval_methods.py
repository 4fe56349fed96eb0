"""Which loss retrieves best by combined queries (Cheng, section 4 and figure 3): multi-label losses on real tables and plots.

``python -m benchmarks.retrieval_methods MULAN [DATASET …]`` takes minutes a dataset; MULAN is the folder of Mulan's datasets.
The dataset ``flora-quadrats`` needs no folder, and a GPU: an hour with one training at a time.
Scores of each training are read in several ways: by the sigmoid, as if they were logits; by the link of the loss; and by
Platt scaling and isotonic regression of the sigmoid's, fitted on the rows that chose the epoch.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import record
from shortlist.data import open_dataset
from shortlist.links import Isotonic, Platt, Sigmoid
from shortlist.metrics import RetrievalScores, evaluate_retrieval, logs_of
from shortlist.predictions import Predictions
from shortlist.recipes import find_recipe
from shortlist.recipes.tables import mulan
from shortlist.training import Recipe
from shortlist.training.run import train

METHODS = ("bce", "focal-multilabel", "asy", "two-way", "spa", "spa-label-pair", "quasibinary")
TABLES = ("scene", "yeast", "corel5k", "birds", "emotions")
NAMES = {"corel5k": "Corel5k"}  # of files, where they differ from the folder's
QUADRATS = "flora-quadrats"
SEEDS = (0, 1, 2)


EXACT = "exact, marginals"  # of Flora, whose law is known


def recipe_of(dataset: str, folder: str, method: str, seed: int) -> Recipe:
    """The dataset's recipe with another loss."""
    if dataset == QUADRATS:
        start = find_recipe(dataset).with_settings(epochs=30)  # the recipe's 5 are for two cores; this wants a GPU
    else:
        start = mulan(NAMES.get(dataset, dataset)).with_path(f"{folder}/{dataset}")
    return start.with_settings(method=method, seed=seed, calibration="none", rule="top-k:1")  # no link and no rule is needed


def readings(method: str, own: Any, held: Predictions, test: Predictions) -> dict[str, Predictions]:
    """The same scores as probabilities, one way after the other."""
    found = {f"{method}, sigmoid": test.with_link(Sigmoid())}
    if own is not None and not isinstance(own, Sigmoid):
        found[f"{method}, own link"] = test.with_link(own)
    for name, kind in (("Platt", Platt), ("isotonic", Isotonic)):
        found[f"{method}, {name}"] = test.with_link(kind().fit(held.scores, held.target))
    return found


def one(dataset: str, folder: str, method: str, seed: int) -> None:
    """Train once, ask every reading of the scores."""
    recipe = recipe_of(dataset, folder, method, seed)
    with tempfile.TemporaryDirectory() as out:
        trained = train(recipe, Path(out) / "run")
    parts = [trained.predictions[name] for name in ("val", "calibration") if name in trained.predictions]
    held = Predictions(torch.cat([part.scores for part in parts]), torch.cat([part.target for part in parts]))
    test = trained.predictions["test"]
    for name, predictions in readings(method, test.link, held, test).items():
        tell(dataset, name, seed, evaluate_retrieval(*logs_of(predictions), predictions.target))


def best_possible(dataset: str) -> None:
    """The same queries, asked of the exact probability of each label given what the picture shows."""
    test = open_dataset(recipe_of(dataset, "", "bce", 0).data).splits["test"]
    if test.posterior is not None:
        probs = test.posterior.double()
        tell(dataset, EXACT, 0, evaluate_retrieval(probs.log(), (-probs).log1p(), test.target))


def tell(dataset: str, name: str, seed: int, scores: RetrievalScores) -> None:
    """Keep one result, and print it."""
    record("retrieval-methods", f"{dataset}: {name}", {"dataset": dataset, "seed": seed, **summary(scores)})
    lengths = " ".join(f"{each.map:.4f}" for each in scores.by_length)
    print(f"{dataset:15} seed {seed} {name:32} mAP {scores.map:.4f}  by length {lengths}", flush=True)


def summary(scores: RetrievalScores) -> dict[str, Any]:
    """The numbers of the tables: over all queries, and by length from 1."""
    every = [scores.overall, *scores.by_length]
    return {
        "map": [round(each.map, 6) for each in every],
        "error": [round(each.error, 6) for each in every],
        "precision_at_10": [round(each.precision_at_10, 6) for each in every],
        "calibration_error": [round(each.calibration_error(), 6) for each in every],
        "queries": round(scores.overall.queries),
        "rows": scores.rows,
        "labels": scores.classes,
    }


def run(folder: str, datasets: tuple[str, ...] = TABLES, seeds: tuple[int, ...] = SEEDS) -> None:
    for dataset in datasets:
        if dataset == QUADRATS:
            best_possible(dataset)
        for seed in seeds:
            for method in METHODS:
                one(dataset, folder, method, seed)


if __name__ == "__main__":
    run(sys.argv[1], tuple(sys.argv[2:]) or TABLES)
