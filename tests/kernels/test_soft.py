"""The soft k-th largest and its hinge by kernels, against the plain form in float64 and a plain root finder."""

import importlib
import math
import sys

import pytest
import torch

from shortlist import losses
from shortlist.errors import InputError
from shortlist.operators import soft_top_value
from tests.kernels.rows import DTYPES, SHAPES, check_against_plain, hard_rows, labels_of, random_scores, value_and_gradient
from tests.references import operators as reference

both_laws = pytest.mark.parametrize("noise", ["normal", "logistic"])


def hinge(scores, target, *, k=1, epsilon=1.0, **keywords):
    return losses.noised_topk_hinge_loss(scores, target, k=k, epsilon=epsilon, smoothing="soft", **keywords)


@both_laws
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_level_is_that_of_the_plain_form(noise, shape, epsilon, device):
    scores = random_scores(*shape, device)
    for k in {1, min(5, shape[1]), min(99, shape[1])}:
        check_against_plain(lambda s, k=k: soft_top_value(s, k, epsilon, noise=noise), scores)


@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_hinge_is_that_of_the_plain_form(shape, dtype, device):
    scores, target = random_scores(*shape, device, dtype), labels_of(*shape, device)
    k = min(5, shape[1] - 1)
    check_against_plain(lambda s: hinge(s, target, k=k, epsilon=0.5, scale=3.0, margin=0.7, reduction="none"), scores)


@both_laws
def test_the_level_is_that_of_a_plain_root_finder(noise, device):
    row = [2.4, 2.6, 2.3, 0.5, -1.0, 7.0]
    for k in (1, 2, 6):
        value, gradient = reference.soft_top(row, k, 0.3, noise)
        leaf = torch.tensor([row], device=device, requires_grad=True)
        found = soft_top_value(leaf, k, 0.3, noise=noise)
        found.sum().backward()
        assert found.item() == pytest.approx(value, abs=2e-6)
        assert leaf.grad[0].tolist() == pytest.approx(list(gradient), abs=1e-5)


@both_laws
@pytest.mark.parametrize("k", [1, 3, 9])
def test_hard_rows(noise, k, device):
    """Where scores and noise differ by a factor of 1e4, rounding of the level costs the gradient digits in any form."""
    scores = hard_rows(device)
    check_against_plain(lambda s: soft_top_value(s, k, 1.0, noise=noise), scores[:3])
    check_against_plain(lambda s: soft_top_value(s, k, 1.0, noise=noise), scores[5:])
    value, gradient = value_and_gradient(lambda s: soft_top_value(s, k, 1.0, noise=noise), scores[3:5], use="always")
    expected, slope = value_and_gradient(lambda s: soft_top_value(s, k, 1.0, noise=noise), scores[3:5], use="never")
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(gradient, slope, rtol=1e-3, atol=1e-3)


@both_laws
@pytest.mark.parametrize("epsilon", [0.02, 1.0])
def test_scores_far_from_normal(noise, epsilon, device):
    """Where the guess from mean and variance is far off: a long tail above, and masked classes below."""
    scores = random_scores(2, 600, device).exp()
    scores[1, ::2] = -1e9
    for k in (1, 5, 200):
        check_against_plain(lambda s, k=k: soft_top_value(s, k, epsilon, noise=noise), scores, rtol=3e-5, atol=3e-5)


@both_laws
def test_noise_that_is_lost_beside_the_scores(noise, device):
    """The level is one of the scores, to rounding, and the gradient is finite and sums to 1."""
    scores = torch.tensor([[1e30, -1e30, 3e38, 0.0, 1.0]], device=device)
    for k, expected in ((1, 3e38), (2, 1e30), (3, 1.0), (5, -1e30)):
        leaf = scores.clone().requires_grad_()
        found = soft_top_value(leaf, k, 0.1, noise=noise)
        found.sum().backward()
        assert found.item() == pytest.approx(expected, rel=1e-6, abs=1.0)
        assert leaf.grad.sum().item() == pytest.approx(1, abs=1e-5)


