"""Arms that train: a recipe as settings, trained in a temporary folder, and what its test predictions are worth."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from shortlist.claims.experiment import Arm, Numbers
from shortlist.claims.set_numbers import set_numbers
from shortlist.errors import InputError
from shortlist.training.recipe import PATH, Recipe
from shortlist.training.splits import CALIBRATION, TEST, VAL

if TYPE_CHECKING:
    from shortlist.data import Dataset
    from shortlist.training.run import TrainingResult

Change: TypeAlias = Callable[["Dataset", int], "Dataset"]
SEED = "{seed}"  # in the data of a recipe: the seed of the arm, so that every seed has data of its own
UNIMPORTANT = ("name", "summary", "reference", "grid", "seed")
SIZES = (1, 3, 5, 10)


def recipe_settings(recipe: Recipe) -> dict[str, Any]:
    """A recipe as settings of an arm: what differs from the defaults of recipes, and all parameters of its method.

    A setting that recipes get later, with a default that changes nothing, leaves the fingerprint as it is.
    """
    record = recipe.record()
    usual = {part.name: part.default for part in fields(Recipe)}
    return {name: value for name, value in record.items() if name not in UNIMPORTANT and value != usual[name]}


def trained_recipe(settings: Mapping[str, Any], seed: int, folder: Path | None) -> Recipe:
    """The recipe of these settings, with its data and its seed."""
    data = str(settings["data"]).replace(SEED, str(seed))
    if PATH in data:
        if folder is None:
            raise InputError(f"data: expected the folder of {data.partition(':')[0]}, got none: name it with --data")
        data = data.replace(PATH, str(folder))
    return Recipe("claim", **{**settings, "data": data, "seed": seed})


def train_recipe(
    settings: Mapping[str, Any], seed: int, folder: Path | None = None, change: Change | None = None
) -> "TrainingResult":
    """Train the recipe of these settings; nothing is kept but the result.

    Args:
        settings: those of :func:`recipe_settings`.
        seed: of the training, and of the data where they name it.
        folder: of the data.
        change: of the data before training: (dataset, seed) → dataset.
    """
    from shortlist.training.run import train

    recipe = trained_recipe(settings, seed, folder)
    dataset = opened_data(recipe.data) if change is None else change(opened_data(recipe.data), seed)
    with tempfile.TemporaryDirectory() as place:
        return train(recipe, Path(place) / "run", dataset=dataset, checkpoint_seconds=3600.0)


@lru_cache(maxsize=1)
def opened_data(text: str) -> "Dataset":
    """The data of the arms of one seed, which follow one another."""
    from shortlist.data import as_dataset

    return as_dataset(text)


def train_single_label(settings: Mapping[str, Any], seed: int, folder: Path | None) -> Numbers:
    """Train ``settings["recipe"]`` and measure top-k and average-k sets of the sizes in ``settings["sizes"]``.

    Where the data come with the true class probabilities, accuracies are those expected under them, and the best possible
    ones are given too.
    """
    trained = train_recipe(settings["recipe"], seed, folder)
    predictions = trained.predictions
    known, test = predictions.get(CALIBRATION, predictions[VAL]), predictions[TEST]
    numbers = set_numbers(known, test, trained.posterior, settings["sizes"])
    best = next((line for line in reversed(trained.history) if line.get("best")), None)
    return numbers | ({} if best is None else {"validation": 100 * float(best["value"]), "epoch": float(best["epoch"])})


def training_arm(recipe: Recipe, sizes: Sequence[int] = SIZES) -> Arm:
    """An arm that trains a recipe whose rows have one label."""
    return Arm(train_single_label, {"recipe": recipe_settings(recipe), "sizes": list(sizes)})
