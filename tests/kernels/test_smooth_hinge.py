"""The smooth top-k hinge by the kernel, against the plain form in float64 and the sum over all sets."""

import importlib
import math
import sys

import pytest
import torch

from shortlist import losses
from shortlist.errors import InputError
from shortlist.kernels.smooth_hinge import POINTS, takes_smooth_hinge
from tests.kernels.rows import DTYPES, SHAPES, check_against_plain, hard_rows, labels_of, random_scores, value_and_gradient
from tests.references import losses as reference


def hinge(scores, target, *, k=2, reduction="none", **keywords):
    return losses.smooth_topk_hinge_loss(scores, target, k=k, reduction=reduction, **keywords)


@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_it_is_the_plain_form(shape, dtype, device):
    scores, target = random_scores(*shape, device, dtype), labels_of(*shape, device)
    for k in {1, min(5, shape[1] - 1)}:
        check_against_plain(lambda s, k=k: hinge(s, target, k=k), scores, rtol=3e-6, atol=1e-7)


@pytest.mark.parametrize("k", [1, 2, 10, 11, 30, 31, 75])
@pytest.mark.parametrize("temperature", [0.01, 1.0])
def test_every_k_and_both_kinds_of_odds(k, temperature, device):
    """At temperature 1 all odds are small; at 0.01 those of many classes are not, and the k-th largest stand alone."""
    scores, target = random_scores(2, 150, device), labels_of(2, 150, device)
    check_against_plain(lambda s: hinge(s, target, k=k, temperature=temperature), scores, rtol=1e-6 * (3 + k), atol=1e-7)


@pytest.mark.parametrize("k", [1, 3, 5])
def test_it_is_the_sum_over_all_sets(k, device):
    row = [2.4, 2.6, -2.3, 0.5, -1.0, 7.0]
    for label in (0, 2, 5):
        expected = reference.smooth_topk_hinge_loss([row], [[label]], k=k, temperature=0.7)
        found = hinge(torch.tensor([row], device=device), torch.tensor([label], device=device), k=k, temperature=0.7)
        assert found.tolist() == pytest.approx(list(expected), rel=1e-6)


@pytest.mark.parametrize("k", [1, 9])
@pytest.mark.parametrize("temperature", [1e-20, 1e-3, 1.0])
def test_hard_rows(k, temperature, device):
    scores = hard_rows(device)
    scores = torch.cat([scores[:8], scores[9:]])  # ties at -3e38 are beyond float64 in the plain form
    for label in (0, 11):
        target = torch.full((len(scores),), label, device=device)
        check_against_plain(lambda s, t=target: hinge(s, t, k=k, temperature=temperature), scores, rtol=1e-4)


def test_ties_of_any_size_are_ties(device):
    """Of 11 equal rivals, e_k / e_{k-1} = (11 - k + 1) / k, however large a number they share."""
    for size in (0.0, 1e9, -3e38, 3e38):
        scores, target = torch.full((1, 12), size, device=device), torch.zeros(1, dtype=torch.long, device=device)
        for k in (1, 4, 11):
            value, gradient = value_and_gradient(lambda s, t=target, k=k: hinge(s, t, k=k), scores, use="always")
            argument = 1 + math.log((12 - k) / k)
            assert value.item() == pytest.approx(math.log1p(math.exp(argument)), rel=1e-6)
            slope = 1 / (1 + math.exp(-argument)) / k
            torch.testing.assert_close(gradient[0].tolist(), [-slope, *[slope / 11] * 11], rtol=1e-5, atol=1e-8)


