"""Shapes, checks and reductions that everything shares."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.errors import InputError, NotConvergedError, NotFittedError, ShortlistWarning
from shortlist.tensors import (
    as_target,
    as_tensor,
    check_scores,
    check_sets,
    check_target,
    is_single_label,
    one_hot,
    pick,
    reduce,
    row_blocks,
    shape_of,
    summed,
    working,
)

MARKS = torch.tensor([[True, False, True], [False, False, False]])


def test_errors_are_value_errors_and_warnings_are_user_warnings():
    assert issubclass(InputError, ValueError)
    assert issubclass(NotFittedError, InputError)
    assert issubclass(NotConvergedError, InputError)
    assert issubclass(ShortlistWarning, UserWarning)


def test_messages_name_a_tensor_by_dtype_and_shape():
    assert shape_of(torch.zeros(2, 3, dtype=torch.float16)) == "float16 (2, 3)"


def test_tensor_is_taken_as_it_is():
    values = torch.zeros(2, 2, requires_grad=True)
    assert as_tensor(values) is values


def test_array_shares_its_memory():
    values = np.zeros((2, 2), np.float32)
    assert as_tensor(values).data_ptr() == values.ctypes.data


@pytest.mark.parametrize("values", [np.zeros((2, 2))[::-1], np.zeros((2, 2), ">f4"), np.broadcast_to(np.zeros(2), (2, 2))])
def test_arrays_that_torch_cannot_hold_are_copied(values):
    assert as_tensor(values).tolist() == [[0, 0], [0, 0]]


def test_a_field_of_packed_records_is_copied():
    records = np.zeros(3, dtype=[("id", "u1"), ("p", "f4", (2,)), ("label", "i8")])  # 17 bytes each
    records["p"], records["label"] = [0.25, 0.75], [0, 1, 1]
    assert as_tensor(records["p"]).tolist() == [[0.25, 0.75]] * 3
    assert as_tensor(records["label"]).tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    "values", [np.array(["a"]), np.array([None]), np.array([1j]), np.array(["2020"], "M8[D]"), object(), "x"]
)
def test_what_is_no_numbers_is_refused_by_name(values):
    with pytest.raises(InputError, match=r"^weights: expected"):
        as_tensor(values, "weights")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers_of_one_dimension_become_labels(dtype):
    assert as_target(torch.tensor([1, 0], dtype=dtype)).dtype == torch.int64


@pytest.mark.parametrize("values", [MARKS, torch.tensor([0.0, 1.0]), torch.tensor([[1, 0]], dtype=torch.int32)])
def test_anything_else_is_left_for_the_check(values):
    assert as_target(values) is values


@pytest.mark.parametrize("values", [torch.zeros(2), torch.zeros(2, 2, 2), torch.zeros(2, 2, dtype=torch.int32)])
def test_scores_are_floating_point_and_have_two_dimensions(values):
    with pytest.raises(InputError, match=r"^probs: expected floating point \(N, C\), got"):
        check_scores(values, "probs")


@pytest.mark.parametrize("target", [torch.tensor([0, 1]), MARKS, torch.zeros(2, 3, dtype=torch.bool)])
def test_both_forms_of_a_target_pass(target):
    check_target(torch.zeros(2, 3), target)
    check_sets(torch.zeros(2, 3, dtype=torch.bool), target)


@pytest.mark.parametrize("target", [torch.tensor([0]), MARKS[:1], MARKS[:, :2], MARKS.long(), torch.tensor([0, 1]).int()])
def test_target_of_another_form_is_refused(target):
    with pytest.raises(InputError, match="target: expected"):
        check_target(torch.zeros(2, 3), target)
    with pytest.raises(InputError, match="target: expected"):
        check_sets(torch.zeros(2, 3, dtype=torch.bool), target)


def test_target_on_another_device_is_refused():
    with pytest.raises(InputError, match="target is on cpu and scores on meta"):
        check_target(torch.zeros(2, 3, device="meta"), torch.tensor([0, 1]))


@pytest.mark.parametrize("sets", [torch.zeros(2, 3), torch.zeros(3, dtype=torch.bool)])
def test_sets_are_booleans_of_two_dimensions(sets):
    with pytest.raises(InputError, match=r"sets: expected bool \(N, C\)"):
        check_sets(sets)


def test_one_hot_marks_the_label_and_leaves_marks():
    assert one_hot(torch.tensor([2, 0]), 3).tolist() == [[False, False, True], [True, False, False]]
    assert one_hot(MARKS, 3) is MARKS
    assert one_hot(torch.zeros(0, dtype=torch.int64), 3).shape == (0, 3)


def test_single_label_is_told_by_the_shape():
    assert is_single_label(torch.tensor([0, 1]))
    assert not is_single_label(MARKS)


def test_pick_takes_the_entry_at_the_label():
    assert pick(torch.arange(6).reshape(2, 3), torch.tensor([2, 0])).tolist() == [2, 3]


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(torch.float16, torch.float32), (torch.bfloat16, torch.float32), (torch.float32,) * 2, (torch.float64,) * 2],
)
def test_only_half_precision_is_widened(dtype, expected):
    assert working(torch.zeros(1, dtype=dtype)).dtype == expected


@given(st.integers(0, 50), st.integers(0, 20), st.integers(1, 100))
@settings(max_examples=60, deadline=None)
def test_row_blocks_cover_every_row_once_and_hold_no_more_than_asked(rows, columns, entries):
    blocks = list(row_blocks(rows, columns, entries))
    assert [row for block in blocks for row in range(rows)[block]] == list(range(rows))
    for block in blocks:
        size = block.stop - block.start
        assert size >= 1
        assert size == 1 or size * columns <= entries


@pytest.mark.parametrize(("reduction", "expected"), [("mean", 2.0), ("sum", 6.0), ("none", [1.0, 2.0, 3.0])])
def test_reductions(reduction, expected):
    assert reduce(torch.tensor([1.0, 2.0, 3.0]), reduction).tolist() == expected


@pytest.mark.parametrize(("reduction", "expected"), [("mean", 0.0), ("sum", 0.0), ("none", [])])
def test_reduction_of_nothing_trains_nothing(reduction, expected):
    values = torch.zeros(0, requires_grad=True)
    assert reduce(values, reduction).tolist() == expected
    reduce(values, "mean").backward()


def test_unknown_reduction_is_refused():
    with pytest.raises(InputError, match="expected 'mean', 'sum' or 'none', got 'max'"):
        reduce(torch.zeros(1), "max")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_sums_do_not_depend_on_the_number_of_threads(dtype):
    drawn = torch.rand(5, 300_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values, before, found = drawn.to(dtype), torch.get_num_threads(), set()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.add(tuple(float(summed(row)) for row in values))
    finally:
        torch.set_num_threads(before)
    (one,) = found
    np.testing.assert_allclose(one, values.double().sum(1), rtol=1e-12)
