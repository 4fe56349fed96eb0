"""A linear head and its loss together: the same as the loss of its scores, whatever the number of rows at once."""

import pytest
import torch
from torch.nn.functional import linear

from shortlist import losses
from shortlist.errors import InputError
from shortlist.kernels import use_kernels
from shortlist.losses import loss_of_linear, supports_linear
from shortlist.losses.head_gradients import SUMMED_AT_ONCE, ChunkedHead
from shortlist.losses.linear import _chunks
from tests.losses.cases import CASES, CLASSES, COUPLED, IGNORING, draw

FEATURES = 4
BY_ROWS = [case for case in CASES if not case.coupled and not case.per_call]
AVERAGE_K = [case for case in CASES if case.name == "average_k_loss"]


def head(seed=0, dtype=torch.float64, classes=CLASSES, features=FEATURES):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(classes, features, generator=generator, dtype=torch.float64)
    bias = torch.randn(classes, generator=generator, dtype=torch.float64)
    return weight.to(dtype).requires_grad_(), bias.to(dtype).requires_grad_()


def features(rows, seed=1, dtype=torch.float64, width=FEATURES):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, width, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


def compared(loss, inputs, weight, bias, target, rows_at_once, upstream=1.0):
    """Value and gradients of both forms, after checking that nothing but the rounding differs."""
    two = isinstance(weight, tuple)
    leaves = [inputs, *weight, *bias] if two else [inputs, weight, bias]
    leaves = [leaf for leaf in leaves if leaf is not None]
    scores = [linear(inputs, w, b) for w, b in zip(weight, bias, strict=True)] if two else linear(inputs, weight, bias)
    plain = loss(tuple(scores) if two else scores, target)
    found = loss_of_linear(loss, inputs, weight, bias, target, rows_at_once=rows_at_once)
    assert found.dtype == plain.dtype
    torch.testing.assert_close(found, plain, rtol=1e-12, atol=1e-12)
    gradient = upstream * torch.linspace(0.5, 1.5, plain.numel(), dtype=plain.dtype).reshape(plain.shape)
    expected = torch.autograd.grad(plain, leaves, gradient)
    for mine, theirs, leaf in zip(torch.autograd.grad(found, leaves, gradient), expected, leaves, strict=True):
        assert mine.dtype == leaf.dtype
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("case", BY_ROWS, ids=str)
def test_like_the_loss_of_the_scores(case, reduction):
    batch = draw(case, rows=7)
    loss = case.module(batch, reduction=reduction)
    assert supports_linear(loss)
    compared(loss, features(7), *head(), batch.target, rows_at_once=3, upstream=0.7)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("case", [case for case in BY_ROWS if case.name in IGNORING and case.takes == "one"], ids=str)
def test_weights_and_ignored_rows(case, reduction):
    batch = draw(case, rows=7)
    weight = torch.tensor([0.0, 0.5, 2.0, 1.0, 3.0])
    batch.target[[0, 5]] = -1
    loss = case.module(batch, reduction=reduction, weight=weight, ignore_index=-1)
    compared(loss, features(7), *head(), batch.target, rows_at_once=2)
    batch.target[:] = -1
    compared(loss, features(7), *head(), batch.target, rows_at_once=2)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("rows_at_once", [1, 3, 100])
@pytest.mark.parametrize("case", AVERAGE_K, ids=str)
def test_average_k(case, rows_at_once, reduction):
    batch = draw(case, rows=8)
    loss = case.module(batch, reduction=reduction)
    (label, label_bias), (proposal, proposal_bias) = head(0), head(2)
    compared(loss, features(8), (label, proposal), (label_bias, proposal_bias), batch.target, rows_at_once)
    batch.target[[1, 7]] = -100
    compared(loss, features(8), (label, proposal), (None, proposal_bias), batch.target, rows_at_once)


