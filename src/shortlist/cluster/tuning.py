"""Grid search by the workers of a cluster: trials side by side, with the record of a search in one process."""

from functools import partial
from pathlib import Path
from typing import Any

from shortlist.cluster.pooling import Pool
from shortlist.recipes import TuningResult, tune as tune_here
from shortlist.training.recipe import Recipe


def tune(pool: Pool, recipe: Recipe, folder: str | Path, **options: Any) -> TuningResult:
    """Search over a grid as :func:`shortlist.recipes.tune` does; each worker trains one trial after the other.

    The record has the order of the grid, whoever ends first. A trial whose worker dies goes on from its checkpoint by another.

    Args:
        pool: workers; they use a GPU each if it was opened with ``gpus_per_worker=1``, else the CPU.
        recipe: the recipe to start from.
        folder: of the search, on a disk that all machines share.
        **options: of that function. A ``callback`` hears messages alone, those of a trial when it has ended.
    """
    return tune_here(recipe, folder, device="cuda" if pool.gpus else "cpu", each=partial(pool.each, ahead=1), **options)
