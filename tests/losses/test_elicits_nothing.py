"""Losses that elicit nothing, the limits of those that elicit something, and the list of what is shown of all."""

import importlib
import inspect
import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from shortlist import losses
from shortlist.losses import Loss, class_margins, noised_topk_hinge_loss, quasibinary_loss, role_loss
from tests.losses.laws import (
    SHOWN,
    batch_of_labels,
    independent,
    minimiser,
    one_label_risk,
    set_risk,
    shows,
    tensor,
    top_sets,
)

WORDS = {"probabilities", "order", "top-k set", "average-k set", "nothing"}


def modules():
    named = [getattr(losses, name) for name in losses.__all__]
    return [c for c in named if inspect.isclass(c) and issubclass(c, Loss) and hasattr(c, "function")]


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__)
def test_what_a_loss_says_it_elicits_is_shown(module):
    for name in ("test_elicitation", "test_elicits_order", "test_elicits_nothing"):
        importlib.import_module(f"tests.losses.{name}")
    assert module.elicits in WORDS
    assert (module.__name__, module.elicits) in SHOWN


def test_the_table_of_losses_says_what_the_modules_say():
    lines = losses.__doc__.splitlines()
    ruler = next(line for line in lines if line.startswith("==="))
    first, last = [ruler.index(" ", 30) + 1, ruler.rindex(" ")]
    said = {line.split()[0]: line[first:last].strip() for line in lines if "_" in line.split(" ")[0]}
    assert said == {c.function.__name__: c.elicits for c in modules()}


def role_risk(weight, laws=((0.6, 0.3, 0.1),), k=1):
    rows, labels = batch_of_labels(laws, 10)

    def risk(scores, estimates):
        return role_loss(scores[rows], labels, estimates=estimates[rows], k=k, weight=weight)

    return risk


@shows("nothing", "RoleLoss")
def test_role_costs_nothing_where_every_label_is_always_there_in_whatever_order():
    risk = role_risk(0.0)
    for scores in ([40.0, 50.0, 60.0], [60.0, 50.0, 40.0], [50.0, 50.0, 50.0]):
        assert 0 <= risk(tensor([scores]), tensor([scores])).item() < 1e-15
    random = tensor(np.random.default_rng(0).normal(size=(50, 2, 1, 3)) * 5)
    assert min(risk(scores, estimates).item() for scores, estimates in random) > 0.01


@shows("nothing", "UniformOutlierLoss", "ConfidenceOutlierLoss")
@pytest.mark.parametrize("loss", [losses.UniformOutlierLoss(), losses.ConfidenceOutlierLoss()])
def test_outlier_losses_cost_labelled_rows_nothing_and_the_others_least_where_all_scores_tie(loss):
    random = tensor(np.random.default_rng(0).normal(size=(50, 4)))
    labelled, law = torch.eye(4, dtype=torch.bool), [0.4, 0.3, 0.2, 0.1]
    each = type(loss)(reduction="none")
    assert all(set_risk(each, labelled, law)(scores) == 0 for scores in random)
    tied = loss(torch.zeros(1, 4, dtype=torch.float64))
    assert (each(random) > tied + 1e-6).all()


@shows("nothing", "ConformalTrainingLoss")
@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("alpha", [0.05, 0.15])
def test_conformal_training_costs_least_where_all_scores_tie_if_every_label_has_to_be_in_the_set(alpha, temperature):
    """Law (0.5, 0.3, 0.2): an error of 0.15 leaves out no label; where all lie at the threshold, sets are smallest."""
    _, labels = batch_of_labels([(0.5, 0.3, 0.2)], 20)
    halves = labels.repeat_interleave(2)  # the same labels at even and at odd places

    def risk(row):
        rows = row.expand(len(halves), -1)
        return losses.conformal_training_loss(rows, halves, alpha=alpha, temperature=temperature, spread=0.0).item()

    tied = risk(tensor([0.0, 0.0, 0.0]))
    random = tensor(np.random.default_rng(0).normal(size=(200, 3)) * 2)
    assert min(risk(row) for row in random) > tied + 1e-3
    assert risk(tensor([0.1, 0.0, 0.0])) > tied + 1e-3


@pytest.mark.parametrize(("k", "wrong"), [(1, [(3,)]), (2, [(0, 3)])])
@pytest.mark.parametrize(("smoothing", "epsilon"), [("noised", 0.0), ("soft", 0.01), ("expected", 0.01)])
def test_noised_hinge_with_class_margins_tells_the_largest_products_of_margin_and_probability(k, wrong, smoothing, epsilon):
    """Law (0.4, 0.3, 0.2, 0.1), margins (0.1, 0.1, 0.1, 0.5): the rare label costs most when it is missed."""
    law, margins = tensor((0.4, 0.3, 0.2, 0.1)), tensor((0.1, 0.1, 0.1, 0.5))

    def risk(scores):
        labels = torch.arange(4).repeat(len(scores))
        keywords = {"k": k, "epsilon": epsilon, "margin": margins, "smoothing": smoothing, "reduction": "none"}
        return noised_topk_hinge_loss(scores.repeat_interleave(4, 0), labels, **keywords).view(-1, 4) @ law

    ticks = [0.0, 0.05, 0.1, 0.3, 0.5, 0.6]
    grid = tensor(np.array(np.meshgrid(*[ticks] * 4)).reshape(4, -1).T)
    best = grid[risk(grid).argmin()]
    assert top_sets(best.tolist(), k) == wrong == top_sets((law * margins).tolist(), k)
    right = [row for row in grid if tuple(range(k)) in top_sets(row.tolist(), k)]
    assert risk(torch.stack(right)).min() > risk(best[None]) + 0.005


