"""The writer of predictions: blocks that are appended make the file that the whole would, and are never in memory together."""

import os
import tracemalloc
import weakref

import pandas as pd
import pytest
import torch
from safetensors import safe_open

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.links import Temperature
from shortlist.predictions import PredictionsWriter
from tests.allocations import LargestTensor

FORMATS = [".safetensors", ".npz", ".parquet"]
NAMES = ["ash", "elm", "oak"]


def draw(rows, classes=3, seed=0, dtype=torch.float32):
    return torch.randn(rows, classes, generator=torch.Generator().manual_seed(seed)).to(dtype)


def targets(rows, form, classes=3):
    generator = torch.Generator().manual_seed(1)
    if form == "none":
        return None
    if form == "many":
        return torch.rand(rows, classes, generator=generator) < 0.4
    return torch.randint(0, classes, (rows,), generator=generator)


def cut(values, sizes):
    return [None] * len(sizes) if values is None else values.split(sizes)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("form", ["one", "many", "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("sizes", [[7], [1, 4, 0, 2], [3, 3, 1]])
def test_blocks_make_the_file_that_the_whole_makes(tmp_path, suffix, form, dtype, sizes):
    scores, target = draw(7, dtype=dtype), targets(7, form)
    link = Temperature().fit(draw(50).double(), targets(50, "one"))
    ids = [f"row {n}" for n in range(7)]
    known = {"train_counts": [5, 0, 2], "superclasses": ["ashes", "elms", "elms"]}
    with PredictionsWriter(tmp_path / f"a{suffix}", NAMES, link, **known) as writer:
        start = 0
        for part, labels in zip(scores.split(sizes), cut(target, sizes), strict=True):
            writer.append(part, labels, ids[start : start + len(part)])
            start += len(part)
    found = Predictions.load(tmp_path / f"a{suffix}")
    assert found.scores.dtype == dtype
    assert torch.equal(found.scores, scores)
    assert (found.target is None) == (target is None)
    assert target is None or torch.equal(found.target, target)
    assert (found.ids, found.classes, found.superclasses) == (tuple(ids), tuple(NAMES), ("ashes", "elms", "elms"))
    assert found.train_counts.tolist() == [5, 0, 2]
    assert torch.equal(found.probs(), Predictions(scores, link=link).probs())


@pytest.mark.parametrize("suffix", FORMATS)
def test_without_names_and_links_there_are_none(tmp_path, suffix):
    with PredictionsWriter(tmp_path / f"a{suffix}") as writer:
        writer.append(draw(2))
        writer.append(draw(3, seed=1))
    found = Predictions.load(tmp_path / f"a{suffix}")
    assert torch.equal(found.scores, torch.cat([draw(2), draw(3, seed=1)]))
    assert (found.target, found.link, found.ids, found.train_counts, found.superclasses) == (None,) * 5


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_file_without_rows_knows_its_classes(tmp_path, suffix):
    with PredictionsWriter(tmp_path / f"a{suffix}", NAMES, "softmax"):
        pass
    found = Predictions.load(tmp_path / f"a{suffix}")
    assert (tuple(found.scores.shape), found.classes) == ((0, 3), tuple(NAMES))


def test_a_file_without_rows_and_classes_is_refused(tmp_path):
    with pytest.raises(InputError, match="scores: expected at least one block"), PredictionsWriter(tmp_path / "a.npz"):
        pass
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("error", [RuntimeError("decoding failed"), KeyboardInterrupt()])
def test_a_failure_between_blocks_leaves_the_old_file_and_nothing_else(tmp_path, suffix, error):
    path = tmp_path / f"a{suffix}"
    Predictions(draw(4)).save(path)
    before = path.read_bytes()

    def write():
        with PredictionsWriter(path) as writer:
            writer.append(draw(5))
            raise error

    with pytest.raises(type(error)):
        write()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"scores": draw(2, 4)}, "classes: expected 4 names, got 3"),
        ({"scores": draw(2).double()}, "scores: expected float32 .*got float64"),
        ({"target": None}, "target: expected int64 .*got none"),
        ({"target": torch.ones(2, 3, dtype=torch.bool)}, "target: expected int64 .*got bool"),
        ({"target": torch.tensor([0, 3])}, "target: .*got 3 in row 1.*block that begins at row 2"),
        ({"ids": None}, "ids: expected names .*got none"),
        ({"ids": ["c", "a"]}, "ids: .*'a' more than once"),
        ({"scores": torch.tensor([[0.0, 1, 2], [0, float("nan"), 1]])}, "scores: expected finite.*nan.*begins at row 2"),
    ],
)
def test_blocks_that_do_not_go_together_are_refused(tmp_path, second, message):
    block = {"scores": draw(2), "target": torch.tensor([0, 1])}

    def write():
        with PredictionsWriter(tmp_path / "a.safetensors", NAMES) as writer:
            writer.append(**block, ids=["a", "b"])
            writer.append(**(block | {"ids": ["c", "d"]} | second))

    with pytest.raises(InputError, match=message):
        write()
    assert os.listdir(tmp_path) == []


FRAME = pd.DataFrame([[0.5, 0.25, 0.125]], columns=NAMES)
TURNED = FRAME[["oak", "ash", "elm"]]
PLAIN = FRAME.to_numpy()
NUMBERED = pd.DataFrame(PLAIN, columns=[2, 0, 1])
MARKS, TURNED_MARKS = FRAME > 0.3, TURNED > 0.3