def test_rows_with_fewer_than_k_classes_have_no_level_and_no_gradient(device):
    scores = torch.tensor([[-math.inf, 1.0, -math.inf, 2.0], [math.inf, math.inf, 1.0, 0.0]], device=device, requires_grad=True)
    found = soft_top_value(scores, 3)
    found[0].backward()
    assert found[0].item() == -math.inf
    assert found[1].isfinite()
    assert (scores.grad == 0).all()
    assert soft_top_value(scores, 1)[1].item() == math.inf


def test_a_true_class_that_is_ruled_out_costs_infinitely_much(device):
    scores = torch.tensor([[-math.inf, 0.0, 1.0], [-math.inf, -math.inf, 1.0], [0.0, -math.inf, -math.inf]], device=device)
    assert hinge(scores, torch.zeros(3, dtype=torch.long, device=device), reduction="none").tolist() == [math.inf, math.inf, 0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_ignored_rows_are_0_whatever_they_hold(value, device):
    scores, target = random_scores(4, 5, device), torch.tensor([1, -100, 2, -100], device=device)
    scores[1] = value
    scores[3, 2] = value
    for reduction in ("none", "sum", "mean"):
        found, gradient = value_and_gradient(lambda s, r=reduction: hinge(s, target, reduction=r), scores, use="always")
        expected, slope = value_and_gradient(lambda s, r=reduction: hinge(s, target, reduction=r), scores, use="never")
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(gradient, slope)
        assert (gradient[1::2] == 0).all()


def test_nan_is_never_hidden(device):
    scores = random_scores(4, 5, device)
    scores[2, 3] = math.nan
    assert hinge(scores, labels_of(4, 5, device), margin=0.0, reduction="none").isnan().tolist() == [False, False, True, False]
    assert soft_top_value(scores, 2).isnan().tolist() == [False, False, True, False]


def test_closed_hinges_have_no_gradient(device):
    scores = torch.tensor([[9.0, 0.0, 1.0], [0.0, 9.0, 1.0]], device=device)
    value, gradient = value_and_gradient(
        lambda s: hinge(s, torch.zeros(2, dtype=torch.long, device=device)).sum(), scores, use="always"
    )
    assert value > 0
    assert (gradient[0] == 0).all()
    assert (gradient[1] != 0).all()


def test_margins_weights_and_reductions(device):
    scores, target = random_scores(6, 5, device, torch.float16), torch.tensor([0, 1, 4, -100, 1, 2], device=device)
    weight, margin = torch.tensor([1.0, 0.3, 0.0, 7.0, 2.0], device=device), torch.linspace(0.1, 3, 5, device=device)
    for reduction in ("none", "sum", "mean"):
        check_against_plain(lambda s, r=reduction: hinge(s, target, k=2, weight=weight, margin=margin, reduction=r), scores)
    check_against_plain(lambda s: hinge(s, target, k=2, margin=torch.tensor(0.4, device=device), reduction="none"), scores)
    with pytest.raises(InputError, match=r"margin: .*\(4,\)"):
        hinge(scores, target, margin=margin[:4])
    with pytest.raises(InputError, match="noise: .*'soft'"):
        hinge(scores, target, noise=torch.zeros(5, 6, 5, device=device))
    with pytest.raises(InputError, match="k: .*got 5"):
        hinge(scores, target, k=5)


def test_a_margin_that_is_learned_keeps_its_gradient(device):
    margin = torch.ones(5, device=device, requires_grad=True)
    hinge(random_scores(3, 5, device), labels_of(3, 5, device), margin=margin).backward()
    assert margin.grad is not None
    assert margin.grad.any()


def test_any_stride_and_no_rows(device):
    wide = random_scores(10, 21, device)
    for scores in (wide[::2, 3:10], wide.T, wide[:0], wide[:1]):
        check_against_plain(lambda s: soft_top_value(s, 2, 0.4), scores)
        target = labels_of(*scores.shape, device)
        check_against_plain(lambda s, t=target: hinge(s, t, k=2, reduction="none"), scores)


def test_the_operators_follow_the_rules_of_torch(device):
    scores, target = random_scores(3, 7, device), torch.tensor([1, -100, 6], device=device)
    numbers = torch.rand(7, device=device)
    importlib.import_module("shortlist.kernels.soft")  # registers its operators
    ops, checks = torch.ops.shortlist, ("test_schema", "test_faketensor")
    arguments = (scores, target, numbers, numbers, 2.5, 1.0, "normal", 0.0, 1.0, -100)
    torch.library.opcheck(ops.soft_rows.default, arguments, test_utils=checks)
    gradient = torch.ones((), device=device).expand(3)
    torch.library.opcheck(
        ops.soft_rows_backward.default, (gradient, scores, target, ops.soft_rows(*arguments), 1.0, "normal"), test_utils=checks
    )


def test_it_is_compiled_without_a_break(device):
    scores, target = random_scores(3, 7, device), torch.tensor([1, -100, 6], device=device)
    compiled = torch.compile(lambda s: hinge(s, target), fullgraph=True, backend="aot_eager")
    found = value_and_gradient(compiled, scores, use="always")
    torch.testing.assert_close(found, value_and_gradient(lambda s: hinge(s, target), scores, use="always"))


def test_the_plain_form_is_not_asked(device, monkeypatch):
    monkeypatch.setattr(sys.modules["shortlist.operators.soft"], "solve_level", None)
    hinge(random_scores(3, 7, device), labels_of(3, 7, device))
    with pytest.raises(TypeError):
        hinge(random_scores(3, 7, device).double(), labels_of(3, 7, device))


@pytest.mark.parametrize("classes", [1081, 8142, 43_000, 100_000])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_many_classes(classes, dtype):
    scores, target = random_scores(64, classes, "cuda", dtype), labels_of(64, classes, "cuda")
    for k in (1, 5, 50):
        check_against_plain(lambda s, k=k: hinge(s, target, k=k, epsilon=0.3, reduction="none"), scores, rtol=1e-4)
        check_against_plain(lambda s, k=k: soft_top_value(s, k, noise="logistic"), scores, rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_recorded_graph_gives_the_loss_of_new_scores():
    scores, target = random_scores(64, 1000, "cuda").requires_grad_(), labels_of(64, 1000, "cuda")
    for _ in range(2):
        hinge(scores, target).backward()
    scores.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value = hinge(scores, target)
        value.backward()
    with torch.no_grad():
        scores.copy_(3 * scores.flip(0))
    graph.replay()
    expected, _ = value_and_gradient(lambda s: hinge(s, target), scores, use="never", dtype=torch.float64)
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)


@both_laws
@pytest.mark.parametrize(("offset", "epsilon"), [(0.0, 0.01), (1e3, 0.01), (1e4, 0.2), (1e5, 1.0), (-3e4, 0.2)])
def test_the_gradient_keeps_its_digits_beside_a_large_common_number(noise, offset, epsilon, device):
    """The weights were taken at the rounded level, and divided by their sum at the exact one: together they made 1.0009."""
    scores = random_scores(4, 50, device, scale=3 * epsilon) + offset

    def level(scores):
        return soft_top_value(scores, 5, epsilon, noise=noise)

    _, gradient = value_and_gradient(level, scores, use="always")
    _, expected = value_and_gradient(level, scores, use="never", dtype=torch.float64)
    torch.testing.assert_close(gradient.double(), expected, rtol=3e-5, atol=3e-6)
    torch.testing.assert_close(gradient.double().sum(1), expected.sum(1), rtol=3e-6, atol=1e-6)
