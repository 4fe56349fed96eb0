"""How many of independent events happen."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.operators.counts import count_probs
from tests.references import operators as reference


def probs_of(rows, classes, seed=0):
    return torch.rand(rows, classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def counts(happens, most):
    return count_probs(happens, 1 - happens, most)


@given(st.lists(st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1)), min_size=1, max_size=8), st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_it_is_the_sum_over_all_subsets(probs, most):
    found = counts(torch.tensor([probs], dtype=torch.float64), most)
    expected = [*reference.count_law(probs), *[0.0] * most][: most + 1]
    assert found.shape == (most + 1, 1)
    np.testing.assert_allclose(found[:, 0].numpy(), expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("classes", [1, 2, 3, 31, 32, 33, 200])
def test_it_is_the_product_of_the_polynomials(classes):
    happens = probs_of(3, classes)
    for most in {0, 1, 5, classes - 1, classes, classes + 3}:
        found = counts(happens, most).numpy()
        for row, one in zip(happens.numpy(), found.T, strict=True):
            product = np.ones(1)
            for p in row:
                product = np.polynomial.polynomial.polymul(product, [1 - p, p])
            expected = np.zeros(most + 1)
            expected[: len(product)] = product[: most + 1]
            np.testing.assert_allclose(one, expected, rtol=1e-11)


def test_all_counts_together_are_certain():
    np.testing.assert_allclose(counts(probs_of(4, 77), 77).sum(0).numpy(), 1, rtol=1e-13)


def test_small_probabilities_are_kept():
    """Ten events of probability 1e-30 each: by one minus they would be lost."""
    happens = torch.full((1, 10), 1e-30, dtype=torch.float64)
    found = counts(happens, 2)[:, 0].tolist()
    assert found == pytest.approx([1, 1e-29, 45e-60], rel=1e-12)
    mirrored = count_probs(1 - happens, happens, 10)[:, 0].tolist()
    assert mirrored[8:] == pytest.approx([45e-60, 1e-29, 1], rel=1e-12)


@pytest.mark.parametrize("classes", [1, 2, 5, 8])
@pytest.mark.parametrize("most", [0, 2, 9])
def test_gradients_are_those_of_finite_differences(classes, most):
    happens, fails = probs_of(2, classes).requires_grad_(), probs_of(2, classes, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda h, f: count_probs(h, f, most), (happens, fails))


def test_no_rows_give_no_rows():
    assert counts(probs_of(0, 5), 3).shape == (4, 0)


def test_inputs_are_left_as_they_were():
    happens = probs_of(3, 9)
    fails = 1 - happens
    before = happens.clone(), fails.clone()
    count_probs(happens, fails, 4)
    assert torch.equal(happens, before[0])
    assert torch.equal(fails, before[1])
