"""The links that read focal, LDAM and sparse-top scores, against their formulas and at their limits."""

import json
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist import Predictions
from shortlist.errors import InputError, NotFittedError
from shortlist.links import (
    LDAM,
    Beta,
    Isotonic,
    Platt,
    Reweighted,
    Softmax,
    SoftmaxFocalRecovery,
    SparseTop,
    Temperature,
    VennAbers,
    link_from_config,
    parse_link,
)
from tests.references import links as reference

MARGINS = np.array([0.1, 0.5, 0.0, 0.25])
SCORES = np.random.default_rng(0).normal(size=(30, 4)) * np.geomspace(0.1, 5, 30)[:, None]
LINKS = {
    "focal": lambda: SoftmaxFocalRecovery(2.0),
    "focal below one": lambda: SoftmaxFocalRecovery(0.5),
    "ldam": lambda: LDAM(torch.from_numpy(MARGINS), scale=3.0),
    "sparse-top": SparseTop,
    "sparse-top of two": lambda: SparseTop(2),
    "sparse-top of a half more": lambda: SparseTop(1.5),
}
LARGE = [[-1e4, 1e4, 0, 3], [1e4, 1e4, -1e4, -1e4], [-1e4] * 4, [1e4] * 4, [30, 29, 28, -1e4], [0, 0, 0, 1e-3]]

every_link = pytest.mark.parametrize("link", [make() for make in LINKS.values()], ids=LINKS)


def rows(values, dtype=torch.float64):
    return torch.tensor(np.asarray(values), dtype=dtype)


def total(link):
    return getattr(link, "k", 1.0)


@pytest.mark.parametrize("gamma", [0, 0.5, 1, 2, 5])
def test_softmax_focal_recovery_equals_the_formula(gamma):
    expected = [reference.softmax_focal_recovery(row, gamma) for row in SCORES]
    np.testing.assert_allclose(SoftmaxFocalRecovery(gamma).probs(rows(SCORES)), expected, rtol=1e-9)


@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0])
def test_ldam_equals_the_formula(scale):
    expected = [reference.ldam(row, MARGINS, scale) for row in SCORES]
    np.testing.assert_allclose(LDAM(torch.from_numpy(MARGINS), scale).probs(rows(SCORES)), expected, rtol=1e-9, atol=1e-250)


@pytest.mark.parametrize("k", [0, 0.5, 1, 1.5, 2, 3, 3.9, 4])
def test_sparse_top_equals_the_formula(k):
    expected = [reference.sparse_top(row, k) for row in SCORES]
    np.testing.assert_allclose(SparseTop(k).probs(rows(SCORES)), expected, atol=1e-12)


@given(st.lists(st.floats(-3, 3), min_size=4, max_size=4), st.floats(0, 6), st.floats(0.1, 10))
@settings(max_examples=50, deadline=None)
def test_recoveries_equal_their_formulas_whatever_the_numbers(row, gamma, scale):
    found = SoftmaxFocalRecovery(gamma).probs(rows([row]))[0]
    np.testing.assert_allclose(found, reference.softmax_focal_recovery(np.array(row), gamma), rtol=1e-9)
    found = LDAM(torch.from_numpy(MARGINS), scale).probs(rows([row]))[0]
    np.testing.assert_allclose(found, reference.ldam(np.array(row), MARGINS, scale), rtol=1e-9)


def test_without_gamma_the_focal_recovery_is_the_softmax():
    link = SoftmaxFocalRecovery(0)
    torch.testing.assert_close(link.probs(rows(SCORES)), Softmax().probs(rows(SCORES)))
    torch.testing.assert_close(link.log_odds(rows(SCORES)), Softmax().log_odds(rows(SCORES)))


def test_without_margins_ldam_is_the_softmax_of_scaled_scores():
    link = LDAM(torch.zeros(4), scale=7.0)
    torch.testing.assert_close(link.probs(rows(SCORES)), Softmax().probs(7 * rows(SCORES)))
    torch.testing.assert_close(link.log_odds(rows(SCORES)), Softmax().log_odds(7 * rows(SCORES)))


