"""A set rule of your own.

A rule is an ordering (how plausible each label is) and a constraint (what its threshold is chosen for). Here the ordering is
the ratio to the best label of the row, and the constraint is the library's own for coverage. Once registered, the rule has a
text, can be saved and loaded, and goes wherever the library's rules go.
"""

import tempfile

import numpy as np
from torch import Tensor

from shortlist.metrics import coverage
from shortlist.sets import AverageError, Ordering, SetRule, parse_rule, register_rule


class RatioToBest(Ordering):
    """p divided by the largest p of the row: 1 for the best label."""

    kind = "ratio-to-best"
    descending = True  # larger values are more plausible

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

rule = parse_rule("ratio:0.1,cap:8").fit(probs[:1500], labels[:1500])
with tempfile.TemporaryDirectory() as folder:
    rule.save(f"{folder}/rule.safetensors")
    loaded = SetRule.load(f"{folder}/rule.safetensors")

sets = loaded.predict(probs[1500:])
print(loaded)
print(f"coverage {coverage(sets, labels[1500:]):.3f}, {sets.sum(axis=1).mean():.2f} labels on average")
