"""What a person is told who holds a loss the wrong way round, and what must not be swallowed."""

import numpy as np
import pytest
import torch

from shortlist import losses
from shortlist.errors import InputError
from shortlist.links import Quasibinary
from shortlist.losses import LabelPairPenalty, PenalisedLoss, QuasibinaryLoss, RoleEstimates, SpaLoss
from shortlist.models import TwoHead
from shortlist.operators import expected_top_value, noised_top_value, soft_top_value

SCORES, LABELS = torch.zeros(4, 5), torch.tensor([0, 1, 2, 3])
MARKS = torch.eye(5, dtype=torch.bool)[:4]


@pytest.mark.parametrize("scores", [np.zeros((4, 5)), [[0.0] * 5] * 4, None, TwoHead(2, 5)(torch.zeros(4, 2))])
def test_scores_that_are_no_tensor_are_named(scores):
    with pytest.raises(InputError, match=f"^scores: expected a tensor, got {type(scores).__name__}$"):
        losses.cross_entropy_loss(scores, LABELS)


@pytest.mark.parametrize("target", [LABELS.numpy(), [0, 1, 2, 3], None])
def test_a_target_that_is_no_tensor_is_named(target):
    with pytest.raises(InputError, match=f"^target: expected a tensor, got {type(target).__name__}$"):
        losses.focal_loss(SCORES, target)


def test_zeros_and_ones_that_are_no_booleans_get_a_hint():
    with pytest.raises(InputError, match=r"target\.bool\(\)"):
        losses.two_way_loss(SCORES, MARKS.float())
    with pytest.raises(InputError, match=r"sum to 1 in each row, got a sum of \d.*target\.bool\(\)"):
        losses.cross_entropy_loss(SCORES, (MARKS | MARKS.flip(0)).float())


def test_zeros_and_ones_are_shares_where_a_loss_takes_them():
    assert torch.equal(losses.spa_loss(SCORES, MARKS.float()), losses.spa_loss(SCORES, MARKS))


def test_labels_that_count_from_1_get_a_hint():
    with pytest.raises(InputError, match="expected labels from 0 to 4, got 5 in row 3: labels count from 0"):
        losses.focal_loss(SCORES, LABELS + 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.FocalLoss(2.0), r"FocalLoss.__init__\(\) takes 1 positional argument"),
        (lambda: losses.TopkHingeLoss(), r"TopkHingeLoss.__init__\(\) missing .*'k'"),
        (lambda: losses.FocalLoss(gama=2.0), r"FocalLoss.__init__\(\) got .*'gama'"),
        (lambda: losses.FocalLoss()(SCORES, LABELS, gamma=2.0), "forward.* got .*'gamma'"),
        (lambda: losses.FocalLoss()(SCORES, LABELS, noise=SCORES), "forward.* got .*'noise'"),
        (lambda: losses.RoleLoss(k=2)(SCORES, LABELS), "forward.* missing .*'estimates'"),
    ],
)
def test_python_names_parameters_in_the_wrong_place(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_a_store_in_place_of_its_rows_is_named():
    with pytest.raises(InputError, match=r"^estimates: .*got RoleEstimates"):
        losses.role_loss(SCORES, LABELS, estimates=RoleEstimates(10, 5), k=2)


def test_a_number_given_as_text_is_shown_as_text():
    with pytest.raises(InputError, match=r"^gamma: .*got '2'"):
        losses.FocalLoss(gamma="2")


def test_the_help_of_a_module_explains_its_parameters():
    assert "epsilon: scale of the noise, " in losses.NoisedTopkHingeLoss.__doc__
    assert ">>>" not in losses.NoisedTopkHingeLoss.__doc__


@pytest.mark.parametrize("operator", [noised_top_value, soft_top_value, expected_top_value])
def test_whole_numbers_of_another_type_are_as_good_for_operators(operator):
    assert operator(SCORES, 2.0).shape == (4,)


def test_penalties_are_added_to_losses_of_this_package_only():
    with pytest.raises(InputError, match=r"loss: .*got BCEWithLogitsLoss"):
        PenalisedLoss(torch.nn.BCEWithLogitsLoss(), LabelPairPenalty())
    with pytest.raises(InputError, match=r"penalty: .*got function"):
        PenalisedLoss(SpaLoss(), losses.label_pair_penalty)


def test_a_running_link_is_given_to_the_penalty_that_reads_it():
    with pytest.raises(InputError, match="link: .*got none"):
        PenalisedLoss(QuasibinaryLoss(), LabelPairPenalty())
    scores = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    link = Quasibinary()
    link.update(scores, MARKS)
    value = PenalisedLoss(QuasibinaryLoss(), LabelPairPenalty(), 0.5, link=link)(scores, MARKS)
    expected = losses.quasibinary_loss(scores, MARKS) + 0.5 * losses.label_pair_penalty(link.log_odds(scores), MARKS)
    torch.testing.assert_close(value, expected)


@pytest.mark.parametrize("single", [True, False])
def test_scores_that_are_not_numbers_make_a_loss_that_is_none(single):
    """A training that has gone wrong must show."""
    names = ["cross_entropy_loss", "focal_loss", "assume_negative_loss", "sparse_top_loss"] if single else []
    names += [] if single else ["two_way_loss", "spa_loss", "quasibinary_loss", "binary_cross_entropy_loss"]
    for name in names:
        for place in (slice(None), (0, 0)):
            scores = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
            scores[place] = torch.nan
            assert getattr(losses, name)(scores, LABELS if single else MARKS).isnan(), name


@pytest.mark.parametrize(
    ("name", "keywords"),
    [
        ("noised_topk_hinge_loss", {"k": 2, "smoothing": "soft"}),
        ("noised_topk_hinge_loss", {"k": 2, "smoothing": "expected"}),
        ("smooth_topk_hinge_loss", {"k": 2}),
        ("sparse_top_loss", {}),
        ("cross_entropy_loss", {}),
        ("topk_hinge_loss", {"k": 2}),
    ],
)
def test_a_class_masked_by_minus_infinity_is_as_good_as_absent(name, keywords):
    scores = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    masked = torch.cat([scores, torch.full((4, 1), -torch.inf, dtype=torch.float64)], dim=1).requires_grad_()
    value = getattr(losses, name)(masked, LABELS, **keywords)
    torch.testing.assert_close(value.detach(), getattr(losses, name)(scores, LABELS, **keywords), rtol=1e-9, atol=1e-12)
    value.backward()
    assert masked.grad.isfinite().all()
