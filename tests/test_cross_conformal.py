"""Cross-conformal sets: the definition, the bound of 1 - 2α, and the scikit-learn classifier with folds."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from shortlist.errors import InputError
from shortlist.sets import CrossConformal, classwise, gate, lac, top_k
from shortlist.sklearn import SetClassifier

pytestmark = pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")


def test_p_values_are_those_of_the_definition():
    random = np.random.default_rng(0)
    folds = [(random.dirichlet(np.ones(3), n).round(1), random.integers(3, size=n)) for n in (7, 9)]
    new = [random.dirichlet(np.ones(3), 20).round(1) for _ in folds]
    both = CrossConformal([lac(0.2).fit(probs, target, keep=True) for probs, target in folds])
    counts = sum(
        np.array([[sum(p[i, y] <= value for i, y in enumerate(target)) for value in row] for row in fresh])
        for (p, target), fresh in zip(folds, new, strict=True)
    )
    np.testing.assert_array_equal(both.p_values(new), (1 + counts) / 17)
    np.testing.assert_array_equal(both.predict(new), (1 + counts) / 17 > 0.2)
    assert both.rows == 16
    per_class = CrossConformal([classwise(lac(0.2)).fit(probs, target, keep=True) for probs, target in folds])
    counts, rows = np.zeros((20, 3), int), np.zeros(3, int)
    for (p, target), fresh in zip(folds, new, strict=True):
        for label in range(3):
            own = p[target == label, label]
            counts[:, label] += [(own <= value).sum() for value in fresh[:, label]]
            rows[label] += len(own)
    np.testing.assert_array_equal(per_class.p_values(new), (1 + counts) / (1 + rows))


def test_rules_that_do_not_belong_together_are_refused():
    rule = lac(0.2).fit([[0.5, 0.5]] * 9, [0] * 9, keep=True)
    for rules in ([rule], [rule, lac(0.1)], [rule, None], [gate(lac(0.2), 0.5)] * 2):
        with pytest.raises(InputError, match="rules: expected"):
            CrossConformal(rules)
    with pytest.raises(InputError, match="each of 2 models"):
        CrossConformal([rule, rule]).p_values([[[0.5, 0.5]]])


def test_folds_whose_rows_count_differently_are_refused():
    """The p-value of a fold is a count of its rows, from which those of all folds are added up."""
    probs, target, votes = np.full((9, 2), 0.5), [0] * 9, np.eye(2)[[0] * 9]
    plain = lac(0.2).fit(probs, target, keep=True)
    for other in (
        lac(0.2).fit(probs, target, weights=[2, *[1] * 8], keep=True),
        lac(0.2).fit(probs, target, class_weights=[1, 2], keep=True),
        lac(0.2).fit(probs, votes, keep=True),
    ):
        with pytest.raises(InputError, match="rules: expected folds whose rows count alike, got weights or votes"):
            CrossConformal([plain, other])
    equal = lac(0.2).fit(probs, target, weights=[3] * 9, keep=True)
    assert CrossConformal([plain, equal]).rows == 18


def test_coverage_is_at_least_1_minus_2_alpha_and_near_1_minus_alpha():
    """A law of two normal classes, 40 rows, 60 repetitions of 100 new rows.

    Their mean coverage has a standard error below 1 %. The bound of 0.6 is missed by chance with a probability below 1e-9; the
    usual 0.8 is held to within 5 %, with one below 1e-4 where the true mean is within 1 % of it.
    """
    random, covered = np.random.default_rng(0), []

    def drawn(rows):
        y = np.arange(rows) % 2
        return random.normal(size=(rows, 2)) + y[:, None], y

    for seed in range(60):
        model = SetClassifier(GaussianNB(), "lac:0.2", cv=5, random_state=seed).fit(*drawn(40))
        X, y = drawn(100)
        covered.append(model.predict_set(X)[np.arange(100), y].mean())
    assert np.mean(covered) >= 1 - 2 * 0.2
    assert abs(np.mean(covered) - 0.8) < 0.05


def test_rows_that_the_estimator_has_seen_calibrate_too_small_sets_and_folds_do_not():
    """Twelve features for 60 rows of two normal classes, 40 repetitions of 400 new rows.

    The mean coverages have standard errors of at most 0.01: an allowance of 0.04 is missed by chance with a probability below
    1 in 10,000, where the mean is at least 1 - α.
    """
    random, seen, folds = np.random.default_rng(0), [], []

    def drawn(rows):
        y = np.arange(rows) % 2
        return random.normal(size=(rows, 12)) + 0.5 * y[:, None], y

    for seed in range(40):
        (X, y), (new, labels) = drawn(60), drawn(400)
        fitted = LogisticRegression(C=100.0).fit(X, y)
        again = SetClassifier(fitted, "lac:0.2", calibration="prefit").fit(X, y)
        cross = SetClassifier(LogisticRegression(C=100.0), "lac:0.2", cv=5, random_state=seed).fit(X, y)
        for found, model in ((seen, again), (folds, cross)):
            found.append(model.predict_set(new)[np.arange(400), labels].mean())
    assert np.mean(seen) < 0.8 - 0.05
    assert np.mean(folds) > 0.8 - 0.04


def data(rows=120, classes=3):
    return make_classification(rows, 6, n_informative=4, n_classes=classes, random_state=0)


def test_every_row_calibrates_and_the_estimator_sees_all_of_them():
    X, y = data()
    model = SetClassifier(LogisticRegression(), "lac:0.1,cap:2", cv=4, random_state=0).fit(X, y)
    assert model.rule_.rows == 120
    assert len(model.estimators_) == 4
    whole = clone(model.estimator).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), rtol=1e-6)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    sets = model.predict_set(X)
    assert sets.sum(1).max() == 2
    probs = [one.predict_proba(X) for one in model.estimators_]
    np.testing.assert_array_equal(sets, model.rule_.predict(probs))
    assert "1 - 2α" in model.rule_.guarantee
    again = SetClassifier(LogisticRegression(), "lac:0.1,cap:2", cv=4, random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.predict_set(X), sets)


def test_labels_are_texts_and_rows_have_weights():
    X, y = data()
    names = np.array(["oak", "elm", "ash"])[y]
    model = SetClassifier(LogisticRegression(), cv=3, random_state=0).fit(X, names, sample_weight=np.ones(120))
    assert model.predict_set(X)[np.arange(120), np.searchsorted(model.classes_, names)].mean() > 0.8


@pytest.mark.parametrize("rule", ["average-k:2", "top-k:1", top_k(1), "lac:0.1,gate:0.5", "lac:0.1,pac:0.1"])
def test_only_conformal_rules_without_a_gate_have_folds(rule):
    with pytest.raises(ValueError, match="cv: expected a conformal rule"):
        SetClassifier(LogisticRegression(), rule, cv=3).fit(*data())


@pytest.mark.parametrize("cv", [1, 0, 2.5, "five", 1000])
def test_a_number_of_folds_that_cannot_be_is_refused(cv):
    with pytest.raises(ValueError, match="cv: expected"):
        SetClassifier(LogisticRegression(), cv=cv).fit(*data())


def test_several_labels_a_row_have_no_folds():
    X, y = data()
    with pytest.raises(ValueError, match="cv: expected one label a row"):
        SetClassifier(LogisticRegression(), cv=3).fit(X, np.eye(3, dtype=int)[y])


def test_folds_and_a_fitted_estimator_exclude_each_other():
    X, y = data()
    with pytest.raises(ValueError, match="cv: expected none with calibration='prefit'"):
        SetClassifier(LogisticRegression().fit(X, y), calibration="prefit", cv=3).fit(X, y)


@parametrize_with_checks([SetClassifier(LogisticRegression(max_iter=200), "lac:0.2", cv=5)])
def test_it_is_a_scikit_learn_classifier(estimator, check):
    check(estimator)
