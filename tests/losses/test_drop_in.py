"""Losses in place of torch's own: integer labels of any dtype, ignored rows, class weights, two-head outputs."""

import inspect
import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from shortlist import losses
from shortlist.errors import InputError
from shortlist.losses import AverageKLoss, TwoHeadScores, average_k_loss, cross_entropy_loss
from shortlist.models import TwoHead
from tests.losses.cases import CASES, CLASSES, COUPLED, FUNCTIONS, IGNORING, ROWS, draw

ONE_LABEL = [case for case in CASES if case.name in IGNORING and case.takes == "one"]
WEIGHTED = [case for case in ONE_LABEL if case.name not in COUPLED]
EVERYTHING = torch.arange(CLASSES)
one_label = pytest.mark.parametrize("case", ONE_LABEL, ids=str)
weighted = pytest.mark.parametrize("case", WEIGHTED, ids=str)
DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.uint32, torch.uint64]


def with_ignored(case, rows, ignore_index=-100, seed=5):
    """A batch with some rows ignored, and the batch of the others alone."""
    batch = draw(case, seed=seed)
    kept = torch.tensor([row for row in range(ROWS) if row not in rows], dtype=torch.int64)
    target = batch.target.clone()
    target[list(rows)] = ignore_index
    return replace(batch, target=target), batch.taken(kept, EVERYTHING), kept


def test_every_loss_for_one_label_per_row_is_tried_here():
    takes_it = {name for name in FUNCTIONS if "ignore_index" in inspect.signature(getattr(losses, name)).parameters}
    assert takes_it == IGNORING == {case.name for case in ONE_LABEL}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_labels_of_any_integer_dtype_are_accepted(name, dtype):
    case = next(case for case in CASES if case.name == name)
    batch = replace(draw(case), target=torch.arange(ROWS) % CLASSES)
    assert torch.equal(case.loss(replace(batch, target=batch.target.to(dtype))), case.loss(batch))


@one_label
@pytest.mark.parametrize("rows", [(0,), (1, 4), (5, 0, 2)], ids=str)
def test_ignored_rows_leave_the_loss_of_the_others(case, rows):
    batch, others, kept = with_ignored(case, rows)
    expected = case.expected(others)
    mean = expected if case.coupled else math.fsum(expected) / len(kept)
    assert_close(case.loss(batch).item(), mean, rtol=1e-10, atol=1e-10)
    assert_close(case.loss(batch, reduction="sum").item(), mean * len(kept), rtol=1e-10, atol=1e-10)
    if not case.coupled:
        found = case.loss(batch, reduction="none")
        assert_close(found[kept], torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-10)
        assert not found[list(rows)].any()


@one_label
def test_ignored_rows_have_no_gradient_and_others_that_of_the_batch_without_them(case):
    rows = (1, 4)
    batch, others, kept = with_ignored(case, rows)
    _, gradients = case.with_gradients(batch)
    _, expected = case.with_gradients(others)
    for gradient, alone in zip(gradients, expected, strict=True):
        assert_close(gradient[kept], alone, rtol=1e-9, atol=1e-12)
        assert not gradient[list(rows)].any()


@one_label
def test_a_batch_of_ignored_rows_costs_nothing(case):
    batch, _, _ = with_ignored(case, range(ROWS))
    for reduction in ("mean", "sum"):
        value, gradients = case.with_gradients(batch, lambda b, how=reduction: case.loss(b, reduction=how))
        assert value == 0
        assert not any(gradient.any() for gradient in gradients)


@one_label
def test_any_label_can_be_the_one_that_is_ignored(case):
    batch, others, _ = with_ignored(case, (0, 3), ignore_index=CLASSES)
    module = case.module(batch, ignore_index=CLASSES)
    assert_close(module(batch.scores, batch.target, **batch.per_call), case.loss(others), rtol=1e-10, atol=1e-10)
    own = int(batch.target[1])  # a class of its own: all its rows are left out
    kept = (batch.target != own) & (batch.target != CLASSES)
    batch = replace(batch, target=torch.where(kept, batch.target, own))
    expected = case.loss(batch.taken(kept.nonzero().flatten(), EVERYTHING))
    assert_close(case.loss(batch, ignore_index=own), expected, rtol=1e-10, atol=1e-10)


def test_other_labels_out_of_range_are_refused_beside_ignored_rows():
    with pytest.raises(InputError, match="^target: .*got -1"):
        cross_entropy_loss(torch.zeros(3, 5), torch.tensor([-100, -1, 2]))