def test_relative_precision_of_small_gradients(device):
    """Of classes far above and far below the level, whose derivatives a difference of probabilities would lose."""
    scores = torch.tensor([[0.0, 40.0, 30.0, 1.0, 0.5, 0.0, -20.0, -30.0, -40.0]], device=device)
    target = torch.tensor([0], device=device)
    _, gradient = value_and_gradient(lambda s: hinge(s, target, k=3, temperature=0.5), scores, use="always")
    _, expected = value_and_gradient(lambda s: hinge(s, target, k=3, temperature=0.5), scores, use="never", dtype=torch.float64)
    assert 0 < gradient[0, 1] < 1e-9
    torch.testing.assert_close(gradient.double()[:, 3:], expected[:, 3:], rtol=3e-6, atol=0)
    # exp(-|z|) of the classes above, from the level of the others
    torch.testing.assert_close(
        gradient[0, 1] / gradient[0, 2], torch.tensor(math.exp(-10 / 1.5), device=device), rtol=1e-4, atol=0
    )


def test_masked_classes(device):
    inf = math.inf
    rows = [
        [1.0, -inf, -inf, -inf],
        [1.0, 2.0, -inf, -inf],
        [-inf, 2.0, 1.0, -inf],
        [-inf, 2.0, -inf, -inf],
        [1.0, 2.0, 3.0, -inf],
    ]
    scores, target = torch.tensor(rows, device=device), torch.zeros(5, dtype=torch.long, device=device)
    value, gradient = value_and_gradient(lambda s: hinge(s, target, k=2), scores, use="always")
    expected, slope = value_and_gradient(lambda s: hinge(s, target, k=2), scores, use="never", dtype=torch.float64)
    assert expected.tolist()[:4] == [0, 0, inf, inf]
    torch.testing.assert_close(value.double(), expected, rtol=1e-6, atol=0)
    assert gradient.isfinite().all()
    torch.testing.assert_close(gradient[[0, 1, 4]].double(), slope[[0, 1, 4]], rtol=1e-6, atol=1e-9)


def test_rivals_at_infinity(device):
    scores = torch.tensor([[0.0, math.inf, 1.0, 2.0, 0.5], [0.0, math.inf, math.inf, 2.0, 0.5]], device=device)
    target = torch.zeros(2, dtype=torch.long, device=device)
    value, gradient = value_and_gradient(lambda s: hinge(s, target, k=2), scores, use="always")
    # One of two events is certain: what is left is e_1 of the others, over e_0.
    rest = math.log(sum(math.exp(x / 2) for x in (1.0, 2.0, 0.5)))
    assert value.tolist() == pytest.approx([math.log1p(math.exp(1 + rest)), math.inf])
    assert gradient[0].isfinite().all()
    assert gradient[0, 1] == 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_ignored_rows_are_0_whatever_they_hold(value, device):
    scores, target = random_scores(4, 5, device), torch.tensor([1, -100, 2, -100], device=device)
    scores[1] = value
    scores[3, 2] = value
    for reduction in ("none", "sum", "mean"):
        check_against_plain(lambda s, r=reduction: hinge(s, target, reduction=r), scores)
        _, gradient = value_and_gradient(lambda s, r=reduction: hinge(s, target, reduction=r), scores, use="always")
        assert (gradient[1::2] == 0).all()


def test_nan_is_never_hidden(device):
    scores = random_scores(4, 5, device)
    scores[2, 3] = math.nan
    scores[3, 3] = math.nan
    target = torch.tensor([0, 1, 2, 3], device=device)
    assert hinge(scores, target).isnan().tolist() == [False, False, True, True]
    assert hinge(scores, target, reduction="mean").isnan()


def test_weights_and_reductions(device):
    scores, target = random_scores(6, 5, device, torch.float16), torch.tensor([0, 1, 4, -100, 1, 2], device=device)
    weight = torch.tensor([1.0, 0.3, 0.0, 7.0, 2.0], device=device)
    for reduction in ("none", "sum", "mean"):
        for w in (None, weight, weight.double()):
            check_against_plain(lambda s, r=reduction, w=w: hinge(s, target, weight=w, reduction=r), scores)
    assert hinge(scores, torch.full((6,), -100, device=device), reduction="mean").item() == 0
    with pytest.raises(InputError, match=r"weight: .*\(4,\)"):
        hinge(scores, target, weight=weight[:4])
    with pytest.raises(InputError, match="k: .*got 6"):
        hinge(scores, target, k=6)


