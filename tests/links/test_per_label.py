"""Platt against a general optimiser, isotonic against pool-adjacent-violators and scikit-learn."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression

from shortlist.errors import InputError
from shortlist.links import Beta, Identity, Isotonic, Platt, Sigmoid, Softmax, VennAbers
from tests.references import links as reference

PER_LABEL = [Platt, Beta, Isotonic, VennAbers]


def draw(seed, rows=50, classes=3, *, single=False):
    generator = np.random.default_rng(seed)
    scores = 2 * generator.standard_normal((rows, classes))
    if single:
        return scores, np.array([generator.choice(classes, p=row) for row in reference.softmax(scores)])
    return scores, generator.random((rows, classes)) < np.vectorize(reference.sigmoid)(scores - 1)


def platt_optimum(odds, marks):
    found = minimize(
        lambda ab: reference.platt_objective(*ab, odds, marks), x0=[0.0, 0.0], method="BFGS", options={"gtol": 1e-7}
    )
    return found.x


@pytest.mark.parametrize("seed", range(3))
def test_platt_minimises_the_smoothed_objective_for_each_label(seed):
    scores, target = draw(seed)
    link = Platt().fit(scores, target)
    for label in range(3):
        slope, intercept = platt_optimum(scores[:, label], target[:, label])
        assert link.slope[label].item() == pytest.approx(slope, rel=1e-4, abs=1e-5)
        assert link.intercept[label].item() == pytest.approx(intercept, rel=1e-4, abs=1e-5)


@given(st.lists(st.tuples(st.sampled_from([-3.0, -1.0, 0.0, 0.5, 80.0]), st.booleans()), min_size=2, max_size=15))
@settings(max_examples=40, deadline=None)
def test_platt_is_stationary_for_any_data(pairs):
    odds, marks = np.array([x for x, _ in pairs]), np.array([y for _, y in pairs])
    if marks.all() or not marks.any():
        marks[0] = not marks[0]
    link = Platt().fit(odds[:, None], marks[:, None])
    slope, intercept = link.slope.item(), link.intercept.item()
    least = reference.platt_objective(slope, intercept, odds, marks)
    for a, b in [(1e-3, 0), (-1e-3, 0), (0, 1e-3), (0, -1e-3)]:
        assert least <= reference.platt_objective(slope + a, intercept + b, odds, marks) + 1e-9


def test_platt_reads_scores_however_large():
    """Margins of a support vector machine, for which it was made, may be in the hundreds."""
    scores, target = draw(3, classes=1)
    plain, large = Platt().fit(scores, target), Platt().fit(500 * scores, target)
    torch.testing.assert_close(large.slope, plain.slope / 500)
    torch.testing.assert_close(large.probs(torch.from_numpy(500 * scores)), plain.probs(torch.from_numpy(scores)))


def test_platt_of_separable_data_is_finite():
    odds, marks = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([False, False, True, True])
    link = Platt().fit(odds[:, None], marks[:, None])
    slope, intercept = platt_optimum(odds, marks)
    assert link.slope.item() == pytest.approx(slope, rel=1e-4)
    assert link.intercept.item() == pytest.approx(intercept, abs=1e-4)


@pytest.mark.parametrize("link", [Platt, Beta], ids=lambda link: link.kind)
def test_rounding_of_log_odds_is_not_fitted(link):
    random = torch.Generator().manual_seed(3)
    row = torch.randn(1, 5, generator=random, dtype=torch.float64)
    scores = row + torch.randn(60, 1, generator=random, dtype=torch.float64)  # one softmax for all rows, up to rounding
    found = link().fit(scores, torch.randint(0, 5, (60,), generator=random))
    other = scores + torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0])
    torch.testing.assert_close(found.probs(other), found.probs(scores), rtol=0, atol=1e-9)


def test_platt_of_a_constant_score_is_the_smoothed_share():
    marks = np.array([[True], [False], [False], [False]])
    link = Platt().fit(np.full((4, 1), 0.7), marks)
    share = (2 / 3 + 3 / 5) / 4
    assert link.slope.item() == 0
    assert link.probs(torch.full((1, 1), 0.7, dtype=torch.float64)).item() == pytest.approx(share)


def test_platt_of_many_labels_has_linear_log_odds():
    scores, target = draw(4)
    link = Platt().fit(scores, target)
    torch.testing.assert_close(link.log_odds(torch.from_numpy(scores)), torch.from_numpy(scores) * link.slope + link.intercept)


@pytest.mark.parametrize("seed", range(3))
def test_isotonic_equals_scikit_learn_at_and_between_and_outside_the_knots(seed):
    scores, target = draw(seed)
    scores = scores.round(1)  # ties among the scores
    points = np.linspace(-9, 9, 200)
    found = Isotonic(pseudo_counts=0).fit(scores, target).probs(torch.from_numpy(points)[:, None].repeat(1, 3)).numpy()
    for label in range(3):
        peer = IsotonicRegression(out_of_bounds="clip").fit(scores[:, label], target[:, label])
        np.testing.assert_allclose(found[:, label], peer.predict(points), atol=1e-12)


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=20))
@settings(max_examples=50, deadline=None)
def test_isotonic_at_the_data_equals_pool_adjacent_violators(pairs):
    odds, marks = np.array([float(x) for x, _ in pairs]), np.array([y for _, y in pairs])
    if marks.all() or not marks.any():
        marks[0] = not marks[0]
    points, levels = reference.pool_adjacent_violators(odds, marks.astype(float))
    found = Isotonic(pseudo_counts=0).fit(odds[:, None], marks[:, None]).probs(torch.from_numpy(points)[:, None])
    np.testing.assert_allclose(found[:, 0].numpy(), levels, atol=1e-12)


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=20), st.sampled_from([1.0, 0.5, 2.0]))
@settings(max_examples=50, deadline=None)
def test_isotonic_has_rows_of_the_other_outcome_at_both_ends(pairs, more):
    odds, marks = np.array([float(x) for x, _ in pairs]), np.array([float(y) for _, y in pairs])
    if marks.all() or not marks.any():
        marks[0] = 1 - marks[0]
    copies = 2 if more == 0.5 else 1  # half a row more is one row more beside two of each
    added = int(more * copies)
    x = np.concatenate([np.repeat(odds, copies), [odds.min()] * added, [odds.max()] * added])
    y = np.concatenate([np.repeat(marks, copies), np.ones(added), np.zeros(added)])
    points, levels = reference.pool_adjacent_violators(x, y)
    link = Isotonic(pseudo_counts=more).fit(odds[:, None], marks[:, None].astype(bool))
    found = link.probs(torch.from_numpy(points)[:, None])
    np.testing.assert_allclose(found[:, 0].numpy(), levels, atol=1e-12)
    assert found.min() > 0
    assert found.max() < 1


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=15))
@settings(max_examples=60, deadline=None)
def test_venn_abers_is_the_isotonic_map_of_the_rows_and_the_point_itself(pairs):
    odds, marks = np.array([float(x) for x, _ in pairs]), np.array([y for _, y in pairs])
    if marks.all() or not marks.any():
        marks[0] = not marks[0]
    link = VennAbers().fit(odds[:, None], marks[:, None])
    points = np.arange(-9, 10) / 2  # at the knots, between them, beyond them
    lower, upper = link.interval(points[:, None])
    expected = np.array([reference.venn_abers(odds, marks, point) for point in points])
    np.testing.assert_allclose(lower[:, 0].numpy(), expected[:, 0], atol=1e-12)
    np.testing.assert_allclose(upper[:, 0].numpy(), expected[:, 1], atol=1e-12)
    merged = expected[:, 1] / (1 - expected[:, 0] + expected[:, 1])
    np.testing.assert_allclose(link.probs(points[:, None])[:, 0].numpy(), merged, atol=1e-12)


def test_venn_abers_of_many_rows_without_ties_is_exact():
    scores, target = draw(11, rows=120, classes=1)
    link = VennAbers().fit(scores, target)
    points = np.concatenate([scores[::7, 0], np.linspace(-6, 6, 21)])
    lower, upper = (bound[:, 0].tolist() for bound in link.interval(points[:, None]))
    for point, low, high in zip(points, lower, upper, strict=True):
        assert (low, high) == pytest.approx(reference.venn_abers(scores[:, 0], target[:, 0], point))


def test_one_of_the_two_probabilities_of_venn_abers_is_calibrated():
    """The guarantee, over all orders of some rows: where p of the true outcome is v, the label is there with frequency v."""
    odds, marks = np.array([0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0]), np.array([0, 1, 0, 0, 1, 1, 0], bool)
    seen = {}
    for left_out in range(len(odds)):
        rest = np.arange(len(odds)) != left_out
        lower, upper = VennAbers().fit(odds[rest, None], marks[rest, None]).interval(odds[[left_out], None])
        value = round(float((upper if marks[left_out] else lower)[0, 0]), 9)
        seen.setdefault(value, []).append(marks[left_out])
    for value, outcomes in seen.items():
        assert np.mean(outcomes) == pytest.approx(value)


@pytest.mark.parametrize("seed", range(3))
def test_beta_minimises_the_smoothed_objective_for_each_label(seed):
    scores, target = draw(seed, rows=80, classes=2)
    scores = np.where(scores > 0, 0.3 * scores, scores)  # a bend that no slope can follow
    link = Beta().fit(scores, target)
    for label in range(2):
        found = minimize(
            lambda abc, label=label: reference.beta_objective(*abc, scores[:, label], target[:, label]),
            x0=[1.0, 1.0, 0.0],
            method="L-BFGS-B",
            bounds=[(0, None), (0, None), (None, None)],
            options={"ftol": 1e-15, "gtol": 1e-9},
        )
        ours = [getattr(link, name)[label].item() for name in "abc"]
        assert ours == pytest.approx(found.x, rel=1e-3, abs=1e-3)
        assert reference.beta_objective(*ours, scores[:, label], target[:, label]) <= found.fun + 1e-9


@pytest.mark.parametrize(("low", "high", "absent"), [(0.0, 1.0, "a"), (1.0, 0.0, "b"), (0.0, 0.0, "ab")])
def test_beta_has_no_negative_slope(low, high, absent):
    """Labels whose log-odds fall with the scores below 0, above 0, or everywhere."""
    generator = np.random.default_rng(1)
    odds = 3 * generator.standard_normal(500)
    slope = np.where(odds < 0, 0.8 if low else -0.8, 0.8 if high else -0.8)
    marks = generator.random(500) < 1 / (1 + np.exp(-slope * odds))
    link = Beta().fit(odds[:, None], marks[:, None])
    for name in "ab":
        value = getattr(link, name).item()
        assert value == 0 if name in absent else value > 0
    ours = [getattr(link, name).item() for name in "abc"]
    found = minimize(
        lambda abc: reference.beta_objective(*abc, odds, marks),
        x0=[0.5, 0.5, 0.0],
        method="L-BFGS-B",
        bounds=[(0, None), (0, None), (None, None)],
        options={"ftol": 1e-14},
    )
    assert reference.beta_objective(*ours, odds, marks) <= found.fun + 1e-8


@pytest.mark.parametrize("kind", PER_LABEL)
def test_probabilities_that_were_rounded_to_1_have_the_log_odds_of_the_rest_of_their_row(kind):
    """A softmax in float32 is 1 from log-odds of 17 on, and 104 would be far from where the others are."""
    generator = torch.Generator().manual_seed(0)
    scores = 8 * torch.randn(300, 3, generator=generator, dtype=torch.float64)
    target = torch.softmax(scores / 3, 1).multinomial(1, generator=generator).squeeze(1)
    probs = scores.softmax(1).float()
    assert (probs == 1).any()
    exact, rounded = kind(Softmax()).fit(scores, target), kind(Identity()).fit(probs, target)
    torch.testing.assert_close(rounded.probs(probs), exact.probs(scores).float(), rtol=1e-3, atol=1e-4)


def test_isotonic_keeps_only_the_ends_of_flat_stretches():
    scores = torch.arange(1000.0).remainder(50)[:, None] / 50
    link = Isotonic().fit(scores, scores > 0.5)
    assert link.knots.shape[1] == 4


@pytest.mark.parametrize("kind", PER_LABEL)
@pytest.mark.parametrize("base", [None, Softmax(), Identity()])
def test_one_label_a_row_is_fitted_one_against_the_rest_and_rows_sum_to_one(kind, base):
    scores, target = draw(5, single=True)
    probs = reference.softmax(scores)
    given_scores = probs if isinstance(base, Identity) else scores
    link = kind(base).fit(given_scores, target)
    odds = np.vectorize(reference.logit)(probs)
    each = np.empty_like(odds)
    for label in range(3):
        alone = kind(Sigmoid()).fit(odds[:, [label]], target[:, None] == label)
        each[:, label] = alone.probs(torch.from_numpy(odds[:, [label]]))[:, 0]
    found = link.probs(torch.from_numpy(given_scores)).numpy()
    np.testing.assert_allclose(found, each / each.sum(1, keepdims=True), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("kind", PER_LABEL)
def test_row_whose_maps_are_all_zero_gets_equal_probabilities(kind):
    scores = torch.tensor([[9.0, 0.0], [0.0, 9.0]] * 4)
    link = kind(Sigmoid()).fit(scores, torch.tensor([0, 1] * 4))
    found = link.probs(torch.tensor([[-1e4, -1e4]]))
    torch.testing.assert_close(found, torch.full((1, 2), 0.5))


@pytest.mark.parametrize("kind", PER_LABEL)
def test_label_without_both_outcomes_keeps_the_probabilities_of_the_base(kind):
    scores, target = draw(6)
    target[:, 0], target[:, 2] = True, False
    found = kind().fit(scores, target).probs(torch.from_numpy(scores))
    plain = torch.sigmoid(torch.from_numpy(scores))
    torch.testing.assert_close(found[:, [0, 2]], plain[:, [0, 2]])
    assert (found[:, 1] - plain[:, 1]).abs().max() > 0.01


@pytest.mark.parametrize("kind", PER_LABEL)
@pytest.mark.parametrize("marked", [True, False])
def test_no_label_with_both_outcomes_leaves_the_base(kind, marked):
    scores = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    link = kind().fit(scores, torch.full((5, 2), marked))
    torch.testing.assert_close(link.probs(scores), torch.sigmoid(scores))


@pytest.mark.parametrize("kind", PER_LABEL)
def test_one_class_one_label_a_row_is_certain(kind):
    link = kind().fit(torch.zeros(3, 1), torch.zeros(3, dtype=torch.int64))
    assert link.probs(torch.tensor([[-2.0], [5.0]])).tolist() == [[1], [1]]


def test_columns_fitted_in_blocks_equal_columns_fitted_together(monkeypatch):
    scores, target = draw(7, classes=7)
    whole = Platt().fit(scores, target)
    monkeypatch.setattr("shortlist.links.per_label.BLOCK_ENTRIES", 100)
    blocks = Platt().fit(scores, target)
    torch.testing.assert_close(blocks.slope, whole.slope)
    torch.testing.assert_close(blocks.intercept, whole.intercept)


@pytest.mark.parametrize("kind", PER_LABEL)
def test_infinite_log_odds_of_the_base_do_not_break_the_fit(kind):
    probs = torch.tensor([[1.0], [1.0], [0.0], [0.0], [0.5]])
    link = kind(Identity()).fit(probs, torch.tensor([[True], [False], [False], [False], [True]]))
    found = link.probs(probs)
    assert found.isfinite().all()
    assert found[0] > found[2]


@pytest.mark.parametrize("kind", PER_LABEL)
def test_another_number_of_classes_than_fitted_is_refused(kind):
    link = kind().fit(*draw(8))
    with pytest.raises(InputError, match="3"):
        link.probs(torch.zeros(1, 2))


@pytest.mark.parametrize("kind", PER_LABEL)
def test_fitting_again_is_as_fitting_afresh(kind):
    many = draw(9)
    again, fresh = kind().fit(*draw(10, single=True)).fit(*many), kind().fit(*many)
    torch.testing.assert_close(again.probs(torch.from_numpy(many[0])), fresh.probs(torch.from_numpy(many[0])))


@pytest.mark.parametrize(("make", "second"), [(Platt, "intercept"), (Beta, "c"), (Isotonic, "levels"), (VennAbers, "upper")])
def test_every_buffer_is_checked_against_the_number_of_classes(make, second):
    scores, target = draw(0)
    link = make().fit(scores, target)
    with pytest.raises(InputError, match=r"was fitted on 3 classes, got 4"):
        link.check_classes(4)
    getattr(link, second).resize_(2, *getattr(link, second).shape[1:])
    with pytest.raises(InputError, match=rf"got .*, {second} \(2,.*: fit it"):
        link.probs(torch.zeros(1, 3))


def test_steps_of_another_length_are_refused():
    link = Isotonic().fit(*draw(0))
    link.levels = link.levels[:, :-1]
    with pytest.raises(InputError, match="expected fitted .*got"):
        link.check_classes(3)


def test_a_single_number_is_no_map_for_each_class():
    link = Platt().fit(*draw(0))
    link.slope = link.intercept = torch.tensor(1.0)
    with pytest.raises(InputError, match=r"one row per class, got slope \(\)"):
        link.check_classes(3)


@pytest.mark.parametrize("scale", [1.0, 10.0, 60.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_log_odds_of_platt_for_one_label_a_row_are_exact_where_a_class_is_all_but_certain(scale, dtype):
    """Against the definition in exact arithmetic: log q_j - log Σ_{i≠j} q_i, where q is each label's own probability."""
    generator = torch.Generator().manual_seed(0)
    scores = 2 * torch.randn(80, 4, generator=generator)
    link = Platt().fit(scores, torch.softmax(scores, 1).multinomial(1, generator=generator).squeeze(1))
    far = (scale * torch.randn(30, 4, generator=generator)).to(dtype)
    exact = far.double().numpy()
    odds = np.stack([exact[:, j] - np.logaddexp.reduce(np.delete(exact, j, 1), axis=1) for j in range(4)], 1)
    logs = -np.logaddexp(0, -(odds * link.slope.numpy() + link.intercept.numpy()))
    expected = np.stack([logs[:, j] - np.logaddexp.reduce(np.delete(logs, j, 1), axis=1) for j in range(4)], 1)
    np.testing.assert_allclose(link.log_odds(far).numpy(), expected, rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=1e-5)
    shares = np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))
    np.testing.assert_allclose(link.probs(far).numpy(), shares, rtol=1e-4 if dtype == torch.float32 else 1e-12, atol=1e-7)


def test_labels_that_are_all_far_off_keep_their_ratio():
    """Each label's own probability rounds to 0 in float32; the second is e² times as probable as the first."""
    link = Platt(Sigmoid())
    link.fit(torch.tensor([[-1.0, 1.0], [1.0, -1.0], [0.5, -0.5], [-0.2, 0.1]]), torch.tensor([1, 0, 0, 1]))
    link.slope, link.intercept = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    far = torch.tensor([[-202.0, -200.0]])
    assert link.probs(far)[0, 1].item() == pytest.approx(1 / (1 + np.exp(-2)), rel=1e-5)
    assert link.log_odds(far)[0].tolist() == pytest.approx([-2, 2], rel=1e-5)


def test_isotonic_rows_without_any_probability_are_uniform():
    scores = torch.tensor([[3.0, -3.0], [-3.0, 3.0], [2.0, -2.0], [-2.0, 2.0]])
    link = Isotonic(Sigmoid()).fit(scores, torch.tensor([0, 1, 0, 1]))
    neither = torch.tensor([[-9.0, -9.0]])
    assert link.probs(neither).tolist() == [[0.5, 0.5]]
    assert link.log_odds(neither).tolist() == [[0.0, 0.0]]
