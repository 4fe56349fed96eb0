"""SetClassifier with what is known of rows beside their inputs: groups, and weights of calibration rows; and its p-values."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from shortlist.errors import InputError, ShortlistWarning
from shortlist.sets import aps, parse_rule
from shortlist.sklearn import SetClassifier, coverage_scorer, coverage_size_scorer, size_scorer
from tests.references import weighted_sets as ref

pytestmark = pytest.mark.filterwarnings("ignore:.*count like.*:shortlist.errors.ShortlistWarning")
X, Y = make_classification(400, 6, n_informative=4, n_classes=3, random_state=0)
SITE = np.where(X[:, 0] > 0, "north", "south")
WEIGHTS = np.exp(X[:, 1] / 2)
FIRST, HELD = train_test_split(np.arange(len(Y)), test_size=0.25, random_state=0)


def classifier(rule, **settings):
    return SetClassifier(LogisticRegression(random_state=0), rule, random_state=0, **settings)


def held_probs(**fit_params):
    model = LogisticRegression(random_state=0).fit(X[FIRST], Y[FIRST], **fit_params)
    return model.predict_proba(X[HELD]), model.predict_proba(X)


@pytest.mark.parametrize("rule", ["lac:0.2,by:site", "average-k:1.5,by:site:20", "lac:0.2,classwise,by:site"])
def test_groups_are_those_of_the_rows_held_out(rule):
    model = classifier(rule).fit(X, Y, groups=SITE)
    held, every = held_probs()
    expected = parse_rule(rule).fit(held, Y[HELD], groups=SITE[HELD])
    assert torch.equal(model.rule_.groups.thresholds, expected.groups.thresholds)
    np.testing.assert_array_equal(model.predict_set(X, groups=SITE), expected.predict(every, groups=SITE))
    numbers = classifier(rule).fit(X, Y, groups=(SITE == "north").astype(int))
    np.testing.assert_array_equal(numbers.predict_set(X, groups=(SITE == "north") * 1.0), model.predict_set(X, groups=SITE))
    f1 = model.score(X, Y, groups=SITE)
    assert f1 == pytest.approx(
        (model.predict_set(X, groups=SITE)[np.arange(400), Y] * 2 / (1 + expected(every, groups=SITE).sum(1))).mean()
    )


def test_each_site_is_covered_where_one_threshold_covers_one_too_little():
    """Half of the rows of one site have a label drawn at random: 60 fits of 300 rows, about 1,000 others each."""

    def drawn(random, rows):
        y, site = random.integers(0, 3, rows), random.integers(0, 2, rows)
        X = np.eye(3)[y] + random.normal(0, 0.4, (rows, 3))
        return X, np.where((site == 1) & (random.uniform(size=rows) < 0.5), random.integers(0, 3, rows), y), site

    found = {"lac:0.2": [], "lac:0.2,by:site": []}
    for seed in range(60):
        random = np.random.default_rng(seed)
        (X, y, site), (new, truth, where) = drawn(random, 300), drawn(random, 1000)
        for rule, worst in found.items():
            by = "by" in rule
            model = SetClassifier(GaussianNB(), rule, random_state=seed).fit(X, y, groups=site if by else None)
            hit = model.predict_set(new, groups=where if by else None)[np.arange(1000), truth]
            worst.append(hit[where == 1].mean())
    assert np.mean(found["lac:0.2"]) < 0.72
    assert abs(np.mean(found["lac:0.2,by:site"]) - 0.81) < 0.03


def frame():
    return pd.DataFrame(X, columns=list("abcdef")).assign(site=SITE)


def of_columns():
    return make_pipeline(ColumnTransformer([("numbers", "passthrough", list("abcdef"))]), LogisticRegression(random_state=0))


def test_groups_are_the_column_of_a_data_frame_by_default():
    model = SetClassifier(of_columns(), "lac:0.2,by:site", random_state=0).fit(frame(), Y)
    given = classifier("lac:0.2,by:site").fit(X, Y, groups=SITE)
    sets = model.predict_set(frame())
    np.testing.assert_array_equal(sets, given.predict_set(X, groups=SITE))
    np.testing.assert_array_equal(model.predict_set(frame(), groups=SITE[::-1]), given.predict_set(X, groups=SITE[::-1]))
    assert coverage_scorer(model, frame(), Y) == coverage_scorer(given, X, Y, groups=SITE) == sets[np.arange(400), Y].mean()
    assert size_scorer(model, frame(), Y) == size_scorer(given, X, Y, groups=SITE) == -sets.sum(1).mean()
    assert coverage_size_scorer(0.2)(model, frame(), Y) == coverage_size_scorer(0.2)(given, X, Y, groups=SITE)
    assert len(cross_val_score(model, frame(), Y, scoring=coverage_scorer, cv=3)) == 3
    search = GridSearchCV(model, {"rule": ["lac:0.3,by:site", "lac:0.1,by:site"]}, scoring=coverage_scorer, cv=3).fit(
        frame(), Y
    )
    assert search.best_params_["rule"] == "lac:0.1,by:site"


def test_groups_that_the_rule_does_not_use_go_to_a_search_by_group():
    search = GridSearchCV(LogisticRegression(), {"C": [0.01, 1.0]}, cv=GroupKFold(3))
    groups = np.arange(400) % 7
    model = SetClassifier(search, "lac:0.1", random_state=0).fit(X, Y, groups=groups)
    expected = clone(search).fit(X[FIRST], Y[FIRST], groups=groups[FIRST])
    np.testing.assert_array_equal(model.estimator_.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])


@pytest.mark.parametrize("alpha", ["0.1", "0.25"])
def test_weights_count_calibration_rows_and_leave_the_estimator_alone(alpha):
    model = classifier(f"lac:{alpha}").fit(X, Y, weights=WEIGHTS)
    held, every = held_probs()
    np.testing.assert_array_equal(model.predict_proba(X), every)
    weights = WEIGHTS[HELD]
    cut = -ref.quantile(-held, Y[HELD], weights, weights.max(), alpha)
    np.testing.assert_array_equal(model.predict_set(X), every >= cut)
    own = [-ref.quantile(-held, Y[HELD], weights, w, alpha) for w in WEIGHTS[:20]]
    np.testing.assert_array_equal(model.predict_set(X[:20], weights=WEIGHTS[:20]), every[:20] >= np.array(own)[:, None])
    assert (model.predict_set(X) != classifier(f"lac:{alpha}").fit(X, Y).predict_set(X)).any()
    assert "by their weights" in model.rule_.guarantee


def test_weights_and_sample_weight_are_two_things():
    both = classifier("lac:0.2").fit(X, Y, sample_weight=X[:, 2] ** 2, weights=WEIGHTS)
    held, every = held_probs(sample_weight=X[FIRST, 2] ** 2)
    np.testing.assert_array_equal(both.predict_proba(X), every)
    assert both.rule_.threshold == parse_rule("lac:0.2").fit(held, Y[HELD], weights=WEIGHTS[HELD]).threshold
    assert both.rule_.threshold != parse_rule("lac:0.2").fit(held, Y[HELD]).threshold
    prefit = SetClassifier(LogisticRegression().fit(X, Y), "lac:0.2", calibration="prefit").fit(X, Y, weights=WEIGHTS)
    assert prefit.rule_.threshold == parse_rule("lac:0.2").fit(prefit.predict_proba(X), Y, weights=WEIGHTS).threshold


def test_weights_of_classes_go_by_label_or_in_the_order_of_the_classes():
    names = np.array(["elm", "ash", "oak"])[Y]
    by_label = classifier("lac:0.2").fit(X, names, class_weights={"oak": 3, "elm": 0.5, "ash": 1})
    in_order = classifier("lac:0.2").fit(X, names, class_weights=[1, 0.5, 3])
    held = by_label.predict_proba(X[HELD])
    target = np.searchsorted(["ash", "elm", "oak"], names[HELD])
    expected = parse_rule("lac:0.2").fit(held, target, class_weights=[1, 0.5, 3])
    assert by_label.rule_.threshold.tolist() == in_order.rule_.threshold.tolist() == expected.threshold.tolist()
    numbers = classifier("lac:0.2").fit(X, Y, class_weights={0: 0.5, 1: 1, 2: 3})
    assert sorted(numbers.rule_.threshold.tolist()) == sorted(expected.threshold.tolist())


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weighted"])
@pytest.mark.parametrize("rule", ["lac:0.2", "aps:0.2:deterministic", "lac:0.2,classwise"])
def test_p_values_are_those_of_the_definition_and_decide_the_sets(rule, weights):
    model = classifier(rule).fit(X, Y, weights=weights)
    values = model.p_values(X)
    np.testing.assert_array_equal(model.predict_set(X), values > 0.2)
    if rule == "lac:0.2":
        held, every = held_probs()
        counted = np.ones(len(HELD)) if weights is None else weights[HELD]
        expected = ref.p_values(-held, Y[HELD], counted, np.full(30, counted.max()), -every[:30])
        np.testing.assert_allclose(values[:30], np.array(expected, float), rtol=0, atol=1e-9)
    if weights is not None and "classwise" not in rule:
        own = model.p_values(X[:30], weights=weights[:30])
        np.testing.assert_array_equal(model.predict_set(X[:30], weights=weights[:30]), own > 0.2)
        assert (own <= values[:30]).all()


def test_p_values_by_group_decide_the_sets_too():
    model = classifier("lac:0.2,by:site:9").fit(X, Y, groups=SITE)
    values = model.p_values(X, groups=SITE)
    np.testing.assert_array_equal(model.predict_set(X, groups=SITE), values > 0.2)
    assert (values != model.p_values(X, groups=np.roll(SITE, 1))).any()


def test_p_values_of_folds_decide_the_sets_too():
    model = classifier("lac:0.2", cv=4).fit(X, Y)
    np.testing.assert_array_equal(model.predict_set(X), model.p_values(X) > 0.2)
    assert np.isin((model.p_values(X) * 401).round(6) % 1, [0, 1]).all()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("top-k:2", "p_values: expected a conformal rule .*, got top-k:2"),
        ("lac:0.1,pac:0.05", "p_values: expected a conformal rule .*, got lac:0.1,pac:0.05"),
        ("lac:0.1,by:predicted:1:20", "p_values: expected groups with thresholds of their own"),
        (aps(0.1, torch.Generator().manual_seed(0)), "p_values: expected aps:0.1.* with a seed"),
    ],
)
def test_rules_without_p_values_say_so(rule, message):
    model = classifier(rule).fit(X, Y)
    with pytest.raises(InputError, match=message):
        model.p_values(X)


@pytest.mark.parametrize(
    ("rule", "given", "message"),
    [
        ("lac:0.1", {"groups": SITE}, "groups: expected None, because lac:0.1 has no threshold for each .*lac:0.1,by:…"),
        (
            "lac:0.1,by:predicted",
            {"groups": SITE},
            "groups: expected None, because .*their most probable labels are the groups",
        ),
        ("lac:0.1,by:site", {}, "expected the site of each row, got none: pass groups="),
        ("lac:0.1,by:site", {"groups": SITE[:-1]}, r"groups: expected one entry for each row, \(400,\), got .*\(399,\)"),
        ("lac:0.1", {"weights": WEIGHTS[:-1]}, r"weights: expected numbers \(400,\), got float64 \(399,\)"),
        ("lac:0.1", {"weights": -WEIGHTS}, "weights: expected finite numbers from 0"),
        ("top-k:2", {"weights": WEIGHTS}, "weights: expected none for top-k:2"),
        ("lac:0.1,pac:0.05", {"weights": WEIGHTS}, "weights: expected none, because what .*thinned"),
        ("lac:0.1", {"class_weights": [1, 2]}, "class_weights: expected one for each of 3 classes, got 2"),
        ("lac:0.1", {"class_weights": {0: 1, 1: 2}}, "class_weights: .*'2'"),
    ],
)
def test_what_a_rule_does_not_take_is_refused(rule, given, message):
    model = classifier("lac:0.1").fit(X, Y)
    before = model.predict_set(X)
    with pytest.raises(InputError, match=message):
        model.set_params(rule=rule).fit(X, Y, **given)
    np.testing.assert_array_equal(model.predict_set(X), before)


def test_new_rows_bring_what_the_rule_needs_and_nothing_else():
    by_site, plain = classifier("lac:0.1,by:site").fit(X, Y, groups=SITE), classifier("lac:0.1").fit(X, Y)
    with pytest.raises(InputError, match="expected the site of each row, got none: pass groups="):
        by_site.predict_set(X)
    with pytest.raises(InputError, match="groups: expected None"):
        plain.predict_set(X, groups=SITE)
    for ask in (plain.predict_set, plain.p_values):
        with pytest.raises(InputError, match="weights: expected a rule .* that was fitted with weights"):
            ask(X, weights=WEIGHTS)
    with pytest.warns(ShortlistWarning, match="site"):
        by_site.predict_set(X[:2], groups=["north", "east"])


def test_rows_that_are_named_are_in_one_order():
    names = [f"leaf {row}" for row in range(400)]
    table = pd.DataFrame(X, names, columns=list("abcdef"))
    for name, values in (("groups", SITE), ("weights", WEIGHTS)):
        rule = "lac:0.1,by:site" if name == "groups" else "lac:0.1"
        series = pd.Series(values, names)
        model = classifier(rule).fit(table, Y, **{name: series})
        for take in (lambda table, model=model, **given: model.fit(table, Y, **given), model.predict_set):
            with pytest.raises(InputError, match=f"{name}: expected the rows in their order, got 'leaf 399' in row 0"):
                take(table, **{name: series[::-1]})


@pytest.mark.parametrize("given", [{"groups": SITE}, {"weights": WEIGHTS}, {"class_weights": [1, 2, 3]}], ids=str)
def test_folds_count_rows_alike(given):
    (name,) = given
    with pytest.raises(InputError, match=f"{name}: expected None with cv, because .*hold rows out with calibration"):
        classifier("lac:0.1", cv=3).fit(X, Y, **given)
    if name != "class_weights":
        with pytest.raises(InputError, match=f"{name}: expected None with cv"):
            classifier("lac:0.1", cv=3).fit(X, Y).predict_set(X, **given)


@pytest.mark.parametrize("rule", ["lac:0.1,by:site", "lac:0.1,by:predicted"])
def test_folds_have_one_threshold(rule):
    with pytest.raises(InputError, match="cv: expected a conformal rule without a gate and groups"):
        classifier(rule, cv=3).fit(frame(), Y)


def test_several_labels_a_row_are_counted_by_weight_and_by_group():
    marks = (X[:, :3] > 0.3).astype(int)
    model = SetClassifier(OneVsRestClassifier(LogisticRegression()), "risk-control:recall:0.2,by:site", random_state=0)
    model.fit(X, marks, groups=SITE, weights=WEIGHTS)
    expected = parse_rule("risk-control:recall:0.2,by:site")
    expected.fit(model.predict_proba(X[HELD]), marks[HELD].astype(bool), groups=SITE[HELD], weights=WEIGHTS[HELD])
    np.testing.assert_array_equal(model.predict_set(X, groups=SITE), expected.predict(model.predict_proba(X), groups=SITE))
    with pytest.raises(InputError, match="p_values: expected a conformal rule"):
        model.p_values(X)


def test_neighbours_take_no_weights_themselves_and_their_rule_does():
    with pytest.raises(ValueError, match="sample_weight: KNeighborsClassifier.fit takes none"):
        SetClassifier(KNeighborsClassifier(15)).fit(X, Y, sample_weight=WEIGHTS)
    model = SetClassifier(KNeighborsClassifier(15), "lac:0.2", random_state=0).fit(X, Y, weights=WEIGHTS)
    assert model.rule_.weighting.kind == "rows"
