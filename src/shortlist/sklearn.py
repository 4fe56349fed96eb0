"""For scikit-learn users: any classifier, answering with sets."""

import copy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from shortlist.sets import SetRule, parse_rule
from shortlist.tensors import Array

SPARSE = ("csr", "csc")
ONE_LABEL, MANY_LABELS = "lac:0.1", "risk-control:recall:0.1"


class SetClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that answers with sets of labels of a controlled size or error.

    ``fit`` sets a share of the rows aside, fits the estimator on the others, and the rule on those set aside.

    Args:
        estimator: a classifier with ``predict_proba``.
        rule: the rule, as text (``"average-k:2"``, ``"lac:0.1,cap:5"``) or as a :class:`~shortlist.sets.SetRule`; None is
            ``"lac:0.1"``, sets that miss the label of at most one row in ten (for many labels a row,
            ``"risk-control:recall:0.1"``). Rules with a prior take the classes' shares.
        calibration: the share of the rows set aside to fit the rule, or ``"prefit"``: the estimator is fitted already and all
            rows serve to fit the rule.
        random_state: for choosing those rows, and for what is random in the estimator unless it has a state of its own.

    Attributes:
        classes_: the labels, in the order of the columns of :meth:`predict_set` and :meth:`predict_proba`.
        estimator_: the fitted estimator.
        rule_: the fitted rule.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SetClassifier(LogisticRegression(max_iter=500), rule="average-k:1.5", random_state=0).fit(X, y)
    >>> model.predict_set(X[:1])
    array([[ True, False, False]])
    """

    def __init__(
        self, estimator: Any, rule: SetRule | str | None = None, *, calibration: float | str = 0.25, random_state: Any = None
    ):
        self.estimator = estimator
        self.rule = rule
        self.calibration = calibration
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the estimator on most of the rows and the rule on the rest."""
        X, y = validate_data(self, X, y, accept_sparse=SPARSE, multi_output=True, **self._leniency())
        check_classification_targets(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        self._multi_label = type_of_target(y) == "multilabel-indicator"
        if y.ndim == 2 and not self._multi_label:
            raise ValueError(f"y: expected one label a row, or zeros and ones (rows, labels), got shape {y.shape}")
        self.classes_ = np.arange(y.shape[1]) if self._multi_label else self._known_classes(y)
        if len(self.classes_) < 2:
            raise ValueError(f"SetClassifier needs at least two classes, got one class: {self.classes_.tolist()}")
        if self.calibration == "prefit":
            self.estimator_, held_X, held_y = self.estimator, X, y
        else:
            fit_X, held_X, fit_y, held_y = self._set_aside(X, y)
            self.estimator_ = self._seeded(clone(self.estimator)).fit(fit_X, fit_y)
        self.rule_ = self._new_rule(y)
        target = held_y.astype(bool) if self._multi_label else np.searchsorted(self.classes_, held_y)
        self.rule_.fit(self.predict_proba(held_X), target if self.rule_.needs_labels else None)
        return self

    def predict(self, X: Any) -> Array:
        """The single most probable label of each row, as the estimator has it."""
        check_is_fitted(self)
        answer: Array = self.estimator_.predict(self._checked(X))
        return answer

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Probabilities (rows, classes), columns in the order of ``classes_``."""
        check_is_fitted(self, "estimator_")
        probs = self.estimator_.predict_proba(self._checked(X))
        if isinstance(probs, list):  # one array a label, as forests and neighbours give them; (rows, 1) where it never varied
            columns = zip(probs, self.estimator_.classes_, strict=True)
            probs = np.stack([p[:, -1] if known[-1] == 1 else 1 - p[:, 0] for p, known in columns], axis=1)
        return self._in_order(np.asarray(probs))

    def predict_set(self, X: Any) -> Array:
        """The sets, bool (rows, classes), columns in the order of ``classes_``."""
        check_is_fitted(self)
        sets: Array = self.rule_(self.predict_proba(X))
        return sets

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of labels that are in the set of their row: compare it at equal set size."""
        sets = self.predict_set(X)
        y = np.asarray(y) if self._multi_label else column_or_1d(y, warn=True)
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        if self._multi_label:
            marks = y.astype(bool)
            return float((weight[:, None] * (sets & marks)).sum() / (weight[:, None] * marks).sum())
        place = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        hit = sets[np.arange(len(y)), place] & (self.classes_[place] == y)
        return float((weight * hit).sum() / weight.sum())

    def _known_classes(self, y: Array) -> Array:
        """The classes of the rows, or those of an estimator that is fitted already."""
        found: Array = np.unique(y)
        if self.calibration != "prefit":
            return found
        check_is_fitted(self.estimator)
        known: Array = np.asarray(self.estimator.classes_)
        unknown = found[~np.isin(found, known)]
        if len(unknown):
            raise ValueError(f"y: the fitted estimator does not know the label {unknown[0]!r}; it knows {known.tolist()}")
        return known

    def _set_aside(self, X: Any, y: Array) -> tuple[Any, Any, Array, Array]:
        """Two parts; by class where every class can be in both."""
        share = self.calibration
        if isinstance(share, str) or not 0 < share < 1:
            raise ValueError(f"calibration: expected a share between 0 and 1 or 'prefit', got {share!r}")
        stratify = None
        if not self._multi_label:
            counts = np.unique(y, return_counts=True)[1]
            room = min(share, 1 - share) * len(y)
            stratify = y if counts.min() >= 2 and room >= len(counts) else None
        parts = train_test_split(X, y, test_size=share, random_state=self.random_state, stratify=stratify)
        return tuple(parts)

    def _new_rule(self, y: Array) -> SetRule:
        """A rule of our own to fit: parameters of an estimator are never changed."""
        if isinstance(self.rule, SetRule):
            return copy.deepcopy(self.rule)
        shares = y.mean(0) if self._multi_label else (y[:, None] == self.classes_).mean(0)
        return parse_rule(self.rule or (MANY_LABELS if self._multi_label else ONE_LABEL), prior=shares)

    def _seeded(self, estimator: Any) -> Any:
        """The estimator with our random state wherever it has none."""
        if self.random_state is not None:
            source = check_random_state(self.random_state)
            found = sorted(estimator.get_params())
            free = [name for name in found if name.split("__")[-1] == "random_state" and estimator.get_params()[name] is None]
            estimator.set_params(**{name: int(source.randint(2**31 - 1)) for name in free})
        return estimator

    def _in_order(self, probs: Array) -> Array:
        """Columns for all classes, in the order of ``classes_``: the rows to fit on may have lacked some."""
        if self._multi_label:
            return probs
        known = self.estimator_.classes_
        if len(known) == len(self.classes_):
            return probs
        full = np.zeros((len(probs), len(self.classes_)), probs.dtype)
        full[:, np.searchsorted(self.classes_, known)] = probs
        return full

    def _checked(self, X: Any) -> Any:
        return validate_data(self, X, accept_sparse=SPARSE, reset=False, **self._leniency())

    def _leniency(self) -> dict[str, Any]:
        """What the estimator itself takes: text, pictures and gaps are its business."""
        tags = get_tags(self.estimator)
        return {"dtype": None, "ensure_all_finite": not tags.input_tags.allow_nan, "allow_nd": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.allow_nan, tags.input_tags.sparse = inner.input_tags.allow_nan, inner.input_tags.sparse
        tags.classifier_tags.multi_class = True
        tags.classifier_tags.multi_label = inner.classifier_tags is not None and inner.classifier_tags.multi_label
        return tags
