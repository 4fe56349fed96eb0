"""Superclass noise: its law, its rows one by one, and the posterior that goes with it."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy.stats import chi2

from shortlist.data.label_noise import noisy_posterior, superclass_noise
from shortlist.errors import InputError
from tests.references import label_noise as ref

FAMILIES = torch.tensor([2, 0, 2, 1, 0, 2])  # of 2, 1 and 3 classes, not side by side, as superclasses are not


def test_no_noise_changes_nothing():
    target = torch.arange(6)
    assert torch.equal(superclass_noise(target, FAMILIES, 0.0, seed=3), target)


@pytest.mark.parametrize("p", [0.3, 1.0])
def test_labels_follow_the_law(p):
    """Chi-square of the noisy label for each true one with a choice (5 tests a p); false alarm 1e-4 each; seeded."""
    rows = 20_000
    law = ref.transition(FAMILIES.tolist(), p)
    for label in range(6):
        noisy = superclass_noise(torch.full((rows,), label), FAMILIES, p, seed=label)
        counts = noisy.bincount(minlength=6).numpy()
        possible = law[label] > 0
        assert counts[~possible].sum() == 0
        if possible.sum() > 1:
            expected = rows * law[label, possible]
            statistic = ((counts[possible] - expected) ** 2 / expected).sum()
            assert statistic < chi2.ppf(1 - 1e-4, possible.sum() - 1)


def test_half_the_labels_of_five_drawn_again_changes_four_tenths():
    """Standard deviation 0.0015 at 100,000 rows; the bound of 0.008 is beyond 5 of them."""
    target = torch.arange(100).repeat(1000)
    noisy = superclass_noise(target, torch.arange(100) % 20, 0.5, seed=0)
    assert (noisy != target).double().mean().item() == pytest.approx(0.4, abs=0.008)
    assert torch.equal(noisy % 20, target % 20)


def test_a_row_depends_on_the_seed_and_its_number_only():
    target = torch.randint(6, (1000,), generator=torch.Generator().manual_seed(0))
    whole = superclass_noise(target, FAMILIES, 0.7, seed=5)
    assert torch.equal(superclass_noise(target[:300], FAMILIES, 0.7, seed=5), whole[:300])
    changed = target.clone()
    changed[10] = (changed[10] + 1) % 6
    other = superclass_noise(changed, FAMILIES, 0.7, seed=5)
    assert torch.equal(other[11:], whole[11:])
    assert torch.equal(other[:10], whole[:10])
    assert not torch.equal(superclass_noise(target, FAMILIES, 0.7, seed=6), whole)


def test_inputs_are_not_changed_and_rows_may_be_none():
    target = torch.arange(6)
    superclass_noise(target, FAMILIES, 1.0, seed=0)
    assert target.tolist() == [0, 1, 2, 3, 4, 5]
    assert superclass_noise(target[:0], FAMILIES, 1.0, seed=0).shape == (0,)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.floats(0, 1), st.integers(0, 4), st.integers(0, 2**31))
def test_posterior_against_the_definition(superclass_of, p, rows, seed):
    posterior = np.random.default_rng(seed).dirichlet(np.ones(len(superclass_of)), rows)
    got = noisy_posterior(torch.from_numpy(posterior), torch.tensor(superclass_of), p)
    np.testing.assert_allclose(got.numpy(), ref.noisy_posterior(posterior, superclass_of, p), atol=1e-14)


def test_posterior_keeps_its_dtype_and_its_sum():
    posterior = torch.rand(50, 6, generator=torch.Generator().manual_seed(1)).softmax(1)
    noisy = noisy_posterior(posterior, FAMILIES, 0.5)
    assert noisy.dtype == torch.float32
    torch.testing.assert_close(noisy.sum(1), torch.ones(50))


def test_the_posterior_is_the_law_of_the_noise():
    """Frequencies of 40,000 draws against the law of one row; chi-square, false alarm 1e-4; seeded."""
    law = torch.tensor([[0.1, 0.2, 0.3, 0.1, 0.1, 0.2]], dtype=torch.float64)
    rows = 40_000
    truth = torch.multinomial(law[0], rows, replacement=True, generator=torch.Generator().manual_seed(0))
    counts = superclass_noise(truth, FAMILIES, 0.6, seed=1).bincount(minlength=6).numpy()
    expected = rows * noisy_posterior(law, FAMILIES, 0.6)[0].numpy()
    assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-4, 5)


@pytest.mark.parametrize(
    ("target", "superclass_of", "p", "message"),
    [
        (torch.arange(3), torch.arange(3), 1.5, "p: expected a number from 0 to 1, got 1.5"),
        (torch.arange(4), torch.arange(3), 0.5, "target: expected labels from 0 to 2, got 3"),
        (
            torch.zeros(3, 3, dtype=torch.bool),
            torch.arange(3),
            0.5,
            r"target: expected int64 \(N,\), one label a row, got bool",
        ),
        (torch.arange(3), torch.zeros(3), 0.5, r"superclass_of: expected int64 \(C,\) from 0, got float32"),
        (torch.arange(3), torch.tensor([-1, 0, 0]), 0.5, r"superclass_of: expected int64 \(C,\) from 0"),
    ],
)
def test_bad_input(target, superclass_of, p, message):
    with pytest.raises(InputError, match=message):
        superclass_noise(target, superclass_of, p, seed=0)


def test_bad_posteriors():
    with pytest.raises(InputError, match="superclass_of: .*got 3"):
        noisy_posterior(torch.ones(2, 4), torch.arange(3), 0.5)
    with pytest.raises(InputError, match="posterior: expected floating point"):
        noisy_posterior(torch.ones(2, 4, dtype=torch.int64), torch.arange(4), 0.5)
