"""Average-k: the size law, the rounding of kn, and the limits of k."""

import copy
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist import Predictions
from shortlist.errors import InputError, ShortlistWarning
from shortlist.sets import average_k
from tests.references import sets as ref


def distinct(rows, classes, seed=0, dtype=torch.float64):
    """Probabilities that are all different, in float16 as well: up to 1,024 entries."""
    order = torch.randperm(rows * classes, generator=torch.Generator().manual_seed(seed))
    return ((order + 1).double() / 1024).reshape(rows, classes).to(dtype)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 30),
    classes=st.integers(1, 8),
    share=st.integers(1, 999),
    dtype=st.sampled_from([torch.float16, torch.float32, torch.float64]),
    seed=st.integers(0, 99),
)
def test_exactly_kn_labels_rounded_half_up_without_ties(rows, classes, share, dtype, seed):
    k = str(Fraction(share * classes, 1000).limit_denominator(1000)) if share % 7 == 0 else share * classes / 1000
    probs = distinct(rows, classes, seed, dtype)
    assert int(average_k(k).fit(probs)(probs).sum()) == ref.half_up(Fraction(str(k)) * rows)


@settings(max_examples=80, deadline=None)
@given(
    values=st.lists(st.lists(st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0]), min_size=4, max_size=4), min_size=1, max_size=9),
    k=st.sampled_from([0.05, 0.5, 1, 1.5, 2.25, 3, 3.9, 4]),
    dtype=st.sampled_from([torch.float16, torch.float32, torch.float64]),
)
def test_ties_are_all_in_or_all_out_whichever_is_nearer(values, k, dtype):
    probs = torch.tensor(values, dtype=dtype)
    _, _, kept, wanted = ref.average_k_cut(np.array(values), k)
    rule = average_k(k)
    if kept == wanted:
        rule.fit(probs)
    else:
        with pytest.warns(match=f"{kept} labels are returned on {len(values)} rows instead of {wanted}"):
            rule.fit(probs)
    np.testing.assert_array_equal(rule(probs).numpy(), ref.average_k(np.array(values), np.array(values), k))
    assert int(rule(probs).sum()) == kept


@pytest.mark.parametrize(
    ("values", "k", "kept"),
    [
        ([0.9, 0.5, 0.5, 0.5, 0.1], 3, 4),  # 3 wanted: 4 is nearer than 1
        ([0.9, 0.5, 0.5, 0.5, 0.1], 2, 1),  # 2 wanted: 1 is nearer than 4
        ([0.9, 0.5, 0.5, 0.1, 0.1], 2, 1),  # 2 wanted: 1 and 3 are equally near
    ],
    ids=["in", "out", "equal"],
)
def test_ties_at_the_cut_are_said(values, k, kept):
    probs = torch.tensor([values])
    with pytest.warns(match="average-k") as caught:
        rule = average_k(k).fit(probs)
    assert int(rule(probs).sum()) == kept
    assert rule.notes
    assert rule.notes[0] in str(caught[0].message)


def test_scores_of_plus_infinity_are_always_returned():
    scores = torch.tensor([[torch.inf, torch.inf, torch.inf, 1.0], [0.0, 2.0, 3.0, 4.0]])
    with pytest.warns(ShortlistWarning, match="3 labels are returned on 2 rows instead of 1"):
        rule = average_k(0.5).fit(scores)
    assert rule.predict(scores).sum() == 3


def test_ties_away_from_the_cut_are_not_said():
    rule = average_k(2).fit(torch.tensor([[0.5, 0.5, 0.1, 0.1]]))  # a warning would be an error
    assert rule.notes == ()


def test_a_second_fit_forgets_the_notes_of_the_first():
    rule = average_k(1)
    with pytest.warns(match="tie"):
        rule.fit(torch.tensor([[0.5, 0.5]]))
    assert rule.fit(torch.tensor([[0.5, 0.4]])).notes == ()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("k", "kept"), [(0.5, 0), (0.9, 4), (1, 4), (1.5, 4), (2, 4), (2.25, 12), (3, 12)])
def test_a_saturated_softmax_keeps_its_ones_or_everything(dtype, k, kept):
    probs = torch.softmax(torch.tensor([[2000.0, 0.0, -2000.0]] * 4).double(), 1).to(dtype)
    wanted = ref.half_up(Fraction(str(k)) * 4)
    rule = average_k(k)
    if kept == wanted:
        rule.fit(probs)
    else:
        with pytest.warns(match="tie at the cut"):
            rule.fit(probs)
    assert int(rule(probs).sum()) == kept


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_neighbouring_floats_at_the_cut_are_told_apart(dtype):
    lower = torch.tensor(0.5, dtype=dtype)
    upper = torch.nextafter(lower, torch.ones((), dtype=dtype))
    probs = torch.stack([upper, lower])[None]
    assert average_k(1).fit(probs)(probs).tolist() == [[True, False]]


def test_the_threshold_is_the_midpoint():
    assert average_k(1).fit(torch.tensor([[0.75, 0.25]])).threshold.item() == 0.5


@pytest.mark.parametrize(
    ("k", "rows", "wanted"),
    [(0.5, 1, 1), (0.5, 3, 2), (2.5, 1, 3), (1.005, 100, 101), (0.7, 5, 4), (0.1, 15, 2), (0.35, 10, 4), (0.04, 10, 0)],
)
def test_kn_is_the_typed_decimal_rounded_half_up(k, rows, wanted):
    """1.005 · 100 is 100.5, which floats make 100.49999…"""
    probs = distinct(rows, 4)
    assert int(average_k(k).fit(probs)(probs).sum()) == wanted