def expected_largest(n):
    """The expectation of the largest of n standard normals, by the trapezoid rule."""
    x = np.linspace(-10, 10, 20001)
    return np.trapezoid(n * x * norm.pdf(x) * norm.cdf(x) ** (n - 1), x)


@pytest.mark.parametrize(("smoothing", "k"), [("expected", 3), ("expected", 5), ("soft", 5), ("soft", 10)])
def test_noised_hinge_with_noise_like_its_margin_costs_nothing_where_k_plus_one_labels_tie(smoothing, k):
    """Then the smoothed (k+1)-th of k + 1 equal scores lies a margin below them: no label costs anything in any order."""
    enough = 1 / expected_largest(k + 1) if smoothing == "expected" else 1 / norm.ppf((k + 0.5) / (k + 1))
    assert enough < 1
    law = np.arange(k + 2, 1, -1) / np.arange(k + 2, 1, -1).sum()
    for epsilon, free in [(1.01 * enough, True), (0.99 * enough, False)]:
        risk = one_label_risk(losses.NoisedTopkHingeLoss(k=k, epsilon=epsilon, smoothing=smoothing, reduction="none"), law)
        assert (risk(torch.zeros(k + 1, dtype=torch.float64)).item() == 0) == free


@pytest.mark.parametrize(("smoothing", "k"), [("expected", 1), ("expected", 2), ("soft", 1), ("soft", 2)])
def test_noised_hinge_with_its_defaults_costs_something_everywhere_for_few_labels(smoothing, k):
    loss = losses.NoisedTopkHingeLoss(k=k, smoothing=smoothing, reduction="none")
    law = np.arange(k + 2, 1, -1) / np.arange(k + 2, 1, -1).sum()
    best = minimiser(one_label_risk(loss, law), k + 1, start=-0.1 * np.arange(k + 1), tolerance=1.0)
    assert one_label_risk(loss, law)(best) > 0.01
    assert top_sets(best.tolist(), k) == [tuple(range(k))]


def test_ldam_read_by_a_softmax_favours_rare_labels_only_where_all_are_as_likely():
    loss = losses.LdamLoss(margins=class_margins([500, 60, 20, 3]), scale=3.0, reduction="none")
    tie = torch.softmax(3 * minimiser(one_label_risk(loss, [0.25] * 4), 4), 0)
    assert tie.tolist() == sorted(tie.tolist())
    likely = torch.softmax(3 * minimiser(one_label_risk(loss, [0.5, 0.3, 0.15, 0.05]), 4), 0)
    assert likely[0] > 0.51
    assert likely[3] < 0.045


def test_focal_read_by_a_softmax_is_too_sure_where_no_label_is_likely_and_not_sure_enough_else():
    loss = losses.FocalLoss(gamma=2.0, reduction="none")
    flat = [0.0886, *[0.9114 / 90] * 90]
    assert torch.softmax(minimiser(one_label_risk(loss, flat), 91), 0).max() > 0.0995
    assert torch.softmax(minimiser(one_label_risk(loss, [0.8, 0.15, 0.05]), 3), 0).max() < 0.7


def test_asymmetric_focal_cannot_tell_probabilities_above_the_largest_its_link_gives():
    loss = losses.AsymmetricFocalLoss(gamma_pos=0, gamma_neg=4, shift=0.05, reduction="none")
    sets, law = independent((0.97,))
    best = minimiser(set_risk(loss, sets, law), 1)
    assert best > 15
    assert loss.link().probs(best[None]).item() == pytest.approx(0.9637, abs=1e-4)


def test_asymmetric_focal_with_a_shift_and_no_gamma_cannot_tell_small_probabilities():
    """From 0 to shift / (1 + shift) all have the same minimiser, σ(score) = shift, which the link reads as 0."""
    loss = losses.AsymmetricFocalLoss(gamma_pos=0, gamma_neg=0, shift=0.2, reduction="none")
    scores = tensor(np.linspace(-4, 4, 8001))[:, None]
    present, absent = loss.partial_losses(scores)
    for eta, told in [(0.01, False), (0.16, False), (0.18, True), (0.6, True)]:
        best = scores[(eta * present + (1 - eta) * absent).argmin()]
        if told:
            assert loss.link().probs(best[None]).item() == pytest.approx(eta, abs=1e-3)
        else:
            assert best.item() == pytest.approx(math.log(0.2 / 0.8), abs=1e-3)


def test_quasibinary_of_small_batches_whose_number_of_labels_varies_gives_no_probabilities():
    """One row a batch, labels independent: where two labels come, the penalty of q above 1 moves the minimiser."""
    marginal = (0.5, 0.2, 0.1)
    sets, law = independent(marginal)

    def risk(scores):
        return sum(p * quasibinary_loss(scores[None], marks[None]) for p, marks in zip(law, sets, strict=True))

    probs = torch.softmax(minimiser(risk, 3), 0) * sum(marginal)
    assert probs[0] < 0.44
    assert probs[1] > 0.24
