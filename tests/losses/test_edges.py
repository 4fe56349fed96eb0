"""Every loss at the edges: precisions, huge scores, few rows, few classes, no labels; and the edges of single losses."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from torch.testing import assert_close

from shortlist import losses
from tests.losses.cases import CASES, CLASSES, HINGES, ROWS, draw
from tests.references import losses as ref

every_loss = pytest.mark.parametrize("case", CASES, ids=str)
MANY = [case for case in CASES if case.takes == "many"]
HALVES = [torch.float16, torch.bfloat16]


def assert_finite(value, gradients):
    assert value.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)


def huge(case, seed):
    """Scores, proposals and estimates of ±1e4 and a few small ones between them."""
    batch, random = draw(case, seed=seed), torch.Generator().manual_seed(seed)
    levels = torch.tensor([[-1e4, 1e4, 0.0, 3.0], [-1e4, -1e4, -1e4, 1e4], [1e4, 1e4, 1e4, -1e4]][seed])
    leaves = {name: levels[torch.randint(4, leaf.shape, generator=random)] for name, leaf in batch.leaves().items()}
    return batch.cast(torch.float32).put(**leaves)


@every_loss
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_huge_scores_have_a_finite_loss_and_gradient(case, seed):
    batch = huge(case, seed)
    value, gradients = case.with_gradients(batch)
    assert value.dtype == torch.float32
    assert_finite(value, gradients)
    # The formula of the expectation would take hours here; which of equal proposals comes first is tried below.
    if case.keywords.get("smoothing") != "expected" and case.name != "average_k_loss":
        assert_close(value.item(), case.expected_mean(batch), rtol=1e-4, atol=0.02)


@every_loss
@pytest.mark.parametrize("score", [-1e4, 1e4])
def test_scores_that_are_all_huge_have_a_finite_loss_and_gradient(case, score):
    batch = draw(case).cast(torch.float32)
    batch = batch.put(**{name: torch.full_like(leaf, score) for name, leaf in batch.leaves().items()})
    assert_finite(*case.with_gradients(batch))


@every_loss
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_scores_far_apart_equal_the_literal_formula(case, seed):
    """Scores some tens apart, as those of trained networks are; in float32 to a millionth of the largest."""
    batch = draw(case, seed=seed, spread=15.0)
    expected = case.expected_mean(batch)
    assert_close(case.loss(batch).item(), expected, rtol=1e-10, atol=1e-9)
    single = batch.cast(torch.float32)
    assert_close(case.loss(single).item(), case.expected_mean(single), rtol=1e-5, atol=1e-4)


@every_loss
def test_float32_agrees_with_float64(case):
    batch = draw(case, spread=4.0).cast(torch.float32)
    value, gradients = case.with_gradients(batch)
    precise, others = case.with_gradients(batch.cast(torch.float64))
    assert (value.dtype, precise.dtype) == (torch.float32, torch.float64)
    assert_close(value.double(), precise, rtol=1e-5, atol=1e-5)
    for gradient, other in zip(gradients, others, strict=True):
        assert_close(gradient.double(), other, rtol=1e-3, atol=1e-5)


@every_loss
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_precision_is_computed_in_float32(case, dtype):
    batch = draw(case).cast(dtype)
    value, gradients = case.with_gradients(batch)
    expected, others = case.with_gradients(batch.cast(torch.float32))
    assert value.dtype == torch.float32
    assert_close(value, expected)
    for gradient, other in zip(gradients, others, strict=True):
        assert gradient.dtype == dtype
        assert_close(gradient, other.to(dtype))


@every_loss
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_huge_scores_in_half_precision_have_a_finite_loss_and_gradient(case, dtype):
    assert_finite(*case.with_gradients(huge(case, 0).cast(dtype)))


@every_loss
def test_autocast_changes_nothing(case):
    batch = draw(case).cast(torch.float32)
    value, gradients = case.with_gradients(batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, others = case.with_gradients(batch)
    assert found.dtype == torch.float32
    assert torch.equal(found, value)
    assert all(torch.equal(gradient, other) for gradient, other in zip(gradients, others, strict=True))


@every_loss
def test_inputs_are_left_as_they_were(case):
    batch = draw(case)
    before = [tensor.clone() for tensor in batch.tensors()]
    case.loss(batch)
    leaves = batch.leaves()
    case.module(batch)(leaves["scores"], batch.target, **{**batch.per_call, **dict(list(leaves.items())[1:])}).backward()
    assert all(torch.equal(tensor, old) for tensor, old in zip(batch.tensors(), before, strict=True))
    assert all(torch.equal(leaf, getattr(batch, name, batch.per_call.get(name))) for name, leaf in leaves.items())


@every_loss
def test_the_layout_in_memory_does_not_matter(case):
    batch = draw(case)
    strided = batch.put(**{name: leaf.detach().t().contiguous().t() for name, leaf in batch.leaves().items()})
    assert not strided.scores.is_contiguous()
    assert_close(case.loss(strided), case.loss(batch), rtol=1e-13, atol=1e-13)


@every_loss
@pytest.mark.parametrize("seed", [0, 1])
def test_a_batch_of_one_equals_the_literal_formula(case, seed):
    batch = draw(case, rows=1, seed=seed)
    value, gradients = case.with_gradients(batch)
    assert_close(value.item(), case.expected_mean(batch), rtol=1e-10, atol=1e-10)
    assert_finite(value, gradients)


@every_loss
def test_an_empty_batch_costs_nothing_and_can_be_trained_on(case):
    batch = draw(case, rows=0)
    value, gradients = case.with_gradients(batch)
    assert value == 0
    assert [gradient.shape for gradient in gradients] == [leaf.shape for leaf in batch.leaves().values()]
    assert case.loss(batch, reduction="sum") == 0
    if not case.coupled:
        assert case.loss(batch, reduction="none").shape == (0,)


FEW_CLASSES = [pytest.param(case, n, id=f"{case}-{n}") for case in CASES for n in (1, 2) if n >= case.least_classes]


@pytest.mark.parametrize(("case", "classes"), FEW_CLASSES)
def test_one_or_two_classes_equal_the_literal_formula(case, classes):
    batch = draw(case, classes=classes)
    value, gradients = case.with_gradients(batch)
    assert_close(value.item(), case.expected_mean(batch), rtol=1e-10, atol=1e-10)
    assert_finite(value, gradients)


@pytest.mark.parametrize("case", MANY, ids=str)
@pytest.mark.parametrize("marked", [False, True], ids=["no labels", "all labels"])
def test_rows_that_all_lack_labels_or_all_have_every_one_equal_the_literal_formula(case, marked):
    batch = draw(case)
    batch = replace(batch, target=torch.full((ROWS, CLASSES), marked))
    value, gradients = case.with_gradients(batch)
    assert_close(value.item(), case.expected_mean(batch), rtol=1e-10, atol=1e-10)
    assert_finite(value, gradients)


@pytest.mark.parametrize("gamma", [0.01, 0.5, 0.99, 1.0, 2.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_focal_loss_of_a_certain_row_and_its_gradient_are_0(gamma, dtype):
    scores = torch.tensor([[1000.0, 0.0, 0.0], [1.0, 0.0, 0.0]], dtype=dtype, requires_grad=True)
    rows = losses.focal_loss(scores, torch.tensor([0, 0]), gamma=gamma, reduction="none")
    rows.sum().backward()
    assert rows[0] == 0
    assert torch.equal(scores.grad[0], torch.zeros(3, dtype=dtype))
    assert scores.grad[1].abs().min() > 0


@pytest.mark.parametrize(
    ("epsilon", "value", "gradient"), [(1.0, 2.46667, [1 / 3, 1 / 3, 1 / 3, 0]), (0.1, 2.40667, [1.0, 0, 0, 0])]
)
@pytest.mark.parametrize("label", range(4))
def test_the_worked_example_of_the_paper(epsilon, value, gradient, label):
    scores = torch.tensor([[2.4, 2.6, 2.3, 0.5]], dtype=torch.float64, requires_grad=True)
    noise = torch.tensor([[0.2, -0.1, 0.1, 0.3], [0.1, 0.1, -0.1, 0.1], [-0.1, -0.1, 0.1, -0.1]]).double()[:, None]
    top = losses.noised_top_value(scores, 2, epsilon, noise=noise)
    assert_close(top.item(), value, rtol=0, atol=5e-6)
    loss = losses.noised_topk_hinge_loss(scores, torch.tensor([label]), k=1, epsilon=epsilon, noise=noise)
    assert_close(loss.item(), 1 + value - scores[0, label].item(), rtol=0, atol=5e-6)
    loss.backward()
    own = torch.eye(4, dtype=torch.float64)[label]
    assert_close(scores.grad[0], torch.tensor(gradient, dtype=torch.float64) - own)


@pytest.mark.parametrize("name", sorted(HINGES))
@pytest.mark.parametrize("away", [-0.25, 0.0, 0.25])
def test_the_gradient_of_a_hinge_at_its_kink_is_0(name, away):
    """With two classes and k = 1 the rival is the smaller of the two, which for label 0 is class 1."""
    keywords = {"epsilon": 0.0} if name == "noised_topk_hinge_loss" else {}
    scores = torch.tensor([[1.5 + away, 0.5]], requires_grad=True)
    loss = getattr(losses, name)(scores, torch.tensor([0]), k=1, **keywords)
    loss.backward()
    assert loss == max(0.0, -away)
    assert scores.grad.tolist() == ([[-1.0, 1.0]] if away < 0 else [[0.0, 0.0]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("epsilon", [0.01, 0.2])
def test_the_soft_hinge_finds_its_level_in_every_row_of_scores_far_apart(dtype, epsilon):
    scores = 10 * torch.randn(200, 10, generator=torch.Generator().manual_seed(0), dtype=dtype)
    scores[:, 0] = -1000.0  # a label whose hinge is open in every row
    target = torch.zeros(200, dtype=torch.int64)
    rows = losses.noised_topk_hinge_loss(scores, target, k=1, epsilon=epsilon, smoothing="soft", reduction="none")
    expected = [1001 + ref.soft_top(row, 2, epsilon) for row in scores.tolist()]
    assert_close(
        rows.double(), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-3 if dtype == torch.float32 else 1e-9
    )


def test_the_calibrated_hinge_has_no_gradient_where_the_label_is_itself_the_rival():
    scores = torch.tensor([[3.0, 2.0, 1.0]], requires_grad=True)
    loss = losses.calibrated_topk_hinge_loss(scores, torch.tensor([1]), k=1)
    loss.backward()
    assert loss == 1
    assert scores.grad.tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize(("k", "rows"), [(1.1, 5), (1.5, 3), (2.5, 5), (1.3, 5), (2.3, 5), (1.05, 10), (1.09, 5), (3, 4)])
def test_average_k_chooses_exactly_as_many_as_k_asks_for_even_under_ties(k, rows):
    """The gradient is negative at true labels and pseudo-positives and positive at the rest; the half is rounded up."""
    scores = torch.zeros(rows, 4, requires_grad=True)
    target = torch.arange(rows) % 4
    losses.average_k_loss(scores, target, proposal_scores=torch.zeros(rows, 4), k=k).backward()
    number = math.floor((Fraction(str(k)) - 1) * rows + Fraction(1, 2))
    raised = (scores.grad < 0) & (torch.arange(4) != target[:, None])
    assert raised.sum() == number
    free = (torch.arange(4) != target[:, None]).flatten().nonzero().flatten()
    assert raised.flatten().nonzero().flatten().tolist() == free[:number].tolist()


def test_the_proposal_learns_by_cross_entropy_alone():
    case = next(case for case in CASES if case.name == "average_k_loss" and case.keywords["k"] == 2)
    batch = draw(case)
    _, (_, gradient) = case.with_gradients(batch)
    marks = torch.eye(CLASSES, dtype=torch.float64)[batch.target]
    assert_close(gradient, (batch.per_call["proposal_scores"].softmax(1) - marks) / ROWS)


def test_draws_come_from_the_generator_alone():
    scores, target = torch.randn(8, 30, generator=torch.Generator().manual_seed(0)), torch.arange(8)

    def loss(seed, **keywords):
        return losses.noised_topk_hinge_loss(scores, target, k=3, generator=torch.Generator().manual_seed(seed), **keywords)

    state = torch.get_rng_state()
    for keywords in ({}, {"samples": 4, "smoothing": "antithetic"}):
        assert loss(0, **keywords) == loss(0, **keywords)
        assert loss(0, **keywords) != loss(1, **keywords)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_quasibinary_batch_without_labels_pays_only_the_penalty_above_the_running_normaliser():
    scores = torch.tensor([[2.0, 0.5, -1.0], [0.0, 3.0, 1.0]], requires_grad=True)
    none = torch.zeros(2, 3, dtype=torch.bool)
    assert losses.quasibinary_loss(scores, none) == 0
    loss = losses.quasibinary_loss(scores, none, log_normalizer=torch.tensor(1.5))
    loss.backward()
    assert_close(loss.item(), (0.5 + 1.5) / 2)
    assert scores.grad.tolist() == [[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]]