@weighted
@pytest.mark.parametrize("rows", [(), (1, 4)], ids=str)
def test_class_weights_equal_the_weighted_mean_of_the_literal_formula(case, rows):
    batch, others, kept = with_ignored(case, rows)
    weight = torch.tensor([0.5, 2.0, 0.0, 1.0, 3.5], dtype=torch.float64)
    own = [float(weight[label]) for label in others.target]
    values = [w * value for w, value in zip(own, case.expected(others), strict=True)]
    assert_close(case.loss(batch, weight=weight).item(), math.fsum(values) / math.fsum(own), rtol=1e-10, atol=1e-10)
    assert_close(case.loss(batch, weight=weight, reduction="sum").item(), math.fsum(values), rtol=1e-10, atol=1e-10)
    found = case.module(batch, weight=weight, reduction="none")(batch.scores, batch.target, **batch.per_call)
    assert_close(found[kept], torch.tensor(values, dtype=torch.float64), rtol=1e-10, atol=1e-10)
    assert not found[list(rows)].any()


@weighted
def test_weights_of_zero_cost_nothing(case):
    batch = draw(case)
    value, gradients = case.with_gradients(batch, lambda b: case.loss(b, weight=torch.zeros(CLASSES)))
    assert value == 0
    assert not gradients[0].any()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, torch.tensor([0.5, 2.0, 0.1, 1.0, 3.5])], ids=["plain", "weighted"])
@pytest.mark.parametrize("ignored", [False, True])
def test_cross_entropy_is_that_of_torch(reduction, weight, ignored):
    random = torch.Generator().manual_seed(0)
    target = torch.randint(CLASSES, (40,), generator=random)
    if ignored:
        target[::3] = -100
    found, expected = (torch.randn(40, CLASSES, generator=random.manual_seed(1)).requires_grad_() for _ in range(2))
    ours = losses.CrossEntropyLoss(weight=weight, reduction=reduction)(found, target)
    theirs = F.cross_entropy(expected, target, weight=weight, reduction=reduction)
    assert_close(ours, theirs)
    ours.sum().backward()
    theirs.sum().backward()
    assert_close(found.grad, expected.grad)


# Losses whose operators sort or select only; the others solve for a level, which waits for the device anyway.
WITHOUT_WAITING = [case for case in ONE_LABEL if case.name not in ("smooth_topk_hinge_loss", "sparse_top_loss")]
WITHOUT_WAITING = [case for case in WITHOUT_WAITING if case.keywords.get("smoothing") not in ("soft", "expected")]


@pytest.mark.parametrize("case", WITHOUT_WAITING, ids=str)
@pytest.mark.parametrize("weight", [False, True])
def test_no_loss_waits_for_the_device_to_look_at_labels(case, weight):
    """A tensor of the meta device has no values: whoever asks for one fails."""
    if weight and case.coupled:
        pytest.skip("no class weights")
    batch = draw(case)
    there = {name: tensor.to("meta") for name, tensor in (batch.per_call | batch.per_class).items()}
    there |= {"weight": torch.ones(CLASSES, device="meta")} if weight else {}
    function = getattr(losses, case.name)
    value = function(batch.scores.to("meta").requires_grad_(), batch.target.to("meta"), **{**case.keywords, **there})
    value.backward()
    assert value.shape == ()


def heads(rows=6, seed=0):
    random = torch.Generator().manual_seed(seed)
    return TwoHeadScores(torch.randn(rows, 5, generator=random), torch.randn(rows, 5, generator=random))


def test_average_k_takes_the_output_of_a_two_head_network_as_it_is():
    pair, target, loss = heads(), torch.arange(6) % 5, AverageKLoss(k=2, alpha=0.3)
    expected = average_k_loss(pair.scores, target, proposal_scores=pair.proposal_scores, k=2, alpha=0.3)
    assert torch.equal(loss(pair, target), expected)
    assert torch.equal(loss(tuple(pair), target), expected)
    assert torch.equal(loss(pair.scores, target, proposal_scores=pair.proposal_scores), expected)
    network = TwoHead(3, 5)
    loss(network(torch.randn(6, 3)), target).backward()
    assert network.labels.weight.grad.any()
    assert network.proposal.weight.grad.any()


@pytest.mark.parametrize(
    ("scores", "keywords"),
    [(heads().scores, {}), (heads(), {"proposal_scores": heads().scores}), ((heads().scores,), {})],
    ids=["one head", "twice", "one of a pair"],
)
def test_average_k_needs_the_scores_of_exactly_two_heads(scores, keywords):
    with pytest.raises(InputError, match="^proposal_scores: .*got"):
        AverageKLoss(k=2)(scores, torch.arange(6) % 5, **keywords)


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_average_k_loss_takes_batches_of_any_size():
    torch.compiler.reset()
    loss = AverageKLoss(k=2.5, alpha=0.3)
    compiled = torch.compile(loss, backend="aot_eager")
    for rows in (6, 9, 4, 1, 9, 17):
        target = torch.arange(rows) % 5
        target[rows // 2] = -100
        pairs = [TwoHeadScores(*(part.clone().requires_grad_() for part in heads(rows, rows))) for _ in range(2)]
        found, expected = compiled(pairs[0], target), loss(pairs[1], target)
        assert_close(found, expected)
        for value in (found, expected):
            value.backward()
        for ours, theirs in zip(*pairs, strict=True):
            assert_close(ours.grad, theirs.grad)
