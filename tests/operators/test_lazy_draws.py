"""Draws that look closely at few classes only have the distribution of plain draws, whatever the scores and the level.

Every statistical test is seeded and refuses a right sampler with probability 1e-6; there are some three hundred.
"""

import functools
import math
import tracemalloc

import numpy as np
import pytest
import torch
from scipy.stats import chi2, ks_2samp, norm
from torch.utils._python_dispatch import TorchDispatchMode

from shortlist.operators import aim, expected_top_value, lazy_draws, noised_top_value
from shortlist.operators.lazy_draws import lazy_top_draws

FALSE_ALARM = 1e-6
EPSILON = 0.7


def flat(classes, random):
    return np.full(classes, 0.3)


def spread(classes, random):
    return 2 * random.standard_normal(classes)


def heavy(classes, random):
    return random.standard_cauchy(classes)


def clumped(classes, random):
    return random.choice([-60.0, 0.0, 0.2, 40.0], classes, p=[0.4, 0.3, 0.2, 0.1])


def tied(classes, random):
    return random.standard_normal(classes).round()


def scores_of(law, classes):
    """Float64 numbers that float32 holds as well."""
    return torch.from_numpy(law(classes, np.random.default_rng(classes))).float().double()


def draws_of(row, k, *, rows=2000, samples=5, seed=0, epsilon=EPSILON):
    """Places and values, (rows, samples) each, of the same row of scores many times."""
    generator = torch.Generator().manual_seed(seed)
    places, shifts = lazy_top_draws(row.repeat(rows, 1), k, epsilon, samples, False, generator)
    return places.numpy(), (row[places] + shifts).numpy().astype(np.float64)


@functools.cache
def plain_draws(law, classes, k, number=10_000):
    values = scores_of(law, classes).numpy() + EPSILON * np.random.default_rng(1).standard_normal((number, classes))
    return np.partition(values, classes - k, axis=1)[:, classes - k]


@functools.cache
def expectation(law, classes, k):
    row = scores_of(law, classes)[None].requires_grad_()
    value = expected_top_value(row, k, EPSILON)
    (gradient,) = torch.autograd.grad(value.sum(), row)
    return value.item(), gradient[0].clamp(min=0).numpy()


def assert_mean(values, expected):
    error = abs(values.mean() - expected) / (values.std() / math.sqrt(values.size))
    assert error < norm.isf(FALSE_ALARM / 2)


