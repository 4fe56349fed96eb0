"""Rules for any number of labels a row, against brute force over every threshold."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.errors import InputError
from shortlist.sets import SetRule, lac, per_label, risk_control
from tests.references import sets as ref

LEVELS = [0.25, 0.5, 0.6, 0.75, 0.9, 1]


@st.composite
def labelled(draw, most_rows=14):
    """Values with many ties, rows without labels, labels without positives."""
    rows, classes = draw(st.integers(1, most_rows)), draw(st.integers(1, 4))
    values = draw(st.lists(st.integers(0, 8), min_size=rows * classes, max_size=rows * classes))
    marks = draw(st.lists(st.booleans(), min_size=rows * classes, max_size=rows * classes))
    return np.array(values).reshape(rows, classes) / 8, np.array(marks).reshape(rows, classes)


@pytest.mark.filterwarnings("ignore:.*too few for a risk")
@settings(max_examples=80, deadline=None)
@given(data=labelled(), alpha=st.sampled_from([0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9]))
def test_risk_control_takes_the_highest_threshold_that_keeps_the_risk(data, alpha):
    probs, target = data
    rule = risk_control("recall", alpha).fit(probs, target)
    grid = np.linspace(0, 1, 33)[:, None].repeat(probs.shape[1], 1)
    np.testing.assert_array_equal(rule(grid), ref.risk_control(probs, target, grid, alpha))


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.3, 0.7])
@pytest.mark.parametrize("n", [9, 10, 19, 50])
def test_risk_control_of_one_label_a_row_is_lac(n, alpha):
    random = np.random.default_rng(n)
    probs, target = random.permutation(n * 4).reshape(n, 4) / 256, random.integers(4, size=n)
    new = random.permutation(200).reshape(50, 4) / 256
    expected = lac(alpha).fit(probs, target)(new)
    for form in (target, np.eye(4, dtype=bool)[target]):
        np.testing.assert_array_equal(risk_control("recall", alpha).fit(probs, form)(new), expected)


@pytest.mark.parametrize(("rows", "alpha"), [(9, 0.2), (39, 0.05), (49, 0.04)])
def test_shares_are_summed_in_fractions(rows, alpha):
    """n rows of n labels miss one each: a loss of 1, all that alpha (n + 1) - 1 allows; floats make it more than 1."""
    probs = np.full((rows, rows), 0.75)
    probs[:, 0] = 0.25
    assert risk_control("recall", alpha).fit(probs, np.ones(probs.shape, bool)).threshold.item() == 0.75


def test_the_risk_is_kept_on_new_rows():
    """Mean loss over 200 calibrations of 50 rows: 0.1 at most in expectation; false alarms below 1e-4 (4 standard errors)."""
    random, losses = np.random.default_rng(0), []
    for _ in range(200):
        probs = random.uniform(size=(100, 5))
        target = random.uniform(size=probs.shape) < probs
        cut = risk_control("recall", 0.1).fit(probs[:50], target[:50]).threshold.item()
        losses.append(float(sum(ref.missed_shares(probs[50:], target[50:], cut))) / 50)
    assert np.mean(losses) <= 0.1 + 4 * np.std(losses) / np.sqrt(200)
    assert np.mean(losses) >= 0.1 - 2 / 51 - 4 * np.std(losses) / np.sqrt(200)


def test_too_few_rows_for_a_risk_return_everything_and_say_so():
    with pytest.warns(match="8 calibration rows are too few for a risk of 0.1"):
        rule = risk_control("recall", 0.1).fit(np.full((8, 2), 0.5), np.ones((8, 2), bool))
    assert rule(torch.zeros(1, 2)).all()


def test_rows_without_labels_miss_none():
    probs, target = np.full((9, 2), 0.5), np.zeros((9, 2), bool)
    assert not risk_control("recall", 0.1).fit(probs, target)(torch.ones(1, 2)).any()


def test_other_risks_are_refused():
    with pytest.raises(InputError, match="expected 'recall'"):
        risk_control("precision", 0.1)


@pytest.mark.filterwarnings("ignore:.*labels are (never|always) returned")
@settings(max_examples=80, deadline=None)
@given(data=labelled(), how=st.sampled_from([("f1", None), *((o, v) for o in ("precision", "recall") for v in LEVELS)]))
def test_per_label_equals_the_best_of_all_thresholds(data, how):
    probs, target = data
    rule = per_label(*how).fit(probs, target)
    np.testing.assert_array_equal(rule(probs), ref.per_label(probs, target, *how))
    np.testing.assert_array_equal(rule.threshold.numpy(), ref.per_label_cuts(probs, target, *how))


@pytest.mark.parametrize("objective", ["precision", "recall"])
def test_levels_are_the_typed_decimals(objective):
    """Of ten rows, 0.7 is seven; the binary fraction of 0.7 · 10 is above or below it by chance."""
    for tenths in range(1, 11):
        probs = np.arange(10, 0, -1)[:, None] / 16
        target = np.ones((10, 1), bool) if objective == "recall" else (np.arange(10) < tenths)[:, None]
        target[-1] = True
        rule = per_label(objective, tenths / 10).fit(probs, target)
        np.testing.assert_array_equal(rule(probs), ref.per_label(probs, target, objective, tenths / 10))


@pytest.mark.parametrize("objective", ["precision", "recall"])
def test_a_level_with_many_digits_does_not_overflow(objective):
    rows = 3000
    probs = np.arange(rows, 0, -1)[:, None] / 4096
    target = np.ones((rows, 1), bool) if objective == "recall" else (np.arange(rows) % 3 == 0)[:, None]
    kept = int(per_label(objective, 1 / 3).fit(probs, target)(probs).sum())
    level = Fraction(str(1 / 3))
    if objective == "recall":
        assert kept == min(n for n in range(1, rows + 1) if Fraction(n, rows) >= level)
    else:
        assert kept == max(n for n in range(1, rows + 1) if target[n - 1] and Fraction(int(target[:n].sum()), n) >= level)


@pytest.mark.parametrize(
    ("objective", "level", "in_every_set"), [("f1", None, False), ("precision", 0.9, False), ("recall", 0.9, True)]
)
def test_a_label_without_positives_is_never_in_or_always_for_recall(objective, level, in_every_set):
    probs, target = np.array([[0.5, 0.9], [0.25, 0.8]]), np.array([[True, False], [False, False]])
    with pytest.warns(match="1 of 2 labels are (always|never) returned"):
        rule = per_label(objective, level).fit(probs, target)
    assert rule(np.array([[0.0, 0.0], [1.0, 1.0]]))[:, 1].tolist() == [in_every_set] * 2


def test_a_precision_that_no_threshold_reaches_returns_nothing_and_says_so():
    with pytest.warns(match="1 of 1 labels are never returned"):
        rule = per_label("precision", 0.9).fit(np.array([[0.9], [0.5]]), np.array([[False], [True]]))
    assert not rule(np.ones((1, 1))).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("objective", "level"), [("f1", None), ("precision", 0.9)])
def test_a_label_that_is_never_returned_is_not_for_an_infinite_score_either(objective, level, dtype, tmp_path):
    """The second label has no positive rows. Those of the first have infinite scores: its threshold is theirs."""
    scores = torch.tensor([[np.inf, np.inf], [np.inf, 1.0], [2.0, 0.5]], dtype=dtype)
    target = torch.tensor([[True, False], [True, False], [False, False]])
    with pytest.warns(match="1 of 2 labels are never returned"):
        rule = per_label(objective, level).fit(scores, target)
    rule.save(tmp_path / "rule.safetensors")
    for one in (rule, SetRule.load(tmp_path / "rule.safetensors")):
        assert one(scores).tolist() == [[True, False], [True, False], [False, False]]
        assert one(scores.double()).tolist() == one(scores).tolist()
    assert rule.threshold[1] == np.inf


def test_per_label_takes_one_label_a_row_as_well():
    random = np.random.default_rng(0)
    probs, target = random.uniform(size=(40, 3)), random.integers(3, size=40)
    many = per_label().fit(probs, np.eye(3, dtype=bool)[target])
    assert torch.equal(per_label().fit(probs, target).threshold, many.threshold)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_neighbouring_floats_are_told_apart(dtype):
    lower = torch.tensor(0.5, dtype=dtype)
    probs = torch.stack([torch.nextafter(lower, torch.ones((), dtype=dtype)), lower])[:, None]
    rule = per_label().fit(probs, torch.tensor([[True], [False]]))
    assert rule(probs).flatten().tolist() == [True, False]


def test_a_threshold_lies_between_the_values_it_separates():
    rule = per_label().fit(np.array([[0.75], [0.25]]), np.array([[True], [False]]))
    assert rule.threshold.item() == 0.5


@pytest.mark.parametrize(
    "arguments",
    [("accuracy",), ("f1", 0.9), ("precision",), ("recall", 0), ("recall", 1.1), ("recall", -1), ("precision", "high")],
)
def test_objectives_and_levels_that_do_not_exist_are_refused(arguments):
    with pytest.raises(InputError, match=r"objective|level"):
        per_label(*arguments)
