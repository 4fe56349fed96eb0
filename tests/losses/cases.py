"""The losses that every law is tried on. A new loss is one line in CASES and one formula in tests/references/losses.py."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist import losses
from tests.references import losses as ref

ROWS, CLASSES = 6, 5
# Keywords of a call, not of a constructor; of these, a gradient flows to the first three.
PER_CALL = ("proposal_scores", "estimates", "size_scores", "noise", "generator", "log_normalizer")
WITH_GRADIENT = PER_CALL[:3]
# Keywords of a constructor that only the state of training uses.
OF_STATE = ("estimates_rate",)
# Losses for one label per row: they take ignore_index, and class weights unless they couple rows.
IGNORING = {
    "cross_entropy_loss",
    "focal_loss",
    "ldam_loss",
    "topk_hinge_loss",
    "convex_topk_hinge_loss",
    "calibrated_topk_hinge_loss",
    "smooth_topk_hinge_loss",
    "noised_topk_hinge_loss",
    "sparse_top_loss",
    "assume_negative_loss",
    "expected_positive_loss",
    "role_loss",
    "average_k_loss",
    "cardinality_aware_loss",
    "conformal_training_loss",
}
COUPLED = {
    "expected_positive_loss",
    "role_loss",
    "average_k_loss",
    "conformal_training_loss",
    "two_way_loss",
    "quasibinary_loss",
}
HINGES = {"topk_hinge_loss", "convex_topk_hinge_loss", "calibrated_topk_hinge_loss", "noised_topk_hinge_loss"}
FUNCTIONS = [name for name in losses.__all__ if name.endswith(("_loss", "_penalty"))]


def camel(name):
    return "".join(part[0].upper() + part[1:] for part in name.split("_"))


def by_class(name, values, classes):
    """The values of a tensor with one column a class, of these classes; size scores have one column a size."""
    return values if name == "size_scores" else values[..., classes]


@dataclass(frozen=True)
class Batch:
    """What a loss is called with: scores, target, tensors of this call, keywords with one number for each class."""

    scores: Tensor
    target: Tensor | None
    per_call: dict[str, Tensor] = field(default_factory=dict)
    per_class: dict[str, Tensor] = field(default_factory=dict)

    def cast(self, dtype):
        return replace(self, scores=self.scores.to(dtype), per_call={n: v.to(dtype) for n, v in self.per_call.items()})

    def taken(self, rows, classes):
        """These rows and these classes, in this order; all classes must be there."""
        target = self.target
        if target is not None:
            target = torch.argsort(classes)[target[rows]] if target.ndim == 1 else target[rows][:, classes]
        per_call = {n: by_class(n, v[..., rows, :], classes) if v.ndim else v for n, v in self.per_call.items()}
        per_class = {n: v[classes] for n, v in self.per_class.items()}
        return Batch(self.scores[rows][:, classes], target, per_call, per_class)

    def leaves(self):
        """The tensors to which a gradient flows, fresh and asking for one, by name."""
        named = {"scores": self.scores, **{n: v for n, v in self.per_call.items() if n in WITH_GRADIENT}}
        return {name: value.detach().clone().requires_grad_() for name, value in named.items()}

    def put(self, scores, **per_call):
        """The same with these scores (and proposals, or estimates)."""
        return replace(self, scores=scores, per_call={**self.per_call, **per_call})

    def tensors(self):
        everything = [self.scores, self.target, *self.per_call.values(), *self.per_class.values()]
        return [tensor for tensor in everything if tensor is not None]

    def labels(self):
        """For each row the list of its labels."""
        if self.target is None:
            return [[] for _ in self.scores]
        return [[int(row)] if row.ndim == 0 else row.nonzero().flatten().tolist() for row in self.target]


@dataclass(frozen=True)
class Case:
    """A loss with its keywords, the target it takes ("one" label a row, "many", "none"), and what a call gives it besides."""

    name: str
    keywords: dict[str, Any] = field(default_factory=dict)
    takes: str = "one"
    per_call: tuple[str, ...] = ()
    per_class: tuple[str, ...] = ()

    def __str__(self):
        return "-".join([self.name, *map(str, self.keywords.values()), *self.per_class, *self.per_call, self.takes])

    @property
    def coupled(self):
        return self.name in COUPLED

    @property
    def halves(self):
        """Whether rows at even places are used for something else than those at odd places."""
        return self.name == "conformal_training_loss"

    @property
    def stops_gradients(self):
        """Whether the gradient is, on purpose, not the derivative of the value."""
        return self.name == "role_loss" or self.keywords.get("detach_weight", False)

    @property
    def least_classes(self):
        if self.name in HINGES:
            return self.keywords["k"] + 1
        if self.name == "cardinality_aware_loss":
            return max(self.keywords["sizes"])
        return math.ceil(self.keywords["k"]) if self.name in ("smooth_topk_hinge_loss", "average_k_loss") else 1

    def loss(self, batch, **keywords):
        keywords = {**self.keywords, **batch.per_class, **batch.per_call, **keywords}
        return getattr(losses, self.name)(batch.scores, batch.target, **keywords)

    def module(self, batch, **keywords):
        return getattr(losses, camel(self.name))(**{**self.keywords, **batch.per_class, **keywords})

    def with_gradients(self, batch, call=None):
        """The loss of the batch, and its gradient with respect to scores, proposals, estimates."""
        leaves = batch.leaves()
        value = (call or self.loss)(batch.put(**leaves))
        value.backward()
        return value.detach(), [leaf.grad for leaf in leaves.values()]

    def expected(self, batch, **held):
        """The literal formula: a list of the rows' values, or the mean of a loss that couples them."""
        arrays = {n: v.detach().double().numpy() for n, v in {**batch.per_call, **batch.per_class}.items()}
        scores = batch.scores.detach().double().numpy().tolist()
        return getattr(ref, self.name)(scores, batch.labels(), **self.keywords, **arrays, **held)

    def expected_mean(self, batch, **held):
        values = self.expected(batch, **held)
        return values if self.coupled else math.fsum(values) / len(values)