@pytest.mark.parametrize("kernels", ["never", "always"])
@pytest.mark.parametrize("rows_at_once", [2, 3, 10])
def test_average_k_chooses_the_same_of_equal_probabilities(kernels, rows_at_once):
    device = "cuda" if torch.cuda.is_available() else "cpu"  # without a GPU kernels are interpreted
    # With small whole numbers most probabilities tie, within rows and across them.
    inputs = torch.tensor([[1.0], [1.0], [0.0], [1.0], [0.0], [-1.0], [1.0]], device=device, requires_grad=True)
    labels = head(0, torch.float32, 6, 1)[0].detach().to(device).requires_grad_()
    proposals = torch.tensor([[1.0], [1.0], [0.0], [1.0], [0.0], [0.0]], device=device)
    target = torch.tensor([0, 5, 3, 3, -100, 1, 2], device=device)
    leaves = [inputs, labels]
    for k in (1.5, 2, 3.3, 6):
        loss = losses.AverageKLoss(k=k)
        with use_kernels(kernels):
            found = loss_of_linear(loss, inputs, (labels, proposals), None, target, rows_at_once=rows_at_once)
        expected = loss((linear(inputs, labels), linear(inputs, proposals)), target)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        pairs = zip(torch.autograd.grad(found, leaves), torch.autograd.grad(expected, leaves), strict=True)
        for mine, theirs in pairs:
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "loss",
    [
        losses.CrossEntropyLoss(),
        losses.NoisedTopkHingeLoss(k=2, smoothing="soft"),
        losses.SpaLoss(),
        losses.CrossEntropyLoss(reduction="none"),
    ],
    ids=str,
)
def test_gradcheck(loss):
    target = torch.tensor([1, 0, 4, 2, 2])
    weight, bias = head()
    assert torch.autograd.gradcheck(
        lambda x, w, b: loss_of_linear(loss, x, w, b, target, rows_at_once=2), (features(5), weight, bias)
    )


def test_gradcheck_of_average_k():
    (labels, bias), (proposals, _) = head(0), head(2)
    proposals = proposals.detach()  # the cut is a constant for the gradient, so it must not move
    loss, target = losses.AverageKLoss(k=2), torch.tensor([1, 0, 4, 2, 2])

    def value(labels, bias):
        return loss_of_linear(loss, features(5).detach(), (labels, proposals), (bias, None), target, rows_at_once=2)

    assert torch.autograd.gradcheck(value, (labels, bias))


PENALISED = [
    losses.PenalisedLoss(losses.SpaLoss(), losses.LabelPairPenalty(), weight=0.5),
    losses.PenalisedLoss(losses.BinaryCrossEntropyLoss(reduction="sum"), losses.LabelPairPenalty(), weight=0.5),
    losses.PenalisedLoss(losses.CrossEntropyLoss(), losses.UniformOutlierLoss(), weight=0.3),
    losses.PenalisedLoss(losses.CrossEntropyLoss(), losses.ConfidenceOutlierLoss()),
]


@pytest.mark.parametrize("loss", PENALISED, ids=str)
def test_a_loss_and_its_penalty(loss):
    several = torch.rand(9, CLASSES, generator=torch.Generator().manual_seed(3)) < 0.3
    several[4] = False
    compared(loss, features(9), *head(), several, rows_at_once=4)
    compared(loss, features(9), *head(), torch.arange(9) % CLASSES, rows_at_once=4)
    compared(loss, features(9), *head(), torch.zeros(9, CLASSES, dtype=torch.bool), rows_at_once=4)


def test_two_means_leave_out_ignored_and_weighted_rows():
    loss = losses.PenalisedLoss(losses.CrossEntropyLoss(weight=torch.rand(CLASSES)), losses.UniformOutlierLoss())
    target = torch.tensor([1, 0, -100, 2, 4])
    compared(loss, features(5), *head(), target, rows_at_once=2)


@pytest.mark.parametrize("name", sorted(COUPLED - {"average_k_loss"}))
def test_losses_that_couple_rows_are_refused(name):
    case = next(case for case in CASES if case.name == name)
    loss = case.module(draw(case))
    assert not supports_linear(loss)
    with pytest.raises(InputError, match=f"loss: .*got {type(loss).__name__}"):
        loss_of_linear(loss, features(2), *head(), torch.tensor([0, 1]))


def test_a_penalty_on_a_loss_that_couples_rows_is_refused():
    loss = losses.PenalisedLoss(losses.TwoWayLoss(), losses.LabelPairPenalty())
    assert not supports_linear(loss)


def test_wrong_arguments():
    loss, pair, target = losses.CrossEntropyLoss(), losses.AverageKLoss(k=2), torch.tensor([0, 1])
    weight, bias = head()
    with pytest.raises(InputError, match="weight: expected a pair.*got 1 and 1"):
        loss_of_linear(pair, features(2), weight, bias, target)
    with pytest.raises(InputError, match="weight: expected one tensor.*got 2 and 2"):
        loss_of_linear(loss, features(2), (weight, weight), (bias, bias), target)
    with pytest.raises(InputError, match=r"weight: expected floating point \(C, 4\), got float64 \(4, 5\)"):
        loss_of_linear(loss, features(2), weight.T, bias, target)
    with pytest.raises(InputError, match=r"bias: expected floating point \(5,\), got float64 \(4,\)"):
        loss_of_linear(loss, features(2), weight, bias[1:], target)
    with pytest.raises(InputError, match=r"inputs: .*got float64 \(4,\)"):
        loss_of_linear(loss, features(2)[0], weight, bias, target)
    with pytest.raises(InputError, match="weight: expected the dtype of inputs, torch.float64, got torch.float32"):
        loss_of_linear(loss, features(2), weight.float(), bias, target)
    with pytest.raises(InputError, match="target: expected one label for each of the 2 rows.*got 3"):
        loss_of_linear(loss, features(2), weight, bias, torch.tensor([0, 1, 2]))
    with pytest.raises(InputError, match="rows_at_once: .*got 0"):
        loss_of_linear(loss, features(2), weight, bias, target, rows_at_once=0)
    with pytest.raises(InputError, match="k: .*got 6"):
        loss_of_linear(losses.AverageKLoss(k=6), features(2), (weight, weight), (bias, bias), target)


