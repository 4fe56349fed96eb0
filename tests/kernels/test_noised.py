"""The noised hinge by kernels: the noise of the definition, its k-th largest, the loss and its gradient."""

import math

import pytest
import torch

from shortlist.kernels import use_kernels
from shortlist.kernels.noise import keyed_normal, philox
from shortlist.kernels.noised import noised_draws, noised_hinge, takes_draws
from shortlist.losses import noised_topk_hinge_loss
from shortlist.operators import expected_top_value

SHAPES = [(1, 1, 1, 5), (3, 7, 7, 4), (3, 7, 2, 5), (4, 100, 6, 5), (1, 1081, 1, 1), (2, 1081, 6, 5), (1, 5000, 51, 3)]
SEED = 4_000_000_000_123_456_789


def normal(rows, classes, seed=0):
    return 2 * torch.randn(rows, classes, generator=torch.Generator().manual_seed(seed))


def defined(scores, seed, k, epsilon, samples):
    """Places and shifts from all noise, in float64."""
    noise = epsilon * keyed_normal(seed, *scores.shape, samples)
    places = (scores.double() + noise).topk(k, dim=2).indices[:, :, -1:]
    return places[..., 0].T, noise.gather(2, places)[..., 0].T


def check_draws(scores, k, epsilon, samples, device):
    places, shifts = noised_draws(scores.to(device), torch.tensor([SEED], device=device), k, epsilon, samples)
    expected_places, expected_shifts = defined(scores, SEED, k, epsilon, samples)
    assert torch.equal(places.cpu().long(), expected_places)
    torch.testing.assert_close(shifts.cpu().double(), expected_shifts, atol=4e-6 * epsilon, rtol=1e-5)


def test_words_are_those_of_the_authors_of_philox():
    ones = torch.tensor(2**32 - 1)
    assert [int(word) for word in philox(2**64 - 1, (ones,) * 4)] == [0x5207DDC2, 0x45165E59, 0x4D8EE751, 0x8C52F662]


def test_noise_is_normal_and_independent():
    noise = keyed_normal(SEED, 300, 2000, 3)
    ordered, count = noise.flatten().sort().values, noise.numel()
    distance = (torch.special.ndtr(ordered) - (torch.arange(count) + 0.5) / count).abs().max()
    assert distance < 1.95 / math.sqrt(count)  # Kolmogorov: a false alarm in one of 1,000 seeds; this one is fixed
    for axis in range(3):
        first, second = noise.narrow(axis, 0, noise.shape[axis] - 1), noise.narrow(axis, 1, noise.shape[axis] - 1)
        products = first * second
        assert products.mean().abs() < 4 / math.sqrt(products.numel())
    other = keyed_normal(SEED + 1, 300, 2000, 3)
    assert (noise * other).mean().abs() < 4 / math.sqrt(count)
    # The largest of the draws of a class is built first: no draw may have it more often than another.
    shares = noise.argmax(0).flatten().bincount(minlength=3) / noise[0].numel()
    assert (shares - 1 / 3).abs().max() < 4 * math.sqrt(2 / 9 / noise[0].numel())


def test_noise_of_a_class_does_not_depend_on_their_number():
    assert torch.equal(keyed_normal(SEED, 2, 5000, 2)[:, :, :700], keyed_normal(SEED, 2, 700, 2))


@pytest.mark.parametrize(("rows", "classes", "k", "samples"), SHAPES)
@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_draws_are_the_kth_largest_of_the_noised_scores(rows, classes, k, samples, epsilon, device):
    check_draws(normal(rows, classes, classes + k), k, epsilon, samples, device)


@pytest.mark.parametrize(
    "scores",
    [
        torch.cat([normal(1, 1) + 300, normal(1, 299)], 1),  # two clusters, far apart
        torch.cat([normal(1, 298) - 1e6, normal(1, 2)], 1),
        normal(1, 300).round(),  # ties
        torch.zeros(1, 300),
        torch.linspace(-1e3, 1e3, 300)[None],
    ],
    ids=["high cluster", "low cluster", "ties", "equal", "wide"],
)
def test_a_level_that_fails_is_replaced(scores, device):
    check_draws(scores, 2, 1.0, 2, device)