NOISE, MARGIN = ("noise",), ("margin",)
OTHER_SPA = {"zeta_pos": 2.0, "k_pos": 0.5, "b_pos": -1.0, "zeta_neg": 0.7, "k_neg": 2.0, "b_neg": 0.5}
CASES = [
    Case("cross_entropy_loss"),
    Case("cross_entropy_loss", takes="many"),
    *(Case("focal_loss", {"gamma": gamma}) for gamma in (0.0, 0.5, 2.0)),
    Case("ldam_loss", per_class=("margins",)),
    Case("ldam_loss", {"scale": 1.0}, per_class=("margins",)),
    *(Case("topk_hinge_loss", {"k": k, "margin": m}) for k, m in ((1, 1.0), (2, 0.5), (CLASSES - 1, 1.0))),
    *(Case("convex_topk_hinge_loss", {"k": k, "margin": m}) for k, m in ((1, 1.0), (2, 0.5), (CLASSES - 1, 1.0))),
    *(Case("calibrated_topk_hinge_loss", {"k": k, "margin": m}) for k, m in ((1, 1.0), (2, 0.5), (CLASSES - 1, 2.0))),
    *(Case("smooth_topk_hinge_loss", {"k": k}) for k in range(1, CLASSES + 1)),
    *(Case("smooth_topk_hinge_loss", {"k": k, "temperature": t}) for k, t in ((1, 0.3), (2, 0.1), (4, 3.0))),
    Case("noised_topk_hinge_loss", {"k": 1}, per_call=NOISE),
    Case("noised_topk_hinge_loss", {"k": 2, "epsilon": 0.2, "margin": 0.5}, per_call=NOISE),
    Case("noised_topk_hinge_loss", {"k": 2, "epsilon": 0.01, "scale": 60.0}, per_call=NOISE, per_class=MARGIN),
    Case("noised_topk_hinge_loss", {"k": 1, "epsilon": 0.0}),
    Case("noised_topk_hinge_loss", {"k": 3, "epsilon": 0.0}, per_call=NOISE, per_class=MARGIN),
    Case("noised_topk_hinge_loss", {"k": 1, "samples": 2, "smoothing": "antithetic"}, per_call=NOISE),
    Case("noised_topk_hinge_loss", {"k": 1, "epsilon": 0.5, "smoothing": "soft"}),
    Case("noised_topk_hinge_loss", {"k": 3, "scale": 2.0, "smoothing": "soft"}, per_class=MARGIN),
    Case("noised_topk_hinge_loss", {"k": 1, "epsilon": 0.5, "smoothing": "expected"}),
    Case("noised_topk_hinge_loss", {"k": 3, "smoothing": "expected"}, per_class=MARGIN),
    Case("sparse_top_loss"),
    Case("sparse_top_loss", takes="many"),
    Case("assume_negative_loss"),
    Case("expected_positive_loss", {"k": 2}),
    Case("expected_positive_loss", {"k": 1.5, "beta": 1.0}),
    Case("role_loss", {"k": 2}, per_call=("estimates",)),
    Case("role_loss", {"k": 1.5, "weight": 0.3}, per_call=("estimates",)),
    *(Case("average_k_loss", {"k": k}, per_call=("proposal_scores",)) for k in (1, 1.5, CLASSES)),
    Case("average_k_loss", {"k": 2, "alpha": 0.3}, per_call=("proposal_scores",)),
    *(Case("cardinality_aware_loss", {"sizes": s}, per_call=("size_scores",)) for s in ((1, 2, 4), (3,), (2, CLASSES))),
    Case("cardinality_aware_loss", {"sizes": (1, 3), "size_weight": 0.2, "size_cost": "linear"}, per_call=("size_scores",)),
    Case("conformal_training_loss"),
    Case("conformal_training_loss", {"alpha": 0.3, "temperature": 0.1, "size_weight": 0.5, "target_size": 0, "spread": 0}),
    Case("conformal_training_loss", {"alpha": 0.5, "temperature": 0.3, "target_size": 1.5, "spread": 0.4}),
    Case("conformal_training_loss", {"alpha": 0.3, "size_weight": 0}),
    Case("binary_cross_entropy_loss", takes="many"),
    Case("asymmetric_focal_loss", takes="many"),
    Case("asymmetric_focal_loss", {"gamma_pos": 1.0, "gamma_neg": 0.5}, takes="many"),
    Case("asymmetric_focal_loss", {"gamma_neg": 0.0}, takes="many"),
    Case("asymmetric_focal_loss", {"shift": 0.05}, takes="many"),
    Case("asymmetric_focal_loss", {"gamma_pos": 0.5, "gamma_neg": 0.5, "shift": 0.3}, takes="many"),
    Case("asymmetric_focal_loss", {"gamma_pos": 1.0, "detach_weight": True}, takes="many"),
    Case("asymmetric_focal_loss", {"gamma_pos": 2.0, "shift": 0.1, "detach_weight": True}, takes="many"),
    Case("spa_loss", takes="many"),
    Case("spa_loss", OTHER_SPA, takes="many"),
    Case("two_way_loss", takes="many"),
    Case("two_way_loss", {"positive_temperature": 0.5, "negative_temperature": 2.0}, takes="many"),
    Case("label_pair_penalty", takes="many"),
    Case("quasibinary_loss", takes="many"),
    Case("quasibinary_loss", takes="many", per_call=("log_normalizer",)),
    Case("uniform_outlier_loss", takes="many"),
    Case("uniform_outlier_loss", takes="none"),
    Case("confidence_outlier_loss", takes="many"),
    Case("confidence_outlier_loss", takes="none"),
]


def draw(case, *, rows=ROWS, classes=CLASSES, seed=0, spread=1.5):
    """A batch in float64; of many labels the first of several rows has none and the second has all."""
    random = np.random.default_rng([seed, rows, classes])
    scores = spread * random.standard_normal((rows, classes))
    target = None
    if case.takes == "one":
        target = torch.from_numpy(random.integers(classes, size=rows))
    elif case.takes == "many":
        marks = random.uniform(size=scores.shape) < 0.4
        if rows > 2:
            marks[0], marks[1] = False, True
        target = torch.from_numpy(marks)
    shapes = {"noise": (3, rows, classes), "log_normalizer": (), "size_scores": (rows, len(case.keywords.get("sizes", ())))}
    per_call = {name: torch.tensor(random.standard_normal(shapes.get(name, scores.shape))) for name in case.per_call}
    per_class = {name: torch.from_numpy(random.uniform(0.1, 0.5, size=classes)) for name in case.per_class}
    return Batch(torch.from_numpy(scores), target, per_call, per_class)
