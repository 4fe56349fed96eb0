"""Scorers for the sets of a classifier: coverage, size, and both together.

A scorer takes ``(estimator, X, y)``; pass it as ``scoring=`` to ``cross_validate`` or ``GridSearchCV``. The estimator is a
:class:`~shortlist.sklearn.SetClassifier`, or a pipeline that ends in one.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from shortlist.checks import number
from shortlist.row_names import check_same_rows
from shortlist.sklearn.given import checked_sample_weight, mean
from shortlist.sklearn.set_classifier import SetClassifier
from shortlist.tensors import Array

Scorer = Callable[..., float]


def coverage_scorer(estimator: Any, X: Any, y: Any, sample_weight: Any = None, **beside: Any) -> float:
    """Coverage: the share of labels that are in the set of their row. Compare it at equal set sizes.

    Args:
        estimator: a fitted :class:`SetClassifier`, or a pipeline that ends in one.
        X: (rows, features).
        y: one label a row, or zeros and ones (rows, labels).
        sample_weight: weights of the rows in this mean; by default all 1.
        **beside: quality, groups and weights of the rows, as for :meth:`SetClassifier.predict_set`.
    """
    check_same_rows(X, y, "y")
    model, sets = _model_and_sets(estimator, X, beside)
    marks = model._marks(y)
    labels = marks.sum(1) if model._multi_label else np.ones(len(marks))
    weight = np.ones(len(marks)) if sample_weight is None else checked_sample_weight(sample_weight)
    return float((weight * (sets & marks).sum(1)).sum() / (weight * labels).sum())


def size_scorer(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None, **beside: Any) -> float:
    """Minus the mean size of the sets: as for all scorers, greater is better. Arguments as for :func:`coverage_scorer`."""
    _, sets = _model_and_sets(estimator, X, beside)
    return -mean(sets.sum(1), sample_weight)


def coverage_size_scorer(size_cost: float = 0.1) -> Scorer:
    """A scorer for coverage and size together: ``coverage - size_cost · mean size``.

    With one label a row and true probabilities, the best sets under it are ``{j: p_j > size_cost}``: a label is worth returning
    if its probability exceeds its cost.

    Args:
        size_cost: what one more label in a set costs, in units of a missed row; from 0, 0.1 by default.

    >>> from sklearn.model_selection import GridSearchCV
    >>> search = GridSearchCV(SetClassifier(None), {"rule": ["lac:0.1", "lac:0.05"]}, scoring=coverage_size_scorer(0.1))
    """
    number(least=0)("size_cost", size_cost)

    def scorer(estimator: Any, X: Any, y: Any, sample_weight: Any = None, **beside: Any) -> float:
        size = -size_scorer(estimator, X, y, sample_weight, **beside)
        return coverage_scorer(estimator, X, y, sample_weight, **beside) - size_cost * size

    return scorer


def _model_and_sets(estimator: Any, X: Any, beside: dict[str, Any]) -> tuple[SetClassifier, Array]:
    """The set classifier, itself or the last step of a pipeline, and its sets."""
    if isinstance(estimator, Pipeline):
        return _model_and_sets(estimator[-1], estimator[:-1].transform(X) if len(estimator) > 1 else X, beside)
    if not isinstance(estimator, SetClassifier):
        raise ValueError(f"estimator: expected a SetClassifier or a pipeline that ends in one, got {type(estimator).__name__}")
    return estimator, estimator.predict_set(X, **beside)