def test_sparse_top_leaves_its_own_points_where_they_are():
    points = rows([[0.2, 0.3, 0.5, 0.0], [1, 0, 0, 0], [0.25] * 4])
    torch.testing.assert_close(SparseTop().probs(points), points)
    points = rows([[0.2, 0.8, 1, 0], [1, 0, 0, 1], [0.5] * 4])
    torch.testing.assert_close(SparseTop(2).probs(points), points)


@every_link
def test_probabilities_of_a_row_sum_to_its_number_of_labels(link):
    sums = link.probs(rows([*SCORES, *LARGE])).sum(1)
    torch.testing.assert_close(sums, torch.full_like(sums, total(link)))


@every_link
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_scores_have_finite_probabilities_that_sum_up_and_log_odds_that_agree(link, dtype):
    probs, odds = link.probs(rows(LARGE, dtype)), link.log_odds(rows(LARGE, dtype))
    assert probs.isfinite().all()
    torch.testing.assert_close(probs.sum(1), torch.full_like(probs[:, 0], total(link)), rtol=1e-5, atol=0)
    assert not odds.isnan().any()
    torch.testing.assert_close(torch.sigmoid(odds), probs, rtol=1e-5, atol=1e-7)


@every_link
def test_probabilities_keep_the_order_of_the_scores_that_decides_for_equal_margins(link):
    if isinstance(link, LDAM):
        link = LDAM(torch.full((4,), 0.3), scale=3.0)
    by_score = rows(SCORES).sort(dim=1).values
    assert (link.probs(by_score).diff(dim=1) >= 0).all()


@every_link
def test_a_constant_added_to_a_row_changes_nothing(link):
    torch.testing.assert_close(link.probs(rows(SCORES) + 17), link.probs(rows(SCORES)))


@every_link
def test_a_large_constant_added_to_a_row_costs_float32_no_digits(link):
    scores = rows([[0, 0, 0, 0], [1, 0, -1.5, 0.25], [4, 4, 0, -2]])
    found = link.probs((scores + 1e4).float())
    torch.testing.assert_close(found, link.probs(scores).float(), rtol=1e-5, atol=1e-7)


@every_link
def test_classes_may_change_places(link):
    order = torch.tensor([2, 0, 3, 1])
    other = LDAM(link.margins[order], link.scale) if isinstance(link, LDAM) else link
    torch.testing.assert_close(other.probs(rows(SCORES)[:, order]), link.probs(rows(SCORES))[:, order])


def exact_log_odds(row, weight):
    """log(p / (1 - p)) of each class with 100 digits, p in proportion to ``weight(exponentials, class)``."""
    with localcontext() as context:
        context.prec = 100
        e = [Decimal(s).exp() for s in row]
        weights = [weight(e, j) for j in range(len(e))]
        return [float((w / (sum(weights) - w)).ln()) for w in weights]


def test_log_odds_of_the_focal_recovery_are_exact_where_a_class_is_all_but_certain():
    def weight(e, j):
        q = e[j] / sum(e)
        return q / ((1 - q) ** 2 - 2 * (1 - q) * q * q.ln())

    row = [60.0, 0.0, -3.0, 1.5]
    np.testing.assert_allclose(SoftmaxFocalRecovery(2.0).log_odds(rows([row]))[0], exact_log_odds(row, weight), rtol=1e-12)


def test_log_odds_of_ldam_are_exact_where_a_class_is_all_but_certain():
    def weight(e, j):
        return e[j] * (sum(e) - e[j] + e[j] * (-Decimal(float(MARGINS[j]))).exp())

    row = [60.0, 0.0, -3.0, 1.5]
    np.testing.assert_allclose(
        LDAM(torch.from_numpy(MARGINS), 1.0).log_odds(rows([row]))[0], exact_log_odds(row, weight), rtol=1e-12
    )


@every_link
def test_configuration_and_state_give_the_link_back(link):
    back = link_from_config(json.loads(json.dumps(link.config())), dict(link.state_dict()))
    assert torch.equal(back.probs(rows(SCORES)), link.probs(rows(SCORES)))
    assert back.fingerprint() == link.fingerprint()


