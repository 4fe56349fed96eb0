"""Arms that train on rows with any number of labels: several, or one or none."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from shortlist.claims.data_changes import CHANGES
from shortlist.claims.experiment import Arm, Numbers
from shortlist.claims.label_numbers import label_numbers
from shortlist.claims.training import opened_data, recipe_settings, train_recipe, trained_recipe
from shortlist.metrics import mean_max_confidence, outlier_auroc
from shortlist.predictions import Predictions
from shortlist.tensors import is_single_label, one_hot
from shortlist.training.recipe import Recipe
from shortlist.training.splits import TEST, VAL

AUROC = "AUROC"


def train_several_labels(settings: Mapping[str, Any], seed: int, folder: Path | None) -> Numbers:
    """Train ``settings["recipe"]`` on data changed by ``settings["change"]``, if any, and measure its probabilities."""
    trained = train_recipe(settings["recipe"], seed, folder, CHANGES.get(settings["change"]))
    return label_numbers(trained.predictions[VAL], trained.predictions[TEST], trained.posterior)


def train_open_set(settings: Mapping[str, Any], seed: int, folder: Path | None) -> Numbers:
    """Train on rows with one label or none and measure both kinds, in percent.

    ``top-1 in`` is the accuracy on rows with a label, ``confidence in`` and ``confidence out`` the mean largest probability of
    a label on rows with one and without, ``AUROC`` how well it tells them apart.
    """
    trained = train_recipe(settings["recipe"], seed, folder, CHANGES.get(settings["change"]))
    found = _open_set(trained.predictions[TEST])
    posterior = trained.posterior
    if posterior is None:
        return found
    known = trained.predictions[TEST].target
    assert known is not None
    best = _open_set(Predictions(posterior, known, link="identity"))
    # The largest probability is not the best that can tell the rows apart: that is the probability of any label.
    best[AUROC] = 100 * float(outlier_auroc(posterior.sum(1, keepdim=True).clamp(max=1), known.any(1, keepdim=True)))
    return found | {f"{name} best": value for name, value in best.items()}


def train_one_of_many(settings: Mapping[str, Any], seed: int, folder: Path | None) -> Numbers:
    """Train on rows with one label, which methods for several labels may treat as such, and measure the top-1 ``error``.

    In percent, expected under the true class probabilities where they are known; ``error best`` is then the least possible.
    ``validation`` is the top-1 accuracy on validation rows, if there are any.
    """
    trained = train_recipe(settings["recipe"], seed, folder)
    test = trained.predictions[TEST]
    # Not that of the training, which has none where rows are treated as if they could have several labels.
    posterior = opened_data(trained_recipe(settings["recipe"], seed, folder).data).splits[TEST].posterior
    assert test.target is not None
    truth = (one_hot(test.target, test.scores.shape[1]) if posterior is None else posterior).double()
    found = {"error": _error(test.scores, truth)}
    if VAL in trained.predictions:
        known = trained.predictions[VAL]
        assert known.target is not None
        found["validation"] = 100 - _error(known.scores, one_hot(known.target, known.scores.shape[1]).double())
    return found if posterior is None else found | {"error best": _error(truth, truth)}


def _error(scores: Tensor, truth: Tensor) -> float:
    return 100 - 100 * float(truth.gather(1, scores.argmax(1, keepdim=True)).mean())


def _open_set(test: Predictions) -> Numbers:
    assert test.target is not None
    probs, target = test.probs(), test.target
    if is_single_label(target):  # the last class is that of rows without a label
        target = one_hot(target, probs.shape[1])
        probs, target = probs[:, :-1], target[:, :-1]
    known = target.any(1)
    right = target.gather(1, probs.argmax(1, keepdim=True)).squeeze(1)
    return {
        "top-1 in": 100 * float(right[known].double().mean()),
        "confidence in": 100 * float(mean_max_confidence(probs[known])),
        "confidence out": 100 * float(mean_max_confidence(probs[~known])),
        AUROC: 100 * float(outlier_auroc(probs, target)),
    }


def label_arm(recipe: Recipe, change: str = "") -> Arm:
    """An arm that trains on rows with several labels."""
    return Arm(train_several_labels, {"recipe": recipe_settings(recipe), "change": change})


def one_of_many_arm(recipe: Recipe) -> Arm:
    """An arm that trains on rows with one label."""
    return Arm(train_one_of_many, {"recipe": recipe_settings(recipe)})


def open_set_arm(recipe: Recipe, change: str = "") -> Arm:
    """An arm that trains on rows with one label or none."""
    return Arm(train_open_set, {"recipe": recipe_settings(recipe), "change": change})
