"""The cut by the kernels, against sorting everything and against the plain form."""

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.kernels import select, use_kernels
from shortlist.selection import Cut, cut_largest
from shortlist.sets import parse_rule
from tests.test_selection import DTYPES, TIED, Source, assert_right, by_sorting, draw

READS = {torch.float16: 1, torch.bfloat16: 1, torch.float32: 3, torch.float64: 6}
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def plain(values, m):
    with use_kernels("never"):
        return cut_largest(Source(values.cpu()), lambda rows: m)


@pytest.fixture
def small_blocks(monkeypatch):
    """Several programs, and several blocks for each, at sizes that the interpreter can do."""
    monkeypatch.setattr(select, "BLOCK", 16)
    monkeypatch.setattr(select, "PROGRAMS", 3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", [0, 1, 2, 57, 119, 120, 500])
def test_cut_keeps_what_sorting_everything_would(device, small_blocks, dtype, m):
    values = draw(30, 4, dtype)
    source = Source(values.to(device), 7)
    cut = cut_largest(source, lambda rows: m)
    assert_right(cut, values, m)
    assert cut == plain(values, m)
    assert source.reads <= READS[dtype]


@pytest.mark.parametrize("dtype", READS)
def test_values_are_read_once_for_half_three_times_for_single_and_six_times_for_double(device, dtype):
    source = Source(draw(200, 10, dtype).to(device), 200)
    cut_largest(source, lambda rows: 3 * rows)
    assert source.reads == READS[dtype] == len(select.rounds_of(dtype))


@given(TIED, st.integers(-1, 25), st.sampled_from([*DTYPES, torch.bfloat16]), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_ties_signed_zeros_and_negative_values_are_cut_as_sorting_would(numbers, m, dtype, batch):
    values = torch.tensor(numbers, dtype=dtype)[:, None]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with use_kernels("always"):
        cut = cut_largest(Source(values.to(device), batch), lambda rows: m)
    assert cut == plain(values, m)
    assert cut.kept == by_sorting(values, m)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16])
def test_neighbouring_floats_infinities_and_extremes_are_told_apart(device, small_blocks, dtype):
    ends = torch.finfo(dtype)
    seen = torch.tensor([0.1, -0.1, 1.0, ends.max, ends.min, ends.tiny, -ends.tiny, ends.smallest_normal / 2], dtype=dtype)
    near = torch.cat([seen, torch.nextafter(seen, torch.ones_like(seen)), torch.tensor([math.inf, -math.inf], dtype=dtype)])
    for m in (1, 2, 5, 8, 9, 13, 16, 17):
        assert cut_largest(Source(near[:, None].to(device)), lambda rows, m=m: m) == plain(near[:, None], m), m


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "kept"), [(4, 0), (5, 0), (6, 10), (9, 10)])
def test_equal_values_are_all_in_or_all_out_whichever_is_nearer(device, dtype, m, kept):
    values = torch.full((5, 2), -2.5, dtype=dtype, device=device)
    cut = cut_largest(Source(values), lambda rows: m)
    assert cut.kept == kept == int((values >= cut.threshold).sum())


def test_next_value_far_below_is_found(device, small_blocks):
    """P[m+1] shares no leading digit with P[m], and is in another batch."""
    values = torch.cat([torch.linspace(0.9, 1, 40), torch.tensor([1e-20, 1e-25]), torch.linspace(-5, 0, 60)])[:, None]
    assert_right(cut_largest(Source(values.to(device), 9), lambda rows: 40), values, 40)
    assert_right(cut_largest(Source(values.to(device), 9), lambda rows: 42), values, 42)


@pytest.mark.parametrize("dtype", DTYPES)
def test_strided_batches_are_cut_too(device, small_blocks, dtype):
    values = draw(20, 12, dtype)
    part = values[::2, 1::3]
    assert cut_largest(lambda: iter([part.to(device)]), lambda rows: 13) == plain(part, 13)
    turned = values.t()
    assert cut_largest(lambda: iter([turned.to(device)]), lambda rows: 100) == plain(turned, 100)


def test_batches_may_be_empty_and_the_source_may_be(device):
    values = draw(4, 3, torch.float32).to(device)
    batches = [values[:0], values[:3], values[:0], values[3:]]
    assert_right(cut_largest(lambda: iter(batches), lambda rows: 5), values.cpu(), 5)
    assert cut_largest(lambda: iter([values[:0]]), lambda rows: 0) == Cut(math.inf, 0, 0, 0)


def test_every_number_of_half_precision_has_its_place(device):
    values = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.float16)
    values = values[values.isfinite()][:, None]
    for m in (1, 31743, 50000):
        assert cut_largest(lambda: iter([values.to(device)]), lambda rows, m=m: m) == plain(values, m)


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("dtype", READS)
def test_large_tensors_are_cut_as_on_the_cpu(dtype):
    values = torch.randn(31_118, 1_081, generator=torch.Generator().manual_seed(0)).mul_(3).softmax(1).to(dtype)
    assert cut_largest(lambda: iter([values.cuda()]), lambda rows: 5 * rows) == plain(values, 5 * len(values))


@pytest.mark.gpu
@gpu
def test_more_than_two_to_the_31_values_are_counted():
    values = torch.zeros(2**16 + 1, 2**15, dtype=torch.float16, device="cuda")
    values[-1] = torch.linspace(1, 2, 2**15)
    cut = cut_largest(lambda: iter([values]), lambda rows: 2**15)
    assert (cut.kept, cut.threshold) == (2**15, 0.5)


@pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
@pytest.mark.parametrize("text", ["average-k:2.5", "average-k:2:prior", "average-k:3,cap:4"])
def test_rules_are_fitted_as_without_kernels(device, text):
    probs = (2 * draw(40, 12, torch.float32)).softmax(1)
    prior = torch.linspace(0.5, 1.5, 12) / 12
    found = parse_rule(text, prior=prior).to(device).fit(lambda: iter(probs.to(device).split(17)))
    with use_kernels("never"):
        expected = parse_rule(text, prior=prior).fit(probs)
    assert found.threshold.item() == expected.threshold.item()
    assert found.calibrated == expected.calibrated


@pytest.mark.gpu
@gpu
def test_a_fit_on_the_gpu_copies_only_its_result(monkeypatch):
    """Nothing larger than a row of counts moves to the CPU."""
    probs = torch.randn(2000, 500, generator=torch.Generator().manual_seed(0)).softmax(1).cuda()
    moved = []
    cpu = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: moved.append(tensor.numel() * tensor.is_cuda) or cpu(tensor))
    parse_rule("average-k:3").fit(lambda: iter(probs.split(700)))
    assert max(moved) <= 501
