"""Sets: rules that turn probabilities into sets of labels of a controlled size or error.

A rule is an ordering (how plausible each label is) and a constraint (what the threshold is chosen for). A rule of your own is
one of each, yours or ours; see ``docs/rules.md``.
"""

from shortlist.sets.batches import Batches
from shortlist.sets.by_group import by
from shortlist.sets.conformal import AverageError, ErrorPerClass, InterpolatedError
from shortlist.sets.constraints import AverageSize, Constraint, FittedThreshold, Level, Mass, Size
from shortlist.sets.cost import BoundCost, bound_cost
from shortlist.sets.coverage_law import ClassLaws, CoverageLaw, class_laws, coverage_law
from shortlist.sets.cross_conformal import CrossConformal
from shortlist.sets.fit_state import FitState, merged
from shortlist.sets.gates import Gate
from shortlist.sets.groups import Groups
from shortlist.sets.hierarchy import SurestNode
from shortlist.sets.high_probability import PacError, PacRisk, pac
from shortlist.sets.learn_then_test import SeveralRisks, learn_then_test, register_row_loss
from shortlist.sets.lists import LabelList, label_lists
from shortlist.sets.multilabel import LabelObjective, Risk
from shortlist.sets.orderings import GivenLevel, Ordering, Probability
from shortlist.sets.p_values import nested
from shortlist.sets.prefixes import CumulativeMass, MassAbove, Prefix, Rank
from shortlist.sets.registry import register_modifier, register_rule
from shortlist.sets.rule import SetRule
from shortlist.sets.rules import (
    aps,
    average_k,
    cap,
    classwise,
    floor,
    gate,
    interpolated,
    lac,
    mass,
    pas,
    per_label,
    raps,
    risk_control,
    sure_node,
    threshold,
    top_k,
)
from shortlist.sets.shards import fit_shards
from shortlist.sets.size_stream import SizeStream
from shortlist.sets.sizes import SizeSummary
from shortlist.sets.storage import rule_from_record
from shortlist.sets.streams import CoverageStream
from shortlist.sets.text import parse_rule
from shortlist.sets.tuned_mass import TunedMass
from shortlist.sets.weighting import effective_sample_size

__all__ = [
    "AverageError",
    "AverageSize",
    "Batches",
    "BoundCost",
    "ClassLaws",
    "Constraint",
    "CoverageLaw",
    "CoverageStream",
    "CrossConformal",
    "CumulativeMass",
    "ErrorPerClass",
    "FitState",
    "FittedThreshold",
    "Gate",
    "GivenLevel",
    "Groups",
    "InterpolatedError",
    "LabelList",
    "LabelObjective",
    "Level",
    "Mass",
    "MassAbove",
    "Ordering",
    "PacError",
    "PacRisk",
    "Prefix",
    "Probability",
    "Rank",
    "Risk",
    "SetRule",
    "SeveralRisks",
    "Size",
    "SizeStream",
    "SizeSummary",
    "SurestNode",
    "TunedMass",
    "aps",
    "average_k",
    "bound_cost",
    "by",
    "cap",
    "class_laws",
    "classwise",
    "coverage_law",
    "effective_sample_size",
    "fit_shards",
    "floor",
    "gate",
    "interpolated",
    "label_lists",
    "lac",
    "learn_then_test",
    "mass",
    "merged",
    "nested",
    "pac",
    "parse_rule",
    "pas",
    "per_label",
    "raps",
    "register_modifier",
    "register_row_loss",
    "register_rule",
    "risk_control",
    "rule_from_record",
    "sure_node",
    "threshold",
    "top_k",
]
