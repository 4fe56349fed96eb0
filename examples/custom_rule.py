"""A set rule of your own.

A rule is an ordering (how plausible each label is) and a constraint (what the threshold is chosen for). Here the ordering is
the ratio to the best label of the row; the constraint is a coverage of 90 %, the library's own.
"""

import tempfile

import numpy as np
import torch
from torch import Tensor

from shortlist.sets import AverageError, Ordering, SetRule, parse_rule, register_rule


class RatioToBest(Ordering):
    """p divided by the largest p of the row: 1 for the best label."""

    kind = "ratio-to-best"
    descending = True

    def forward(self, probs: Tensor) -> Tensor:
        """The ratio of every label."""
        return probs / probs.amax(dim=1, keepdim=True)


@register_rule("ratio", "alpha")
def ratio(alpha: float) -> SetRule:
    """All labels that are plausible enough compared with the best one."""
    return SetRule(f"ratio:{alpha}", RatioToBest(), AverageError(alpha))


rng = np.random.default_rng(0)
probs = rng.dirichlet(0.3 * np.ones(12), size=3000)
labels = np.array([rng.choice(12, p=row) for row in probs])

rule = parse_rule("ratio:0.1").fit(probs[:1500], labels[:1500])
with tempfile.TemporaryDirectory() as folder:
    rule.save(f"{folder}/rule.safetensors")
    same = SetRule.load(f"{folder}/rule.safetensors")

assert np.array_equal(same.predict(probs), rule.predict(probs))
covered = rule.predict(probs[1500:])[np.arange(1500), labels[1500:]].mean()
print(f"{same}: coverage {covered:.3f} on new rows")
assert torch.is_tensor(same.threshold)
