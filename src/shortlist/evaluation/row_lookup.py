"""Looking up rows: what the rule answers for a few rows of the predictions that were measured."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.evaluation.galleries import Exhibit
from shortlist.predictions import Predictions
from shortlist.row_order import first_largest
from shortlist.sets import SetRule, top_k
from shortlist.sets.lists import Describer, LabelList, label_lists
from shortlist.tensors import is_single_label, pick

WITHOUT_RULE = 3  # labels shown of a row if there is no rule


@dataclass(frozen=True, eq=False, repr=False)
class RowLookup:
    """Finds rows again; it keeps the predictions, so that nothing has to be kept of each row.

    Args:
        predictions: that were measured.
        rule: the rule that made the sets; None for the few most probable labels.
    """

    predictions: Predictions
    rule: SetRule | None

    @torch.no_grad()
    def __call__(self, rows: Tensor) -> list[Exhibit]:
        """What there is to show of these rows, in this order."""
        if not len(rows):
            return []
        part = self.predictions.rows(rows)
        probs, names = part.plausibility(), part.class_names
        best = first_largest(probs).squeeze(1)
        given = pick(probs, part.target).tolist() if part.target is not None and is_single_label(part.target) else None
        return [
            Exhibit(row, answer, names[label], float(probs[place, label]), None if given is None else given[place])
            for place, (row, answer, label) in enumerate(
                zip(rows.tolist(), self._answers(part, probs), best.tolist(), strict=True)
            )
        ]

    def _answers(self, part: Predictions, probs: Tensor) -> list[LabelList]:
        called = "probs" if part.link is not None else "scores"
        rule = self.rule or top_k(min(WITHOUT_RULE, part.num_classes))
        sets = rule.in_blocks()(probs, part.scores, part.quality, rule.groups_in(part))
        lists = label_lists(sets, probs, part.class_names, part.ids or (), part.target, called)
        return Describer(rule, part.superclasses)(lists, sets, probs, part.quality)
