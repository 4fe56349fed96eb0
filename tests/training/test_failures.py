"""How large a batch would have fitted, and what a person is told."""

import math
import re

import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors.torch import load_file

from shortlist.errors import InputError
from shortlist.training.failures import (
    FILL,
    NonFiniteError,
    OutOfMemoryError,
    largest_batch,
    nonfinite_step,
    out_of_memory_error,
    save_failed_batch,
)
from tests.references import training as reference


@given(st.integers(8, 400), st.integers(0, 10**6), st.integers(1, 10**4), st.integers(1, 999))
@settings(max_examples=80, deadline=None)
def test_memory_in_a_straight_line_is_told_exactly(rows, base, slope, share):
    def memory(number):
        return base + slope * number

    # An eighth fits, because it ran; the whole does not. Of what an eighth leaves, some stays free.
    least, most = memory(rows // 8), memory(rows)
    filled = least + share / 1000 * (most - least)
    found = largest_batch(rows, memory, least + (filled - least) / FILL)
    assert abs(found - reference.largest_batch(rows, memory, filled)) <= 1
    assert 1 <= found < rows
    assert memory(found) <= filled * (1 + 1e-9)


def test_a_device_with_room_for_all_still_says_less_than_what_did_not_fit():
    assert largest_batch(100, lambda rows: rows, available=1e9) == 99


def test_only_small_parts_are_tried():
    asked = []
    largest_batch(800, lambda rows: asked.append(rows) or float(rows), available=100.0)
    assert sorted(asked) == [100, 200]


@pytest.mark.parametrize("memory", [lambda rows: 5.0, lambda rows: 100.0 - rows, lambda rows: 0.0])
def test_memory_that_does_not_grow_leaves_what_was_tried(memory):
    assert largest_batch(80, memory, available=50.0) == 10


@pytest.mark.parametrize("memory", [
    lambda rows: 1000 + 512 * math.ceil(rows * 3 / 512),  # in pages
    lambda rows: rows**1.1,
    lambda rows: 100 * math.sqrt(rows),
    lambda rows: 1e12 * rows,
    lambda rows: 1e-9 * rows,
])  # fmt: skip
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 64, 1000])
@pytest.mark.parametrize("available", [0.0, 10.0, 4096.0, 1e15])
def test_odd_memory_gives_a_number_of_rows_below_the_whole(memory, rows, available):
    found = largest_batch(rows, memory, available)
    assert isinstance(found, int)
    assert 1 <= found <= max(1, rows - 1)


def test_weights_that_fill_the_memory_leave_one_row():
    assert largest_batch(800, lambda rows: 10_000 + 10 * rows, available=500.0) == 1


def test_the_sentence_says_what_would_fit():
    error = out_of_memory_error(128, 2, 50, "cuda:0")
    assert isinstance(error, OutOfMemoryError)
    assert isinstance(error, InputError)
    assert re.search("cuda:0 .* 128 rows .* 50 would fit: set accumulate=6, .* or batch_size=100$", str(error))


@given(st.integers(2, 500), st.integers(1, 8), st.data())
@settings(max_examples=100, deadline=None)
def test_the_parts_that_the_sentence_names_fit(rows, accumulate, data):
    fits = data.draw(st.integers(1, rows - 1))
    text = str(out_of_memory_error(rows, accumulate, fits, "cuda"))
    parts = int(text.split("accumulate=")[1].split(",")[0])
    micro = torch.arange(rows * accumulate).tensor_split(parts)
    assert max(map(len, micro)) <= fits
    fewer = torch.arange(rows * accumulate).tensor_split(parts - 1)
    assert max(map(len, fewer)) > fits


def test_one_row_that_does_not_fit_is_not_said_to_fit():
    fits = largest_batch(1, lambda rows: 100.0, available=50.0)
    message = str(out_of_memory_error(1, 1, fits, "cuda"))
    assert re.search("cuda .* a single row: reduce size", message)
    assert "would fit" not in message


def test_a_loss_that_is_no_number_says_where_its_batch_is(tmp_path):
    path = tmp_path / "failed.safetensors"
    error = nonfinite_step(7, math.nan, None, path, 0)
    assert isinstance(error, NonFiniteError)
    assert isinstance(error, InputError)
    assert str(error).startswith(f"the loss of step 7 is nan; its batch is in {path}: lower lr")
    assert "is inf after 3 such steps" in str(nonfinite_step(8, math.inf, None, path, 3))


def test_the_batch_is_kept_as_it_was(tmp_path):
    batch = {"inputs": torch.rand(3, 2).T, "target": torch.tensor([[True, False]]), "rows": torch.tensor([4, 2])}
    save_failed_batch(tmp_path / "new" / "failed.safetensors", batch)
    found = load_file(tmp_path / "new" / "failed.safetensors")
    assert found.keys() == batch.keys()
    for name, tensor in batch.items():
        assert torch.equal(found[name], tensor)


def test_a_batch_that_cannot_be_written_does_not_hide_why_it_was_to_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"^the loss or the gradient of a step is .*failed.safetensors .*: lower lr"):
        save_failed_batch(tmp_path / "file" / "failed.safetensors", {"rows": torch.zeros(1)})
