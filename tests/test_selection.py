"""Order statistics in their plain form against sorting everything; ``tests/kernels`` has those of the GPU."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist import rounds
from shortlist.kernels import use_kernels
from shortlist.row_order import keep_largest, keep_top, sort_rows
from shortlist.selection import Cut, cut_largest

DTYPES = [torch.float16, torch.float32, torch.float64]
READS = {torch.float16: 1, torch.float32: 2, torch.float64: 4}


@pytest.fixture(autouse=True)
def _plain_form():
    with use_kernels("never"):
        yield


class Source:
    """Batches, and how often they were read."""

    def __init__(self, values, rows=3):
        self.batches, self.reads = list(values.split(rows)) if len(values) else [], 0

    def __call__(self):
        self.reads += 1
        yield from self.batches


def by_sorting(values, m):
    """The number that is kept, by the definition: P[1] ≥ P[2] ≥ …, m of them, or a tie wholly in or out."""
    ordered = sorted(values.double().flatten().tolist(), reverse=True)
    if m <= 0 or m >= len(ordered):
        return 0 if m <= 0 else len(ordered)
    if ordered[m - 1] > ordered[m]:
        return m
    tied = ordered[m - 1]
    above, through = sum(v > tied for v in ordered), sum(v >= tied for v in ordered)
    return through if through - m < m - above else above


def midpoint(values, m):
    """(P[m] + P[m+1])/2 in the values' own precision, or P[m] where that rounds to P[m+1]."""
    ordered = np.sort(values.numpy().ravel())[::-1]
    upper, lower = ordered[m - 1], ordered[m]
    middle = values.numpy().dtype.type((float(upper) + float(lower)) / 2)
    return float(middle if middle > lower else upper)


def assert_right(cut, values, m):
    assert (cut.wanted, cut.rows) == (m, len(values))
    assert cut.kept == by_sorting(values, m)
    assert int((values >= cut.threshold).sum()) == cut.kept
    if cut.kept == m and 0 < m < values.numel():
        assert cut.threshold == midpoint(values, m)


def small_budget(monkeypatch):
    monkeypatch.setattr(rounds, "KEPT_CANDIDATES", 4)


