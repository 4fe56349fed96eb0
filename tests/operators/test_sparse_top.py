"""Projection onto the points with entries from 0 to 1 that sum to k."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.errors import InputError
from shortlist.operators import sparse_top
from tests.references import operators as reference


def project(row, k, dtype=torch.float64):
    return sparse_top(torch.tensor([row], dtype=dtype), k)[0].double().numpy()


# A coarse grid makes ties, and scores exactly 1 apart, where entries turn from fractional to 0 or 1.
grid = st.integers(-12, 12).map(lambda n: n / 4)
rows = st.lists(st.one_of(grid, st.floats(-4, 4, width=32)), min_size=1, max_size=6)


@given(rows, st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_it_is_the_nearest_point_of_all_faces(row, share):
    for k in (share * len(row), float(round(share * len(row)))):
        found = project(row, k)
        np.testing.assert_allclose(found, reference.sparse_top(row, k), atol=1e-12)
        np.testing.assert_allclose(project(row, k, torch.float32), found, atol=4e-6)


@given(rows, st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_entries_lie_between_0_and_1_sum_to_k_and_keep_order_and_ties(row, share):
    k = share * len(row)
    found = project(row, k)
    assert found.min() >= 0
    assert found.max() <= 1
    assert found.sum() == pytest.approx(k, abs=1e-12)
    for i in range(len(row)):
        for j in range(len(row)):
            if row[i] >= row[j]:
                assert found[i] >= found[j]


@given(rows, st.floats(0.01, 0.99))
@settings(max_examples=40, deadline=None)
def test_its_own_output_stays_where_it_is(row, share):
    found = project(row, share * len(row))
    np.testing.assert_allclose(project(found.tolist(), share * len(row)), found, atol=1e-12)


@given(st.integers(0, 5), st.integers(1, 40), st.floats(0, 1), st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_every_row_is_projected_by_itself(number, classes, share, seed):
    scores = 2 * torch.randn(number, classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = sparse_top(scores, share * classes)
    assert found.shape == scores.shape
    for one, row in zip(found, scores, strict=True):
        np.testing.assert_allclose(one.numpy(), project(row.tolist(), share * classes), atol=1e-12)
    # What fixes the projection: one λ, from which all entries follow by clipping.
    for one, row in zip(found, scores, strict=True):
        free = (one > 1e-9) & (one < 1 - 1e-9)
        if free.any():
            level = (row - one)[free]
            assert level.max() - level.min() < 1e-9
            torch.testing.assert_close((row - level.mean()).clamp(0, 1), one, atol=1e-9, rtol=0)


def test_with_k_1_it_is_sparsemax():
    """Martins and Astudillo 2016, algorithm 1: sort, find the support, shift."""
    for seed in range(20):
        row = np.random.default_rng(seed).standard_normal(12) * (0.2 + seed / 5)
        ordered, sums = np.sort(row)[::-1], np.cumsum(np.sort(row)[::-1])
        support = max(n for n in range(1, 13) if 1 + n * ordered[n - 1] > sums[n - 1])
        level = (sums[support - 1] - 1) / support
        np.testing.assert_allclose(project(row.tolist(), 1), np.maximum(row - level, 0), atol=1e-12)


@pytest.mark.parametrize(
    ("row", "k", "expected"),
    [
        ([1.0, 0.5, -3.0], 1, [0.75, 0.25, 0]),
        ([0.0] * 4, 1, [0.25] * 4),
        ([0.0] * 4, 2.5, [0.625] * 4),
        ([5.0, 5.0, 5.0, 0.0], 2, [2 / 3, 2 / 3, 2 / 3, 0]),
        ([3.0, 2.0, 1.0, 0.0], 2, [1, 1, 0, 0]),
        ([3.0, 1.5, 1.0, 0.0], 2, [1, 0.75, 0.25, 0]),
        ([1e4, 1e4, -1e4, -1e4], 1, [0.5, 0.5, 0, 0]),
        ([1e4, 1e4, -1e4, -1e4], 2, [1, 1, 0, 0]),
        ([1e4, 1e4, -1e4, -1e4], 3, [1, 1, 0.5, 0.5]),
        ([-1e4, 1e4, 0.0, 0.25], 1.5, [0, 1, 0.125, 0.375]),
        ([7.0], 0.3, [0.3]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_known_projections(row, k, expected, dtype):
    np.testing.assert_allclose(project(row, k, dtype), expected, atol=1e-6 if dtype == torch.float32 else 1e-11)


@pytest.mark.parametrize("offset", [1e3, 1e4, -1e4])
def test_a_common_offset_costs_no_precision(offset):
    """Differences of scores are exact here: the projection must be as good as without the offset."""
    row = (64 * np.random.default_rng(0).standard_normal(6)).round() / 64
    for k in (1, 1.7, 4):
        found = project((row + offset).tolist(), k, torch.float32)
        np.testing.assert_allclose(found, reference.sparse_top(row.tolist(), k), atol=2e-6)


@pytest.mark.parametrize("law", ["normal", "cauchy", "two clumps", "tied"])
@pytest.mark.parametrize("k", [1, 8, 9, 30.5, 500, 990])
def test_many_classes_are_projected_to_full_precision(law, k):
    random = np.random.default_rng(3)
    rows = {
        "normal": random.standard_normal((4, 1000)),
        "cauchy": random.standard_cauchy((4, 1000)),
        "two clumps": np.where(random.random((4, 1000)) < 0.03, 300.0, -300.0) + random.standard_normal((4, 1000)),
        "tied": random.standard_normal((4, 1000)).round(),
    }[law]
    found = sparse_top(torch.from_numpy(rows), k).numpy()
    np.testing.assert_allclose(found.sum(1), k, rtol=1e-11)
    for row, q in zip(rows, found, strict=True):
        free = (q > 0) & (q < 1)
        level = (row - q)[free].mean() if free.any() else (row[q == 1].min() - 1 + row[q == 0].max()) / 2
        np.testing.assert_allclose(np.clip(row - level, 0, 1), q, atol=1e-9)
    single = sparse_top(torch.from_numpy(rows).float(), k).double().numpy()
    np.testing.assert_allclose(single, sparse_top(torch.from_numpy(rows).float().double(), k).numpy(), atol=1e-4)


@given(rows, st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_its_jacobian_is_the_formula(row, share):
    k = share * len(row)
    scores = torch.tensor([row], dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda s: sparse_top(s, k), scores)[0, :, 0]
    np.testing.assert_allclose(jacobian.numpy(), reference.sparse_top_jacobian(project(row, k).tolist()), atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3.3, 6])
def test_its_gradient_is_that_of_finite_differences(k):
    scores = torch.randn(5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: sparse_top(s, k), scores)


@pytest.mark.parametrize("k", [0, 0.0, 4, 4.0])
def test_none_and_all_classes_are_constant_with_gradient_0(k):
    scores = torch.tensor([[1e4, -1e4, 0.0, 2.0]], requires_grad=True)
    found = sparse_top(scores, k)
    assert (found == k / 4).all()
    (gradient,) = torch.autograd.grad((found * torch.arange(4.0)).sum(), scores)
    assert (gradient == 0).all()


@pytest.mark.parametrize("k", [0, 1, 2.5, 4])
def test_no_rows_give_no_rows(k):
    assert sparse_top(torch.zeros(0, 4), k).shape == (0, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    scores = torch.randn(6, 50, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    found = sparse_top(scores, 3)
    assert found.dtype == torch.float32
    assert torch.equal(found, sparse_top(scores.detach().float(), 3))
    found.square().sum().backward()
    assert scores.grad.dtype == dtype
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("k", [-0.1, 4.1, math.nan, math.inf])
def test_a_total_out_of_reach_is_refused(k):
    with pytest.raises(InputError, match=f"^k: .*got {k}"):
        sparse_top(torch.zeros(2, 4), k)


@pytest.mark.parametrize("scores", [torch.zeros(4), torch.zeros(2, 4, dtype=torch.int64)])
def test_scores_of_another_form_are_refused(scores):
    with pytest.raises(InputError, match="scores"):
        sparse_top(scores, 1)


def test_inputs_are_left_as_they_were():
    scores = torch.randn(20, 30, generator=torch.Generator().manual_seed(0))
    before = scores.clone()
    for k in (0, 1, 12, 30):
        sparse_top(scores, k)
    assert torch.equal(scores, before)


def test_every_row_may_have_its_own_total():
    """Also those whose total is 0 or the number of classes, with a gradient of 0."""
    totals = torch.tensor([0.0, 1.0, 2.5, 4.0, 3.0])
    scores = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    found = sparse_top(scores, totals)
    for row, k, own in zip(scores.detach(), totals, found.detach(), strict=True):
        np.testing.assert_allclose(own, reference.sparse_top(row.tolist(), float(k)), atol=1e-12)
    assert torch.equal(sparse_top(scores, totals[:, None]), found)
    assert torch.equal(sparse_top(scores, totals.long().clamp(max=4))[1], sparse_top(scores, 1)[1])
    found.square().sum().backward()
    assert scores.grad.isfinite().all()
    assert not scores.grad[[0, 3]].any()
    assert sparse_top(torch.zeros(0, 3), torch.zeros(0)).shape == (0, 3)
    np.testing.assert_array_equal(sparse_top(torch.tensor([[5.0], [-5.0]]), torch.tensor([0.5, 1.0])), [[0.5], [1.0]])


@pytest.mark.parametrize(
    "k", [torch.ones(3), torch.ones(2, 4), torch.tensor([1.0, -1.0]), torch.tensor([1.0, 4.5]), torch.tensor([1.0, math.nan])]
)
def test_totals_that_no_row_can_have_are_refused(k):
    with pytest.raises(InputError, match="^k: expected"):
        sparse_top(torch.zeros(2, 4), k)


def test_batches_of_matrices_are_projected_row_by_row():
    scores = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([sparse_top(part, 2) for part in scores])
    torch.testing.assert_close(torch.func.vmap(lambda part: sparse_top(part, 2))(scores), expected)
    found = torch.func.vmap(lambda part: sparse_top(part, 2), in_dims=2, out_dims=2)(scores.permute(1, 2, 0))
    torch.testing.assert_close(found, expected.permute(1, 2, 0))
