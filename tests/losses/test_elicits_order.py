"""Losses whose minimiser orders labels as the law does, and where that ends."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from shortlist import losses
from shortlist.losses import average_k_loss, expected_positive_loss, two_way_loss
from tests.losses.laws import (
    batch_of_labels,
    batch_of_sets,
    independent,
    minimiser,
    one_label_risk,
    order,
    set_risk,
    shows,
    tensor,
    top_sets,
)

LAWS = [(0.5, 0.3, 0.15, 0.05), (0.04, 0.06, 0.8, 0.1), (0.23, 0.27, 0.24, 0.26)]
SYMMETRIC = {
    "smooth": losses.SmoothTopkHingeLoss(k=3, temperature=0.5, reduction="none"),
    "calibrated": losses.CalibratedTopkHingeLoss(k=2, reduction="none"),
    "noised, expected": losses.NoisedTopkHingeLoss(k=2, smoothing="expected", reduction="none"),
    "noised, soft": losses.NoisedTopkHingeLoss(k=2, smoothing="soft", reduction="none"),
    "assume negative": losses.AssumeNegativeLoss(reduction="none"),
}


def logit(p):
    return math.log(p / (1 - p))


@pytest.mark.parametrize("name", SYMMETRIC)
def test_scores_that_swap_to_agree_with_the_law_never_cost_more(name):
    """Hence no minimiser has to disagree with the law, whatever else it does."""
    random = np.random.default_rng(0)
    for law, scores in zip(random.dirichlet(np.ones(5), size=20), random.normal(size=(20, 5)), strict=True):
        risk = one_label_risk(SYMMETRIC[name], law)
        for a, b in itertools.combinations(range(5), 2):
            swapped = scores.copy()
            swapped[[a, b]] = scores[[b, a]]
            agree, disagree = (scores, swapped) if (law[a] - law[b]) * (scores[a] - scores[b]) > 0 else (swapped, scores)
            assert risk(tensor(agree)) <= risk(tensor(disagree)) + 1e-12


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("k", "temperature"), [(1, 0.3), (1, 1.0), (1, 3.0), (2, 1.0), (2, 3.0)])
def test_smooth_hinge_of_one_or_two_labels_orders_them_like_the_law(law, k, temperature):
    loss = losses.SmoothTopkHingeLoss(k=k, temperature=temperature, reduction="none")
    best = minimiser(one_label_risk(loss, law), 4)
    assert order(best) == order(law)
    assert best.sort().values.diff().min() > 0.01


@shows("top-k set", "SmoothTopkHingeLoss")
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_smooth_hinge_of_three_labels_tells_their_set(law, temperature):
    loss = losses.SmoothTopkHingeLoss(k=3, temperature=temperature, reduction="none")
    assert top_sets(minimiser(one_label_risk(loss, law), 4).tolist(), 3) == top_sets(law, 3)


def test_smooth_hinge_of_three_labels_does_not_order_those_it_is_sure_of():
    """The least value is reached as the two first scores grow without bound, in either order."""
    law = (0.45, 0.4, 0.08, 0.07)
    risk = one_label_risk(losses.SmoothTopkHingeLoss(k=3, reduction="none"), law)
    rest = minimiser(lambda gap: risk(torch.cat([tensor([400.0, 400.0]), gap, tensor([0.0])])), 1).item()
    likely_first, likely_second = risk(tensor([600, 400, rest, 0])), risk(tensor([400, 600, rest, 0]))
    assert likely_first.item() == pytest.approx(likely_second.item(), abs=1e-13)
    random = np.random.default_rng(0).normal(size=(300, 4)) * [20, 20, 2, 2]
    starts = [minimiser(risk, 4, start=start, tolerance=1e-2) for start in random[:5]]
    assert min(risk(scores).item() for scores in [*starts, *tensor(random)]) > likely_second.item() - 1e-9


@shows("probabilities", "AssumeNegativeLoss")
@pytest.mark.parametrize("law", LAWS)
def test_assume_negative_orders_labels_like_the_law_and_gives_it_back_after_a_shift(law):
    best = minimiser(one_label_risk(losses.AssumeNegativeLoss(reduction="none"), law), 4)
    assert order(best) == order(law)
    torch.testing.assert_close(torch.sigmoid(best - math.log(3)), tensor(law), rtol=0, atol=1e-7)
    torch.testing.assert_close(losses.AssumeNegativeLoss().link().probs(best[None])[0], tensor(law), rtol=0, atol=1e-7)
    assert (torch.sigmoid(best) - tensor(law)).abs().max() > 0.05


@shows("order", "ExpectedPositiveLoss")
def test_expected_positive_below_saturation_is_in_proportion_to_the_law_across_rows():
    """σ = p / c with c = 2 β (1/c - k) where no p reaches c: 0.732 for β = k = 1."""
    laws = [(0.5, 0.3, 0.2), (0.2, 0.1, 0.7)]
    rows, labels = batch_of_labels(laws, 10)
    best = minimiser(lambda s: expected_positive_loss(s[rows], labels, k=1, beta=1.0), (2, 3))
    torch.testing.assert_close(torch.sigmoid(best), tensor(laws) / (math.sqrt(3) - 1), rtol=0, atol=1e-6)
    assert order(best.ravel().round(decimals=5)) == order(tensor(laws).ravel())


@pytest.mark.parametrize(("beta", "saturated"), [(1.0, [0, 5]), (0.01, [0, 1, 2, 3, 4, 5])])
def test_expected_positive_sends_labels_above_saturation_to_infinity_together(beta, saturated):
    """Those of probability above c = 2 β (K̂ - k); with beta 0.01 and three classes, all above 0.02."""
    laws = [(0.5, 0.3, 0.2), (0.2, 0.1, 0.7)]
    rows, labels = batch_of_labels(laws, 10)
    best = minimiser(lambda s: expected_positive_loss(s[rows], labels, k=2, beta=beta), (2, 3)).ravel()
    assert (best > 15).nonzero().ravel().tolist() == saturated


def average_k_risk(laws, parts, k, alpha):
    """The two-head loss of a batch in exact proportions whose proposal head knows the law."""
    rows, labels = batch_of_labels(laws, parts)
    proposal = tensor(laws).log()[rows]
    return lambda scores: average_k_loss(scores[rows], labels, proposal_scores=proposal, k=k, alpha=alpha)


@pytest.mark.parametrize("alpha", [0.3, 5.0])
def test_average_k_orders_labels_below_the_cut_like_the_law_across_rows(alpha):
    """Without pseudo-positives (k = 1) all are below the cut, and the odds are in proportion."""
    laws = [(0.5, 0.3, 0.15, 0.05), (0.35, 0.3, 0.2, 0.15)]
    best = minimiser(average_k_risk(laws, 20, 1, alpha), (2, 4))
    torch.testing.assert_close(best, torch.logit(tensor(laws)) + math.log(3 / alpha), rtol=0, atol=1e-5)


@shows("average-k set", "AverageKLoss")
@pytest.mark.parametrize("alpha", [0.3, 5.0])
@pytest.mark.parametrize("k", [1.5, 2, 2.5, 3])
def test_average_k_gives_the_average_k_sets_of_the_law(k, alpha):
    laws = [(0.55, 0.3, 0.1, 0.05), (0.4, 0.25, 0.2, 0.15)]
    best = minimiser(average_k_risk(laws, 20, k, alpha), (2, 4), tolerance=1e-4)
    wanted = order(tensor(laws).ravel())[: int(2 * k)]
    assert set(order(best.ravel())[: int(2 * k)]) == set(wanted)


def test_average_k_does_not_order_labels_above_the_cut():
    """All of them grow without bound, and with alpha 5 the least likely of them the fastest."""
    laws = [(0.5, 0.3, 0.15, 0.05), (0.35, 0.3, 0.2, 0.15)]
    risk = average_k_risk(laws, 20, 3, 5.0)
    scores = torch.zeros(2, 4, dtype=torch.float64, requires_grad=True)
    risk(scores).backward()
    above = [(1, 0), (1, 1), (1, 2)]  # of probabilities 0.35, 0.3 and 0.2
    slopes = [scores.grad[place].item() for place in above]
    assert 0 > slopes[0] > slopes[1] > slopes[2]
    best = minimiser(risk, (2, 4), tolerance=1e-4)
    likely_first, likely_last = best.clone(), best.clone()
    for i, place in enumerate(above):
        likely_first[place], likely_last[place] = 60 - i, 60 + i
    assert risk(likely_first).item() == pytest.approx(risk(likely_last).item(), abs=1e-14)


@pytest.mark.parametrize("marginal", [(0.5, 0.6, 0.4), (0.9, 0.1, 0.8), (0.2, 0.1, 0.3), (0.7, 0.9, 0.8)])
@pytest.mark.parametrize("temperatures", [(4.0, 1.0), (1.0, 1.0), (0.5, 2.0)])
def test_two_way_orders_the_independent_labels_of_one_input_like_the_law(marginal, temperatures):
    rows, marks = batch_of_sets([marginal])
    keywords = dict(zip(("positive_temperature", "negative_temperature"), temperatures, strict=True))
    best = minimiser(lambda s: two_way_loss(s[rows], marks, **keywords), (1, 3))[0]
    assert order(best) == order(marginal)
    assert best.sort().values.diff().min() > 0.05


@shows("nothing", "TwoWayLoss")
@pytest.mark.parametrize("marginal", [[(0.5, 0.6, 0.4), (0.9, 0.1, 0.5)], [(0.8, 0.9, 0.7), *[(0.9, 0.1, 0.3)] * 3]])
def test_two_way_does_not_order_the_labels_of_a_row_where_other_inputs_are_in_the_batch(marginal):
    """Its comparison of the rows of each class pulls the other way; it is convex, so this is the only minimiser."""
    rows, marks = batch_of_sets(marginal)
    best = minimiser(lambda s: two_way_loss(s[rows], marks), (len(marginal), 3))[0]
    assert marginal[0][0] < marginal[0][1]
    assert best[0] > best[1] + 0.05


@shows("order", "LabelPairPenalty")
@pytest.mark.parametrize("marginal", [(0.5, 0.6, 0.4), (0.9, 0.1, 0.8), (0.02, 0.01, 0.3), (0.7, 0.9, 0.8, 0.2)])
def test_label_pair_penalty_gives_all_ratios_of_odds_of_independent_labels_back(marginal):
    sets, law = independent(marginal)
    loss = losses.LabelPairPenalty(reduction="none")
    best = minimiser(set_risk(loss, sets, law), len(marginal))
    odds = torch.logit(tensor(marginal))
    torch.testing.assert_close(best - best[0], odds - odds[0], rtol=0, atol=1e-5)
    assert order(best) == order(marginal)


def test_label_pair_penalty_gives_no_ratios_of_odds_of_dependent_labels():
    """Of two labels it gives the odds of the one without the other: 3 here, where the ratio of odds is 7/3."""
    sets = torch.tensor([[False, False], [True, False], [False, True], [True, True]])
    best = minimiser(set_risk(losses.LabelPairPenalty(reduction="none"), sets, [0.2, 0.3, 0.1, 0.4]), 2)
    assert (best[0] - best[1]).item() == pytest.approx(math.log(3), abs=1e-6)


@pytest.mark.parametrize(("gamma_pos", "gamma_neg", "shift"), [(0, 4, 0.0), (2, 2, 0.0), (0, 4, 0.05), (1, 4, 0.2)])
def test_asymmetric_focal_with_detached_weights_orders_labels_but_its_scores_are_not_read_by_the_recovery(
    gamma_pos, gamma_neg, shift
):
    """Training ends where the expected gradient is 0, which with detached weights is no minimum of the expected loss."""
    keywords = {"gamma_pos": gamma_pos, "gamma_neg": gamma_neg, "shift": shift}
    loss = losses.AsymmetricFocalLoss(**keywords, detach_weight=True)
    assert loss.link() is None
    recovery = losses.AsymmetricFocalLoss(**keywords).link()

    def slope(value, eta):
        score = tensor([[value]]).requires_grad_()
        present, absent = loss(score, torch.tensor([[True]])), loss(score, torch.tensor([[False]]))
        (eta * present + (1 - eta) * absent).backward()
        return score.grad.item()

    etas = [0.1, 0.2, 0.4, 0.6, 0.8]
    resting = [brentq(slope, -20, 20, args=(eta,), xtol=1e-12) for eta in etas]
    assert resting == sorted(resting)
    probs = recovery.probs(tensor(resting)[:, None])[:, 0]
    assert (probs - tensor(etas)).abs().max() > 0.02
    for eta, v in zip(etas, resting, strict=True):  # yet the probability is not lost: another map gives it back
        z = 1 / (1 + math.exp(-v))
        u = z - shift
        odds = gamma_neg * math.log(u) + math.log(z) - math.log(1 - u) - gamma_pos * math.log(1 - z)
        assert odds == pytest.approx(logit(eta), abs=1e-6)