def draw(rows, classes, dtype, seed=0):
    return torch.randn(rows, classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("m", [0, 1, 2, 57, 117, 119, 120, 500])
def test_cut_keeps_what_sorting_everything_would(monkeypatch, dtype, small, m):
    if small:
        small_budget(monkeypatch)
    values = draw(30, 4, dtype)
    source = Source(values)
    assert_right(cut_largest(source, lambda rows: m), values, m)
    assert source.reads <= (READS[dtype] if small else 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_histograms_read_the_source_once_for_half_twice_for_single_and_four_times_for_double(monkeypatch, dtype):
    small_budget(monkeypatch)
    source = Source(draw(200, 10, dtype))
    cut_largest(source, lambda rows: 3 * rows)
    assert source.reads == READS[dtype]


TIED = st.lists(st.sampled_from([-3.5, -1.0, -0.0, 0.0, 1e-7, 0.25, 0.25, 1.0, 60000.0, -60000.0]), min_size=1, max_size=24)


@given(TIED, st.integers(-1, 25), st.sampled_from(DTYPES), st.integers(1, 5), st.booleans())
@settings(max_examples=150, deadline=None)
def test_ties_signed_zeros_and_negative_values_are_cut_as_sorting_would(numbers, m, dtype, batch, small):
    values = torch.tensor(numbers, dtype=dtype)[:, None]
    with pytest.MonkeyPatch.context() as patch:
        if small:
            small_budget(patch)
        assert_right(cut_largest(Source(values, batch), lambda rows: m), values, m)


@given(st.lists(st.floats(width=16, allow_nan=False, allow_infinity=False), min_size=2, max_size=12), st.integers(1, 11))
@settings(max_examples=100, deadline=None)
def test_neighbouring_floats_are_told_apart(numbers, m):
    values = torch.tensor(numbers, dtype=torch.float16)
    for dtype in DTYPES:
        near = values.to(dtype)
        near = torch.cat([near, torch.nextafter(near.double(), torch.tensor(math.inf).double()).to(dtype)])[:, None]
        with pytest.MonkeyPatch.context() as patch:
            small_budget(patch)
            assert_right(cut_largest(Source(near), lambda rows: m), near, m)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_next_float_above_is_kept_and_the_one_below_is_not(monkeypatch, dtype):
    small_budget(monkeypatch)
    low = torch.full((20, 1), 0.1, dtype=dtype)
    high = torch.nextafter(low[:7], torch.ones(1, dtype=dtype))
    cut = cut_largest(Source(torch.cat([low, high])), lambda rows: 7)
    assert (cut.kept, cut.threshold) == (7, high[0].item())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [0.0, -0.0, -2.5, 1.0])
@pytest.mark.parametrize(("m", "kept"), [(4, 0), (5, 0), (6, 10), (9, 10)])
def test_equal_values_are_all_in_or_all_out_whichever_is_nearer_and_out_if_equal(monkeypatch, dtype, value, m, kept):
    values = torch.full((5, 2), value, dtype=dtype)
    for budget in (2**21, 4):
        monkeypatch.setattr(rounds, "KEPT_CANDIDATES", budget)
        cut = cut_largest(Source(values), lambda rows: m)
        assert cut.kept == kept
        assert int((values >= cut.threshold).sum()) == kept


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("offset", [-100.0, 0.0, 100.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_sample_and_share_never_change_the_answer(monkeypatch, dtype, small, offset, share):
    """A sample from elsewhere puts the floor above everything, or below."""
    if small:
        small_budget(monkeypatch)
    values = draw(60, 5, dtype)
    sample = draw(40, 5, dtype, seed=1) + offset
    source = Source(values, 7)
    assert_right(cut_largest(source, lambda rows: 90, sample=sample, share=share), values, 90)
    assert source.reads <= READS[dtype] + 1


def test_floor_just_above_the_next_value_is_noticed():
    """With the floor on P[m] the m largest are found, yet P[m+1], which the midpoint needs, is not."""
    values = torch.arange(1000.0, 0, -1)[:, None]
    for m in range(60, 70):
        assert_right(cut_largest(Source(values, 100), lambda rows, m=m: m, sample=values, share=0.0), values, m)


def test_good_sample_leaves_candidates_that_fit_in_memory(monkeypatch):
    monkeypatch.setattr(rounds, "KEPT_CANDIDATES", 600)
    values = draw(1000, 10, torch.float64)
    source = Source(values, 100)
    assert_right(cut_largest(source, lambda rows: 100, sample=values[:500], share=0.01), values, 100)
    assert source.reads == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_batches_are_worked_on_in_pieces(monkeypatch, dtype):
    monkeypatch.setattr(rounds, "CHUNK", 7)
    for budget in (2**21, 4):
        monkeypatch.setattr(rounds, "KEPT_CANDIDATES", budget)
        values = draw(20, 5, dtype)
        assert_right(cut_largest(Source(values, 20), lambda rows: 33), values, 33)


def test_bfloat16_is_cut_too():
    values = draw(30, 4, torch.bfloat16)
    cut = cut_largest(Source(values), lambda rows: 50)
    assert cut.kept == by_sorting(values, 50) == int((values.float() >= cut.threshold).sum())


def test_batches_may_be_empty_and_the_source_may_be():
    values = draw(4, 3, torch.float32)
    batches = [values[:0], values[:3], values[:0], values[3:]]
    assert_right(cut_largest(lambda: iter(batches), lambda rows: 5), values, 5)
    assert cut_largest(lambda: iter([]), lambda rows: 0) == Cut(math.inf, 0, 0, 0)


def test_number_wanted_is_asked_with_the_number_of_rows():
    asked = []
    cut_largest(Source(draw(11, 2, torch.float32)), lambda rows: asked.append(rows) or 3)
    assert set(asked) == {11}


def test_batches_are_left_as_they_were(monkeypatch):
    small_budget(monkeypatch)
    values = torch.tensor([[-0.0, 1.0], [2.0, -3.0]])
    before = values.clone()
    cut_largest(Source(values), lambda rows: 2)
    assert torch.equal(values.view(torch.int32), before.view(torch.int32))


@pytest.mark.parametrize("low", [1.7e308, -1.7e308])
def test_midpoint_of_the_largest_doubles_does_not_overflow(low):
    values = torch.tensor([[low], [low * 0.9], [low * 0.8], [low * 0.7]], dtype=torch.float64)
    cut = cut_largest(Source(values), lambda rows: 2)
    assert int((values >= cut.threshold).sum()) == cut.kept == 2


@given(st.integers(0, 4), st.integers(1, 6), st.data())
@settings(max_examples=60, deadline=None)
def test_keep_largest_is_a_stable_sort_and_a_cut(rows, classes, data):
    grid = st.lists(st.sampled_from([-1.0, 0.0, -0.0, 0.5, 2.0]), min_size=classes, max_size=classes)
    values = torch.tensor(data.draw(st.lists(grid, min_size=rows, max_size=rows))).reshape(rows, classes)
    counts = torch.tensor(data.draw(st.lists(st.integers(0, classes), min_size=rows, max_size=rows)), dtype=torch.int64)
    padded = torch.cat([torch.full((rows, 1), math.inf), values.sort(1, descending=True).values], 1)
    padded = torch.cat([padded, torch.full((rows, 1), -math.inf)], 1)
    cutoff, following = (padded.gather(1, counts[:, None] + step).squeeze(1) for step in (0, 1))
    expected = torch.zeros(rows, classes, dtype=torch.bool)
    for i in range(rows):
        order = sorted(range(classes), key=lambda j: (-values[i, j].item(), j))
        expected[i, order[: int(counts[i])]] = True
    assert torch.equal(keep_largest(values, counts, cutoff, following), expected)


@pytest.mark.parametrize("classes", [1, 5, 256, 257, 400])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_keep_top_keeps_the_largest_ties_by_lower_index(dtype, classes):
    generator = torch.Generator().manual_seed(classes)
    values = (torch.rand(30, classes, generator=generator) * 20).round().to(dtype)  # many ties
    order = np.argsort(-values.double().numpy(), axis=1, kind="stable")
    for n in {0, 1, min(3, classes), classes}:
        expected = np.zeros(values.shape, bool)
        np.put_along_axis(expected, order[:, :n], True, axis=1)
        assert np.array_equal(keep_top(values, n).numpy(), expected)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (4, 9), (2, 3, 4)])
def test_sort_rows_sorts_each_row_and_leaves_its_input(dtype, descending, shape):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    before = values.clone()
    found = sort_rows(values, descending=descending)
    assert found.dtype == dtype
    assert torch.equal(found, values.sort(dim=-1, descending=descending).values)
    assert torch.equal(values, before)


def ranked_first(values, n):
    order = np.argsort(-values.double().numpy(), axis=1, kind="stable")
    expected = np.zeros(values.shape, bool)
    np.put_along_axis(expected, order[:, :n], True, axis=1)
    return expected


@pytest.mark.parametrize("classes", [257, 300, 1081, 3000])
@pytest.mark.parametrize("n", [1, 5, 15, 16, 100])
def test_keep_top_of_long_rows(classes, n):
    generator = torch.Generator().manual_seed(n)
    values = torch.randn(40, classes, generator=generator)
    values[0], values[1, 5:], values[2] = 0.0, -torch.inf, values[2].round()
    values[3], values[4, -3:] = torch.arange(classes), 9.0  # the largest beside each other, and in the columns of no group
    values[5, 7] = torch.inf
    for scores in (values, values.double(), values.T.contiguous().T, values[::2, 1:]):
        assert np.array_equal(keep_top(scores, n).numpy(), ranked_first(scores, n))


def test_keep_top_of_no_rows():
    assert keep_top(torch.zeros(0, 1000), 3).shape == (0, 1000)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16])