@every_link
def test_a_file_of_predictions_gives_the_link_back(link, tmp_path):
    Predictions(rows(SCORES, torch.float32), link=link).save(tmp_path / "scores.safetensors")
    back = Predictions.load(tmp_path / "scores.safetensors")
    torch.testing.assert_close(back.probs(), link.probs(rows(SCORES, torch.float32)))


def test_margins_are_a_copy_with_the_precision_they_came_in():
    margins = torch.from_numpy(MARGINS.copy())
    link = LDAM(margins)
    margins += 1
    assert link.margins.tolist() == MARGINS.tolist()
    assert link.half().margins.dtype == torch.float64
    assert LDAM(MARGINS.tolist()).probs(rows(SCORES)).dtype == torch.float64


def test_ldam_without_margins_says_what_it_needs():
    for link in (LDAM(), parse_link("ldam:3")):
        with pytest.raises(NotFittedError, match="margins"):
            link.probs(rows(SCORES))


@pytest.mark.parametrize("classes", [1, 3, 5])
def test_ldam_refuses_another_number_of_classes(classes):
    with pytest.raises(InputError, match=f"expected scores of 4 classes, one for each margin, got {classes}"):
        LDAM(torch.from_numpy(MARGINS)).probs(torch.zeros(2, classes))


def test_sparse_top_refuses_fewer_classes_than_labels():
    with pytest.raises(InputError, match="at least 3 classes, got 2"):
        SparseTop(3).probs(torch.zeros(2, 2))
    assert SparseTop(2).probs(torch.zeros(1, 2)).tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("name", ["focal", "ldam"])
def test_these_links_say_that_they_cannot_be_undone(name):
    with pytest.raises(InputError, match="has no inverse"):
        LINKS[name]().scores(torch.full((1, 4), 0.25))


@pytest.mark.parametrize("value", [-1, -0.1, math.nan, math.inf])
def test_gamma_and_k_out_of_range_are_refused(value):
    with pytest.raises(InputError, match="gamma"):
        SoftmaxFocalRecovery(value)
    with pytest.raises(InputError, match="k: expected"):
        SparseTop(value)


@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf])
def test_scale_out_of_range_is_refused(scale):
    with pytest.raises(InputError, match="scale"):
        LDAM(torch.from_numpy(MARGINS), scale)


@pytest.mark.parametrize("margins", [0.3, [[0.1, 0.2]], [0.1, math.nan], [0.1, math.inf]], ids=str)
def test_margins_that_are_not_one_finite_number_a_class_are_refused(margins):
    with pytest.raises(InputError, match="margins"):
        LDAM(torch.tensor(margins))


TARGET = torch.arange(30) % 4
ANY = torch.nn.functional.one_hot(TARGET, 4).bool()
EXCLUSIVE = {
    **{name: make() for name, make in LINKS.items()},
    "softmax": Softmax(),
    "sigmoid": parse_link("sigmoid"),
    "assume-negative": parse_link("assume-negative"),
    "reweighted": Reweighted(weights=[1.0, 2.0, 3.0, 4.0]),
    **{
        f"{name} of {kind}": fitted_link().fit(rows(SCORES), target)
        for name, fitted_link in {
            "temperature": Temperature,
            "platt": Platt,
            "isotonic": Isotonic,
            "beta": Beta,
            "venn-abers": VennAbers,
        }.items()
        for kind, target in {"one label": TARGET, "any labels": ANY}.items()
    },
    "temperature of softmax, any labels": Temperature(Softmax()).fit(rows(SCORES), ANY),
    "platt of softmax, any labels": Platt(Softmax()).fit(rows(SCORES), ANY),
}


@pytest.mark.parametrize("link", EXCLUSIVE.values(), ids=EXCLUSIVE)
def test_a_link_is_exclusive_exactly_if_the_probabilities_of_every_row_sum_to_one(link):
    sums = link.probs(rows(SCORES)).sum(1).numpy()
    assert link.exclusive == np.allclose(sums, 1, atol=1e-9)
