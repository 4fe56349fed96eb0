"""The three smoothings of the k-th largest: by given or drawn noise, its expectation, and the deterministic level."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from shortlist.errors import InputError
from shortlist.operators import expected_top_value, noised_top_value, soft_top_value
from tests.references import operators as reference

ROW = [2.4, 2.6, 2.3, 0.5]
NOISE = [[0.2, -0.1, 0.1, 0.3], [0.1, 0.1, -0.1, 0.1], [-0.1, -0.1, 0.1, -0.1]]


def logistic_top(scores, k, epsilon):
    return soft_top_value(scores, k, epsilon, noise="logistic")


def noised_fixed(scores, k, epsilon):
    """The same noise at each place of each row, whatever the order of the scores."""
    noise = torch.linspace(-1, 1, 6, dtype=torch.float64)[:, None, None].expand(-1, *scores.shape)
    return noised_top_value(scores, k, epsilon, noise=noise)


SMOOTH = {"expected": expected_top_value, "soft": soft_top_value, "soft logistic": logistic_top}
EVERY = {"noised": noised_fixed, **SMOOTH}
every_operator = pytest.mark.parametrize("operator", EVERY.values(), ids=EVERY)
every_smooth_one = pytest.mark.parametrize("operator", SMOOTH.values(), ids=SMOOTH)


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def value_and_gradient(operator, scores, *args, **kwargs):
    scores = scores.detach().clone().requires_grad_()
    value = operator(scores, *args, **kwargs)
    (gradient,) = torch.autograd.grad(value.sum(), scores)
    return value.detach(), gradient


def close(found, expected, **tolerance):
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(expected, np.float64), **tolerance)


@pytest.mark.parametrize(("epsilon", "value", "gradient"), [(1.0, 7.4 / 3, [1 / 3] * 3 + [0]), (0.1, 7.22 / 3, [1, 0, 0, 0])])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_worked_example_of_the_paper(epsilon, value, gradient, dtype):
    noise = torch.tensor(NOISE, dtype=dtype)[:, None]
    found = value_and_gradient(noised_top_value, torch.tensor([ROW], dtype=dtype), 2, epsilon, noise=noise)
    close(found[0], [value], rtol=1e-6)
    close(found[1], [gradient], rtol=1e-6)


@pytest.mark.parametrize("k", [1, 3, 6])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 20.0])
def test_given_noise_gives_the_mean_of_the_kth_largest_and_of_the_one_hots(k, epsilon):
    # On a grid, so that there are ties, with the noise and without.
    scores, noise = (4 * normal(7, 6)).round() / 4, (2 * normal(4, 7, 6, seed=1)).round() / 2
    value, gradient = value_and_gradient(noised_top_value, scores, k, epsilon, noise=noise)
    expected = reference.noised_top(scores.numpy(), k, epsilon, noise.numpy())
    close(value, expected[0], rtol=1e-12)
    close(gradient, expected[1], rtol=1e-12, atol=1e-15)


def test_the_number_of_given_draws_is_the_number_of_samples():
    noise = normal(7, 3, 5)
    assert torch.equal(
        noised_top_value(normal(3, 5), 2, noise=noise), noised_top_value(normal(3, 5), 2, samples=1, noise=noise)
    )


def test_no_gradient_flows_to_the_noise():
    noise = normal(2, 3, 5).requires_grad_()
    assert not noised_top_value(normal(3, 5), 2, noise=noise).requires_grad


@pytest.mark.parametrize(("k", "place"), [(1, 1), (2, 3), (3, 4), (4, 0), (5, 2)])
def test_without_noise_ties_go_to_the_lower_index(k, place):
    scores = torch.tensor([[0.0, 1.0, -1.0, 1.0, 1.0]])
    value, gradient = value_and_gradient(noised_top_value, scores, k, 0.0)
    assert value.item() == scores[0, place].item()
    assert gradient[0].tolist() == [float(j == place) for j in range(5)]


@pytest.mark.parametrize("antithetic", [False, True])
def test_a_generator_or_the_global_seed_repeats_the_draws(antithetic):
    scores = normal(6, 30)

    def drawn(**kwargs):
        return noised_top_value(scores, 3, 1.0, 4, antithetic=antithetic, **kwargs)

    assert torch.equal(*(drawn(generator=torch.Generator().manual_seed(3)) for _ in range(2)))
    assert not torch.equal(*(drawn(generator=torch.Generator().manual_seed(seed)) for seed in (3, 4)))
    with torch.random.fork_rng():
        torch.manual_seed(5)
        first, second = drawn(), drawn()
        torch.manual_seed(5)
        assert torch.equal(drawn(), first)
    assert not torch.equal(first, second)
    state = torch.get_rng_state()
    drawn(generator=torch.Generator().manual_seed(3))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("k", "exact"), [(2, True), (1, False)])
def test_antithetic_pairs_have_opposite_noise(k, exact):
    """The median of 3 equal scores turns into its opposite with the noise; the largest does not."""
    value = noised_top_value(torch.zeros(50, 3), k, 1.0, 4, antithetic=True)
    assert bool((value.abs() < 1e-6).all()) == exact
    assert bool((value.abs() > 1e-6).all()) != exact


@pytest.mark.parametrize("samples", [1, 4])
def test_drawn_noise_is_standard_normal_and_fresh_in_each_sample(samples):
    """Chi-square of sums of independent squares; false alarm 1e-6 a side."""
    generator = torch.Generator().manual_seed(0)
    value = noised_top_value(torch.zeros(4000, 1, dtype=torch.float64), 1, 3.0, samples, generator=generator)
    total = samples * (value / 3).square().sum().item()
    assert chi2.ppf(1e-6, 4000) < total < chi2.isf(1e-6, 4000)


@pytest.mark.parametrize("k", [1, 4])
def test_antithetic_draws_estimate_the_expectation_with_less_variance(k):
    """Two-sided z-tests at 5 standard errors: false alarm 1e-6."""
    scores = 2 * normal(1, 6)
    generator = torch.Generator().manual_seed(0)
    plain, paired = (
        noised_top_value(scores.expand(4000, -1), k, 1.0, 2, antithetic=antithetic, generator=generator)
        for antithetic in (False, True)
    )
    for values in (plain, paired):
        assert abs(values.mean() - expected_top_value(scores, k, 1.0)) <= 5 * values.std() / math.sqrt(4000)
    assert paired.var() < 0.6 * plain.var()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": 0}, "k"),
        ({"k": 5}, "at most the 4 classes"),
        ({"k": 1.5}, "k"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"samples": 0}, "samples"),
        ({"samples": 2.5}, "samples"),
        ({"samples": 3, "antithetic": True}, "even"),
        ({"noise": torch.zeros(2, 4)}, "noise"),
        ({"noise": torch.zeros(2, 3, 5)}, "noise"),
        ({"noise": torch.zeros(2, 1, 4)}, "noise"),
        ({"noise": torch.zeros(0, 3, 4)}, "noise"),
        ({"noise": torch.zeros(2, 3, 4, dtype=torch.int64)}, "noise"),
    ],
)
def test_wrong_arguments_are_refused_by_name(changes, message):
    arguments = {"k": 2, "epsilon": 1.0, **changes}
    with pytest.raises(InputError, match=message):
        noised_top_value(torch.zeros(3, 4), **arguments)
    for operator in (expected_top_value, soft_top_value):
        if set(changes) <= {"k", "epsilon"}:
            with pytest.raises(InputError, match=message):
                operator(torch.zeros(3, 4), **arguments)


@pytest.mark.parametrize("operator", [noised_top_value, expected_top_value, soft_top_value])
@pytest.mark.parametrize("scores", [torch.zeros(4), torch.zeros(3, 4, dtype=torch.int64), torch.zeros(1, 3, 4)])
def test_scores_of_another_form_are_refused(operator, scores):
    with pytest.raises(InputError, match="scores"):
        operator(scores, 1)


@pytest.mark.parametrize("operator", [noised_top_value, expected_top_value, soft_top_value, logistic_top])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(operator, dtype):
    scores = (normal(5, 30) * 3).to(dtype)
    torch.manual_seed(0)
    value, gradient = value_and_gradient(operator, scores, 3, 0.5)
    torch.manual_seed(0)
    expected = value_and_gradient(operator, scores.float(), 3, 0.5)
    assert value.dtype == torch.float32
    assert gradient.dtype == dtype
    assert torch.equal(value, expected[0])
    close(gradient.float(), expected[1], rtol=0.01, atol=1e-6)


@pytest.mark.parametrize("operator", [noised_top_value, expected_top_value, soft_top_value, logistic_top])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [1, 3, 40])
def test_a_tiny_width_gives_the_kth_largest_and_a_huge_one_stays_finite(operator, dtype, k):
    scores = 3 * normal(12, 40, dtype=dtype)
    for epsilon in (1e-6, 1e-12, 1e-30):
        value, gradient = value_and_gradient(operator, scores, k, epsilon)
        top = scores.topk(k, dim=1)
        close(value, top.values[:, -1], rtol=4 * torch.finfo(dtype).eps, atol=7 * epsilon)
        assert (gradient.argmax(1) == top.indices[:, -1]).all()
        close(gradient.sum(1), np.ones(12), rtol=1e-4)
    value, gradient = value_and_gradient(operator, scores, k, 1e20)
    assert value.isfinite().all()
    assert (value.abs() < 1e21).all()
    close(gradient.sum(1), np.ones(12), rtol=1e-4)


@every_operator
def test_no_rows_one_class_and_all_classes(operator):
    assert operator(torch.zeros(0, 4, dtype=torch.float64), 2, 1.0).shape == (0,)
    one = torch.tensor([[3.0], [-1e4]], dtype=torch.float64)
    value, gradient = value_and_gradient(operator, one, 1, 0.7)
    close(value, one[:, 0], rtol=1e-13)
    close(gradient, [[1], [1]], rtol=1e-10)
    scores = normal(4, 5)
    # The smallest is the opposite of the largest of the opposites, where the noise is symmetric.
    close(operator(scores, 5, 0.7), -operator(-scores, 1, 0.7), rtol=1e-12)


def test_drawn_noise_on_no_rows_and_one_class():
    assert noised_top_value(torch.zeros(0, 4), 2).shape == (0,)
    value, gradient = value_and_gradient(noised_top_value, torch.full((3, 1), 2.0), 1, 1e-3)
    close(value, [2, 2, 2], atol=0.01)
    close(gradient, [[1]] * 3, rtol=1e-6)


@pytest.mark.parametrize("row", [[0.0, 0.0, 0.0, 0.0, 0.0], ROW, [3.0, -1.0, 0.2, 0.2, -40.0], [0.7]])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_expectation_and_its_gradient_equal_quadrature_over_all_subsets(row, epsilon):
    for k in {1, 2, len(row)} - ({2} if len(row) < 2 else set()):
        value, gradient = value_and_gradient(expected_top_value, torch.tensor([row], dtype=torch.float64), k, epsilon)
        expected = reference.expected_top(row, k, epsilon)
        close(value, [expected[0]], rtol=1e-10, atol=1e-10)
        close(gradient, [expected[1]], rtol=1e-8, atol=1e-10)


def test_known_expectations():
    pi, zero = math.pi, torch.zeros(1, 5, dtype=torch.float64)
    for classes, k, value in [
        (2, 1, 1 / math.sqrt(pi)),
        (3, 1, 1.5 / math.sqrt(pi)),
        (3, 2, 0.0),
        (5, 1, 1.1629644736),
        (5, 2, 0.4950189705),
    ]:
        close(expected_top_value(2 + zero[:, :classes], k, 3.0), [2 + 3 * value], rtol=1e-9)
    # Two classes: E max = s Φ(d) + s' Φ(-d) + θ φ(d), θ = ε √2, d = (s - s')/θ (Clark 1961).
    theta = 0.6 * math.sqrt(2)
    d = 0.9 / theta
    clark = 0.9 * reference.normal_cdf(d) + theta * reference.normal_density(d)
    value, gradient = value_and_gradient(expected_top_value, torch.tensor([[0.9, 0.0]], dtype=torch.float64), 1, 0.6)
    close(value, [clark], rtol=1e-12)
    close(gradient, [[reference.normal_cdf(d), reference.normal_cdf(-d)]], rtol=1e-10)


@pytest.mark.parametrize("classes", [1, 2, 7, 60])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 30.0])
def test_expectation_keeps_its_bound_and_its_gradient_is_a_distribution(classes, epsilon):
    scores = normal(3, classes) * torch.tensor([[0.0], [1.0], [20.0]])
    for k in {1, (classes + 1) // 2, classes}:
        value, gradient = value_and_gradient(expected_top_value, scores, k, epsilon)
        assert (gradient >= -1e-12).all()
        close(gradient.sum(1), np.ones(3), rtol=1e-10)
        top = scores.topk(k, dim=1).values[:, -1]
        assert ((value - top).abs() <= epsilon * k * math.sqrt(2 * math.log(classes)) + 1e-9).all()


@every_smooth_one
@pytest.mark.parametrize("k", [1, 2, 5])
def test_gradients_are_those_of_finite_differences(operator, k):
    scores = torch.cat([normal(3, 5), torch.zeros(1, 5, dtype=torch.float64)]).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: operator(s, k, 0.8), scores)


@every_operator
def test_laws_of_shift_scale_permutation_and_rank(operator):
    scores = 2 * normal(5, 8)
    values = torch.stack([operator(scores, k, 0.8) for k in range(1, 9)])
    assert (values.diff(dim=0) <= 1e-12).all()
    order = torch.randperm(8, generator=torch.Generator().manual_seed(2))
    for k in (1, 4, 8):
        close(operator(scores + 13.0, k, 0.8), values[k - 1] + 13, rtol=1e-11)
        close(operator(6 * scores, k, 4.8), 6 * values[k - 1], rtol=1e-10)
        close(operator(scores[:, order], k, 0.8), values[k - 1], rtol=1e-11)


def test_inputs_are_left_as_they_were():
    scores = normal(5, 40)
    before = scores.clone()
    for operator in (noised_top_value, *SMOOTH.values()):
        operator(scores, 3, 0.5)
    assert torch.equal(scores, before)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize(("classes", "k"), [(3, 1), (10, 3), (100, 1), (100, 3), (100, 51)])
def test_the_expectation_in_float32_loses_only_the_last_digits(classes, k, epsilon):
    scores = epsilon * torch.randn(20, classes, generator=torch.Generator().manual_seed(0))
    exact = expected_top_value(scores.double(), k, epsilon)
    assert ((expected_top_value(scores, k, epsilon) - exact).abs() / epsilon).max() < 2e-6
