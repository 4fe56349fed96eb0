"""Cumulative mass by kernels: the same values and sets as sorting and adding, bit for bit."""

from fractions import Fraction

import pytest
import torch

from shortlist.kernels import prefix, use_kernels
from shortlist.kernels.choice import fused
from shortlist.sets import CumulativeMass, MassAbove
from shortlist.sets.prefixes import CUMSUM
from tests.kernels.rows import DTYPES

SHAPES = [(1, 1), (3, 2), (4, 7), (3, 129), (2, 1025)]
CASES = [*((shape, torch.float32) for shape in SHAPES), *(((3, 7), dtype) for dtype in DTYPES if dtype != torch.float32)]
ORDERINGS = {
    "mass above": MassAbove(),
    "aps": CumulativeMass(),
    "raps": CumulativeMass(penalty=0.01, k_reg=3),
    "randomised": CumulativeMass(penalty=0.003, randomized=True),
}


def random_probs(rows, classes, device, dtype=torch.float32):
    """Probabilities with ties, zeros, a certain row and one whose sum is far from 1."""
    probs = torch.randn(rows, classes, generator=torch.Generator().manual_seed(classes)).mul(3).softmax(1)
    probs[:, classes // 2] = probs[:, 0]
    probs[-1] = 1 / classes
    if rows > 2:
        probs[1] = 0.0
        probs[1, -1] = 1.0
        probs[2] *= 0.5
    return probs.to(device, dtype)


@pytest.fixture(autouse=True)
def _exact_sums_everywhere(monkeypatch):
    """As on a GPU, also where the interpreter takes the tensors of the CPU."""
    monkeypatch.setitem(CUMSUM, "cpu", prefix.exact_cumsum)


def plain(function):
    """The result without kernels."""
    with use_kernels("never"):
        return function()


@pytest.mark.parametrize("name", ORDERINGS)
@pytest.mark.parametrize(("shape", "dtype"), CASES, ids=str)
def test_values_at_labels_are_those_of_sorted_rows(shape, dtype, name, device):
    rows, classes = shape
    probs, ordering = random_probs(*shape, device, dtype), ORDERINGS[name]
    assert fused("prefix", probs)
    for shift in range(min(classes, 3)):
        target = (torch.arange(rows, device=device) + shift * (classes - 1)) % classes
        assert torch.equal(ordering.at_labels(probs, target), plain(lambda t=target: ordering.at_labels(probs, t)))
    marks = torch.arange(rows * classes, device=device).reshape(shape) % 41 == 0
    assert torch.equal(ordering.at_labels(probs, marks), plain(lambda: ordering.at_labels(probs, marks)))


@pytest.mark.parametrize("name", ORDERINGS)
@pytest.mark.parametrize(("shape", "dtype"), CASES, ids=str)
def test_sets_are_those_of_sorted_rows_at_every_threshold(shape, dtype, name, device):
    probs, ordering = random_probs(*shape, device, dtype), ORDERINGS[name]
    draws = torch.linspace(0, 0.99, len(probs), dtype=torch.float64, device=device)[:, None] if name == "randomised" else None
    values = plain(lambda: ordering.drawn(probs, draws))
    exact = values.flatten()[:: max(1, values.numel() // 3)].tolist()  # labels exactly at the threshold
    for threshold in [-1e-9, 0.9, torch.inf, *exact]:
        given = torch.tensor(threshold, dtype=torch.float64, device=device)
        found = ordering.select(probs, given, draws) if draws is not None else ordering.select(probs, given)
        assert torch.equal(found, values <= given), threshold


def test_many_ties_are_taken_by_lower_index(device):
    probs = torch.full((2, 300), 1 / 300, device=device)
    for number in (0, 1, 137, 299, 300):
        threshold = torch.tensor((number + 0.5) / 300, dtype=torch.float64, device=device)
        found = CumulativeMass().select(probs, threshold)
        assert torch.equal(found, (torch.arange(300, device=device) < number).expand(2, -1))


def test_the_sums_are_exact_fractions(device):
    probs = random_probs(4, 129, device)
    target = torch.tensor([0, 64, 128, 5], device=device)
    for row, label, found in zip(probs.tolist(), target.tolist(), MassAbove().at_labels(probs, target).tolist(), strict=True):
        before = [p for place, p in enumerate(row) if p > row[label] or (p == row[label] and place < label)]
        assert found == float(sum(map(Fraction, before)))


def test_empty_batches_and_strided_rows(device):
    empty = torch.empty(0, 5, device=device)
    threshold = torch.tensor(0.5, dtype=torch.float64, device=device)
    assert CumulativeMass().select(empty, threshold).shape == (0, 5)
    assert CumulativeMass().at_labels(empty, torch.empty(0, dtype=torch.int64, device=device)).shape == (0,)
    wide = random_probs(4, 40, device)
    for part in (wide[:, ::2], wide[::2, 3:20], wide.T.contiguous().T):
        expected = plain(lambda p=part: CumulativeMass().select(p, threshold))
        assert torch.equal(CumulativeMass().select(part, threshold), expected)


def test_operators_are_registered_with_their_shapes(device):
    probs, target = random_probs(3, 7, device), torch.tensor([1, 2, 3], device=device)
    threshold = torch.tensor(0.5, dtype=torch.float64, device=device)
    mass = prefix.Mass(True, 1e-3, 0.01, 2)
    for name, arguments in {"prefix_values": (probs, None, target), "prefix_sets": (probs, threshold, None)}.items():
        torch.library.opcheck(getattr(torch.ops.shortlist, name).default, (*arguments, *mass))


def test_an_ordering_with_other_steps_is_left_to_its_own(device):
    class Squares(CumulativeMass):
        kind = "squares"

        def steps(self, ordered):
            return ordered.double().square().cumsum(1)

    probs = random_probs(3, 7, device)
    assert Squares().mass is None
    expected = Squares().at_labels(probs, torch.tensor([0, 1, 2], device=device))
    assert torch.equal(expected, plain(lambda: Squares().at_labels(probs, torch.tensor([0, 1, 2], device=device))))
