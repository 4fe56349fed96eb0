"""Targets that are shares of labels: the loss is its expectation under them, in the losses that are linear in the label."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from shortlist import losses
from shortlist.errors import InputError
from shortlist.losses import loss_of_linear
from tests.losses.cases import CASES, CLASSES, ROWS, draw
from tests.losses.laws import minimiser, random_law, tensor

ONE_LABEL = {"cross_entropy_loss", "focal_loss", "sparse_top_loss"}
ANY_NUMBER = {"binary_cross_entropy_loss", "asymmetric_focal_loss", "spa_loss"}
LINEAR = [case for case in CASES if case.name in ONE_LABEL | ANY_NUMBER and not case.stops_gradients]
OTHERS = list({case.name: case for case in CASES if case.name not in ONE_LABEL | ANY_NUMBER}.values())
linear = pytest.mark.parametrize("case", LINEAR, ids=str)


def shares(rows=ROWS, classes=CLASSES, seed=0):
    return tensor(np.random.default_rng(seed).dirichlet(0.5 * np.ones(classes), size=rows))


def expected_of_each_row(case, scores, votes):
    """``Σ_y votes_y · loss(scores, y)``, one label at a time."""
    function = getattr(losses, case.name)
    each = [function(scores, torch.full((len(scores),), y), **case.keywords, reduction="none") for y in range(votes.shape[1])]
    return (torch.stack(each, 1) * votes).sum(1)


@linear
@pytest.mark.parametrize("spread", [1.5, 15.0])
def test_the_loss_of_shares_is_its_expectation_in_value_and_gradient(case, spread):
    votes, results = shares(), []
    for loss in (
        lambda s: getattr(losses, case.name)(s, votes, **case.keywords, reduction="none"),
        lambda s: expected_of_each_row(case, s, votes),
    ):
        scores = draw(case, spread=spread).scores.clone().requires_grad_()
        rows = loss(scores)
        rows.sum().backward()
        results.append((rows.detach(), scores.grad))
    assert_close(results[0], results[1], rtol=1e-9, atol=1e-10)


@linear
def test_shares_of_one_label_are_that_label(case):
    batch, labels = draw(case), torch.arange(ROWS) % CLASSES
    marks = torch.nn.functional.one_hot(labels, CLASSES).double()
    function = getattr(losses, case.name)
    for reduction in ("mean", "sum", "none"):
        soft = function(batch.scores, marks, **case.keywords, reduction=reduction)
        assert_close(soft, function(batch.scores, labels, **case.keywords, reduction=reduction), rtol=1e-12, atol=1e-12)


@linear
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_shares_beside_huge_scores_of_any_precision_have_a_finite_loss_and_gradient(case, dtype):
    scores = torch.tensor([[1e4, -1e4, 0.0, 3.0, 1e4], [-1e4] * 5], dtype=dtype, requires_grad=True)
    loss = getattr(losses, case.name)(scores, shares(2).to(dtype), **case.keywords)
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.isfinite()
    assert scores.grad.isfinite().all()


@linear
def test_a_label_without_a_share_may_be_ruled_out(case):
    scores = torch.tensor([[1.0, -torch.inf, 0.5, 0.2, -1.0]], dtype=torch.float64, requires_grad=True)
    votes = tensor([[0.5, 0.0, 0.25, 0.25, 0.0]])
    loss = getattr(losses, case.name)(scores, votes, **case.keywords)
    loss.backward()
    assert loss.isfinite()
    assert not scores.grad.isnan().any()


@linear
def test_an_empty_batch_of_shares_costs_nothing(case):
    assert getattr(losses, case.name)(torch.zeros(0, CLASSES), torch.zeros(0, CLASSES), **case.keywords) == 0


@pytest.mark.parametrize("name", ["CrossEntropyLoss", "FocalLoss", "SparseTopLoss", "BinaryCrossEntropyLoss", "SpaLoss"])
def test_the_minimiser_of_one_row_of_shares_reveals_them(name):
    law, loss = 0.1 + 0.6 * random_law(4, seed=3), getattr(losses, name)()
    best = minimiser(lambda row: loss(row[None], tensor(law / law.sum())[None]), 4, tolerance=1e-6)
    assert_close(loss.link().probs(best[None])[0], tensor(law / law.sum()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["CrossEntropyLoss", "FocalLoss", "SparseTopLoss", "SpaLoss"])
def test_shares_go_through_a_linear_head_in_chunks(name):
    loss, random = getattr(losses, name)(), torch.Generator().manual_seed(0)
    features, weight = torch.randn(ROWS, 3, generator=random), torch.randn(CLASSES, 3, generator=random)
    votes = shares().float()
    assert_close(loss_of_linear(loss, features, weight, None, votes), loss(features @ weight.T, votes))


@pytest.mark.parametrize("case", OTHERS, ids=lambda case: case.name)
def test_losses_that_are_not_linear_in_the_label_refuse_shares(case):
    if case.takes == "none":
        case = replace(case, takes="many")
    with pytest.raises(InputError, match="^target: expected .*got float64"):
        case.loss(replace(draw(case), target=shares()))


@pytest.mark.parametrize("name", sorted(ONE_LABEL))
def test_shares_that_do_not_sum_to_1_and_votes_that_were_not_divided_are_refused(name):
    function, scores = getattr(losses, name), torch.zeros(2, 3)
    with pytest.raises(InputError, match="^target: .* sum to 1 .* 0.5"):
        function(scores, torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.0, 0.0]]))
    with pytest.raises(InputError, match="^target: .* from 0 to 1, got 3"):
        function(scores, torch.tensor([[3.0, 1.0, 0.0], [0.5, 0.5, 0.0]]))
    with pytest.raises(InputError, match="^target: .* from 0 to 1, got nan"):
        function(scores, torch.tensor([[torch.nan, 1.0, 0.0], [0.5, 0.5, 0.0]]))
    with pytest.raises(InputError, match=r"^target: expected shares \(2, 3\)"):
        function(scores, torch.ones(2, 4) / 4)
    with pytest.raises(InputError, match="^weight: .*got a target of float"):
        function(scores, torch.ones(2, 3) / 3, weight=torch.ones(3))


@pytest.mark.parametrize("name", sorted(ANY_NUMBER))
def test_shares_of_any_number_of_labels_need_not_sum_to_1_but_lie_between_0_and_1(name):
    function, scores = getattr(losses, name), torch.zeros(1, 3)
    assert function(scores, torch.tensor([[1.0, 0.9, 0.0]])).isfinite()
    with pytest.raises(InputError, match="^target: .* from 0 to 1, got -1"):
        function(scores, torch.tensor([[-1.0, 0.9, 0.0]]))