def assert_places(places, probs):
    """Chi-square over the classes, those that are expected fewer than ten times taken together."""
    found = np.bincount(places.reshape(-1), minlength=len(probs))
    assert found[probs < 1e-12].sum() == 0
    expected = probs / probs.sum() * places.size
    rare = expected < 10
    found, expected = (np.append(x[~rare], x[rare].sum()) for x in (found, expected))
    found, expected = found[expected >= 1], expected[expected >= 1]
    assert ((found - expected) ** 2 / expected).sum() <= chi2.isf(FALSE_ALARM, max(1, len(found) - 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("classes", [5, 40, 300])
@pytest.mark.parametrize("law", [flat, spread, heavy, clumped, tied])
def test_value_and_place_have_the_expectation_and_the_probabilities_of_the_integral(law, classes, dtype):
    row = scores_of(law, classes).to(dtype)
    for k in (1, 3, classes // 2, classes):
        places, values = draws_of(row, k)
        value, probs = expectation(law, classes, k)
        assert_mean(values, value)
        assert_places(places, probs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("law", [flat, spread, heavy, clumped, tied])
@pytest.mark.parametrize(("classes", "k"), [(5, 2), (40, 1), (40, 6), (300, 2), (300, 40)])
def test_the_kth_value_has_the_distribution_of_plain_draws(law, classes, k, dtype):
    row = scores_of(law, classes).to(dtype)
    assert ks_2samp(draws_of(row, k)[1].reshape(-1), plain_draws(law, classes, k)).pvalue > FALSE_ALARM


LEVELS = {
    "far too high": 1e3,
    "much too high": 3.0,
    "a little too high": 0.5,
    "near": -0.3,
    "too low": -2.0,
    "far too low": -1e3,
}


def force_level(monkeypatch, level):
    """Every row gets this level, good or bad."""

    def aimed(scores, wanted, fewest, epsilon):
        digits = (256 * torch.special.ndtr((scores - level) / epsilon) + 1e-3).clamp(max=255).numpy()
        return np.full((len(scores), 1), level, digits.dtype), digits, np.zeros(0, np.int64)

    monkeypatch.setattr(aim, "aimed", aimed)


@pytest.mark.parametrize("shift", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("law", [flat, spread])
def test_whatever_the_level_the_distribution_is_the_same(monkeypatch, law, shift):
    row = scores_of(law, 40)
    for k in (1, 4):
        value, probs = expectation(law, 40, k)
        force_level(monkeypatch, value + shift)
        places, values = draws_of(row, k, rows=1000)
        assert_mean(values, value)
        assert_places(places, probs)
        assert ks_2samp(values.reshape(-1), plain_draws(law, 40, k)).pvalue > FALSE_ALARM


def exceeding(row, level, epsilon):
    """The chance of each class to exceed the level, in float64."""
    return torch.special.ndtr((row.double() - float(level)) / epsilon).numpy()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("offset", [0.0, -300.0, 20_000.0])
@pytest.mark.parametrize("epsilon", [1e-3, EPSILON, 1e4])
@pytest.mark.parametrize("law", [flat, spread, heavy, clumped, tied])
def test_no_class_that_may_exceed_the_level_is_left_out(law, epsilon, offset, dtype):
    """A leading digit d stands for probabilities from d/256 to (d + 1)/256 of exceeding."""
    row = (scores_of(law, 300) + offset).to(dtype)
    for k in (1, 3, 40, 150):
        found = aim.aim(row[None], k, epsilon)
        if not len(found.hard):
            assert (found.last_digits.astype(int) + 1 >= 256 * exceeding(row, found.level[0, 0], epsilon) - 1e-9).all()


@pytest.mark.parametrize("law", [flat, spread, tied])
def test_few_classes_are_let_through_that_do_not_exceed_the_level(law):
    for k in (1, 5, 40):
        row = scores_of(law, 1000).float()
        found = aim.aim(row[None], k, EPSILON)
        let_through = (found.last_digits.astype(int) + 1).sum() / 256 - 1000 / 256
        assert let_through < 1.7 * exceeding(row, found.level[0, 0], EPSILON).sum() + 2


@pytest.mark.parametrize("at", [-4.0, -2.2, -0.5, 0.0, 1.2])
def test_the_tangent_lies_above_the_distribution_function_and_touches_it(at):
    tangent = aim.Tangent(at, 1.0)
    x = torch.linspace(-8, 8, 2001, dtype=torch.float64)[None]
    digits = torch.empty_like(x)
    sums = tangent.digits(x, np.zeros((1, 1)), digits)
    assert (digits >= (256 * torch.special.ndtr(x)).clamp(max=255)).all()
    touching = torch.empty(1, 1, dtype=torch.float64)
    tangent.digits(torch.full_like(touching, at), np.zeros((1, 1)), touching)
    assert touching.item() == pytest.approx(256 * norm.cdf(at), rel=1e-4)
    assert sums.item() == pytest.approx(digits.sum().item() / 256)


@pytest.mark.parametrize("deviation", [0.001, 0.5, 3.0, 20.0])
@pytest.mark.parametrize("distance", [-30.0, -4.0, -0.3, 2.0])
def test_the_mean_of_the_tangent_is_its_integral(distance, deviation):
    tangent = aim.Tangent(-1.3, 1.0)
    quantiles = norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    bound = np.exp(np.minimum(tangent.hazard * (distance + deviation * quantiles), 0))
    assert tangent.mean(distance, deviation) == pytest.approx(bound.mean(), rel=1e-2, abs=1e-9)


def test_rows_of_very_different_spread_keep_a_good_level():
    """One tangent serves all rows of a block; their levels are their own."""
    base = torch.randn(400, 500, generator=torch.Generator().manual_seed(0))
    scores = base * torch.logspace(-2, 2, 400)[:, None] + 10 * torch.arange(400)[:, None]
    found = aim.aim(scores, 5, 1.0)
    assert not len(found.hard)
    expected = torch.special.ndtr(scores.double() - torch.from_numpy(found.level).double()).sum(1)
    assert (expected > 8).all()
    assert (expected < 60).all()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.09, 0.11, 0.7, 1.0])
def test_true_places_are_those_of_numpy(share):
    for size in (8, 64, 8 * 20_000):
        marks = np.random.default_rng(size).random(size) < share
        np.testing.assert_array_equal(lazy_draws._true_places(marks), np.flatnonzero(marks))


@pytest.mark.parametrize("width", [7, 512, 513, 900])
def test_the_kth_largest_of_narrow_and_wide_rows(width):
    matrix = np.random.default_rng(0).standard_normal((20, width)).astype(np.float32)
    for k in (1, 3, width):
        np.testing.assert_array_equal(lazy_draws._kth_largest(matrix, k), np.sort(matrix, axis=1)[:, -k])


def test_the_level_does_its_work():
    """The level leaves few draws that must be completed, and few classes to look at: else the sampler is a slow plain one."""
    for law in (flat, spread, tied, heavy, clumped):
        row = scores_of(law, 300)
        for k in (1, 5, 40):
            noised = row.numpy() + EPSILON * np.random.default_rng(0).standard_normal((2000, 300))
            exceed = (noised > aim.aim(row[None], k, EPSILON).level).sum(1)
            assert (exceed < k).mean() < 0.05
            assert exceed.mean() < 5 * (k + 5)


def test_one_row_and_one_draw_at_a_time():
    """Now and then no class at all exceeds the level."""
    row = scores_of(flat, 60)[None]
    generator = torch.Generator().manual_seed(0)
    values = [noised_top_value(row, 1, EPSILON, 1, generator=generator).item() for _ in range(2000)]
    assert ks_2samp(values, plain_draws(flat, 60, 1)).pvalue > FALSE_ALARM


def test_a_level_that_nothing_exceeds_is_no_error(monkeypatch):
    force_level(monkeypatch, 1e3)
    for seed in range(50):
        places, values = draws_of(scores_of(spread, 12), 2, rows=1, samples=1, seed=seed)
        assert 0 <= places.item() < 12
        assert abs(values.item()) < 20


def assert_uncorrelated(first, second):
    correlation = np.corrcoef(first.reshape(-1), second.reshape(-1))[0, 1]
    assert abs(correlation) * math.sqrt(first.size) < norm.isf(FALSE_ALARM / 2)


@pytest.mark.parametrize("k", [1, 40])
@pytest.mark.parametrize("high", [False, True], ids=["own level", "completed draws"])
def test_draws_of_different_samples_rows_and_blocks_are_independent(monkeypatch, k, high):
    row = scores_of(spread, 300)
    if high:
        force_level(monkeypatch, expectation(spread, 300, k)[0] + 1)
    rows = 2 * (lazy_draws.BLOCK_SCORES // 300)  # two blocks of equal size
    _, values = draws_of(row, k, rows=rows, samples=4)
    assert len(np.unique(values)) > 0.999 * values.size
    for a, b in [(0, 1), (0, 3), (1, 2)]:
        assert_uncorrelated(values[:, a], values[:, b])
    assert_uncorrelated(values[:-1], values[1:])
    assert_uncorrelated(values[: rows // 2], values[rows // 2 :])


@pytest.mark.parametrize("by_column", [False, True], ids=["by row", "by column"])
@pytest.mark.parametrize("samples", [1, 3])
def test_rows_of_different_scores_keep_to_their_own(samples, by_column):
    """Rows far apart, and within a row one class far above: it must be found, in each row and each draw."""
    best = torch.randint(200, (500,), generator=torch.Generator().manual_seed(0))
    scores = 1e3 * torch.arange(500.0)[:, None] + 50 * torch.nn.functional.one_hot(best, 200)
    scores = scores.T.contiguous().T if by_column else scores
    places, shifts = lazy_top_draws(scores, 1, 0.1, samples, False, torch.Generator().manual_seed(1))
    assert (places == best[:, None]).all()
    assert (shifts.abs() < 0.7).all()


def test_the_generator_alone_decides():
    row = scores_of(spread, 40)
    first, second, other = (draws_of(row, 3, rows=50, seed=seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(first[1], second[1])
    assert not np.array_equal(first[1], other[1])


class LargestTensor(TorchDispatchMode):
    """Remembers the largest tensor that any operation made."""

    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        """Run the operation and look at what it made."""
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, (tuple, list)) else [made]:
            self.entries = max(self.entries, tensor.numel() if isinstance(tensor, torch.Tensor) else 0)
        return made


def traced_peak(scores, samples):
    """The most bytes that numpy held while these scores were drawn; torch's are not counted."""
    noised_top_value(scores, 5, 1.0, samples)  # what it imports is not counted
    tracemalloc.start()
    try:
        noised_top_value(scores, 5, 1.0, samples)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_no_tensor_of_samples_by_rows_by_classes_is_made():
    scores = torch.randn(2048, 1024, generator=torch.Generator().manual_seed(0))
    with LargestTensor() as largest:
        noised_top_value(scores, 5, 1.0, 10)
    assert largest.entries <= scores.numel()
    assert traced_peak(scores, 10) < 10 * scores.numel() / 2  # half a byte an entry of (samples, N, C)


def test_the_memory_of_a_block_is_used_again_for_the_next():
    scores = torch.randn(1024, 1081, generator=torch.Generator().manual_seed(0))
    assert traced_peak(3 * scores, 5) < 4 * scores.numel() / 2