@pytest.mark.parametrize("loss", [losses.CrossEntropyLoss(), losses.SpaLoss(), losses.AverageKLoss(k=2)], ids=str)
def test_an_empty_batch(loss):
    two = isinstance(loss, losses.AverageKLoss)
    weight, bias = head()
    inputs, target = features(0), torch.zeros(0, dtype=torch.int64)
    value = loss_of_linear(loss, inputs, (weight, weight) if two else weight, (bias, bias) if two else bias, target)
    value.backward()
    assert value == 0
    assert inputs.grad.shape == (0, FEATURES)
    assert (weight.grad == 0).all()
    assert (bias.grad == 0).all()


def test_only_the_gradients_that_are_wanted_and_none_without_grad():
    weight, bias = head()
    loss, target = losses.CrossEntropyLoss(), torch.tensor([0, 1, 2])
    value = loss_of_linear(loss, features(3).detach(), weight, bias.detach(), target)
    value.backward()
    assert weight.grad is not None
    assert bias.grad is None
    with torch.no_grad():
        assert not loss_of_linear(loss, features(3), weight, bias, target).requires_grad
    assert not loss_of_linear(loss, features(3).detach(), weight.detach(), None, target).requires_grad


def test_backward_can_run_twice():
    weight, bias = head()
    value = loss_of_linear(losses.CrossEntropyLoss(), features(3), weight, bias, torch.tensor([0, 1, 2]), rows_at_once=2)
    first = torch.autograd.grad(value, weight, retain_graph=True)[0]
    torch.testing.assert_close(torch.autograd.grad(3 * value, weight)[0], 3 * first)


