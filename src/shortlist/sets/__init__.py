"""Sets: rules that turn probabilities into sets of labels of a controlled size or error."""

from shortlist.sets.batches import Batches
from shortlist.sets.constraints import Constraint, Fit
from shortlist.sets.cost import BoundCost, bound_cost
from shortlist.sets.lists import LabelList, label_lists
from shortlist.sets.orderings import Ordering
from shortlist.sets.rule import SetRule
from shortlist.sets.rules import (
    aps,
    average_k,
    cap,
    classwise,
    floor,
    interpolated,
    lac,
    mass,
    pas,
    per_label,
    raps,
    risk_control,
    threshold,
    top_k,
)
from shortlist.sets.sizes import SizeSummary
from shortlist.sets.text import parse_rule

__all__ = [
    "Batches",
    "BoundCost",
    "Constraint",
    "Fit",
    "LabelList",
    "Ordering",
    "SetRule",
    "SizeSummary",
    "aps",
    "average_k",
    "bound_cost",
    "cap",
    "classwise",
    "floor",
    "interpolated",
    "label_lists",
    "lac",
    "mass",
    "parse_rule",
    "pas",
    "per_label",
    "raps",
    "risk_control",
    "threshold",
    "top_k",
]
