"""Where one loss becomes another: limits, special parameters, and what a definition implies."""

import itertools
import math

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from shortlist import losses
from tests.losses.cases import OTHER_SPA
from tests.references import losses as ref

ROWS, CLASSES = 7, 6
RANDOM = torch.Generator().manual_seed(0)
SCORES = 2 * torch.randn(ROWS, CLASSES, generator=RANDOM, dtype=torch.float64)
LABELS = torch.randint(CLASSES, (ROWS,), generator=RANDOM)
MARKS = torch.rand(ROWS, CLASSES, generator=RANDOM) < 0.4
MARKS[0] = False
ONE_HOT = torch.zeros(ROWS, CLASSES, dtype=torch.bool).scatter_(1, LABELS[:, None], True)


def same(found, expected):
    """Two functions of the scores agree in value and gradient."""
    results = []
    for function in (found, expected):
        scores = SCORES.clone().requires_grad_()
        value = function(scores)
        value.sum().backward()
        results.append((value.detach(), scores.grad))
    assert_close(results[0], results[1], rtol=1e-11, atol=1e-12)


def test_conformal_training_without_smoothness_counts_misses_and_labels_beyond_one():
    """Of sharp sets it is the share of labels missed, and the mean number of labels beyond the first, by a plain count."""
    batch = torch.cat([SCORES, 0.7 * SCORES.flip(0)])
    labels = torch.cat([LABELS, LABELS.roll(1)])
    log_probs = batch.log_softmax(1)
    ordered = log_probs[::2].gather(1, labels[::2, None]).flatten().sort(descending=True).values
    threshold = ordered[math.ceil((len(ordered) + 1) * 0.6) - 1]
    sets = log_probs[1::2] > threshold - 1e-9
    missed = (~sets.gather(1, labels[1::2, None])).double().mean()
    beyond = (sets.sum(1) - 1).clamp(min=0).double().mean()
    found = losses.conformal_training_loss(batch, labels, alpha=0.4, temperature=1e-9, size_weight=0.3, spread=0.0)
    assert missed > 0
    assert beyond > 0
    assert_close(found.exp(), missed + 0.3 * beyond)


def test_conformal_training_needs_a_row_of_each_kind():
    assert losses.conformal_training_loss(SCORES[:1], LABELS[:1]) == 0
    alone = torch.tensor([LABELS[0], *[-100] * (ROWS - 1)])
    assert losses.conformal_training_loss(SCORES, alone) == 0


def test_cross_entropy_is_torchs():
    same(lambda s: losses.cross_entropy_loss(s, LABELS), lambda s: functional.cross_entropy(s, LABELS))


def test_cross_entropy_of_several_labels_is_that_of_their_uniform_mixture():
    labelled = MARKS[MARKS.any(1)]
    mixture = labelled.double() / labelled.sum(1, keepdim=True)
    same(
        lambda s: losses.cross_entropy_loss(s[MARKS.any(1)], labelled),
        lambda s: functional.cross_entropy(s[MARKS.any(1)], mixture),
    )


def test_the_gradient_of_cross_entropy_is_softmax_less_the_label():
    scores = SCORES.clone().requires_grad_()
    losses.cross_entropy_loss(scores, LABELS, reduction="sum").backward()
    assert_close(scores.grad, SCORES.softmax(1) - ONE_HOT.double())


def test_focal_with_gamma_0_is_cross_entropy():
    same(lambda s: losses.focal_loss(s, LABELS, gamma=0.0), lambda s: losses.cross_entropy_loss(s, LABELS))


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_ldam_without_margins_is_cross_entropy_of_scaled_scores(scale):
    same(
        lambda s: losses.ldam_loss(s, LABELS, margins=torch.zeros(CLASSES), scale=scale),
        lambda s: losses.cross_entropy_loss(scale * s, LABELS),
    )


def test_margins_follow_the_fourth_root_of_the_counts():
    counts = [1, 16, 81, 7, 256]
    expected = torch.tensor(ref.class_margins(counts, 0.2), dtype=torch.float64)
    assert_close(losses.class_margins(counts, max_margin=0.2), expected)
    assert_close(losses.class_margins(torch.tensor(counts)), expected * 2.5)