@pytest.mark.parametrize("k", [3, 3.0, "3"])
def test_k_equal_to_the_number_of_classes_returns_everything(k):
    rule = average_k(k).fit(torch.tensor([[0.5, 0.3, 0.2]]))
    assert rule(torch.tensor([[1.0, 0.0, 0.0]])).all()


def test_a_k_that_rounds_to_nothing_returns_nothing():
    rule = average_k(0.1).fit(torch.tensor([[0.5, 0.5]]))
    assert not rule(torch.ones(1, 2)).any()


@pytest.mark.parametrize("k", [3.001, 4, 100])
def test_k_above_the_number_of_classes_is_refused(k):
    with pytest.raises(InputError, match="at most the number of classes, 3"):
        average_k(k).fit(torch.rand(5, 3))


@pytest.mark.parametrize("k", [0, -1, -0.5, float("nan"), float("inf"), "many", None])
def test_a_k_that_is_no_size_is_refused(k):
    with pytest.raises(InputError, match=r"^k: expected a number"):
        average_k(k)


def test_new_rows_use_the_threshold_of_calibration():
    rule = average_k(1).fit(torch.tensor([[0.8, 0.2], [0.7, 0.3]]))
    assert rule(torch.tensor([[0.55, 0.45], [0.45, 0.4]])).tolist() == [[True, False], [False, False]]


def test_labels_are_ignored():
    probs = distinct(20, 4)
    assert torch.equal(average_k(2).fit(probs, torch.zeros(20, dtype=torch.long)).threshold, average_k(2).fit(probs).threshold)


@pytest.mark.parametrize("k", [0.5, 1, 2.5])
def test_a_prior_divides_the_probabilities(k):
    probs, prior = distinct(30, 5), np.array([0.4, 0.3, 0.2, 0.07, 0.03])
    expected = ref.average_k(probs.numpy(), probs.numpy(), k, prior)
    np.testing.assert_array_equal(average_k(k, prior).fit(probs)(probs).numpy(), expected)
    assert (expected != ref.average_k(probs.numpy(), probs.numpy(), k)).any()


def test_a_prior_need_not_sum_to_one():
    probs = distinct(30, 3)
    counts = torch.tensor([200, 50, 6])
    assert torch.equal(average_k(1, counts).fit(probs)(probs), average_k(1, counts / 256).fit(probs)(probs))


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([0.5, 0.0, 0.5], "above 0 .*got 0 for class 1"),
        ([0.5, -0.5, 1.0], "above 0"),
        ([0.5, float("nan"), 0.5], "above 0"),
        ([[0.5, 0.5]], "one number for each class"),
    ],
)
def test_a_prior_that_is_none_is_refused(prior, message):
    with pytest.raises(InputError, match=message):
        average_k(1, prior)


def test_a_prior_of_other_classes_is_refused():
    with pytest.raises(InputError, match="prior: .*got 2"):
        average_k(1, [0.5, 0.5]).fit(torch.rand(4, 3))


def test_a_rare_class_does_not_overflow_half_precision():
    """p over a prior of 1e-6 is beyond the largest float16, 65504."""
    probs = torch.tensor([[0.5, 0.25], [0.5, 0.125]], dtype=torch.float16)
    rule = average_k(0.5, [1.0, 1e-6]).fit(probs)
    assert rule(probs).tolist() == [[False, True], [False, False]]


@pytest.mark.parametrize(("fitted", "applied"), [(torch.float64, torch.float32), (torch.float32, torch.float16)])
def test_a_narrower_dtype_lets_in_no_more(fitted, applied):
    probs = torch.zeros(4, 5, dtype=fitted)
    probs[:, 0] = 1
    with pytest.warns(ShortlistWarning, match="tie"):
        rule = average_k(2).fit(probs)
    assert torch.equal(rule(probs.to(applied)), rule(probs))


def test_half_precision_modules_keep_their_prior_and_threshold():
    scores = 3 * torch.randn(500, 4, generator=torch.Generator().manual_seed(0)) - torch.tensor([18.0, 0.0, 0.0, 0.0])
    probs = torch.softmax(scores, 1)
    rule = average_k(1, prior=[1e-8, 0.3, 0.3, 0.4]).fit(probs)  # half precision would make the first 0
    assert not rule(probs)[:, 0].all()
    assert torch.equal(copy.deepcopy(rule).half()(probs), rule(probs))


def test_a_generator_of_one_batch_is_refused_for_what_it_is():
    with pytest.raises(InputError, match="probs: .*got a generator"):
        average_k(1, prior=[0.5, 0.5]).fit(part for part in [torch.tensor([[0.6, 0.4]] * 9)])


def test_a_rule_holds_for_the_link_and_the_classes_it_was_fitted_on():
    scores, target = torch.randn(60, 3, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3
    rule = average_k(1).fit(Predictions(scores, target, link="softmax"))
    rule.check_origin(Predictions(scores, link="softmax"))
    for other in (Predictions(scores, link="sigmoid"), Predictions(scores), Predictions(scores[:, :2], link="softmax")):
        with pytest.raises(InputError, match="was fitted on"):
            rule.check_origin(other)