@pytest.mark.parametrize("loss", [losses.CrossEntropyLoss(), losses.SpaLoss(), losses.AverageKLoss(k=3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(loss, dtype):
    two = isinstance(loss, losses.AverageKLoss)
    rows, classes, width = 96, 40, 16
    inputs, target = features(rows, 1, torch.float32, width), torch.arange(rows) % classes
    one, other = head(0, torch.float32, classes, width), head(2, torch.float32, classes, width)
    leaves = [inputs, *one, *(other if two else ())]
    with torch.autocast("cpu", dtype):
        scores = (linear(inputs, *one), linear(inputs, *other)) if two else linear(inputs, *one)
        expected = loss(scores, target)
        weights, biases = zip(one, other, strict=True) if two else one
        found = loss_of_linear(loss, inputs, weights, biases, target, rows_at_once=32)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    pairs = zip(torch.autograd.grad(found, leaves), torch.autograd.grad(expected, leaves), strict=True)
    for mine, theirs in pairs:
        assert mine.dtype == torch.float32
        assert (mine - theirs).norm() < 0.02 * theirs.norm()


def test_small_gradients_survive_float16():
    # A row counts 1/4096, and each of the classes a fraction of that: below the least number of float16.
    rows, classes, width = 64, 50, 8
    inputs, target = features(rows, 1, torch.float32, width), torch.arange(rows) % classes
    weight, bias = head(0, torch.float32, classes, width)
    exact = loss_of_linear(losses.CrossEntropyLoss(), inputs, weight, bias, target)
    with torch.autocast("cpu", torch.float16):
        value = loss_of_linear(losses.CrossEntropyLoss(), inputs, weight, bias, target)
    for mine, theirs in zip(
        torch.autograd.grad(1e-6 * value, (weight, bias)), torch.autograd.grad(1e-6 * exact, (weight, bias)), strict=True
    ):
        assert (mine - theirs).norm() < 0.01 * theirs.norm()


def test_bfloat16_gradients_of_the_weight_do_not_lose_digits_with_every_chunk():
    rows, classes, width = 512, 20, 8
    inputs, target = features(rows, 1, torch.bfloat16, width), torch.arange(rows) % classes
    weight, bias = head(0, torch.bfloat16, classes, width)
    loss = losses.CrossEntropyLoss()
    exact = loss_of_linear(loss, inputs.double(), weight.double(), bias.double(), target)
    (theirs,) = torch.autograd.grad(exact, weight)
    errors = []
    for rows_at_once in (4, rows):
        value = loss_of_linear(loss, inputs, weight, bias, target, rows_at_once=rows_at_once)
        errors.append((torch.autograd.grad(value, weight)[0].double() - theirs.double()).norm() / theirs.double().norm())
    assert errors[0] < 1.2 * errors[1] + 1e-3


def test_nan_and_infinite_scores():
    weight, bias = head(0, torch.float32)
    inputs, target = features(4, 1, torch.float32).detach(), torch.tensor([0, 1, 2, -100])
    inputs[3] = torch.nan  # ignored
    for loss, more in ((losses.CrossEntropyLoss(), False), (losses.AverageKLoss(k=2), True)):
        heads = ((weight, weight), (bias, bias)) if more else (weight, bias)
        assert loss_of_linear(loss, inputs, *heads, target, rows_at_once=2).isfinite()
        bad = inputs.clone()
        bad[1, 0] = torch.nan
        assert loss_of_linear(loss, bad, *heads, target, rows_at_once=2).isnan()


def test_the_same_seed_gives_the_same_noise_as_the_loss_itself_in_one_chunk():
    loss, target = losses.NoisedTopkHingeLoss(k=2), torch.arange(6) % CLASSES
    inputs, (weight, bias) = features(6, 1, torch.float32), head(0, torch.float32)
    torch.manual_seed(5)
    expected = loss(linear(inputs, weight, bias), target)
    torch.manual_seed(5)
    # Sums of rows and their mean are rounded differently; other noise would differ in the first digits.
    found = loss_of_linear(loss, inputs, weight, bias, target)
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # dynamo looks at the tensors between its graphs
def test_compiled_code_calls_it_outside_of_the_graph():
    loss, target = losses.CrossEntropyLoss(), torch.arange(6) % CLASSES
    inputs, (weight, bias) = features(6, 1, torch.float32), head(0, torch.float32)

    @torch.compile(backend="aot_eager")
    def step(inputs, weight, bias):
        return 2 * loss_of_linear(loss, inputs.tanh(), weight, bias, target, rows_at_once=2)

    value = step(inputs, weight, bias)
    value.backward()
    torch.testing.assert_close(value, 2 * loss(linear(inputs.tanh(), weight, bias), target))
    assert inputs.grad.abs().max() > 0


def test_a_penalised_loss_without_a_reduction_is_refused():
    loss = losses.PenalisedLoss(losses.SpaLoss(reduction="none"), losses.LabelPairPenalty())
    with pytest.raises(InputError, match="reduction: .*got 'none' in SpaLoss"):
        loss_of_linear(loss, features(2), *head(), torch.tensor([0, 1]))


def test_gradients_of_a_bias_are_sums_over_all_rows_of_a_large_chunk():
    rows = 2 * SUMMED_AT_ONCE + 3
    loss, inputs, (weight, bias) = losses.CrossEntropyLoss(), features(rows), head()
    target = torch.arange(rows) % CLASSES
    (mine,) = torch.autograd.grad(loss_of_linear(loss, inputs, weight, bias, target), bias)
    (theirs,) = torch.autograd.grad(loss(linear(inputs, weight, bias), target), bias)
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize(("rows_at_once", "computed"), [(7, 1), (3, 5), (1, 13)])
def test_average_k_computes_the_scores_of_the_chunk_between_two_passes_once(monkeypatch, rows_at_once, computed):
    starts, scores = [], ChunkedHead.scores
    monkeypatch.setattr(ChunkedHead, "scores", lambda head, rows: starts.append(head) or scores(head, rows))
    (weight, bias), (other, limits) = head(), head(seed=2)
    loss_of_linear(
        losses.AverageKLoss(k=2),
        features(7),
        (weight, other),
        (bias, limits),
        torch.arange(7) % CLASSES,
        rows_at_once=rows_at_once,
    )
    chunks = -(-7 // rows_at_once)
    assert sorted(starts.count(one) for one in set(starts)) == sorted([chunks, computed])


@pytest.mark.parametrize(("rows", "fewest", "most"), [(512, 1, 1), (4_096, 4, 4), (10_000, 4, 4), (65_536, 12, 16)])
def test_chunks_on_a_gpu_are_a_small_part_of_a_batch_and_bounded(rows, fewest, most):
    classes = 43_000
    chunks = list(_chunks(torch.empty((), device="meta").expand(rows, classes), None))
    assert fewest <= len(chunks) <= most
    assert [part.start for part in chunks] == [0, *(part.stop for part in chunks[:-1])]
    assert chunks[-1].stop == rows
    assert max(part.stop - part.start for part in chunks) <= 24 * 2**23 // classes + 64