def test_masked_classes_are_never_drawn(device):
    scores = normal(2, 300)
    scores[:, 40:] = -math.inf
    scores[1, :] = -math.inf
    scores[1, 100:102] = 0.0
    check_draws(scores, 2, 1.0, 2, device)


@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_noise_near_or_below_the_resolution_of_the_scores(offset, device):
    scores = normal(1, 300) + offset
    places, shifts = noised_draws(scores.to(device), torch.tensor([SEED], device=device), 2, 1e-3, 2)
    found = scores.gather(1, places.cpu().long()) + shifts.cpu()  # in float32, as in the kernel
    noised = scores + (1e-3 * keyed_normal(SEED, 1, 300, 2)).float()
    assert torch.equal(found, noised.topk(2, dim=2).values[:, :, -1].T)


def losses_of(scores, target, device, dtype=torch.float32, **settings):
    """Value and gradient by kernels, and from the definition in float64."""
    given = scores.clone().to(device, dtype).requires_grad_()
    generator = torch.Generator(device).manual_seed(5)
    loss = noised_topk_hinge_loss(given, target.to(device), generator=generator, **settings)
    weights = torch.linspace(1, 2, loss.numel()).reshape(loss.shape)
    (loss * weights.to(device)).sum().backward()
    seed = int(torch.randint(2**62, (1,), device=device, generator=torch.Generator(device).manual_seed(5)))
    exact = scores.to(dtype).double().requires_grad_()
    noise = keyed_normal(seed, *scores.shape, settings.get("samples", 5))
    settings = {name: value.double() if isinstance(value, torch.Tensor) else value for name, value in settings.items()}
    expected = noised_topk_hinge_loss(exact, target, noise=noise, **settings)
    (expected * weights).sum().backward()
    assert given.grad.dtype == dtype
    return loss.cpu(), expected, given.grad.cpu(), exact.grad


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "settings",
    [
        {"k": 1},
        {"k": 5, "samples": 3, "epsilon": 0.2, "margin": 0.3, "scale": 2.5},
        {"k": 2, "margin": torch.linspace(0.1, 2, 129)},
        {"k": 2, "weight": torch.linspace(0, 2, 129)},
        {"k": 2, "ignore_index": 7, "weight": torch.linspace(0, 2, 129), "margin": torch.linspace(0.1, 2, 129)},
    ],
    ids=["plain", "numbers", "margins", "weights", "everything"],
)
def test_loss_and_gradient_are_the_defined_ones(settings, reduction, device):
    scores, target = normal(5, 129), torch.arange(5) * 23
    target[2] = settings.get("ignore_index", 100)
    loss, expected, gradient, exact = losses_of(scores, target, device, reduction=reduction, **settings)
    torch.testing.assert_close(loss.double(), expected.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient.double(), exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype, device):
    loss, expected, gradient, exact = losses_of(normal(4, 700), torch.arange(4), device, dtype, k=3)
    torch.testing.assert_close(loss.double(), expected.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient.double(), exact, rtol=1e-2, atol=1e-3)


def test_rows_with_nan_and_ignored_rows(device):
    scores, target = normal(4, 50), torch.tensor([3, -100, 5, 49])
    scores[1], scores[2, 7] = math.nan, math.nan
    rows = noised_topk_hinge_loss(scores.to(device), target.to(device), k=2, reduction="none").cpu()
    assert rows.isnan().tolist() == [False, False, True, False]
    assert rows[1] == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="on the CPU such labels are refused before")
@pytest.mark.gpu
def test_a_label_that_is_no_class_makes_the_loss_nan():
    scores, target = normal(2, 50).cuda(), torch.tensor([3, 10**6], device="cuda")
    for weight in (None, torch.ones(50)):
        assert noised_topk_hinge_loss(scores, target, k=2, weight=weight).isnan()


def test_a_true_class_that_is_masked_costs_infinitely_much(device):
    scores, target = normal(2, 50), torch.tensor([3, 4])
    scores[0, 3] = -math.inf
    rows = noised_topk_hinge_loss(scores.to(device), target.to(device), k=2, reduction="none").cpu()
    assert rows[0] == math.inf
    assert rows[1].isfinite()