def test_what_it_does_not_take_goes_to_the_plain_form(device):
    scores = random_scores(2, 200, device)
    assert takes_smooth_hinge(scores, max(POINTS), 1.0)
    assert not takes_smooth_hinge(scores, max(POINTS) + 1, 1.0)
    assert not takes_smooth_hinge(scores, 1, 1e-31)
    assert not takes_smooth_hinge(scores, 10, 1e30)
    assert not takes_smooth_hinge(scores.double(), 1, 1.0)
    check_against_plain(lambda s: hinge(s, labels_of(2, 200, device), k=120), scores, rtol=1e-4)
    assert (hinge(scores, labels_of(2, 200, device), k=200) == 0).all()


def test_any_stride_and_no_rows(device):
    wide = random_scores(10, 21, device)
    for scores in (wide[::2, 3:10], wide.T, wide[:0], wide[:1]):
        target = labels_of(*scores.shape, device)
        for reduction in ("none", "mean"):
            check_against_plain(lambda s, t=target, r=reduction: hinge(s, t, reduction=r), scores)


def test_the_operators_follow_the_rules_of_torch(device):
    scores, target = random_scores(3, 7, device), torch.tensor([1, -100, 6], device=device)
    weight = torch.rand(7, device=device)
    importlib.import_module("shortlist.kernels.smooth_hinge")  # registers its operators
    ops, checks = torch.ops.shortlist, ("test_schema", "test_faketensor")
    arguments = (scores, target, weight, 2, 1.0, -100, "mean")
    torch.library.opcheck(ops.smooth_hinge.default, arguments, test_utils=checks)
    _, kept, probs, _, divisor = ops.smooth_hinge(*arguments)
    arguments = (torch.ones((), device=device), scores, target, weight, divisor, kept, probs, 2, 1.0)
    torch.library.opcheck(ops.smooth_hinge_backward.default, arguments, test_utils=checks)


def test_it_is_compiled_without_a_break(device):
    scores, target = random_scores(3, 7, device), torch.tensor([1, -100, 6], device=device)
    compiled = torch.compile(lambda s: hinge(s, target, reduction="mean"), fullgraph=True, backend="aot_eager")
    found = value_and_gradient(compiled, scores, use="always")
    torch.testing.assert_close(found, value_and_gradient(lambda s: hinge(s, target, reduction="mean"), scores, use="always"))


def test_the_plain_form_is_not_asked(device, monkeypatch):
    monkeypatch.setattr(sys.modules["shortlist.losses.smooth_hinge"], "solve_level", None)
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
        for temperature in (0.02, 1.0):
            check_against_plain(
                lambda s, k=k, t=temperature: hinge(s, target, k=k, temperature=t), scores, rtol=1e-4, atol=1e-7
            )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_recorded_graph_gives_the_same_again():
    scores, target = random_scores(32, 1081, "cuda").requires_grad_(), labels_of(32, 1081, "cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        expected = torch.autograd.grad(hinge(scores, target, k=5, reduction="mean"), scores)[0]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (gradient,) = torch.autograd.grad(hinge(scores, target, k=5, reduction="mean"), scores)
    for _ in range(3):
        gradient.zero_()
        graph.replay()
        torch.testing.assert_close(gradient, expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_offsets_beyond_31_bits():
    rows, classes = 22_000, 100_000
    scores = torch.zeros(rows, classes, device="cuda", dtype=torch.bfloat16)
    scores[-1, 7] = 3.0
    target = torch.zeros(rows, dtype=torch.long, device="cuda")
    value, gradient = value_and_gradient(lambda s: hinge(s, target, k=1), scores, use="always")
    expected, slope = value_and_gradient(lambda s: hinge(s, target[-2:], k=1), scores[-2:], use="always")
    torch.testing.assert_close(value[-2:], expected)
    torch.testing.assert_close(gradient[-1, :20] / gradient[-1, 7], slope[-1, :20] / slope[-1, 7])
