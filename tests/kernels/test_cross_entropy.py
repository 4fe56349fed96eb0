"""Cross-entropy, focal loss and LDAM by the kernel, against the plain forms in float64 and the formulas."""

import importlib
import math

import pytest
import torch

from shortlist import losses
from shortlist.errors import InputError
from shortlist.kernels.cross_entropy import takes_cross_entropy
from shortlist.losses import single
from tests.kernels.rows import DTYPES, SHAPES, check_against_plain, hard_rows, labels_of, random_scores, value_and_gradient
from tests.references import losses as reference


def margins_of(scores):
    return torch.linspace(0.1, 0.5, scores.shape[1], device=scores.device)


LOSSES = {
    "cross-entropy": losses.cross_entropy_loss,
    "focal": losses.focal_loss,
    "focal, gamma 0.5": lambda s, t, **more: losses.focal_loss(s, t, gamma=0.5, **more),
    "focal, gamma 0": lambda s, t, **more: losses.focal_loss(s, t, gamma=0.0, **more),
    "LDAM": lambda s, t, **more: losses.ldam_loss(s, t, margins=margins_of(s), scale=5.0, **more),
}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


@every_loss
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_it_is_the_plain_form(loss, shape, dtype, device):
    scores, target = random_scores(*shape, device, dtype), labels_of(*shape, device)
    check_against_plain(lambda s: loss(s, target, reduction="none"), scores, rtol=3e-6, atol=1e-7)


def test_it_is_the_formula(device):
    row, labels = [2.4, 2.6, -2.3, 0.5], [1, 2]
    scores, target = torch.tensor([row, row], device=device), torch.tensor(labels, device=device)
    own = [[label] for label in labels]
    found = losses.cross_entropy_loss(scores, target, reduction="none")
    assert found.tolist() == pytest.approx(list(reference.cross_entropy_loss([row, row], own)), rel=3e-6)
    found = losses.focal_loss(scores, target, gamma=1.5, reduction="none")
    assert found.tolist() == pytest.approx(list(reference.focal_loss([row, row], own, gamma=1.5)), rel=3e-6)
    margins = [0.1, 0.2, 0.3, 0.4]
    found = losses.ldam_loss(scores, target, margins=torch.tensor(margins, device=device), scale=7.0, reduction="none")
    assert found.tolist() == pytest.approx(list(reference.ldam_loss([row, row], own, margins=margins, scale=7.0)), rel=3e-6)


@every_loss
def test_hard_rows(loss, device):
    scores = hard_rows(device)[[0, 1, 2, 3, 4, 5, 7, 9, 10, 11]]  # without losses that are infinite in float32
    for label in (0, 1, 11):
        target = torch.full((len(scores),), label, device=device)
        check_against_plain(lambda s, t=target: loss(s, t, reduction="none"), scores, rtol=1e-5, atol=1e-6)


def test_rows_that_are_almost_certain_keep_their_digits(device):
    """Where the label's probability is 1 to rounding, the loss is the odds of the others."""
    scores, target = torch.tensor([[60.0, 0.0, 1.0]], device=device), torch.tensor([0], device=device)
    value, gradient = value_and_gradient(lambda s: losses.cross_entropy_loss(s, target), scores, use="always")
    others = math.exp(-60) * (1 + math.e)
    assert value.item() == pytest.approx(others, rel=1e-5)
    expected = torch.tensor([-others, math.exp(-60), math.exp(-59)], device=device)
    torch.testing.assert_close(gradient[0], expected, rtol=1e-5, atol=0)
    value, gradient = value_and_gradient(lambda s: losses.focal_loss(s, target, gamma=0.5), scores, use="always")
    assert value.item() == pytest.approx(others**1.5, rel=1e-4, abs=1e-45)
    assert gradient.isfinite().all()


@every_loss
def test_masked_classes(loss, device):
    inf = math.inf
    rows = [[1.0, -inf, -inf], [1.0, 2.0, -inf], [-inf, 2.0, 1.0], [1.0, inf, 0.0], [inf, 1.0, 0.0], [-inf, -inf, -inf]]
    scores, target = torch.tensor(rows, device=device), torch.zeros(6, dtype=torch.long, device=device)
    check_against_plain(lambda s: loss(s, target[:2], reduction="none"), scores[:2])
    value, gradient = value_and_gradient(lambda s: loss(s, target, reduction="none"), scores, use="always")
    assert value[2] == inf
    assert gradient[2].isfinite().all()
    assert value[3:].isnan().all()


@every_loss
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_ignored_rows_are_0_whatever_they_hold(loss, value, device):
    scores, target = random_scores(4, 5, device), torch.tensor([1, -100, 2, -100], device=device)
    scores[1] = value
    scores[3, 2] = value
    for reduction in ("none", "sum", "mean"):
        check_against_plain(lambda s, r=reduction: loss(s, target, reduction=r), scores)
        _, gradient = value_and_gradient(lambda s, r=reduction: loss(s, target, reduction=r), scores, use="always")
        assert (gradient[1::2] == 0).all()