def test_all_hinges_of_two_labels_are_one():
    """With k = 1 and y the larger of two scores, the k-th other and the (k+1)-th of all are the same class."""
    scores, labels = torch.tensor([[2.0, 1.4], [0.3, 0.9]]), torch.tensor([0, 1])
    for name in ("topk_hinge_loss", "convex_topk_hinge_loss", "calibrated_topk_hinge_loss"):
        assert_close(getattr(losses, name)(scores, labels, k=1, reduction="none"), torch.tensor([0.4, 0.4]))


def test_the_calibrated_hinge_is_below_the_hinge_of_lapin_and_that_below_the_convex_one_which_it_is_for_k_1():
    same(lambda s: losses.topk_hinge_loss(s, LABELS, k=1), lambda s: losses.convex_topk_hinge_loss(s, LABELS, k=1))
    for k in range(1, CLASSES):
        plain = losses.topk_hinge_loss(SCORES, LABELS, k=k, reduction="none")
        assert (losses.convex_topk_hinge_loss(SCORES, LABELS, k=k, reduction="none") >= plain - 1e-12).all()
        assert (losses.calibrated_topk_hinge_loss(SCORES, LABELS, k=k, reduction="none") <= plain + 1e-12).all()


@pytest.mark.parametrize("smoothing", ["noised", "soft", "expected"])
@pytest.mark.parametrize("k", [1, 3, CLASSES - 1])
def test_without_noise_the_noised_hinge_is_the_calibrated_one(k, smoothing):
    same(
        lambda s: losses.noised_topk_hinge_loss(s, LABELS, k=k, epsilon=0.0, margin=0.7, smoothing=smoothing),
        lambda s: losses.calibrated_topk_hinge_loss(s, LABELS, k=k, margin=0.7),
    )


