"""The running normaliser of the quasibinary link."""

import copy
import math
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.errors import InputError
from shortlist.links import Quasibinary
from tests import warm
from tests.references import links as reference


def draw(seed, rows, classes, scale=2.0):
    generator = np.random.default_rng(seed)
    return scale * generator.standard_normal((rows, classes)), generator.random((rows, classes)) < 0.3


def follow(link, batches):
    for scores, target in batches:
        link.update(torch.from_numpy(scores), torch.from_numpy(target))
    return link


@given(st.integers(0, 2**31), st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4)), min_size=1, max_size=5))
@settings(max_examples=50, deadline=None)
def test_normalizer_is_the_moving_average_of_the_batches_that_have_labels(seed, shapes):
    batches = [draw(seed + i, *shape) for i, shape in enumerate(shapes)]
    batches[0][1][0, 0] = True
    found = follow(Quasibinary(), batches).log_normalizer
    expected = reference.quasibinary_log_normalizer([(scores, int(target.sum())) for scores, target in batches])
    assert found.item() == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.99])
def test_momentum_weighs_the_past(momentum):
    batches = [draw(i, 4, 3) for i in range(3)]
    found = follow(Quasibinary(momentum), batches).log_normalizer
    expected = reference.quasibinary_log_normalizer([(s, int(t.sum())) for s, t in batches], momentum)
    assert found.item() == pytest.approx(expected, rel=1e-10)


def test_one_label_a_row_counts_the_rows():
    scores, _ = draw(0, 6, 3)
    link = follow(Quasibinary(), [(scores, np.zeros(6, np.int64))])
    assert link.log_normalizer.item() == pytest.approx(reference.quasibinary_log_normalizer([(scores, 6)]))


def test_probabilities_of_the_first_batch_sum_to_its_number_of_labels():
    scores, target = draw(1, 40, 5, scale=0.1)
    link = follow(Quasibinary(), [(scores, target)])
    probs = link.probs(torch.from_numpy(scores))
    assert probs.max() < 1
    assert probs.sum().item() == pytest.approx(target.sum())


def test_one_row_with_one_label_is_softmax():
    scores, _ = draw(2, 1, 5)
    link = follow(Quasibinary(), [(scores, np.array([3]))])
    np.testing.assert_allclose(link.probs(torch.from_numpy(scores)).numpy(), reference.softmax(scores))


def test_probabilities_are_clipped_at_one_and_the_log_odds_are_then_infinite():
    link = follow(Quasibinary(), [(np.zeros((1, 2)), np.array([0]))])
    scores = torch.tensor([[math.log(2) - 1e-9, math.log(2), 50.0]], dtype=torch.float64)
    assert link.probs(scores)[0, 1:].tolist() == [1, 1]
    assert link.probs(scores)[0, 0] < 1
    assert link.log_odds(scores)[0].tolist() == pytest.approx([-math.log(1e-9), math.inf, math.inf], rel=1e-6)


def test_log_odds_keep_what_rounding_takes_from_the_probability():
    link = follow(Quasibinary(), [(np.zeros((1, 1)), np.array([0]))])
    below = torch.tensor([[-1e-14, -1e-3, -800.0]], dtype=torch.float64)
    expected = [v - math.log(-math.expm1(v)) for v in below[0].tolist()]
    assert link.log_normalizer == 0
    assert link.log_odds(below)[0].tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("offset", [-1e4, 1e4])
def test_normalizer_stays_finite_far_from_zero(offset):
    scores = torch.full((2, 3), offset)
    link = Quasibinary()
    for _ in range(3):
        link.update(scores, torch.tensor([0, 1]))
    assert link.log_normalizer.item() == pytest.approx(offset + math.log(3))


def test_batch_without_labels_changes_nothing():
    link = follow(Quasibinary(), [draw(3, 4, 3)])
    before = link.log_normalizer.clone()
    link.update(torch.full((2, 3), 9.0), torch.zeros(2, 3, dtype=torch.bool))
    link.update(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))
    assert torch.equal(link.log_normalizer, before)


def test_first_batch_without_labels_is_refused():
    with pytest.raises(InputError, match="^target: .*got none"):
        Quasibinary().update(torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.bool))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_updates_in_float32(dtype):
    link = Quasibinary()
    scores = torch.full((300, 400), 3.0, dtype=dtype)
    link.update(scores, torch.zeros(300, dtype=torch.int64))
    assert link.log_normalizer.dtype == torch.float32
    assert link.log_normalizer.item() == pytest.approx(3 + math.log(400), abs=1e-4)


def test_update_keeps_no_graph():
    link = Quasibinary()
    link.update(torch.zeros(2, 3, requires_grad=True), torch.tensor([0, 1]))
    link.update(torch.zeros(2, 3, requires_grad=True), torch.tensor([0, 1]))
    assert not link.log_normalizer.requires_grad


@pytest.mark.parametrize("momentum", [-0.1, 1, 1.5, math.nan])
def test_momentum_out_of_range_is_refused(momentum):
    with pytest.raises(InputError, match="momentum"):
        Quasibinary(momentum)


def test_wrong_target_is_refused():
    with pytest.raises(InputError, match="target"):
        Quasibinary().update(torch.zeros(2, 3), torch.zeros(3, dtype=torch.int64))


def _part_of_a_batch(rank: int, store: str, out: str) -> None:
    """One of two processes: the second has more rows, and in the second batch no labels of its own."""
    import os

    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    try:
        link = Quasibinary()
        for scores, target in _two_global_batches():
            rows = slice(0, 2) if rank == 0 else slice(2, None)
            link.update(torch.from_numpy(scores[rows]), torch.from_numpy(target[rows]))
        np.save(f"{out}{rank}.npy", link.log_normalizer.numpy())
    finally:
        torch.distributed.destroy_process_group()


def _two_global_batches():
    first, second = draw(5, 7, 3), draw(6, 7, 3)
    first[1][0, 0] = second[1][0, 0] = True
    second[1][2:] = False
    return first, second


def test_on_two_processes_the_global_batch_defines_the_normalizer(tmp_path):
    warm.two_processes(_part_of_a_batch, str(tmp_path / "store"), str(tmp_path / "out"))
    expected = reference.quasibinary_log_normalizer([(s, int(t.sum())) for s, t in _two_global_batches()])
    for rank in range(2):
        assert np.load(tmp_path / f"out{rank}.npy").item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("modes", [(True, False), (True, True, False), (False, True, False), (True, False, True)])
def test_batches_with_and_without_inference_mode(modes):
    """The first normaliser was an inference tensor, which the second batch could not change."""
    link, batches = Quasibinary(), [draw(i, 4, 3) for i in range(len(modes))]
    for inference, batch in zip(modes, batches, strict=True):
        with torch.inference_mode(inference):
            follow(link, [batch])
    expected = reference.quasibinary_log_normalizer([(scores, int(target.sum())) for scores, target in batches])
    assert link.log_normalizer.item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, Quasibinary.twin])
def test_a_copy_has_a_normalizer_of_its_own(copied):
    link = follow(Quasibinary(), [draw(0, 4, 3)])
    before = link.log_normalizer.item()
    other = follow(copied(link), [draw(1, 4, 3)])
    assert link.log_normalizer.item() == before != other.log_normalizer.item()