@every_loss
def test_nan_is_never_hidden(loss, device):
    scores, target = random_scores(4, 5, device), torch.tensor([0, 1, 2, 3], device=device)
    scores[2:, 3] = math.nan
    assert loss(scores, target, reduction="none").isnan().tolist() == [False, False, True, True]
    assert loss(scores, target).isnan()


@every_loss
def test_weights_and_reductions(loss, device):
    scores, target = random_scores(6, 5, device, torch.float16), torch.tensor([0, 1, 4, -100, 1, 2], device=device)
    weight = torch.tensor([1.0, 0.3, 0.0, 7.0, 2.0], device=device)
    for reduction in ("none", "sum", "mean"):
        for w in (None, weight.double()):
            check_against_plain(lambda s, r=reduction, w=w: loss(s, target, weight=w, reduction=r), scores)
    assert loss(scores, torch.full((6,), -100, device=device)).item() == 0
    with pytest.raises(InputError, match=r"weight: .*\(4,\)"):
        loss(scores, target, weight=weight[:4])


def test_margins_that_are_learned_keep_their_gradient(device):
    margins = torch.ones(5, device=device, requires_grad=True)
    assert not takes_cross_entropy(random_scores(3, 5, device), margins=margins)
    losses.ldam_loss(random_scores(3, 5, device), labels_of(3, 5, device), margins=margins).backward()
    assert margins.grad is not None
    assert margins.grad.any()


def test_several_labels_per_row_go_to_the_plain_form(device):
    scores, marks = random_scores(3, 5, device), torch.eye(3, 5, dtype=torch.bool, device=device)
    found = losses.cross_entropy_loss(scores, marks)
    torch.testing.assert_close(found, losses.cross_entropy_loss(scores, torch.arange(3, device=device)))


@every_loss
def test_any_stride_and_no_rows(loss, device):
    wide = random_scores(10, 21, device)
    for scores in (wide[::2, 3:10], wide.T, wide[:0], wide[:1]):
        target = labels_of(*scores.shape, device)
        for reduction in ("none", "mean"):
            check_against_plain(lambda s, t=target, r=reduction: loss(s, t, reduction=r), scores)


def test_the_operators_follow_the_rules_of_torch(device):
    scores, target = random_scores(3, 7, device), torch.tensor([1, -100, 6], device=device)
    numbers = torch.rand(7, device=device)
    importlib.import_module("shortlist.kernels.cross_entropy")  # registers its operators
    ops, checks = torch.ops.shortlist, ("test_schema", "test_faketensor")
    arguments = (scores, target, numbers, numbers, 2.0, 1.0, -100, "mean")
    torch.library.opcheck(ops.cross_entropy.default, arguments, test_utils=checks)
    _, kept, _, divisor = ops.cross_entropy(*arguments)
    arguments = (torch.ones((), device=device), scores, target, numbers, divisor, kept, 2.0)
    torch.library.opcheck(ops.cross_entropy_backward.default, arguments, test_utils=checks)


@every_loss
def test_it_is_compiled_without_a_break(loss, device):
    scores, target = random_scores(3, 7, device), torch.tensor([1, -100, 6], device=device)
    compiled = torch.compile(lambda s: loss(s, target), fullgraph=True, backend="aot_eager")
    found = value_and_gradient(compiled, scores, use="always")
    torch.testing.assert_close(found, value_and_gradient(lambda s: loss(s, target), scores, use="always"))


@every_loss
def test_the_plain_form_is_not_asked(loss, device, monkeypatch):
    monkeypatch.setattr(single, "_cross_entropy", None)
    loss(random_scores(3, 7, device), labels_of(3, 7, device))
    with pytest.raises(TypeError):
        loss(random_scores(3, 7, device).double(), labels_of(3, 7, device))


@every_loss
@pytest.mark.parametrize("classes", [1081, 8142, 43_000, 100_000])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_many_classes(loss, classes, dtype):
    scores, target = random_scores(64, classes, "cuda", dtype), labels_of(64, classes, "cuda")
    check_against_plain(lambda s: loss(s, target, reduction="none"), scores, atol=1e-7)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_recorded_graph_gives_the_same_again():
    scores, target = random_scores(32, 1081, "cuda").requires_grad_(), labels_of(32, 1081, "cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        expected = torch.autograd.grad(losses.focal_loss(scores, target), scores)[0]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (gradient,) = torch.autograd.grad(losses.focal_loss(scores, target), scores)
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
    value, gradient = value_and_gradient(lambda s: losses.cross_entropy_loss(s, target, reduction="none"), scores, use="always")
    assert value[-1].item() == pytest.approx(math.log(classes - 1 + math.exp(3)), rel=1e-5)
    assert (gradient[-1, 7] / gradient[-1, 8]).item() == pytest.approx(math.exp(3), rel=1e-2)
