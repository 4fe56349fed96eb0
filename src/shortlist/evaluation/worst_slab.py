"""Worst-slab coverage of an evaluation: measured when it is asked for, on some of the rows."""

from dataclasses import dataclass

import numpy as np
import torch

from shortlist.metrics.slabs import row_counts, slab_counts
from shortlist.predictions import Predictions
from shortlist.sets import SetRule

# The standard error on 10,000 rows is about a percentage point: a tenth of 5,000 rows are in the slab.
MOST_ROWS, FEWEST_ROWS = 10_000, 500
SHARE, DIRECTIONS, SEED = 0.1, 200, 0


@dataclass(frozen=True, eq=False, repr=False)
class WorstSlab:
    """Finds the slab of the probabilities that a rule covers worst; it keeps the predictions, as they are.

    Args:
        predictions: that were measured, with labels and a link.
        rule: the rule that made the sets.
    """

    predictions: Predictions
    rule: SetRule

    @torch.no_grad()
    def __call__(self) -> tuple[float, float]:
        """Labels found and labels in the slab, of the half of the rows that did not choose it."""
        rows = len(self.predictions)
        chosen = np.sort(np.random.default_rng(SEED).permutation(rows)[:MOST_ROWS])
        part = self.predictions.rows(torch.from_numpy(chosen)) if rows > MOST_ROWS else self.predictions
        probs = part.plausibility()
        assert part.target is not None
        sets = self.rule.in_blocks()(probs, part.scores, part.quality, self.rule.groups_in(part))
        found, labels = row_counts(sets, part.target)
        return slab_counts(found, labels, probs.double().cpu().numpy(), SHARE, DIRECTIONS, SEED)
