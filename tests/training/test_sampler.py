"""Every step takes the same rows, whoever asks and however many processes share them."""

import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.data.randomness import Purpose
from shortlist.errors import InputError
from shortlist.training.sampler import StepSampler, derived_seed


def batch(plan, step):
    """The rows of a step on one process, in their order."""
    return torch.cat([part.rows for part in plan.step(step)]).tolist()


@given(st.integers(1, 60), st.integers(1, 70), st.integers(0, 2**63 - 1))
@settings(max_examples=40, deadline=None)
def test_a_pass_takes_each_row_at_most_once_in_full_batches(rows, batch_size, seed):
    plan = StepSampler(rows, batch_size, seed)
    size = min(batch_size, rows)
    assert (plan.size, plan.steps_per_pass) == (size, rows // size)
    for turn in range(2):
        steps = [batch(plan, turn * plan.steps_per_pass + place) for place in range(plan.steps_per_pass)]
        assert {len(step) for step in steps} == {size}
        taken = [row for step in steps for row in step]
        assert len(taken) == len(set(taken)) == (rows // size) * size
        assert set(taken) <= set(range(rows))


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("accumulate", [1, 2, 3, 4])
@pytest.mark.parametrize(("rows", "batch_size"), [(40, 20), (41, 13), (17, 7), (5, 9), (4, 4)])
def test_processes_and_micro_batches_divide_a_batch_and_never_change_it(rows, batch_size, accumulate, processes):
    plan = StepSampler(rows, batch_size, 3, accumulate)
    for step in range(2 * plan.steps_per_pass):
        whole = batch(StepSampler(rows, batch_size, 3), step)
        everyone = [plan.step(step, process, processes) for process in range(processes)]
        found = []
        for micro in zip(*everyone, strict=True):
            together = [row for part in micro for row in part.rows.tolist()]
            for part in micro:
                assert part.total == len(together)
                assert together[part.start : part.start + len(part.rows)] == part.rows.tolist()
            assert max(len(part.rows) for part in micro) - min(len(part.rows) for part in micro) <= 1
            found.append(together)
        assert len(found) == accumulate
        assert max(map(len, found)) - min(map(len, found)) <= 1
        assert [row for micro in found for row in micro] == whole


def test_the_order_changes_with_the_pass_and_the_seed_and_never_between_calls():
    plan = StepSampler(100, 100, 0)
    first, second = batch(plan, 0), batch(plan, 1)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(100))
    assert batch(StepSampler(100, 100, 1), 0) != first
    batch(plan, 7), batch(plan, 8), batch(plan, 9)  # orders are kept for a while; these push the first out
    assert (batch(plan, 0), batch(StepSampler(100, 100, 0), 1)) == (first, second)


def test_the_order_of_a_pass_does_not_depend_on_the_size_of_its_batches():
    assert batch(StepSampler(8, 4, 0), 0) + batch(StepSampler(8, 4, 0), 1) == batch(StepSampler(8, 8, 0), 0)


@given(st.integers(0, 50), st.integers(0, 20), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_steps_from_the_middle_are_those_of_the_whole(first, count, processes):
    plan = StepSampler(23, 5, 11, 2)
    for process in range(processes):
        found = list(plan.steps(first, first + count, process, processes))
        assert len(found) == count
        for number, parts in enumerate(found):
            wanted = plan.step(first + number, process, processes)
            assert [part.rows.tolist() for part in parts] == [part.rows.tolist() for part in wanted]
            assert [(part.start, part.total) for part in parts] == [(part.start, part.total) for part in wanted]


@pytest.mark.parametrize(
    ("epoch_rows", "steps"), [(None, 5), (1, 1), (3, 1), (4, 1), (9, 2), (20, 5), (23, 5), (24, 6), (200, 50)]
)
def test_an_epoch_is_as_many_full_batches_as_its_rows_fill(epoch_rows, steps):
    plan = StepSampler(23, 4, 0, epoch_rows=epoch_rows)
    assert (plan.steps_per_pass, plan.steps_per_epoch) == (5, steps)


def test_passes_go_on_over_epochs_of_another_length():
    long, plain = StepSampler(23, 4, 0, epoch_rows=40), StepSampler(23, 4, 0)
    assert [batch(long, step) for step in range(15)] == [batch(plain, step) for step in range(15)]


def test_all_rows_come_up_over_the_passes_although_each_leaves_some_out():
    plan = StepSampler(10, 4, 0)
    assert {row for step in range(20) for row in batch(plan, step)} == set(range(10))


def test_more_processes_than_rows_leave_some_without():
    parts = [StepSampler(3, 8, 0).step(0, process, 5)[0] for process in range(5)]
    assert [len(part.rows) for part in parts] == [1, 1, 1, 0, 0]
    assert [(part.start, part.total) for part in parts] == [(0, 3), (1, 3), (2, 3), (3, 3), (3, 3)]


def test_no_rows_and_too_many_micro_batches_raise():
    with pytest.raises(InputError, match="rows: .*got 0"):
        StepSampler(0, 4, 0)
    with pytest.raises(InputError, match="accumulate: .*got 4"):
        StepSampler(3, 8, 0, accumulate=4)


def test_seeds_of_purposes_and_numbers_are_all_different_and_legal():
    found = [
        derived_seed(seed, purpose, number)
        for seed in (0, 1, 2**63 - 1)
        for purpose in (Purpose.TRAINING_ORDER, Purpose.AUGMENTATION, Purpose.TRAINING_STEP)
        for number in (*range(50), 10**12)
    ]
    assert len(set(found)) == len(found)
    assert all(0 <= seed < 2**63 for seed in found)
    assert derived_seed(5, Purpose.AUGMENTATION, 7) == derived_seed(5, Purpose.AUGMENTATION, 7)
