"""Folders of parts: whatever is done with one, and however it is divided, is what one file gives."""

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from shortlist import Predictions
from shortlist.predictions import ShardedWriter, sharded
from tests.fuzz.values import many_labels, one_label

FIELDS = ("scores", "target", "ids", "quality", "classes")


def folder_equals_one_file(draw: random.Random, folder: Path) -> None:
    """Random rows are written as one file and as parts; selections, and fields given in place of those stored, agree."""
    seeded = np.random.default_rng(draw.getrandbits(32))
    rows, classes = draw.choice([1, 2, 5, 17, 60]), draw.randint(1, 5)
    rows_of = {"none": None, "one": one_label(draw, rows, classes), "many": many_labels(draw, rows, classes)}
    whole = Predictions(
        seeded.normal(size=(rows, classes)).astype(draw.choice(["float16", "float32", "float64"])),
        rows_of[draw.choice(list(rows_of))],
        [f"class {number}" for number in range(classes)],
        "sigmoid",
        [f"row {row}" for row in range(rows)] if draw.random() < 0.7 else None,
        quality=seeded.normal(size=rows) if draw.random() < 0.4 else None,
        columns={"site": seeded.choice(["north", "süd", ""], rows), "weight": seeded.normal(size=rows)},
    )
    _write(draw, folder / "parts", whole)
    whole.save(folder / "whole.safetensors")
    one, parts = Predictions.load(folder / "whole.safetensors"), Predictions.load(folder / "parts")
    if draw.random() < 0.5:
        quality = seeded.normal(size=rows)
        one, parts = one.with_quality(quality), parts.with_quality(quality)
    if draw.random() < 0.5:
        more = {"weight": [f"{row} kg" for row in range(rows)], "number": np.arange(rows)}
        one, parts = one.with_columns(more), parts.with_columns(more)
    _assert_same(parts, one)
    _assert_same(Predictions.load(_saved(draw, folder, parts)), one)
    chosen = [draw.randint(-rows, rows - 1) for _ in range(draw.randint(0, 2 * rows))]
    cut = slice(*sorted([draw.randint(0, rows), draw.randint(0, rows)]))
    for index in (chosen, cut):
        _assert_same(parts.rows(index), one.rows(index))
    _assert_same(parts.rows(cut).rows(slice(0, 3)), one.rows(cut).rows(slice(0, 3)))
    few, sharded.FEW_ENTRIES = sharded.FEW_ENTRIES, draw.choice([1, 50])  # selections of more stay in the files
    try:
        for _ in range(draw.randint(1, 4)):
            index = [draw.randrange(-len(one), len(one)) for _ in range(draw.randint(0, 2 * len(one)))]
            index = draw.choice([index, sorted({row % len(one) for row in index})]) if index else []
            one, parts = one.rows(index), parts.rows(index)
            _assert_same(parts, one)
            assert (parts.without_rows().ids is None) == (one.without_rows().ids is None)
            ends = [0, *np.cumsum([len(block) for block in parts.blocks(7)]).tolist()]
            for block, (start, stop) in zip(parts.blocks(7), pairwise(ends), strict=True):
                _assert_same(block, one.rows(slice(start, stop)))
    finally:
        sharded.FEW_ENTRIES = few


def _write(draw, folder, whole):
    ends = [0, *sorted(draw.randint(0, len(whole)) for _ in range(draw.randint(0, 4))), len(whole)]
    parts = range(len(ends) - 1)
    with ShardedWriter(folder, whole, [str(number) for number in parts]) as writer:
        for number in draw.sample(parts, len(parts)):
            part = whole.rows(slice(ends[number], ends[number + 1]))
            if whole.ids is None:
                object.__setattr__(part, "ids", None)
            writer.write(number, part)
        writer.finish()


def _saved(draw, folder, rows):
    path = folder / f"again.{draw.choice(['npz', 'safetensors', 'parquet'])}"
    rows.save(path)
    return path


def _assert_same(mine, other):
    for name in FIELDS:
        found, expected = getattr(mine, name), getattr(other, name)
        if isinstance(expected, torch.Tensor):
            assert found.dtype == expected.dtype, name
            assert torch.equal(found, expected), name
        else:
            assert found == expected, name
    assert list(mine.columns) == list(other.columns)
    for name, column in other.columns.items():
        np.testing.assert_array_equal(mine.columns[name], column)
