"""Heads turn features into scores."""

import math

import pytest
import torch

from shortlist.errors import InputError
from shortlist.losses import average_k_loss
from shortlist.models import CosineHead, LinearHead, TwoHead, TwoHeadScores, make_head

FEATURES = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))


def test_a_linear_head_is_weights_times_features_plus_bias():
    head = LinearHead(8, 3)
    weight, bias, rows = head.weight.tolist(), head.bias.tolist(), FEATURES.tolist()
    expected = [[math.fsum(map(math.prod, zip(weight[c], row, strict=True))) + bias[c] for c in range(3)] for row in rows]
    torch.testing.assert_close(head(FEATURES), torch.tensor(expected), rtol=1e-5, atol=1e-6)


def test_cosine_scores_are_cosines_whatever_the_lengths():
    head = CosineHead(8, 3)
    with torch.no_grad():
        head.weight.mul_(torch.tensor([[0.1], [1.0], [7.0]]))
    for features in (FEATURES, 1000 * FEATURES, 1e-3 * FEATURES):
        scores = head(features).detach()
        for i, row in enumerate(features):
            for c, weight in enumerate(head.weight.detach()):
                cosine = float(row @ weight) / math.sqrt(float(row @ row) * float(weight @ weight))
                assert float(scores[i, c]) == pytest.approx(cosine, abs=1e-5)


def test_class_weights_of_a_cosine_head_start_with_unit_length_and_there_is_no_bias():
    head = CosineHead(64, 10)
    torch.testing.assert_close(head.weight.norm(dim=1), torch.ones(10))
    assert [name for name, _ in head.named_parameters()] == ["weight"]
    assert "features=64, classes=10" in repr(head)


def test_a_cosine_head_of_no_features_scores_nothing_and_has_finite_gradients():
    head = CosineHead(8, 3)
    features = torch.zeros(2, 8, requires_grad=True)
    scores = head(features)
    assert torch.equal(scores, torch.zeros(2, 3))
    scores.sum().backward()
    assert features.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_cosines_are_computed_in_float32_under_half_precision(dtype):
    head = CosineHead(8, 3)
    expected = head(FEATURES.to(dtype).float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = head(FEATURES.to(dtype))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(head.to(dtype)(FEATURES.to(dtype)), expected, atol=2e-2, rtol=0)


def test_two_heads_share_the_features_and_nothing_else():
    head = TwoHead(8, 3)
    found = head(FEATURES)
    assert isinstance(found, TwoHeadScores)
    assert torch.equal(found.scores, head.labels(FEATURES))
    assert torch.equal(found.proposal_scores, head.proposal(FEATURES))
    assert not torch.equal(found.scores, found.proposal_scores)


def test_each_of_two_heads_is_trained_by_its_own_part_of_the_loss():
    head = TwoHead(8, 3)
    scores, proposal = head(FEATURES)
    target = torch.tensor([0, 1, 2, 0, 1])
    average_k_loss(scores, target, proposal_scores=proposal, k=2).backward()
    proposed = (torch.softmax(proposal.detach(), 1) - torch.nn.functional.one_hot(target, 3)) / 5
    torch.testing.assert_close(head.proposal.bias.grad, proposed.sum(0))
    assert head.labels.bias.grad.abs().sum() > 0


@pytest.mark.parametrize(("kind", "made"), [("linear", LinearHead), ("cosine", CosineHead), ("two-head", TwoHead)])
def test_heads_by_name(kind, made):
    assert isinstance(make_head(kind, 4, 2), made)


def test_unknown_heads_and_bad_sizes_are_refused():
    with pytest.raises(InputError, match="expected one of linear, cosine, two-head; got 'cosin'"):
        make_head("cosin", 4, 2)
    for head in (LinearHead, CosineHead, TwoHead):
        with pytest.raises(InputError, match="classes: .*got 0"):
            head(4, 0)
        with pytest.raises(InputError, match="features: .*got 0"):
            head(0, 4)
