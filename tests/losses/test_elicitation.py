"""What the minimiser of an expected loss says about the law of the labels: probabilities, and top-k sets.

The orders are in ``test_elicits_order.py``, the losses that elicit nothing and the list of all in ``test_elicits_nothing.py``.
"""

import itertools

import numpy as np
import pytest
import torch

from shortlist import losses
from shortlist.links import Sigmoid, Softmax, SparseTop
from shortlist.losses import class_margins
from tests.losses.laws import (
    all_sets,
    batch_of_labels,
    batch_of_sets,
    hinge_minimum,
    independent,
    marginals,
    minimiser,
    one_label_risk,
    random_law,
    set_risk,
    shows,
    tensor,
    top_sets,
)

LAWS = [(0.5, 0.3, 0.15, 0.05), (0.02, 0.03, 0.9, 0.05), (0.26, 0.25, 0.25, 0.24)]
MARGINS = class_margins([500, 60, 20, 3])
ONE_LABEL = {
    "cross-entropy": losses.CrossEntropyLoss(reduction="none"),
    **{f"focal {gamma}": losses.FocalLoss(gamma=gamma, reduction="none") for gamma in (0.5, 2.0, 5.0)},
    **{f"ldam {scale}": losses.LdamLoss(margins=MARGINS, scale=scale, reduction="none") for scale in (3.0, 30.0)},
    "sparse-top": losses.SparseTopLoss(reduction="none"),
}
ANY_LABELS = {
    "bce": losses.BinaryCrossEntropyLoss(reduction="none"),
    **{
        f"asymmetric focal {pos} {neg} {shift}": losses.AsymmetricFocalLoss(
            gamma_pos=pos, gamma_neg=neg, shift=shift, reduction="none"
        )
        for pos, neg, shift in [(2, 2, 0), (0, 4, 0), (1, 4, 0.05), (0, 4, 0.05), (0.5, 0.5, 0), (0, 1, 0.2)]
    },
    "spa": losses.SpaLoss(reduction="none"),
    "spa, other numbers": losses.SpaLoss(zeta_pos=2, k_pos=0.5, b_pos=-1, zeta_neg=1, k_neg=2, b_neg=0.5, reduction="none"),
}


@shows("probabilities", "CrossEntropyLoss", "FocalLoss", "LdamLoss", "SparseTopLoss")
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", ONE_LABEL)
def test_the_link_gives_the_law_of_one_label_back(name, law):
    loss = ONE_LABEL[name]
    best = minimiser(one_label_risk(loss, law), len(law))
    torch.testing.assert_close(loss.link().probs(best[None])[0], tensor(law), rtol=0, atol=1e-6)


@shows("probabilities", "CardinalityAwareLoss")
@pytest.mark.parametrize("size_cost", ["log", "linear"])
@pytest.mark.parametrize("law", LAWS)
def test_the_two_heads_of_a_cardinality_aware_loss_give_the_law_and_the_cheapest_size_back(law, size_cost):
    sizes, size_weight = (1, 2, 3), 0.1
    loss = losses.CardinalityAwareLoss(sizes=sizes, size_weight=size_weight, size_cost=size_cost, reduction="none")
    labels, start = torch.arange(4), [*np.log(law), 0, 0, 0]  # the sets jump where the order of the labels changes

    def risk(both):
        scores, size_scores = (part.expand(4, -1) for part in both.split([4, 3]))
        return (loss(scores, labels, size_scores=size_scores) * tensor(law)).sum()

    best, choices = minimiser(risk, 7, start=start).split([4, 3])
    torch.testing.assert_close(loss.link().probs(best[None])[0], tensor(law), rtol=0, atol=1e-6)
    cost = {"log": np.log, "linear": float}[size_cost]
    expected = [1 - sum(sorted(law, reverse=True)[:size]) + size_weight * cost(size) for size in sizes]
    worth = 1 - tensor(expected) / (1 + size_weight * cost(3))
    torch.testing.assert_close(choices.softmax(0), worth / worth.sum(), rtol=0, atol=1e-6)
    assert sizes[choices.argmax()] == sizes[int(np.argmin(expected))]


@pytest.mark.parametrize("name", ["focal 2.0", "focal 5.0", "ldam 3.0", "ldam 30.0"])
def test_a_softmax_does_not_read_focal_and_ldam(name):
    loss, law = ONE_LABEL[name], LAWS[0]
    best = minimiser(one_label_risk(loss, law), len(law))
    for scale in {1.0, getattr(loss, "scale", 1.0)}:
        assert (Softmax().probs(scale * best[None])[0] - tensor(law)).abs().max() > 0.01