def test_one_margin_for_all_classes_is_a_number():
    noise = torch.randn(4, ROWS, CLASSES, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    every = torch.full((CLASSES,), 0.4, dtype=torch.float64)
    for margin in (every, torch.tensor(0.4, dtype=torch.float64)):
        same(
            lambda s, margin=margin: losses.noised_topk_hinge_loss(s, LABELS, k=2, margin=margin, noise=noise),
            lambda s: losses.noised_topk_hinge_loss(s, LABELS, k=2, margin=0.4, noise=noise),
        )


def test_the_scale_of_a_hinge_multiplies_it():
    same(
        lambda s: losses.noised_topk_hinge_loss(s, LABELS, k=2, epsilon=0.0, scale=60.0),
        lambda s: 60 * losses.calibrated_topk_hinge_loss(s, LABELS, k=2),
    )


def test_noise_moves_the_rival_by_no_more_than_the_bound_of_the_paper():
    """|top_{k,ε}(s) - top_k(s)| ≤ ε k sqrt(2 log C), here for the expectation."""
    for k, epsilon in itertools.product((1, 2, 4), (0.1, 1.0)):
        smooth = losses.noised_topk_hinge_loss(SCORES, LABELS, k=k, epsilon=epsilon, margin=20.0, smoothing="expected")
        hard = losses.calibrated_topk_hinge_loss(SCORES, LABELS, k=k, margin=20.0)
        assert abs(smooth - hard) <= epsilon * (k + 1) * math.sqrt(2 * math.log(CLASSES))


@pytest.mark.parametrize("temperature", [0.2, 1.0, 5.0])
def test_the_smooth_top_1_hinge_is_a_log_sum_exp_with_a_margin(temperature):
    def direct(scores):
        raised = scores + (~ONE_HOT).double()
        own = scores.gather(1, LABELS[:, None]).squeeze(1)
        return (temperature * (raised / temperature).logsumexp(1) - own).mean()

    same(lambda s: losses.smooth_topk_hinge_loss(s, LABELS, k=1, temperature=temperature), direct)


@pytest.mark.parametrize("k", range(1, CLASSES + 1))
def test_the_smooth_hinge_of_cold_temperature_is_a_hinge_over_sets(k):
    """τ → 0: the best of all sets with 1 for those without y, less the best of those with y."""
    rows = losses.smooth_topk_hinge_loss(SCORES, LABELS, k=k, temperature=1e-4, reduction="none")
    for row, y, value in zip(SCORES.tolist(), LABELS.tolist(), rows.tolist(), strict=True):
        sets = [(set(a), sum(row[j] for j in a) / k) for a in itertools.combinations(range(CLASSES), k)]
        hard = max(mean + (y not in a) for a, mean in sets) - max(mean for a, mean in sets if y in a)
        assert_close(value, hard, rtol=0, atol=1e-3)


@pytest.mark.parametrize("k", range(1, 10))
@pytest.mark.parametrize("spread", [0.1, 3.0, 100.0])
def test_the_smooth_hinge_of_more_classes_is_the_enumeration_of_all_sets(k, spread):
    scores = spread * torch.randn(2, 9, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
    expected = ref.smooth_topk_hinge_loss(scores.tolist(), [[2], [8]], k=k, temperature=0.5)
    found = losses.smooth_topk_hinge_loss(scores, torch.tensor([2, 8]), k=k, temperature=0.5, reduction="none")
    assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-10)


def test_sparse_top_of_one_label_is_the_sparsemax_loss():
    """Martins and Astudillo 2016: ½ Σ_{support}(s² - τ²) + ½ - s_y, whose gradient is sparsemax less the label."""
    ordered = SCORES.sort(1, descending=True).values
    sums = ordered.cumsum(1) - 1
    size = (ordered * torch.arange(1, CLASSES + 1) > sums).sum(1, keepdim=True)
    level = sums.gather(1, size - 1) / size
    support = level < SCORES
    expected = 0.5 * ((SCORES**2 - level**2) * support).sum(1) + 0.5 - SCORES.gather(1, LABELS[:, None]).squeeze(1)
    assert_close(losses.sparse_top_loss(SCORES, LABELS, reduction="none"), expected)
    scores = SCORES.clone().requires_grad_()
    losses.sparse_top_loss(scores, LABELS, reduction="sum").backward()
    assert_close(scores.grad, (SCORES - level).clamp(min=0) - ONE_HOT.double())


def test_the_gradient_of_sparse_top_is_the_projection_less_the_labels():
    scores = SCORES.clone().requires_grad_()
    losses.sparse_top_loss(scores, MARKS, reduction="sum").backward()
    for row, marks, gradient in zip(SCORES, MARKS, scores.grad, strict=True):
        q = losses.sparse_top(row[None], int(marks.sum()))[0]
        assert_close(gradient, q - marks.double(), rtol=1e-11, atol=1e-12)


def test_sparse_top_is_0_exactly_where_the_labels_lead_by_1():
    scores = torch.tensor([[2.0, 2.5, 1.0, 0.0], [2.0, 2.5, 1.01, 0.0], [2.0, 1.0, -3.0, 0.0]])
    labels = torch.tensor([[True, True, False, False]] * 2 + [[True, False, False, False]])
    rows = losses.sparse_top_loss(scores, labels, reduction="none")
    assert rows[0] == 0
    assert rows[1] > 0
    assert rows[2] == 0


def test_assume_negative_is_bce_reweighted():
    def reweighted(scores):
        weight = ONE_HOT.double() + (~ONE_HOT).double() / (CLASSES - 1)
        return functional.binary_cross_entropy_with_logits(scores, ONE_HOT.double(), weight, reduction="sum") / ROWS

    same(lambda s: losses.assume_negative_loss(s, LABELS), reweighted)


def test_expected_positive_without_weight_is_the_likelihood_of_the_observed_label():
    same(
        lambda s: losses.expected_positive_loss(s, LABELS, k=3, beta=0.0),
        lambda s: -functional.logsigmoid(s.gather(1, LABELS[:, None])).mean(),
    )


def test_role_of_estimates_equal_to_the_scores_pulls_neither_but_towards_the_observed_label():
    """H(F, Θ) is least where F = Θ: there only ℓ⁺ has a gradient, half of it on either side."""
    scores, estimates = SCORES.clone().requires_grad_(), SCORES.clone().requires_grad_()
    losses.role_loss(scores, LABELS, estimates=estimates, k=2).backward()
    expected = -0.5 * torch.sigmoid(-SCORES) * ONE_HOT.double() / ROWS
    assert_close(scores.grad, expected, rtol=1e-12, atol=1e-15)
    assert_close(estimates.grad, expected, rtol=1e-12, atol=1e-15)


def test_average_1_is_cross_entropy_and_one_against_the_mean_of_the_rest():
    same(
        lambda s: losses.average_k_loss(s, LABELS, proposal_scores=SCORES, k=1),
        lambda s: losses.cross_entropy_loss(SCORES, LABELS) + losses.assume_negative_loss(s, LABELS),
    )


def test_average_c_wants_every_label():
    same(
        lambda s: losses.average_k_loss(s, LABELS, proposal_scores=SCORES, k=CLASSES, alpha=CLASSES - 1),
        lambda s: losses.cross_entropy_loss(SCORES, LABELS) - functional.logsigmoid(s).sum(1).mean(),
    )


def bce(scores):
    return functional.binary_cross_entropy_with_logits(scores, MARKS.double())


@pytest.mark.parametrize(
    "loss",
    [
        losses.BinaryCrossEntropyLoss(),
        losses.AsymmetricFocalLoss(gamma_pos=0.0, gamma_neg=0.0),
        losses.AsymmetricFocalLoss(gamma_pos=0.0, gamma_neg=0.0, detach_weight=True),
        losses.SpaLoss(zeta_pos=1.0, k_pos=1.0, b_pos=0.0, zeta_neg=1.0, k_neg=1.0, b_neg=0.0),
    ],
    ids=repr,
)
def test_these_are_binary_cross_entropy(loss):
    same(lambda s: loss(s, MARKS), bce)


@pytest.mark.parametrize(
    "loss",
    [losses.BinaryCrossEntropyLoss(), losses.AsymmetricFocalLoss(gamma_pos=1.0, shift=0.1), losses.SpaLoss(**OTHER_SPA)],
    ids=repr,
)
def test_a_loss_of_partial_losses_is_their_mean_over_labels(loss):
    present, absent = loss.partial_losses(SCORES)
    assert_close(loss(SCORES, MARKS), torch.where(MARKS, present, absent).mean())


def test_two_way_without_any_positive_is_0():
    scores = SCORES.clone().requires_grad_()
    loss = losses.two_way_loss(scores, torch.zeros_like(MARKS))
    loss.backward()
    assert loss == 0
    assert torch.equal(scores.grad, torch.zeros_like(scores))


def test_two_way_at_temperature_1_with_one_label_a_row_is_cross_entropy_along_the_row():
    """softplus(lse_others - s_y) = -log softmax_y; along the classes the same of the transposed batch."""
    square, labels = SCORES[:CLASSES], torch.tensor([3, 0, 4, 1, 5, 2])
    expected = functional.cross_entropy(square, labels) + functional.cross_entropy(square.t(), labels.argsort())
    assert_close(losses.two_way_loss(square, labels, positive_temperature=1.0, negative_temperature=1.0), expected)


def test_the_label_pair_penalty_does_not_see_a_shift_of_all_odds():
    shifted = losses.label_pair_penalty(SCORES + 3.0, MARKS)
    assert_close(shifted, losses.label_pair_penalty(SCORES, MARKS), rtol=1e-12, atol=1e-12)


def test_quasibinary_of_one_row_with_one_label_is_cross_entropy():
    same(
        lambda s: torch.stack([losses.quasibinary_loss(s[i : i + 1], LABELS[i : i + 1]) for i in range(ROWS)]).mean(),
        lambda s: losses.cross_entropy_loss(s, LABELS),
    )


def test_quasibinary_probabilities_of_a_batch_sum_to_its_labels_and_their_excess_is_the_gradient():
    """Where no q exceeds 1 the gradient is (q - y)/B, and it sums to 0."""
    gentle = (0.1 * SCORES).requires_grad_()
    losses.quasibinary_loss(gentle, MARKS).backward()
    q = gentle.detach().exp() / gentle.detach().exp().sum() * MARKS.sum()
    assert (q < 1).all()
    assert_close(q.sum(), MARKS.sum().double())
    assert_close(gentle.grad, (q - MARKS.double()) / ROWS, rtol=1e-11, atol=1e-13)


def test_outlier_losses_are_least_for_a_uniform_softmax():
    flat = torch.zeros(2, CLASSES, dtype=torch.float64)
    assert_close(losses.uniform_outlier_loss(flat).item(), 0.0, rtol=0, atol=1e-15)
    assert_close(losses.confidence_outlier_loss(flat).item(), -math.log(CLASSES))
    assert (losses.uniform_outlier_loss(SCORES, reduction="none") > 0).all()
    assert (losses.confidence_outlier_loss(SCORES, reduction="none") > -math.log(CLASSES)).all()


def test_rows_with_a_label_are_no_outliers():
    for loss in (losses.uniform_outlier_loss, losses.confidence_outlier_loss):
        assert_close(loss(SCORES, MARKS, reduction="sum"), loss(SCORES[~MARKS.any(1)], reduction="sum"))
        assert loss(SCORES, LABELS) == 0
