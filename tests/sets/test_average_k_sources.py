"""Average-k from batches: the same threshold to the last bit, few reads, little memory."""

import tracemalloc

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import shortlist.rounds
from shortlist.errors import InputError
from shortlist.kernels import use_kernels
from shortlist.sets import average_k


@pytest.fixture
def few_candidates(monkeypatch):
    """Turn to histograms almost at once, those of the plain form."""
    monkeypatch.setattr(shortlist.rounds, "KEPT_CANDIDATES", 16)
    with use_kernels("never"):
        yield


def probs_of(dtype, *, rows=200, classes=7, seed=0, scale=3.0):
    scores = scale * torch.randn(rows, classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return scores.softmax(1).to(dtype)


@pytest.mark.filterwarnings("ignore:.*tie at the cut")
@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("k", [0.005, 0.3, 1, 2.5, 6.9])
@pytest.mark.parametrize("scale", [0.0, 1e-3, 3.0, 300.0])
def test_histograms_find_the_threshold_of_a_full_sort(dtype, k, scale):
    probs = probs_of(dtype, scale=scale)
    parts = probs.split(30)
    found = average_k(k).fit(lambda: iter(parts))
    ordered = probs.flatten().sort(descending=True).values
    wanted = int(k * 200 + 0.5)
    upper, lower = ordered[wanted - 1], ordered[wanted]
    assert int((found(probs)).sum()) == wanted or upper == lower
    if upper > lower:
        assert lower.double() < found.threshold <= upper.double()


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("k", [1, 3])
def test_histograms_order_negative_scores_and_zeros_of_both_signs(dtype, k):
    scores = torch.tensor([[-4.0, -2.0, -0.0, 0.5], [-3.0, -1.0, 0.25, 8.0]] * 20, dtype=dtype)
    scores += torch.arange(40, dtype=dtype)[:, None] / 64
    expected = scores.flatten().sort(descending=True).values[: 40 * k]
    rule = average_k(k)
    kept = scores[rule.fit(list(scores.split(7)))(scores)]
    assert torch.equal(kept.sort(descending=True).values, expected)


@pytest.mark.usefixtures("few_candidates")
def test_zeros_of_both_signs_are_tied():
    scores = torch.tensor([[0.0, -1.0], [-0.0, -1.0]] * 20)
    with pytest.warns(match="0 labels are returned on 40 rows instead of 20"):
        average_k(0.5).fit([scores])


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize(("dtype", "most"), [(torch.float16, 1), (torch.float32, 2), (torch.float64, 4)], ids=str)
def test_few_reads_suffice(dtype, most):
    """A wrong guess of the floor may add one; rows that are alike do not mislead it."""
    parts, reads = probs_of(dtype, rows=1000).split(100), []

    def read():
        yield from parts
        reads.append(1)

    average_k(2.5).fit(read)
    assert 2 <= len(reads) <= most + 1  # one to measure the sizes


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_first_batch_unlike_the_others_misleads_nothing(dtype):
    flat, sure = probs_of(dtype, rows=900, scale=0.1), probs_of(dtype, rows=100, scale=50.0)
    whole = torch.cat([sure, flat])
    assert average_k(2.5).fit([sure, flat]).threshold == average_k(2.5).fit([flat, sure]).threshold
    assert int(average_k(2.5).fit([sure, flat])(whole).sum()) == 2500


def test_a_guess_that_leaves_exactly_the_wanted_labels_is_seen():
    """The first batch suggests a floor that 214 values reach; P[214] is one of them and P[215] is not."""
    first, rest = (torch.arange(1000, 2000) / 2048).reshape(100, 10), (torch.arange(1140) / 4096).reshape(114, 10)
    cut = average_k(1).fit([first, rest]).threshold.item()
    assert (cut - 0.5 / 2048, cut + 0.5 / 2048) == (1785 / 2048, 1786 / 2048)


def one_shot(*parts):
    yield from parts


def test_a_generator_of_float16_is_read_once():
    probs = (torch.randperm(900, generator=torch.Generator().manual_seed(0)) / 1024).reshape(300, 3).half()
    expected = average_k(1).fit(probs).threshold
    assert average_k(1).fit(one_shot(*probs.split(70))).threshold == expected


def test_a_generator_of_float16_may_start_with_rows_unlike_the_others():
    high, low = (torch.arange(600, 900) / 1024).half().reshape(100, 3), (torch.arange(600) / 1024).half().reshape(200, 3)
    expected = average_k(1).fit(torch.cat([high, low])).threshold
    assert average_k(1).fit(one_shot(high, low)).threshold == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_a_generator_of_anything_else_is_refused(dtype):
    with pytest.raises(InputError, match="probs: .*got a generator"):
        average_k(1).fit(one_shot(probs_of(dtype)))


def test_a_loader_without_labels_is_a_list_of_batches():
    probs = probs_of(torch.float32)
    loader = DataLoader(TensorDataset(probs), batch_size=64)
    assert average_k(1.5).fit(loader).threshold == average_k(1.5).fit(probs).threshold


def test_batches_of_other_widths_are_refused():
    with pytest.raises(InputError, match="classes"):
        average_k(1).fit([torch.rand(4, 3), torch.rand(4, 5)])


@pytest.mark.parametrize(
    "dtypes", [(torch.float64, torch.float32), (torch.float32, torch.float64), (torch.float32, torch.float16)]
)
def test_batches_of_two_precisions_are_refused(dtypes):
    with pytest.raises(InputError, match="float"):
        average_k(2).fit([probs_of(dtype) for dtype in dtypes])


@pytest.mark.filterwarnings("ignore:.*tie at the cut")
@pytest.mark.parametrize("seed", [0, 1])
def test_memory_stays_small(monkeypatch, seed):
    """48 MB of float32 pass by; at most a batch of 1.2 MB with its working copies and the histograms are held."""
    monkeypatch.setattr(shortlist.rounds, "KEPT_CANDIDATES", 1000)

    def read():
        generator = torch.Generator().manual_seed(seed)
        for _ in range(40):
            yield torch.rand(3000, 100, generator=generator)

    tracemalloc.start()
    rule = average_k(50).fit(read)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6
    assert rule.threshold.item() == pytest.approx(0.5, abs=1e-3)
    assert sum(tensor.numel() for tensor in rule.state_dict().values()) == 1