def test_sparse_top_gives_labels_that_never_occur_probability_0():
    law = (0.7, 0.0, 0.3, 0.0)
    best = minimiser(one_label_risk(ONE_LABEL["sparse-top"], law), 4, start=[0, -2, 0.1, -3])
    torch.testing.assert_close(SparseTop().probs(best[None])[0], tensor(law), rtol=0, atol=1e-7)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_sparse_top_of_k_gives_the_marginals_of_k_labels_a_row_back(k, seed):
    sets = all_sets(5, size=k)
    law = random_law(len(sets), seed)
    best = minimiser(set_risk(losses.SparseTopLoss(reduction="none"), sets, law), 5)
    torch.testing.assert_close(SparseTop(k).probs(best[None])[0], marginals(sets, law), rtol=0, atol=1e-7)


def test_cross_entropy_of_some_labels_gives_their_shares():
    sets = all_sets(4)
    law = random_law(len(sets), 2)
    best = minimiser(set_risk(losses.CrossEntropyLoss(reduction="none"), sets, law), 4)
    shares = tensor(law) @ (sets / sets.sum(1, keepdim=True).clamp(min=1)).double()
    torch.testing.assert_close(Softmax().probs(best[None])[0], shares / shares.sum(), rtol=0, atol=1e-6)


@shows("probabilities", "BinaryCrossEntropyLoss", "AsymmetricFocalLoss", "SpaLoss")
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", ANY_LABELS)
def test_the_link_gives_the_marginals_of_any_labels_back_dependent_or_not(name, seed):
    loss, sets = ANY_LABELS[name], all_sets(3)
    law = random_law(len(sets), seed)
    best = minimiser(set_risk(loss, sets, law), 3)
    torch.testing.assert_close(loss.link().probs(best[None])[0], marginals(sets, law), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in ANY_LABELS if name != "bce"])
def test_a_sigmoid_does_not_read_asymmetric_losses(name):
    sets, law = independent((0.1, 0.3, 0.8))
    best = minimiser(set_risk(ANY_LABELS[name], sets, law), 3)
    assert (Sigmoid().probs(best[None])[0] - tensor((0.1, 0.3, 0.8))).abs().max() > 0.03


@shows("probabilities", "QuasibinaryLoss")
@pytest.mark.parametrize("marginal", [[(0.5, 0.2, 0.1), (0.9, 1.0, 0.3)], [(0.1, 0.1, 0.2), (0.8, 0.7, 0.6)]])
def test_quasibinary_gives_the_marginals_of_a_batch_of_known_proportions_back(marginal):
    loss = losses.QuasibinaryLoss()
    rows, marks = batch_of_sets(marginal)
    best = minimiser(lambda scores: loss(scores[rows], marks), (2, 3))
    link = loss.link()
    link.update(best[rows], marks)
    torch.testing.assert_close(link.probs(best), tensor(marginal), rtol=0, atol=1e-5)


def test_quasibinary_gives_the_law_of_one_label_a_row_back():
    laws = [(0.5, 0.3, 0.2), (0.1, 0.1, 0.8)]
    loss = losses.QuasibinaryLoss()
    rows, labels = batch_of_labels(laws, 10)
    best = minimiser(lambda scores: loss(scores[rows], labels), (2, 3))
    link = loss.link()
    link.update(best[rows], labels)
    torch.testing.assert_close(link.probs(best), tensor(laws), rtol=0, atol=1e-6)


# Hinges. Their expected losses have flat pieces and kinks, so the minima are found by linear programs, or on grids.


def top_rival(k):
    """The k-th largest of the others."""
    return lambda ordering, y: [(1.0, np.eye(len(ordering))[[j for j in ordering if j != y][k - 1]])]


def calibrated_rival(k):
    """The (k+1)-th largest of all."""
    return lambda ordering, y: [(1.0, np.eye(len(ordering))[ordering[k]])]


def convex_rivals(k):
    """The k largest of the others, raised by 1; or y and the k - 1 largest of the others."""

    def pieces(ordering, y):
        one_hot, others = np.eye(len(ordering)), [j for j in ordering if j != y]
        return [(1.0, one_hot[others[:k]].mean(0)), ((k - 1) / k, one_hot[[y, *others[: k - 1]]].mean(0))]

    return pieces


HINGES = {
    "topk": (losses.topk_hinge_loss, top_rival),
    "convex": (losses.convex_topk_hinge_loss, convex_rivals),
    "calibrated": (losses.calibrated_topk_hinge_loss, calibrated_rival),
}


def risk_at(function, scores, law, k):
    return one_label_risk(lambda s, y: function(s, y, k=k, reduction="none"), law)(scores).item()