def test_an_empty_batch_and_strided_scores(device):
    assert noised_topk_hinge_loss(torch.zeros(0, 9, device=device), torch.zeros(0, dtype=torch.int64, device=device), k=2) == 0
    scores, target = normal(6, 90).to(device), torch.arange(6, device=device)
    for odd in (scores.T.contiguous().T, torch.cat([scores, scores], 1)[:, :90]):
        losses = [
            noised_topk_hinge_loss(given, target, k=2, generator=torch.Generator(device).manual_seed(3))
            for given in (scores, odd)
        ]
        assert losses[0] == losses[1]


def test_the_mean_over_draws_is_the_expectation(device):
    scores = normal(1, 40, 3)
    exact = scores.double().requires_grad_()
    expected = expected_top_value(exact, 4, 0.7)
    expected.sum().backward()
    places, shifts = noised_draws(scores.expand(60, -1).to(device), torch.tensor([SEED], device=device), 4, 0.7, 64)
    places, shifts = places.cpu().long().flatten(), shifts.cpu().flatten()
    values = scores[0, places] + shifts
    error = values.std() / math.sqrt(len(values))
    assert (values.mean() - expected).abs() < 4 * error  # a false alarm in 16,000 seeds; this one is fixed
    shares = places.bincount(minlength=40) / len(places)
    assert ((shares - exact.grad[0]).abs() < 4.5 * (shares * (1 - shares) / len(places)).sqrt() + 1e-3).all()


def test_large_k_goes_to_the_plain_form():
    assert takes_draws(torch.zeros(1, 40_000), 50, 5)
    assert not takes_draws(torch.zeros(1, 40_000), 5000, 5)
    assert not takes_draws(torch.zeros(1, 40_000, dtype=torch.float64), 5, 5)
    assert not takes_draws(torch.zeros(1, 100_001), 5, 5)
    with use_kernels("never"):
        assert not takes_draws(torch.zeros(1, 40_000), 50, 5)


def test_operators_are_registered_as_torch_wants_them(device):
    scores, target = normal(3, 20).to(device), torch.tensor([1, 2, -100], device=device)
    seed = torch.tensor([SEED], device=device)
    ops = torch.ops.shortlist
    torch.library.opcheck(ops.noised_draws, (scores, seed, 2, 1.0, 3))
    arguments = (scores, seed, target, None, None, 2, 1.0, 3, 1.0, 1.0, -100, True)
    torch.library.opcheck(ops.noised_hinge, arguments)
    values, places, *_ = noised_hinge(*arguments)
    one = torch.tensor(1.0, device=device)
    torch.library.opcheck(ops.noised_hinge_gradient, (one, None, one, values, places, target, scores, 1.0, -100))


def test_compiled_without_a_graph_break(device):
    def loss(scores, target):
        return noised_topk_hinge_loss(scores, target, k=2)

    scores, target = normal(3, 20).to(device).requires_grad_(), torch.tensor([1, 2, 0], device=device)
    torch.compile(loss, fullgraph=True, backend="aot_eager")(scores, target).backward()
    assert scores.grad.sum(1).abs().max() < 1e-6
    assert scores.grad.abs().max() > 0


def test_a_part_of_a_batch_has_the_noise_of_its_rows(device):
    # Two values far apart, of which the upper are fewer than k: the level of the first try fails.
    scores = torch.cat([normal(4, 700), torch.where(torch.arange(700) < 3, 50.0, 0.0).expand(4, -1)]).to(device)
    target, seed = torch.arange(8, device=device), torch.tensor([SEED], device=device)
    whole = noised_hinge(scores, seed, target, None, None, 5, 1.0, 3, 1.0, 1.0, -100, False)
    for first in (1, 6):
        part = noised_hinge(scores[first:], seed, target[first:], None, None, 5, 1.0, 3, 1.0, 1.0, -100, False, first)
        assert torch.equal(part[0], whole[0][first:])
        assert torch.equal(part[1], whole[1][first:])
    other = noised_hinge(scores[1:], seed, target[1:], None, None, 5, 1.0, 3, 1.0, 1.0, -100, False)
    assert not torch.equal(other[1], whole[1][1:])
