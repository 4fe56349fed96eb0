"""The loss of a step, in one piece or in parts, against the mean over its rows typed literally."""

import pytest
import torch

from shortlist.links import Quasibinary
from shortlist.methods import all_methods, find_method
from shortlist.models.heads import TwoHeadScores
from shortlist.training.criterion import Criterion
from shortlist.training.recipe import Recipe
from tests.references import losses as reference

ROWS, C = 10, 6
COUNTS = torch.tensor([50, 20, 10, 5, 2, 1])


def criterion(method, rows=ROWS, **parameters):
    return Criterion(Recipe("mine", "flora", method=method, parameters=parameters, seed=3), COUNTS, rows)


def draw(many=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(ROWS, C, generator=generator, dtype=torch.float64)
    target = torch.rand(ROWS, C, generator=generator) < 0.4 if many else torch.randint(C, (ROWS,), generator=generator)
    return scores, target


def labels(target):
    return [[int(row)] if target.ndim == 1 else row.nonzero()[:, 0].tolist() for row in target]


UNCOUPLED = {
    "cross-entropy": (reference.cross_entropy_loss, {}),
    "focal": (reference.focal_loss, {"gamma": 2.0}),
    "topk-hinge": (reference.topk_hinge_loss, {"k": 5}),
    "smooth-topk": (reference.smooth_topk_hinge_loss, {"k": 5, "temperature": 1.0}),
    "ldam": (reference.ldam_loss, {"margins": reference.class_margins(COUNTS.tolist(), 0.2), "scale": 40.0}),
    "assume-negative": (reference.assume_negative_loss, {}),
    "bce": (reference.binary_cross_entropy_loss, {}),
    "spa": (reference.spa_loss, {}),
}
PARTS = [(10,), (5, 5), (4, 3, 3), (1, 9), (10, 0), (1,) * 10]


@pytest.mark.parametrize("method", UNCOUPLED)
@pytest.mark.parametrize("sizes", PARTS, ids=str)
def test_parts_of_a_batch_sum_to_the_mean_over_its_rows(method, sizes):
    made = criterion(method)
    scores, target = draw(many=find_method(method).labels == "any")
    scores.requires_grad_()
    assert not made.loss.couples
    places = torch.arange(ROWS).split(sizes)
    summed = sum(made(scores[rows], target[rows], rows, len(rows), ROWS) for rows in places)
    formula, keywords = UNCOUPLED[method]
    values = formula(scores.detach().numpy(), labels(target), **keywords)
    assert summed.item() == pytest.approx(sum(values) / ROWS, rel=1e-6)
    (gradient,) = torch.autograd.grad(summed, scores)
    (whole,) = torch.autograd.grad(made(scores, target, torch.arange(ROWS), ROWS, ROWS), scores)
    torch.testing.assert_close(gradient, whole)


def test_processes_average_to_the_mean_over_all_rows(monkeypatch):
    monkeypatch.setattr("shortlist.training.criterion.processes", lambda: 3)
    made = criterion("cross-entropy")
    scores, target = draw()
    shares = [made(scores[rows], target[rows], rows, ROWS, ROWS) for rows in torch.arange(ROWS).tensor_split(3)]
    values = reference.cross_entropy_loss(scores.numpy(), labels(target))
    assert float(sum(shares) / 3) == pytest.approx(sum(values) / ROWS)


def test_a_coupled_loss_of_a_whole_batch_is_the_loss():
    made = criterion("expected-positive", k=2, beta=0.5)
    scores, target = draw()
    assert made.loss.couples
    found = made(scores, target, torch.arange(ROWS), ROWS, ROWS)
    assert float(found) == pytest.approx(reference.expected_positive_loss(scores.numpy(), labels(target), k=2, beta=0.5))


@pytest.mark.parametrize("sizes", [(5, 5), (4, 6), (1, 9)])
def test_a_coupled_loss_in_parts_is_the_mean_over_parts_weighted_by_rows(sizes):
    made = criterion("expected-positive", k=2, beta=0.5)
    scores, target = draw()
    found = wanted = 0.0
    for rows in torch.arange(ROWS).split(sizes):
        found += float(made(scores[rows], target[rows], rows, len(rows), ROWS))
        part = reference.expected_positive_loss(scores[rows].numpy(), labels(target[rows]), k=2, beta=0.5)
        wanted += part * len(rows) / ROWS
    assert found == pytest.approx(wanted)


def test_a_coupled_loss_counts_with_the_rows_of_all_processes():
    made = criterion("expected-positive", k=2, beta=0.5)
    scores, target = draw()
    rows = torch.arange(4)  # this process's part of a micro-batch of 8 in a batch of 20
    part = reference.expected_positive_loss(scores[rows].numpy(), labels(target[rows]), k=2, beta=0.5)
    assert float(made(scores[rows], target[rows], rows, 8, 20)) == pytest.approx(part * 8 / 20)


def test_two_heads_are_told_apart():
    made = criterion("average-k", k=2, alpha=0.3)
    (scores, target), (proposal, _) = draw(), draw(seed=1)
    found = made(TwoHeadScores(scores, proposal), target, torch.arange(ROWS), ROWS, ROWS)
    wanted = reference.average_k_loss(scores.numpy(), labels(target), proposal.numpy(), k=2, alpha=0.3)
    assert float(found) == pytest.approx(wanted)


@pytest.mark.parametrize("method", all_methods(), ids=lambda method: method.name)
def test_every_method_gives_a_loss_with_a_gradient(method):
    made = criterion(method.name, **({"k": 1} if "topk" in method.name else {}))  # hinges of more are at rest
    scores, target = draw(many=method.labels == "any")
    scores.requires_grad_()
    output = TwoHeadScores(scores, scores.detach()) if method.head_kind == "two-head" else scores
    loss = made(output, target, torch.arange(ROWS), ROWS, ROWS)
    loss.backward()
    assert loss.shape == ()
    assert loss.isfinite()
    assert scores.grad.isfinite().all()
    assert scores.grad.abs().sum() > 0
    made.stepped(0.1)
    assert list(made.parameters()) == []


def log_normalizer(scores, target):
    return reference.log_sum_exp(scores.flatten().tolist()) - torch.tensor(float(target.sum())).log().item()


def test_the_running_normaliser_follows_the_batches():
    made = criterion("quasibinary")
    assert isinstance(made.link, Quasibinary)
    (first, marks), (second, others) = draw(many=True), draw(many=True, seed=1)
    loss = made(first, marks, torch.arange(ROWS), ROWS, ROWS)
    assert float(made.link.log_normalizer) == pytest.approx(log_normalizer(first, marks))
    assert float(loss) == pytest.approx(reference.quasibinary_loss(first.numpy(), labels(marks)))
    made(second, others, torch.arange(ROWS), ROWS, ROWS)
    wanted = 0.9 * torch.tensor(log_normalizer(first, marks)).exp() + 0.1 * torch.tensor(log_normalizer(second, others)).exp()
    assert float(made.link.log_normalizer) == pytest.approx(float(wanted.log()), rel=1e-6)


def test_a_batch_without_labels_uses_the_normaliser_and_leaves_it():
    made = criterion("quasibinary")
    scores, marks = draw(many=True)
    made(scores, marks, torch.arange(ROWS), ROWS, ROWS)
    before = made.link.log_normalizer.clone()
    none = torch.zeros_like(marks)
    louder = scores + 3  # so that some are above the normaliser and cost something
    found = made(louder, none, torch.arange(ROWS), ROWS, ROWS)
    assert float(found) == pytest.approx(reference.quasibinary_loss(louder.numpy(), labels(none), float(before)))
    assert float(found) > 0
    assert torch.equal(made.link.log_normalizer, before)


def test_a_first_batch_without_labels_costs_nothing():
    made = criterion("quasibinary")
    scores, marks = draw(many=True)
    scores.requires_grad_()
    loss = made(scores, torch.zeros_like(marks), torch.arange(ROWS), ROWS, ROWS)
    loss.backward()
    assert loss.item() == 0
    assert not scores.grad.any()
    assert made.link.log_normalizer is None


def test_the_normaliser_has_no_gradient_and_scores_are_left_alone():
    made = criterion("quasibinary")
    scores, marks = draw(many=True)
    scores.requires_grad_()
    before = scores.detach().clone()
    made(scores, marks, torch.arange(ROWS), ROWS, ROWS).backward()
    assert not made.link.log_normalizer.requires_grad
    assert torch.equal(scores.detach(), before)


def role_step(made, scores, target, parts):
    """A step of training in parts; the estimates before and after."""
    scores = scores.clone().requires_grad_()
    for rows in parts:  # rows that are read for the first time start then
        made.state.estimates(rows, target[rows])
    before = made.state.estimates.logits.float()
    sum(made(scores[rows], target[rows], rows, len(rows), ROWS) for rows in parts).backward()
    made.stepped(50.0)
    return before, made.state.estimates.logits.float()


def test_label_estimates_follow_their_gradient():
    made, (scores, target) = criterion("role", k=2), draw()
    before, after = role_step(made, scores, target, [torch.arange(ROWS)])
    held = {"scores": scores.tolist(), "estimates": before.tolist()}
    step = 1e-5
    for row, column in ((0, 0), (3, 5), (9, int(target[9]))):
        sides = []
        for shift in (-step, step):
            moved = [list(line) for line in before.tolist()]
            moved[row][column] += shift
            sides.append(reference.role_loss(scores.tolist(), labels(target), moved, k=2, held=held))
        wanted = float(before[row, column]) - 50.0 * (sides[1] - sides[0]) / (2 * step)
        assert float(after[row, column]) == pytest.approx(wanted, abs=4e-3 * max(1, abs(wanted)))  # float16


def test_label_estimates_are_those_of_the_rows():
    made, (scores, target) = criterion("role", rows=30, k=2), draw()
    rows = torch.arange(ROWS) * 3
    loss = made(scores, target, rows, ROWS, ROWS)
    estimates = made.state.estimates.logits[rows].float().tolist()
    assert loss.item() == pytest.approx(reference.role_loss(scores.tolist(), labels(target), estimates, k=2), rel=1e-5)
    untouched = [row for row in range(30) if row % 3]
    assert not made.state.estimates.logits[untouched].any()


def test_label_estimates_of_every_micro_batch_move():
    made, (scores, target) = criterion("role", k=2), draw()
    parts = list(torch.arange(ROWS).split(4))
    before, after = role_step(made, scores, target, parts)
    assert (before != after).any(1).all()
    for rows in parts:  # each as if it were a step by itself, its loss weighted by its share
        alone = criterion("role", k=2)
        alone.state.estimates.logits.copy_(before.half())
        alone(scores[rows].clone().requires_grad_(), target[rows], rows, len(rows), ROWS).backward()
        alone.stepped(50.0)
        wanted = alone.state.estimates.logits[rows].float()
        torch.testing.assert_close(after[rows], wanted, rtol=2e-3, atol=2e-3)  # float16, rounded at random


def test_label_estimates_of_a_step_that_was_left_out_do_not_move():
    made, (scores, target) = criterion("role", rows=2 * ROWS, k=2), draw()
    rows = torch.arange(ROWS)
    for part in rows.split(5):
        made(torch.full_like(scores[part], torch.nan, requires_grad=True), target[part], part, len(part), ROWS).backward()
    made.skipped()
    before = made.state.estimates.logits.clone()
    for part in rows.split(5):
        made(scores[part].clone().requires_grad_(), target[part], part + ROWS, len(part), ROWS).backward()
    made.stepped(50.0)
    assert torch.equal(made.state.estimates.logits[:ROWS], before[:ROWS])
    assert made.state.estimates.logits.isfinite().all()


def test_label_estimates_stand_still_at_a_rate_of_zero():
    made, (scores, target) = criterion("role", k=2), draw()
    made(scores.requires_grad_(), target, torch.arange(ROWS), ROWS, ROWS).backward()
    before = made.state.estimates.logits.clone()
    made.stepped(0.0)
    assert torch.equal(made.state.estimates.logits, before)
    made(scores, target, torch.arange(ROWS), ROWS, ROWS).backward()
    made.stepped(50.0)
    assert not torch.equal(made.state.estimates.logits, before)


def test_seeds_start_label_estimates_differently():
    target, rows = torch.zeros(ROWS, dtype=torch.int64), torch.arange(ROWS)
    found = []
    for seed in (0, 0, 1):
        made = Criterion(Recipe("mine", "flora", method="role", seed=seed), COUNTS, ROWS)
        found.append(made.state.estimates(rows, target).detach())
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize("method", ["role", "quasibinary", "cross-entropy", "topk-hinge"])
def test_what_is_kept_beside_the_network_is_put_back(method):
    many = method == "quasibinary"
    (scores, target), (later, others) = draw(many), draw(many, seed=1)
    rows = torch.arange(ROWS)
    made = criterion(method)
    made(scores.clone().requires_grad_(), target, rows, ROWS, ROWS).backward()
    made.stepped(1.0)
    kept = {name: tensor.clone() for name, tensor in made.tensors().items()}
    again = criterion(method)
    again.restore(kept)

    def goes_on(one):
        own = later.clone().requires_grad_()
        loss = one(own, others, rows.flip(0), ROWS, ROWS)
        loss.backward()
        one.stepped(1.0)
        return loss, own.grad, one.tensors()

    (loss, gradient, tensors), (same, like, others_tensors) = goes_on(made), goes_on(again)
    assert torch.equal(loss, same)
    assert torch.equal(gradient, like)
    assert tensors.keys() == others_tensors.keys()
    assert all(torch.equal(tensors[name], others_tensors[name]) for name in tensors)


def test_before_the_first_step_there_is_nothing_to_keep_of_a_running_link():
    made = criterion("quasibinary")
    assert made.tensors() == {}
    made.restore({})
    assert made.link.log_normalizer is None
