"""A classifier that answers with sets of labels."""

import copy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import KFold, train_test_split
from sklearn.utils import _safe_indexing, check_random_state, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_y, check_is_fitted, column_or_1d, validate_data

from shortlist.class_names import check_same_names, column_names
from shortlist.errors import InputError
from shortlist.row_names import check_same_rows
from shortlist.sets import CrossConformal, SetRule, parse_rule
from shortlist.sets.cross_conformal import check_folds
from shortlist.sets.p_values import why_none
from shortlist.sklearn.given import (
    Beside,
    check_counts_alike,
    class_weights_of,
    dense,
    is_text,
    mean,
    parameters_of,
    zeros_and_ones,
)
from shortlist.tensors import Array

ONE_LABEL, MANY_LABELS = "lac:0.1", "risk-control:recall:0.1"


class SetClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that answers with sets of labels of a controlled size or error.

    ``fit`` holds out a share of the rows as calibration rows, fits the estimator on the others, and the rule on those held
    out.

    Args:
        estimator: a classifier with ``predict_proba``; a pipeline too.
        rule: the rule, as text (``"average-k:2"``, ``"lac:0.1,cap:5"``) or as a :class:`~shortlist.sets.SetRule`. None (the
            default) is ``"lac:0.1"``, sets that miss the label of at most one row in ten; for several labels a row it is
            ``"risk-control:recall:0.1"``. The prior of rules that need one is the share of each class.
        calibration: the share of the rows that is held out to fit the rule, 0.25 by default; or ``"prefit"``: the estimator is
            fitted already, and all rows are calibration rows.
        random_state: seed for choosing these rows, and for the estimator unless it has a seed of its own.
        cv: a number of folds in place of a held-out share: an estimator is fitted without each, and every row calibrates
            (:class:`~shortlist.sets.CrossConformal`, whose coverage is at least 1 - 2α, and usually about 1 - α). For
            few rows, one label each, and conformal rules. None (the default) is ``calibration``.

    Attributes:
        classes_: the labels, in the order of the columns of :meth:`predict_set` and :meth:`predict_proba`.
        estimator_: the fitted estimator; with folds one that was fitted on all rows, for :meth:`predict` alone.
        rule_: the fitted rule; with folds a :class:`~shortlist.sets.CrossConformal`.
        estimators_: the estimators of the folds.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SetClassifier(LogisticRegression(max_iter=500), rule="average-k:1.5", random_state=0).fit(X, y)
    >>> model.predict_set(X[:1])
    array([[ True, False, False]])
    >>> from shortlist.sklearn import coverage_scorer
    >>> coverage_scorer(model, X, y), round(model.score(X, y), 3)
    (1.0, 0.847)
    """

    def __init__(
        self,
        estimator: Any,
        rule: SetRule | str | None = None,
        *,
        calibration: float | str = 0.25,
        random_state: Any = None,
        cv: int | None = None,
    ):
        self.estimator = estimator
        self.rule = rule
        self.calibration = calibration
        self.random_state = random_state
        self.cv = cv

    def fit(
        self,
        X: Any,
        y: Any,
        quality: Any = None,
        groups: Any = None,
        weights: Any = None,
        class_weights: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the estimator on most of the rows and the rule on the rest; if that fails, everything stays as it was.

        Args:
            X: (rows, features): an array, a sparse matrix, a data frame, or whatever else the estimator takes; passed to it
                as it is.
            y: one label a row, or zeros and ones (rows, labels), which may be a sparse matrix; a data frame must have its
                columns in the same order when the sets are scored. Rows go by their place; if X and y name them, in the same
                order.
            quality: one number for each row, for a rule with a gate by quality, such as ``lac:0.1,gate:0.95:quality``.
            groups: the group of each row, texts or numbers, for a rule with ``by:COLUMN``; by default the column of that name,
                if X is a data frame that has it. Of a rule without groups they go to the fit of an estimator that takes them,
                such as a search with ``GroupKFold``.
            weights: what each row counts for as a calibration row, (rows,): how much more often rows like it are among new rows
                than among these. The rule heeds them, the estimator does not.
            class_weights: the same by class, where new rows differ in the shares of the classes: in the order of ``classes_``
                (their sorted labels), or a dict from labels to numbers.
            **fit_params: passed to the ``fit`` of the estimator. ``sample_weight`` weighs the rows there (in a pipeline, in its
                last step), and changes nothing of the calibration: for both, pass ``weights`` too.
        """
        before = self.__dict__.copy()
        try:
            return self._fit(X, y, (quality, groups, weights), class_weights, fit_params)
        except BaseException:
            self.__dict__ = before
            raise

    def _fit(self, X: Any, y: Any, given: tuple[Any, Any, Any], class_weights: Any, fit_params: dict[str, Any]) -> Self:
        if not hasattr(self.estimator, "predict_proba"):
            kind = type(self.estimator).__name__
            raise AttributeError(f"estimator: expected one with predict_proba, got {kind}: wrap it in CalibratedClassifierCV")
        self._label_names = column_names(y)
        check_same_rows(X, y, "y")
        X, y = indexable(*validate_data(self, X, y, skip_check_array=True))
        y = dense(_check_y(y, multi_output=True, estimator=self))
        check_classification_targets(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        self._multi_label = type_of_target(y) == "multilabel-indicator"
        if y.ndim == 2 and not self._multi_label:
            raise ValueError(f"y: expected one label a row, or zeros and ones (rows, labels), got shape {y.shape}")
        y = zeros_and_ones(y) if self._multi_label else y
        self.classes_ = np.arange(y.shape[1]) if self._multi_label else self._known_classes(y)
        if len(self.classes_) < 2:
            raise ValueError(f"SetClassifier needs at least two classes, got one class: {self.classes_.tolist()}")
        rule, class_weights = self._new_rule(y), class_weights_of(class_weights, self.classes_)
        beside, more = Beside.of(X, rule, *given).for_estimator(rule, self.estimator)
        fit_params |= more
        if self.cv is not None:
            return self._fit_folds(X, y, beside, class_weights, fit_params)
        if self.calibration == "prefit":
            if fit_params:
                raise ValueError(f"calibration='prefit': expected no parameters for the fit, got {', '.join(fit_params)}")
            self.estimator_, held_X, held_y, held = self.estimator, X, y, np.arange(len(y))
        else:
            first, held = self._held_out(y)
            held_X, held_y = _safe_indexing(X, held), y[held]
            self.estimator_ = self._fitted_on(first, X, y, fit_params)
        target = held_y.astype(bool) if self._multi_label else self._places(held_y)
        self.rule_: SetRule | CrossConformal = rule.fit(
            self._probs(held_X, self.estimator_),
            target if rule.needs_labels else None,
            **beside.rows(held, len(y))._asdict(),
            class_weights=class_weights,
            keep=why_none(rule) is None,
        )
        return self

    def _fitted_on(self, rows: Array, X: Any, y: Array, fit_params: dict[str, Any]) -> Any:
        estimator = self._seeded(clone(self.estimator))
        parameters = parameters_of(estimator, fit_params, X, rows)
        return estimator.fit(_safe_indexing(X, rows), y[rows], **parameters)

    def _fit_folds(self, X: Any, y: Array, beside: Beside, class_weights: Any, fit_params: dict[str, Any]) -> Self:
        if self.calibration == "prefit":
            raise ValueError("cv: expected none with calibration='prefit', because an estimator is fitted without each fold")
        self.estimators_, rules = [], []
        folds = check_folds(self.cv, self._new_rule(y), len(y), one_label=not self._multi_label)
        check_counts_alike(beside, class_weights)
        for first, held in KFold(folds, shuffle=True, random_state=self.random_state).split(y):
            self.estimators_.append(self._fitted_on(first, X, y, fit_params))
            probs = self._probs(_safe_indexing(X, held), self.estimators_[-1])
            rules.append(self._new_rule(y).fit(probs, self._places(y[held]), keep=True))
        self.rule_, self.estimator_ = CrossConformal(rules), self._fitted_on(np.arange(len(y)), X, y, fit_params)
        return self

    def predict(self, X: Any) -> Array:
        """The prediction of the estimator: one label a row, or zeros and ones."""
        check_is_fitted(self)
        answer: Array = self.estimator_.predict(self._checked(X))
        return answer

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Probabilities (rows, classes), columns in the order of ``classes_``."""
        check_is_fitted(self, "estimator_")
        return self._probs(self._checked(X), self.estimator_)

    def _probs(self, X: Any, estimator: Any) -> Array:
        """Probabilities of inputs that have been validated."""
        probs = estimator.predict_proba(X)
        if isinstance(probs, list):  # one array per label, as forests and neighbours return them; (rows, 1) if it never varied
            columns = zip(probs, estimator.classes_, strict=True)
            probs = np.stack([p[:, -1] if known[-1] == 1 else 1 - p[:, 0] for p, known in columns], axis=1)
        return self._in_order(np.asarray(probs), estimator)

    def predict_set(self, X: Any, quality: Any = None, groups: Any = None, weights: Any = None) -> Array:
        """The sets, bool (rows, classes), columns in the order of ``classes_``.

        Args:
            X: (rows, features).
            quality: one number for each row, if the rule has a gate by it.
            groups: the group of each row, if the rule has a threshold for each; by default the column of X, as in ``fit``.
            weights: what each row counts for, if the rule was fitted with weights: each is then compared with the threshold for
                its own weight. By default a row counts as much as the heaviest calibration row.
        """
        check_is_fitted(self)
        if isinstance(self.rule_, CrossConformal):
            Beside.of(X, self.rule_.rules[0], quality, groups, weights).check_none()
            return self.rule_.predict(self._probs_by_fold(X))
        beside = Beside.of(X, self.rule_, quality, groups, weights)
        sets: Array = self.rule_(self.predict_proba(X), *beside)
        return sets

    def p_values(self, X: Any, groups: Any = None, weights: Any = None) -> Array:
        """The p-value of every label, float64 (rows, classes), of a conformal rule.

        A label is in the set if and only if its p-value exceeds alpha, before the cap, the floor and the gate.

        Args:
            X: (rows, features).
            groups: the group of each row, as for :meth:`predict_set`.
            weights: what each row counts for, as for :meth:`predict_set`.

        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = load_iris(return_X_y=True)
        >>> model = SetClassifier(LogisticRegression(max_iter=500), "lac:0.1", random_state=0).fit(X, y)
        >>> model.p_values(X[:1]).round(3)
        array([[0.821, 0.026, 0.026]])
        >>> model.predict_set(X[:1])
        array([[ True, False, False]])
        """
        check_is_fitted(self)
        if isinstance(self.rule_, CrossConformal):
            Beside.of(X, self.rule_.rules[0], None, groups, weights).check_none()
            return self.rule_.p_values(self._probs_by_fold(X))
        reason = why_none(self.rule_)
        if reason is not None:
            raise InputError(f"p_values: {reason}")
        beside = Beside.of(X, self.rule_, None, groups, weights)
        found: Array = self.rule_.p_values(self.predict_proba(X), beside.weights, beside.groups)
        return found

    def _probs_by_fold(self, X: Any) -> list[Array]:
        """Probabilities by the estimator of each fold."""
        checked = self._checked(X)
        return [self._probs(checked, one) for one in self.estimators_]

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        quality: Any = None,
        groups: Any = None,
        weights: Any = None,
    ) -> float:
        """The mean F1 of the sets: ``2 · hits / (size of the set + number of labels)`` of each row, averaged over the rows.

        With one label a row, a set of s labels that contains it counts 2 / (1 + s): 1 for a single label (so that sets of one
        label score their accuracy), 2/3 for two, 1/2 for three; a set without it counts 0. Coverage would reward larger sets,
        up to the set of all labels; this score never gains from a label that is wrong. An empty set of a row without labels
        counts 1. For coverage and size see :func:`coverage_scorer`, :func:`size_scorer` and :func:`coverage_size_scorer`.

        del Coz, Díez, Bahamonde, "Learning nondeterministic classifiers", 2009, with β = 1.
        """
        check_same_rows(X, y, "y")
        sets, marks = self.predict_set(X, quality, groups, weights), self._marks(y)
        hits = (sets & marks).sum(1)
        total = sets.sum(1) + (marks.sum(1) if self._multi_label else 1)
        gains = np.where(total > 0, 2 * hits / np.maximum(total, 1), 1.0)
        return mean(gains, sample_weight)

    def _marks(self, y: Any) -> Array:
        """The labels as bool (rows, classes); a label that no training row had is in no column."""
        if self._multi_label:
            check_same_names(None, y, self._label_names, "y")
            return zeros_and_ones(np.asarray(dense(y))).astype(bool)
        labels = np.asarray(column_or_1d(y, warn=True))
        if len(labels) and is_text(labels) != is_text(self.classes_):
            raise ValueError(
                f"y: expected labels like those of the fit, such as {self.classes_[0]!r}, got {labels[0]!r}: one is a text, "
                "the other a number"
            )
        marks: Array = labels[:, None] == self.classes_
        return marks

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

    def _held_out(self, y: Array) -> tuple[Array, Array]:
        """The rows to fit the estimator on and those held out, drawn at random.

        Not by class: a class that has few rows by chance would have few on both sides, hard to learn and seldom counted, and
        new rows of it are as many as ever. With ten rows a class that cost 2.5 points of coverage.
        """
        share = self.calibration
        if isinstance(share, str) or not 0 < share < 1:
            raise ValueError(f"calibration: expected a share between 0 and 1 or 'prefit', got {share!r}")
        return tuple(train_test_split(np.arange(len(y)), test_size=share, random_state=self.random_state))

    def _new_rule(self, y: Array) -> SetRule:
        """A copy of the rule to fit: scikit-learn estimators never change their parameters."""
        if isinstance(self.rule, SetRule):
            return copy.deepcopy(self.rule)
        shares = y.mean(0) if self._multi_label else (y[:, None] == self.classes_).mean(0)
        return parse_rule(self.rule or (MANY_LABELS if self._multi_label else ONE_LABEL), prior=shares)

    def _seeded(self, estimator: Any) -> Any:
        """The estimator with our random state wherever it has none of its own."""
        if self.random_state is not None:
            source = check_random_state(self.random_state)
            found = sorted(estimator.get_params())
            free = [name for name in found if name.split("__")[-1] == "random_state" and estimator.get_params()[name] is None]
            estimator.set_params(**{name: int(source.randint(2**31 - 1)) for name in free})
        return estimator

    def _in_order(self, probs: Array, estimator: Any) -> Array:
        """Columns for all classes, in the order of ``classes_``: the estimator may have another, and some may be
        missing from the rows that it was fitted on."""
        if self._multi_label:
            return probs
        known = np.asarray(estimator.classes_)
        if np.array_equal(known, self.classes_):
            return probs
        unknown = known[~np.isin(known, self.classes_)]
        if len(unknown):
            raise ValueError(f"estimator: expected probabilities of the labels in y, got a column of {unknown[0]!r} too")
        full = np.zeros((len(probs), len(self.classes_)), probs.dtype)
        full[:, self._places(known)] = probs
        return full

    def _places(self, labels: Array) -> Array:
        """The column of each label; those of a fitted estimator may be in any order."""
        order = np.argsort(self.classes_)
        places: Array = order[np.searchsorted(self.classes_, labels, sorter=order)]
        return places

    def _checked(self, X: Any) -> Any:
        """The inputs as they are, a data frame with its dtypes and column names: the estimator checks the values."""
        countable = getattr(X, "ndim", 2) > 1  # of inputs without columns the estimator says whether it takes them
        return validate_data(self, X, reset=False, skip_check_array=True) if countable else X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.allow_nan, tags.input_tags.sparse = inner.input_tags.allow_nan, inner.input_tags.sparse
        tags.classifier_tags.multi_class = True
        tags.classifier_tags.multi_label = (
            self.cv is None and inner.classifier_tags is not None and inner.classifier_tags.multi_label
        )
        return tags
