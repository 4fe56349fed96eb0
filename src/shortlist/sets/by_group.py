"""The modifier ``by``, which gives a rule a threshold for each value of a column."""

from shortlist.errors import InputError
from shortlist.sets.groups import Groups
from shortlist.sets.orderings import Ordering
from shortlist.sets.registry import register_modifier
from shortlist.sets.rule import SetRule
from shortlist.words import shown, understands


@register_modifier("by", "column", "rows?", "shrink?", texts=("column",))
@understands(groups="column", least="rows")
def by(rule: SetRule, column: str, rows: int | None = None, shrink: int | None = None) -> SetRule:
    """The same rule with a threshold for each value of a column, such as the site or the camera (Mondrian).

    The group of each row is given with it: ``groups=`` in ``fit`` and ``predict``, or a column of predictions. What the rule
    guarantees holds within each group that has enough calibration rows. The others, and rows whose group is not known or was
    not among the calibration rows, have the common threshold, that of all rows.

    Args:
        rule: any rule that is fitted.
        column: the name of the column; ``predicted`` groups rows by their most probable label, which needs no column.
        rows: the number of calibration rows from which a group has its own threshold; by default what the rule needs for one:
            ``⌈1 / alpha⌉ - 1``, or 100 for rules without an alpha. With 1 every group has its own, and a conformal rule
            returns every label in a group that is too small for alpha.
        shrink: m, with which the threshold of a group with n calibration rows is not its own, but lies n / (n + m) of the way
            from the common one to it, so that small groups vary less; what the rule guarantees then holds only approximately.
            By default there is none; with it ``rows`` is 1 by default. A group that is too small for alpha then counts as one
            whose own threshold is the last finite value of the ordering.

    >>> from shortlist.sets import lac
    >>> probs, target = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]], [0, 0, 1, 1]
    >>> rule = by(lac(0.4), "site").fit(probs, target, groups=["north", "north", "south", "south"])
    >>> rule.predict([[0.7, 0.3], [0.7, 0.3]], groups=["north", "south"])
    array([[False, False],
           [ True, False]])

    >>> shrunk = by(lac(0.4), "site", shrink=2).fit(probs, target, groups=["north", "north", "south", "south"])
    >>> shrunk.text, shrunk.groups.thresholds.tolist()
    ('lac:0.4,by:site:1:2', [0.75, 0.55])

    Vovk, "Conditional validity of inductive conformal predictors", 2012.
    """
    if not isinstance(rule, SetRule):
        raise InputError(f"by: expected a rule, such as lac(0.1), got {shown(rule)}: make a text a rule with parse_rule")
    if rule.groups is not None:
        raise InputError(f"by: expected a rule without groups, got {rule.text}: join two columns to one, and group by that")
    if not rule.chooses_threshold:
        raise InputError(f"by: expected a rule that is fitted, such as lac or average-k, got {rule.text}")
    if shrink is not None and type(rule.ordering).span is Ordering.span:
        kind = getattr(rule.ordering, "kind", type(rule.ordering).__name__)
        raise InputError(
            f"shrink: expected an ordering that has a span, the bounds of its values, got {kind}: leave shrink out"
        )
    return rule.by_group(Groups(column, rows, shrink))
