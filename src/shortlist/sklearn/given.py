"""What is given to a set classifier: labels, what is known of rows beside inputs, and parameters for the estimator inside."""

from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _check_method_params, has_fit_parameter

from shortlist.class_names import by_class
from shortlist.errors import InputError
from shortlist.predictions.checks import as_quality
from shortlist.predictions.columns import as_column
from shortlist.row_names import check_same_rows
from shortlist.sets import SetRule
from shortlist.sets.weighting import as_weights
from shortlist.tensors import Array


class Beside(NamedTuple):
    """What is known of rows beside their inputs; what is not is None.

    Args:
        quality: for a gate by quality, (N,).
        groups: for a rule with a threshold for each, (N,).
        weights: what each row counts for, (N,).
    """

    quality: Any = None
    groups: Any = None
    weights: Any = None

    @staticmethod
    def of(X: Any, rule: SetRule, quality: Any, groups: Any, weights: Any) -> "Beside":
        """What was given; groups that were not are the column of the inputs that the rule names."""
        for name, values in (("quality", quality), ("groups", groups), ("weights", weights)):
            check_same_rows(X, values, name)
        column = rule.column
        if groups is None and column is not None and hasattr(X, "columns") and column in X.columns:
            groups = X[column]
        return Beside(quality, groups, weights)

    def rows(self, index: Array, total: int) -> Self:
        """That of these rows of so many."""
        quality = None if self.quality is None else as_quality(self.quality, total)[index]
        groups = None if self.groups is None else as_column(self.groups, total, "groups")[index]
        weights = None if self.weights is None else as_weights(self.weights, shape=(total,))[index]
        return type(self)(quality, groups, weights)

    def for_estimator(self, rule: SetRule, estimator: Any) -> tuple[Self, dict[str, Any]]:
        """What the rule is to have, and what the fit of the estimator: groups for which the rule has no use may be its own."""
        if self.groups is None or rule.groups is not None or not _takes(estimator, "groups"):
            return self, {}
        return self._replace(groups=None), {"groups": self.groups}

    def check_none(self) -> None:
        """Raise an error if there is something that the folds of a cross-conformal rule do not take."""
        for name in ("groups", "weights"):
            if getattr(self, name) is not None:
                raise _no_folds(name)


def class_weights_of(values: Any, classes: Array) -> Any:
    """The weight of each class in the order of the classes; given so, or by label."""
    return None if values is None else by_class("class_weights", values, [str(label) for label in classes.tolist()])


def check_counts_alike(beside: Beside, class_weights: Any) -> None:
    """Raise an error if rows of folds are to count differently."""
    beside.check_none()
    if class_weights is not None:
        raise _no_folds("class_weights")


def _no_folds(name: str) -> InputError:
    return InputError(
        f"{name}: expected None with cv, because the p-values over folds count all rows alike and have one threshold: hold "
        "rows out with calibration"
    )


def dense(y: Any) -> Any:
    """Labels as they are, or as an array if they are a sparse matrix."""
    return y.toarray() if hasattr(y, "toarray") else y


def zeros_and_ones(y: Array) -> Array:
    """The marks (rows, labels) as they are; scikit-learn takes any two numbers for them, such as -1 and 1."""
    other = y[(y != 0) & (y != 1)]
    if other.size:
        raise ValueError(
            f"y: expected zeros and ones (rows, labels), got {other[0].item()!r}: give y == 1, or whatever marks a label"
        )
    return y


def is_text(labels: Array) -> bool:
    """Whether these labels are texts."""
    return labels.dtype.kind in "US" or (labels.dtype.kind == "O" and isinstance(labels.flat[0], str))


def checked_sample_weight(sample_weight: Any) -> Array:
    """Weights of rows in a mean, whose sum is above 0."""
    weights: Array = np.asarray(sample_weight, dtype=float)
    if not weights.sum() > 0:
        raise ValueError(f"sample_weight: expected weights with a sum above 0, got {weights.sum():g}")
    return weights


def mean(values: Array, sample_weight: Any) -> float:
    """The mean over the rows, weighted if there are weights."""
    return float(np.average(values, weights=None if sample_weight is None else checked_sample_weight(sample_weight)))


def parameters_of(estimator: Any, given: dict[str, Any], X: Any, rows: Array) -> dict[str, Any]:
    """The parameters for the fit of the estimator, those with one value per row at these rows."""
    found = {name: value for name, value in given.items() if value is not None}
    if "sample_weight" in found:
        found[_weight_parameter(estimator)] = found.pop("sample_weight")
    parameters: dict[str, Any] = _check_method_params(X, found, rows)
    return parameters


def _weight_parameter(estimator: Any) -> str:
    if isinstance(estimator, Pipeline):
        return f"{estimator.steps[-1][0]}__{_weight_parameter(estimator[-1])}"
    if not _takes(estimator, "sample_weight"):
        raise ValueError(f"sample_weight: {type(estimator).__name__}.fit takes none")
    return "sample_weight"


def _takes(estimator: Any, name: str) -> bool:
    """Whether the fit of the estimator takes this parameter, or may pass it on to one inside."""
    return bool(has_fit_parameter(estimator, name)) or isinstance(estimator, MetaEstimatorMixin)