@shows("top-k set", "CalibratedTopkHingeLoss")
@pytest.mark.parametrize("law", [(0.4, 0.35, 0.25), (0.3, 0.27, 0.23, 0.2), (0.96, 0.02, 0.015, 0.005), (0.1, 0.45, 0.05, 0.4)])
@pytest.mark.parametrize("k", [1, 2])
def test_calibrated_hinge_is_least_only_where_the_top_k_set_is_right(law, k):
    right = top_sets(law, k)[0]
    least, best = hinge_minimum(calibrated_rival(k), law, k)
    assert top_sets(best.tolist(), k) == [right]
    assert risk_at(losses.calibrated_topk_hinge_loss, best, law, k) == pytest.approx(least, abs=1e-9)
    assert least == pytest.approx(1 - sum(law[j] for j in right))
    for wrong in itertools.combinations(range(len(law)), k):
        if wrong != right:  # a tie between the right set and this one counts as this one
            missed = sum(law[j] for j in right) - sum(law[j] for j in wrong)
            assert hinge_minimum(calibrated_rival(k), law, k, wrong)[0] == pytest.approx(least + missed)


@shows("nothing", "TopkHingeLoss", "ConvexTopkHingeLoss")
@pytest.mark.parametrize(
    ("name", "law", "k"),
    [
        ("topk", (0.4, 0.32, 0.28), 1),
        ("topk", (0.3, 0.25, 0.23, 0.22), 2),
        ("convex", (0.4, 0.32, 0.28), 1),
        ("convex", (0.3, 0.25, 0.23, 0.22), 2),
    ],
)
def test_these_hinges_are_least_at_a_tie_between_the_right_set_and_wrong_ones(name, law, k):
    function, rivals = HINGES[name]
    right = tuple(range(k))
    least, best = hinge_minimum(rivals(k), law, k)
    assert risk_at(function, best, law, k) == pytest.approx(least, abs=1e-9)
    assert len(top_sets(best.tolist(), k)) > 1
    for gap in (1e-3, 0.1, 1.0):
        value, scores = hinge_minimum(rivals(k), law, k, right, gap)
        assert value > least + 0.01 * gap
        assert risk_at(function, scores, law, k) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("name", HINGES)
def test_no_scores_undercut_the_linear_programs(name):
    """The programs model the code: what they call the least is not beaten by any of many scores."""
    function, rivals = HINGES[name]
    law, random = (0.3, 0.25, 0.23, 0.22), np.random.default_rng(0)
    least, _ = hinge_minimum(rivals(2), law, 2)
    candidates = tensor(np.r_[random.normal(size=(2000, 4)), random.integers(-1, 2, size=(200, 4))])
    costs = [function(candidates, torch.full((2200,), y), k=2, reduction="none") for y in range(4)]
    assert (tensor(law) @ torch.stack(costs)).min() >= least - 1e-12


def grid_costs(loss, classes, step, reach=2.0):
    """The loss of each label at all scores of a grid, the last score 0: scores (G, C) and costs (G, C)."""
    ticks = np.arange(-reach, reach + step / 2, step)
    scores = tensor(np.array([[*point, 0.0] for point in itertools.product(ticks, repeat=classes - 1)]))
    costs = [loss(scores, torch.full((len(scores),), y)) for y in range(classes)]
    return scores, torch.stack(costs, 1)


def set_masks(scores, k):
    """For each set of k labels, at which scores it could be called the k largest, ties included."""
    for chosen in itertools.combinations(range(scores.shape[1]), k):
        rest = [j for j in range(scores.shape[1]) if j not in chosen]
        yield chosen, scores[:, list(chosen)].amin(1) >= scores[:, rest].amax(1)


@shows("top-k set", "NoisedTopkHingeLoss")
@pytest.mark.parametrize(
    ("smoothing", "classes", "step"), [("expected", 3, 0.2), ("expected", 4, 0.5), ("soft", 3, 0.1), ("soft", 4, 0.25)]
)
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("epsilon", [0.1, 0.3])
def test_noised_hinge_with_little_noise_is_least_only_where_the_top_k_set_is_right(smoothing, classes, step, k, epsilon):
    loss = losses.NoisedTopkHingeLoss(k=k, epsilon=epsilon, smoothing=smoothing, reduction="none")
    scores, costs = grid_costs(loss, classes, step)
    laws = np.random.default_rng(0).dirichlet(np.ones(classes), size=300)
    gaps = -np.diff(-np.sort(-laws, axis=1), axis=1)[:, k - 1]
    laws, gaps = laws[gaps > 0.05], gaps[gaps > 0.05]
    assert len(laws) > 100
    risks = costs @ tensor(laws).T
    least = {chosen: risks[mask].amin(0) for chosen, mask in set_masks(scores, k)}
    for i, law in enumerate(laws):
        right = top_sets(law, k)[0]
        for chosen, values in least.items():
            if chosen != right:
                assert values[i] > least[right][i] + gaps[i] / 2
