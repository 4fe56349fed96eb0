"""The quality of rows: one number each, kept by every selection of rows and by every file."""

import csv
import re

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from shortlist import Predictions
from shortlist.errors import InputError, ShortlistWarning
from shortlist.predictions import PredictionsWriter

FORMATS = [".safetensors", ".npz", ".parquet"]


def example(rows=7, **fields):
    generator = torch.Generator().manual_seed(0)
    quality = torch.randn(rows, generator=generator, dtype=torch.float64)
    fields = {"target": torch.arange(rows) % 3, "link": "softmax", "quality": quality} | fields
    return Predictions(torch.randn(rows, 3, generator=generator), **fields)


@pytest.mark.parametrize("given", [[3, 0.1], (3, 0.1), np.array([3, 0.1]), torch.tensor([3, 0.1], dtype=torch.float64)])
def test_any_numbers_become_float64(given):
    found = Predictions(torch.zeros(2, 2), quality=given).quality
    assert found.dtype == torch.float64
    assert found.tolist() == [3, 0.1]


@pytest.mark.parametrize(
    ("quality", "message"),
    [
        ([1.0, 2.0], r"quality: expected one number for each row, \(3,\), got float64 \(2,\)"),
        (np.zeros((3, 1)), r"quality: .*got float64 \(3, 1\)"),
        ([1.0, float("nan"), 2.0], "quality: .*got nan in row 1"),
        (torch.tensor([1.0, 2.0, torch.inf]), "quality: .*got inf in row 2"),
        (["a", "b", "c"], "quality: expected numbers, got an array of dtype"),
        (torch.ones(3, dtype=torch.bool), "quality: .*got bool"),
        (2.5, "quality: .*got float32 ()"),
    ],
)
def test_what_is_no_number_per_row_is_refused(quality, message):
    with pytest.raises(InputError, match=message):
        Predictions(torch.zeros(3, 2), quality=quality)


def test_every_selection_of_rows_keeps_the_quality():
    whole = example()
    assert whole.rows([4, 0]).quality.tolist() == whole.quality[[4, 0]].tolist()
    assert whole.rows(slice(2, 5)).quality.tolist() == whole.quality[2:5].tolist()
    assert torch.cat([block.quality for block in whole.blocks(entries=6)]).tolist() == whole.quality.tolist()
    parts, places = whole.split(0.4, seed=3), whole.split_rows(0.4, seed=3)
    for part, place in zip(parts, places, strict=True):
        assert torch.equal(part.quality, whole.quality[place])
    assert torch.equal(whole.with_link("sigmoid").quality, whole.quality)
    assert whole.with_quality(None).quality is None
    assert whole.with_quality(range(7)).quality.tolist() == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("ids", [True, False])
def test_a_file_returns_it_bit_for_bit(tmp_path, suffix, rows, ids):
    whole = example(rows, ids=[f"row {row}" for row in range(rows)] if ids else None)
    path = tmp_path / f"scores{suffix}"
    whole.save(path)
    found = Predictions.load(path)
    assert found.quality.dtype == torch.float64
    assert torch.equal(found.quality, whole.quality)
    assert torch.equal(found.scores, whole.scores)
    assert found.ids == whole.ids
    assert Predictions.load(path, quality_key="quality").quality.tolist() == whole.quality.tolist()


@pytest.mark.parametrize("suffix", FORMATS)
def test_blocks_are_appended_with_their_quality(tmp_path, suffix):
    whole, path = example(), tmp_path / f"scores{suffix}"
    with PredictionsWriter(path, link="softmax") as writer:
        for block in whole.blocks(entries=9):
            writer.append(block.scores, block.target, quality=block.quality)
    assert torch.equal(Predictions.load(path).quality, whole.quality)
    with PredictionsWriter(path) as writer:
        writer.append([[0.0, 1.0]], quality=[1.0])
        with pytest.raises(InputError, match="quality: expected numbers in every block.*got none"):
            writer.append([[0.0, 1.0]])


def write_table(path, columns):
    rows = zip(*columns.values(), strict=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


def test_a_column_of_any_name_is_the_quality_and_no_class(tmp_path):
    path = tmp_path / "scores.csv"
    write_table(path, {"ash": [0.9, 0.2], "elm": [0.1, 0.8], "focus": [12, 0.5], "target": ["ash", "elm"]})
    found = Predictions.load(path, scores_key="*", quality_key="focus", link="identity")
    assert found.classes == ("ash", "elm")
    assert found.quality.tolist() == [12, 0.5]
    write_table(path, {"ash": [0.9, 0.2], "elm": [0.1, 0.8], "quality": [12, 0.5], "target": ["ash", "elm"]})
    found = Predictions.load(path, scores_key="*", link="identity")
    assert found.classes == ("ash", "elm")
    assert found.quality.tolist() == [12, 0.5]


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_an_array_of_any_name_is_the_quality(tmp_path, suffix):
    path = tmp_path / f"theirs{suffix}"
    arrays = {"logits": np.zeros((2, 3), np.float32), "focus": np.array([4, 2])}
    if suffix == ".npz":
        np.savez(path, **arrays)
    else:
        save_file({name: torch.from_numpy(array) for name, array in arrays.items()}, path)
    assert Predictions.load(path, scores_key="logits", quality_key="focus").quality.tolist() == [4, 2]
    assert Predictions.load(path, scores_key="logits").quality is None
    with pytest.raises(InputError, match="quality under 'blur', found .*'focus'.*: set quality_key"):
        Predictions.load(path, scores_key="logits", quality_key="blur")


@pytest.mark.parametrize(("values", "message"), [(["good", "bad"], "dtype"), ([1, ""], "got nan in row 1")])
def test_a_column_that_only_happens_to_be_called_quality_is_left_out_with_a_warning(tmp_path, values, message):
    path = tmp_path / "scores.csv"
    write_table(path, {"p_ash": [0.9, 0.2], "p_elm": [0.1, 0.8], "quality": values})
    with pytest.warns(ShortlistWarning, match=f"'quality' is not read.*{message}"):
        assert Predictions.load(path, scores_key="p_*").quality is None
    with pytest.raises(InputError, match=f"quality_key: 'quality' .*{message}"):
        Predictions.load(path, scores_key="p_*", quality_key="quality")


@pytest.mark.parametrize("key", ["p_*", "target", "id", ""])
def test_a_key_that_holds_something_else_is_refused(tmp_path, key):
    path = tmp_path / "scores.csv"
    write_table(path, {"p_ash": [0.9, 0.2], "p_elm": [0.1, 0.8], "id": ["a", "b"], "target": [0, 1]})
    with pytest.raises(InputError, match=f"quality_key: expected one number per row, got {re.escape(repr(key))}"):
        Predictions.load(path, scores_key="p_*", quality_key=key)


def test_scores_may_still_be_called_quality(tmp_path):
    path = tmp_path / "theirs.npz"
    np.savez(path, quality=np.zeros((2, 3), np.float32))
    found = Predictions.load(path, scores_key="quality")
    assert found.scores.shape == (2, 3)
    assert found.quality is None