@pytest.mark.parametrize("floor", [False, True])
def test_few_values_in_one_batch_have_wide_digits_and_the_same_cut(dtype, floor, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(40, 5, generator=generator).to(dtype)
    values[:10] = values[10:20]  # ties
    values[3, :4] = torch.tensor([0.0, -0.0, torch.inf, -torch.inf]).to(dtype)
    asked = []
    count = rounds.Counter.add
    monkeypatch.setattr(rounds.Counter, "add", lambda self, given: asked.append(self.asked.widths) or count(self, given))
    bits = 8 * (4 if dtype == torch.bfloat16 else values.element_size())
    for m in range(values.numel() + 1):
        sample, found = values[::7] if floor else None, []
        for few in (2**14, 0):
            monkeypatch.setattr(rounds, "FEW", few)
            asked.clear()
            found.append(cut_largest(Source(values, 40), lambda rows, m=m: m, sample=sample, share=m / values.numel()))
            if few and 0 < m < values.numel() and not floor:
                assert asked == [(min(32, bits),), (32, 32)][: max(1, bits // 32)]
        assert found[0] == found[1]
        assert found[0].kept == by_sorting(values, m)


@pytest.mark.parametrize("pays", [0, 2**20], ids=["searched", "in a table"])
def test_open_codes_are_found_by_searching_as_in_a_table(pays, monkeypatch):
    monkeypatch.setattr(rounds, "PAYS", pays)
    opened = [3, 7, 4000]
    places = rounds._Places(np.array(opened, np.uint64))
    codes = np.random.default_rng(0).choice([0, 3, 4, 7, 3999, 4000, 4001, 2**40], 200)
    inside, found = places.of(codes)
    assert inside.tolist() == [code in opened for code in codes]
    assert found.tolist() == [opened.index(code) for code in codes if code in opened]
    assert (places._table is None) == (pays == 0)
