"""Where the label estimates of ROLE are kept: how they start, how they learn, what float16 costs."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm

from shortlist.errors import InputError, ShortlistWarning
from shortlist.losses import RoleEstimates, role_loss
from shortlist.losses.role import SHAPE_BYTES, round_at_random

EDGE, OBSERVED = math.log(0.6 / 0.4), math.log(0.995 / 0.005)


def index_of(*places):
    return torch.tensor(places, dtype=torch.int64)


def learn(store, index, target, gradient, rate):
    """One step along a given gradient; what was read before it."""
    rows = store(index, target)
    rows.backward(gradient.expand_as(rows))
    store.step(rate)
    return rows.detach()


def test_rows_start_uniform_with_the_observed_label_nearly_certain():
    """Kolmogorov-Smirnov, seeded, false alarm 1e-6."""
    store = RoleEstimates(300, 20)
    target = torch.arange(300) % 20
    start = store(torch.arange(300), target).detach()
    assert start.dtype == torch.float32
    observed = start.gather(1, target[:, None])
    np.testing.assert_allclose(observed.numpy(), OBSERVED, rtol=1e-3)
    others = start[torch.ones(300, 20, dtype=torch.bool).scatter_(1, target[:, None], False)]
    assert others.abs().max() <= EDGE * (1 + 1e-3)
    assert kstest(others.numpy(), "uniform", args=(-EDGE, 2 * EDGE)).pvalue > 1e-6


def test_the_same_rows_come_back_in_any_order_and_company():
    store = RoleEstimates(50, 4)
    target = torch.arange(50) % 4
    first = store(index_of(3, 7, 9), target[[3, 7, 9]]).detach()
    store(torch.arange(50), target)
    again = store(index_of(9, 1, 3), target[[9, 1, 3]]).detach()
    assert torch.equal(again[0], first[2])
    assert torch.equal(again[2], first[0])
    assert not torch.equal(first[0], first[1])


def test_a_row_that_has_started_does_not_start_again_for_another_label():
    store = RoleEstimates(5, 4)
    first = store(index_of(2), index_of(1)).detach()
    assert torch.equal(store(index_of(2), index_of(3)).detach(), first)


def test_a_row_read_twice_in_one_batch_is_one_row():
    store = RoleEstimates(5, 4)
    rows = store(index_of(2, 2), index_of(1, 1)).detach()
    assert torch.equal(rows[0], rows[1])


def test_the_seed_decides_the_start():
    first, same, other = (
        RoleEstimates(6, 30, seed=seed)(torch.arange(6), torch.zeros(6, dtype=torch.int64)).detach() for seed in (1, 1, 2)
    )
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_the_global_seed_is_neither_used_nor_changed():
    state = torch.get_rng_state()
    store = RoleEstimates(6, 30)
    learn(store, torch.arange(6), torch.zeros(6, dtype=torch.int64), torch.ones(6, 30), 0.1)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_step_is_gradient_descent_on_the_rows_read_and_no_others():
    store = RoleEstimates(20, 6)
    everything = torch.arange(20)
    before = store(everything, everything % 6).detach()
    index = index_of(4, 11, 2)
    estimates = store(index, index % 6)
    scores = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    role_loss(scores, index % 6, estimates=estimates, k=2, weight=0.1).backward()
    gradient = estimates.grad.clone()
    store.step(rate=0.5)
    after = store(everything, everything % 6).detach()
    np.testing.assert_allclose(after[index].numpy(), (before[index] - 0.5 * gradient).numpy(), rtol=2**-10, atol=1e-6)
    assert (after[index] != before[index]).float().mean() > 0.9
    others = torch.ones(20, dtype=torch.bool).index_fill(0, index, False)
    assert torch.equal(after[others], before[others])


def test_a_row_read_twice_in_one_batch_moves_by_both_gradients():
    store = RoleEstimates(5, 4)
    before = store(index_of(2), index_of(1)).detach()
    rows = store(index_of(2, 2), index_of(1, 1))
    rows.backward(torch.tensor([[1.0], [3.0]]).expand(2, 4))
    store.step(rate=0.5)
    after = store(index_of(2), index_of(1)).detach()
    np.testing.assert_allclose((before - after).numpy(), 2.0, rtol=0.01)


def test_only_the_rows_last_read_move():
    store = RoleEstimates(5, 4)
    first, second = store(index_of(0), index_of(1)), store(index_of(1), index_of(1))
    before = first.detach().clone()
    (first.sum() + second.sum()).backward()
    store.step(rate=1.0)
    assert torch.equal(store(index_of(0), index_of(1)).detach(), before)
    np.testing.assert_allclose((second.detach() - store(index_of(1), index_of(1)).detach()).numpy(), 1.0, rtol=0.01)


VALUES = {"one": 1.0002, "below": 0.3, "negative": -2.7183, "large": 1000.3, "a grid point": 0.25, "zero": 0.0, "small": 2e-4}


def assert_unbiased(value, number=40_000, seed=0):
    """Two neighbours in float16, and in the mean the value; false alarm 1e-6."""
    values = torch.full((number,), value)
    rounded = round_at_random(values, torch.Generator().manual_seed(seed))
    assert rounded.dtype == torch.float16
    rounded = rounded.double()
    ends = rounded.unique()
    assert len(ends) <= 2
    assert ends[0] <= values[0].double() <= ends[-1]
    error = abs(rounded.mean().item() - values[0].item())
    assert error <= norm.isf(5e-7) * rounded.std().item() / math.sqrt(number)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_rounding_is_to_a_neighbour_and_right_on_average(value):
    assert_unbiased(value)


@pytest.mark.parametrize("value", [4e-5, -4.01e-6, 2e-8])
def test_rounding_is_right_on_average_below_the_normal_numbers_of_float16_too(value):
    assert_unbiased(value)


def test_steps_far_below_the_resolution_move_the_mean():
    """Float16 has steps of 2⁻⁹ at 2.5: 200 steps of a fiftieth of that, of 4,000 entries; false alarm 1e-6."""
    store = RoleEstimates(40, 100)
    store.logits.fill_(2.5)
    index, target = torch.arange(40), torch.zeros(40, dtype=torch.int64)
    small = 2**-9 / 50
    for _ in range(200):
        learn(store, index, target, torch.ones(1), small)
    moved = 2.5 - store(index, target).detach().double()
    # Each step rounds with variance p (1 - p) resolution², p a fiftieth.
    deviation = math.sqrt(200 * 0.02 * 0.98 / moved.numel()) * 2**-9
    assert abs(moved.mean().item() - 200 * small) < 5 * deviation


def test_a_file_keeps_the_estimates_and_is_continued(tmp_path):
    path, index, target = tmp_path / "estimates.bin", index_of(1, 4), index_of(0, 2)
    store = RoleEstimates(6, 3, path=path)
    start = learn(store, index, target, torch.ones(1), 0.25)
    learnt = store(index, target).detach()
    assert path.stat().st_size == 2 * 6 * 3 + SHAPE_BYTES
    assert "logits" not in store.state_dict()
    del store
    on_disk = torch.from_numpy(np.fromfile(path, np.float16, 6 * 3).reshape(6, 3)).float()
    assert torch.equal(on_disk[index], learnt)
    assert (on_disk[[0, 2, 3, 5]] == 0).all()
    continued = RoleEstimates(6, 3, path=str(path), seed=7)
    assert torch.equal(continued(index, target).detach(), learnt)
    np.testing.assert_allclose((start - learnt).numpy(), 0.25, atol=0.01)
    fresh = continued(index_of(0), index_of(1)).detach()
    assert fresh[0, 1].item() == pytest.approx(OBSERVED, rel=1e-3)


def test_in_a_file_and_in_memory_are_the_same(tmp_path):
    index, target = index_of(5, 0, 3), index_of(1, 0, 2)
    found = []
    for path in (None, tmp_path / "estimates.bin"):
        store = RoleEstimates(6, 3, path=path, seed=3)
        learn(store, index, target, torch.tensor([1.0, -2.0, 0.1]), 0.013)
        found.append(store(index, target).detach())
    assert torch.equal(*found)


@pytest.mark.parametrize("size", [0, 35, 37, 72])
def test_a_file_of_another_size_is_refused_and_left_alone(tmp_path, size):
    path = tmp_path / "estimates.bin"
    path.write_bytes(b"x" * size)
    with pytest.raises(InputError, match=r"6 × 3, 36 bytes, got"):
        RoleEstimates(6, 3, path=path)
    assert path.read_bytes() == b"x" * size


def test_a_file_of_another_shape_with_as_many_entries_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "estimates.bin"
    learn(RoleEstimates(4, 6, path=path), index_of(0, 3), index_of(1, 2), torch.ones(1), 0.1)
    before = path.read_bytes()
    for n, classes in ((6, 4), (2, 12), (24, 1)):
        with pytest.raises(InputError, match=rf"estimates.bin: expected estimates of {n} × {classes}, got 4 × 6"):
            RoleEstimates(n, classes, path=path)
    with pytest.raises(InputError, match="expected estimates of 8 × 8, got 4 × 6"):  # as long as the file
        RoleEstimates(8, 8, path=path)
    assert path.read_bytes() == before


def test_a_file_of_an_earlier_version_is_continued_and_keeps_its_shape_from_then_on(tmp_path):
    path = tmp_path / "estimates.bin"
    logits = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float16)
    path.write_bytes(logits.tobytes())
    with pytest.warns(ShortlistWarning, match="an earlier version wrote it: it is taken for 4 × 6"):
        store = RoleEstimates(4, 6, path=path)
    index, target = torch.arange(4), torch.zeros(4, dtype=torch.int64)
    assert np.array_equal(store(index, target).detach().numpy(), logits.astype(np.float32))
    assert np.array_equal(RoleEstimates(4, 6, path=path)(index, target).detach().numpy(), logits.astype(np.float32))
    with pytest.raises(InputError, match="expected estimates of 6 × 4, got 4 × 6"):
        RoleEstimates(6, 4, path=path)


def test_a_state_dict_carries_the_estimates():
    first, second = RoleEstimates(6, 3, seed=1), RoleEstimates(6, 3, seed=2)
    index, target = index_of(5, 0), index_of(1, 0)
    learn(first, index, target, torch.ones(1), 0.1)
    second.load_state_dict(first.state_dict())
    assert torch.equal(second(index, target).detach(), first(index, target).detach())
    assert first.state_dict()["logits"].dtype == torch.float16
    assert not list(first.parameters())


@pytest.mark.parametrize(
    ("index", "target"),
    [
        (torch.zeros(2, 1, dtype=torch.int64), torch.zeros(2, 1, dtype=torch.int64)),
        (torch.zeros(2, dtype=torch.int32), torch.zeros(2, dtype=torch.int64)),
        (torch.zeros(2), torch.zeros(2, dtype=torch.int64)),
        (torch.zeros(3, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)),
    ],
)
def test_an_index_of_another_form_is_refused(index, target):
    with pytest.raises(InputError, match="index"):
        RoleEstimates(6, 3)(index, target)


@pytest.mark.parametrize(("n", "classes", "name"), [(0, 3, "n"), (2.5, 3, "n"), (6, 0, "classes"), (6, True, "classes")])
def test_sizes_that_are_none_are_refused(n, classes, name):
    with pytest.raises(InputError, match=f"{name}: expected a whole number from 1"):
        RoleEstimates(n, classes)


@pytest.mark.parametrize("rate", [0, -1.0, math.nan, math.inf, "fast"])
def test_a_rate_that_is_none_is_refused(rate):
    store = RoleEstimates(6, 3)
    store(index_of(1), index_of(0)).sum().backward()
    with pytest.raises(InputError, match="rate"):
        store.step(rate=rate)


def test_a_step_without_a_gradient_is_refused_in_words():
    store = RoleEstimates(6, 3)
    with pytest.raises(InputError, match="call backward"):
        store.step(rate=0.1)
    rows = store(index_of(1), index_of(0))
    with pytest.raises(InputError, match="call backward"):
        store.step(rate=0.1)
    rows.sum().backward()
    store.step(rate=0.1)
    with pytest.raises(InputError, match="call backward"):
        store.step(rate=0.1)


def test_no_rows_are_read_and_moved():
    store = RoleEstimates(6, 3)
    rows = store(index_of(), index_of())
    assert rows.shape == (0, 3)
    rows.sum().backward()
    store.step(rate=0.1)
    assert (store.logits == 0).all()
