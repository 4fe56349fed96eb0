"""The deterministic smoothing of the k-th largest: the level that k - ½ noised scores exceed in expectation."""

import pytest
import torch

from shortlist.errors import InputError
from shortlist.operators import soft_top_value
from tests.operators.test_smoothing import close, normal, value_and_gradient
from tests.references import operators as reference

both_laws = pytest.mark.parametrize("law", ["normal", "logistic"])


CLUMPS = {
    "spread": [2.4, 2.6, 2.3, 0.5, -1.0, 7.0],
    "equal": [1.5] * 6,
    "far clumps": [1e4, 1e4, 1e4 + 0.3, -1e4, -1e4, -1e4 + 2],
    "one far above": [1e4, 0.0, 0.1, -0.1, 0.2, 0.3],
    "one far below": [-1e4, 0.0, 0.1, -0.1, 0.2, 0.3],
    "gaps of many sizes": [0.0, 0.1, 1.0, 10.0, 100.0, 1000.0],
}


@both_laws
@pytest.mark.parametrize("row", CLUMPS.values(), ids=CLUMPS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 30.0])
def test_the_soft_level_and_its_gradient_equal_a_plain_root_finder(law, row, epsilon):
    for k in range(1, 7):
        expected = reference.soft_top(row, k, epsilon, law)
        for dtype, rtol in ((torch.float64, 1e-12), (torch.float32, 4e-7)):
            # What rounding of the scores costs, in units of the noise, is no fault of the operator's.
            lost = rtol * max(map(abs, row))
            value, gradient = value_and_gradient(soft_top_value, torch.tensor([row], dtype=dtype), k, epsilon, noise=law)
            close(value, [expected[0]], rtol=rtol, atol=5 * rtol * epsilon + lost)
            close(gradient, [expected[1]], atol=1e-5 if dtype == torch.float32 else 1e-9, rtol=20 * lost / epsilon)


@both_laws
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("epsilon", [0.003, 0.01, 0.03, 0.1, 0.3])
def test_the_soft_level_is_solved_to_the_last_places_in_every_row(law, dtype, epsilon):
    """Whether a level was found shows in the number of exceedances there; thousands of rows meet every kind of start."""
    scores = 3 * normal(4000, 7, dtype=dtype)
    for k in (1, 3, 7):
        level = soft_top_value(scores, k, epsilon, noise=law).double()[:, None]
        x = (scores.double() - level) / epsilon
        count = (torch.special.ndtr(x) if law == "normal" else x.sigmoid()).sum(1)
        # The count moves by at most C/2 a unit of noise; the level is known to a few units of its last place.
        places = torch.finfo(dtype).eps * (16 + 8 * scores.double().abs().amax(1) / epsilon)
        assert ((count - (k - 0.5)).abs() <= 4 * places).all()


@both_laws
def test_rows_do_not_see_each_other(law):
    """Rows that are solved in a few steps and rows that need many, alone and together."""
    scores = torch.cat([normal(5, 6), torch.tensor(list(CLUMPS.values()), dtype=torch.float64), 50 * normal(9, 6)])
    together = soft_top_value(scores, 2, 0.3, noise=law)
    alone = torch.cat([soft_top_value(row[None], 2, 0.3, noise=law) for row in scores])
    close(together, alone, rtol=1e-13, atol=1e-13)


@both_laws
def test_more_rows_than_one_block_give_what_each_gives_alone(law):
    scores = normal(700, 1000)
    value, gradient = value_and_gradient(soft_top_value, scores, 5, 0.3, noise=law)
    for part in (slice(0, 3), slice(348, 352), slice(697, 700)):
        expected = value_and_gradient(soft_top_value, scores[part], 5, 0.3, noise=law)
        close(value[part], expected[0], rtol=1e-12)
        close(gradient[part], expected[1], rtol=1e-9, atol=1e-15)


def test_the_gradient_of_weighted_rows_is_weighted():
    scores = normal(4, 6).requires_grad_()
    (gradient,) = torch.autograd.grad((soft_top_value(scores, 2) * torch.tensor([1.0, 0.0, -2.0, 5.0])).sum(), scores)
    close(gradient.sum(1), [1, 0, -2, 5], rtol=1e-12, atol=1e-15)


def test_an_unknown_noise_is_refused():
    with pytest.raises(InputError, match="noise"):
        soft_top_value(torch.zeros(3, 4), 1, noise="cauchy")