@pytest.mark.parametrize(
    ("blocks", "named"),
    [
        ([(FRAME, None), (TURNED, None)], "scores: .*'ash' and 'oak' in column 0.*begins at row 1"),
        ([(FRAME, None), (PLAIN, None), (TURNED, None)], "scores: .*'ash' and 'oak'.*begins at row 2"),
        ([(PLAIN, None), (TURNED, None), (FRAME, None)], "scores: .*'oak' and 'ash'.*begins at row 2"),
        ([(PLAIN, None), (NUMBERED, None)], "scores: .*'0' and '2' in column 0"),
        ([(FRAME, MARKS), (PLAIN, TURNED_MARKS)], "target: .*'ash' and 'oak' in column 0"),
        ([(PLAIN, MARKS), (PLAIN, TURNED_MARKS)], "target: .*'ash' and 'oak' in column 0"),
        ([(FRAME, None), (FRAME.rename(columns={"elm": "yew"}), None)], "scores: .*'elm' and 'yew' in column 1"),
    ],
)
@pytest.mark.parametrize("suffix", FORMATS)
def test_blocks_whose_columns_are_in_another_order_are_refused(tmp_path, suffix, blocks, named):
    def write():
        with PredictionsWriter(tmp_path / f"a{suffix}") as writer:
            for scores, target in blocks:
                writer.append(scores, target)

    with pytest.raises(InputError, match=named):
        write()
    assert os.listdir(tmp_path) == []


def test_the_first_block_names_the_classes_of_the_others(tmp_path):
    with PredictionsWriter(tmp_path / "a.npz", train_counts={"oak": 1, "ash": 2, "elm": 3}) as writer:
        writer.append(FRAME)
        writer.append(PLAIN)
    found = Predictions.load(tmp_path / "a.npz")
    assert (found.classes, found.train_counts.tolist()) == (tuple(NAMES), [2, 3, 1])


def test_a_block_that_was_refused_leaves_its_ids_free(tmp_path):
    with PredictionsWriter(tmp_path / "a.npz") as writer:
        writer.append(draw(1), ids=["a"])
        with pytest.raises(InputError, match="ids: .*NUL"):
            writer.append(draw(2), ids=["b", "\0"])
        writer.append(draw(2), ids=["b", "c"])
    assert Predictions.load(tmp_path / "a.npz").ids == ("a", "b", "c")


def test_formats_that_cannot_be_written_are_refused_at_once(tmp_path):
    with pytest.raises(InputError, match=r"cannot write .*a\.csv"):
        PredictionsWriter(tmp_path / "a.csv")


@pytest.mark.parametrize(("rows", "classes", "dtype"), [(3, 1, torch.float32), (5, 3, torch.float16), (4, 2, torch.float32)])
def test_every_tensor_is_aligned(tmp_path, rows, classes, dtype):
    """Readers that map the file need numbers at multiples of their size."""
    path = tmp_path / "a.safetensors"
    Predictions(draw(rows, classes, dtype=dtype), targets(rows, "one", classes), train_counts=torch.ones(classes)).save(path)
    header = int.from_bytes(path.read_bytes()[:8], "little")
    with safe_open(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118 (no mapping)
            tensor = file.get_tensor(name)
            assert tensor.data_ptr() % tensor.element_size() == 0
    assert header % 8 == 0


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("form", ["one", "many"])
def test_the_whole_is_never_in_memory(tmp_path, suffix, form, monkeypatch):
    """Of 40 blocks at most a few are alive at any time, and no allocation has the size of all."""
    blocks, rows, classes = 40, 500, 60
    monkeypatch.setattr("shortlist.predictions.table_sinks.BLOCK_ENTRIES", 4 * rows * classes)
    alive, most = weakref.WeakSet(), 0
    Predictions(draw(2), targets(2, form)).save(tmp_path / f"first{suffix}")  # imports what it needs
    tracemalloc.start()
    try:
        with LargestTensor() as largest, PredictionsWriter(tmp_path / f"a{suffix}") as writer:
            for number in range(blocks):
                part = draw(rows, classes, seed=number)
                alive.add(part)
                writer.append(part, targets(rows, form, classes))
                del part
                most = max(most, len(alive))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most <= 2
    assert largest.entries <= rows * classes
    assert peak < blocks * rows * classes * 4 / 2  # numpy's memory is traced: less than half of the scores
    found = Predictions.load(tmp_path / f"a{suffix}")
    assert torch.equal(found.scores[-rows:], draw(rows, classes, seed=blocks - 1))


def test_saving_a_mapped_file_again_reads_it_in_blocks(tmp_path, monkeypatch):
    Predictions(draw(1000, 50)).save(tmp_path / "a.safetensors")
    mapped = Predictions.load(tmp_path / "a.safetensors")
    monkeypatch.setattr(
        "shortlist.predictions.record.row_blocks", lambda rows, *_: (slice(n, n + 10) for n in range(0, rows, 10))
    )
    with LargestTensor() as largest:
        mapped.save(tmp_path / "b.safetensors")
    assert largest.entries <= 10 * 50
    assert torch.equal(Predictions.load(tmp_path / "b.safetensors").scores, mapped.scores)
