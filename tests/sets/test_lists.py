"""Lists: the labels of each set by decreasing probability, in memory and in files."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.sets import LabelList, gate, label_lists, mass, threshold, top_k
from shortlist.sets.lists import list_writer, lists_of

NAMES = ["ash", "birch", "elm", "fir"]
# Few values, so that ties are common; all of them are floats of 32 bits.
LEVELS = st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0])


def sorted_labels(sets, probs):
    """Row by row: the labels of the set by decreasing probability, ties by lower index."""
    return [sorted(np.flatnonzero(row), key=lambda j, i=i: (-probs[i, j], j)) for i, row in enumerate(sets)]


@settings(max_examples=50, deadline=None)
@given(data=st.data(), rows=st.integers(0, 6), classes=st.integers(1, 7))
def test_lists_run_by_decreasing_probability_ties_by_lower_index(data, rows, classes):
    probs = data.draw(hnp.arrays(np.float32, (rows, classes), elements=LEVELS))
    sets = data.draw(hnp.arrays(bool, (rows, classes)))
    names, ids = [f"c{j}" for j in range(classes)], [f"r{i}" for i in range(rows)]
    found = label_lists(torch.from_numpy(sets), torch.from_numpy(probs), names, ids)
    assert [row.id for row in found] == ids
    for i, (row, order) in enumerate(zip(found, sorted_labels(sets, probs), strict=True)):
        assert row.labels == [names[j] for j in order]
        assert row.probs == [probs[i, j] for j in order]
        assert row.target is None


def test_targets_are_lists_of_names_in_either_form():
    sets, probs = torch.ones(2, 4, dtype=torch.bool), torch.tensor([[0.1, 0.2, 0.3, 0.4]] * 2)
    single = label_lists(sets, probs, NAMES, ["a", "b"], torch.tensor([3, 0]))
    assert [row.target for row in single] == [["fir"], ["ash"]]
    many = label_lists(sets, probs, NAMES, ["a", "b"], torch.tensor([[True, False, True, False], [False] * 4]))
    assert [row.target for row in many] == [["ash", "elm"], []]


def test_every_row_needs_an_id():
    with pytest.raises(ValueError):
        label_lists(torch.ones(2, 4, dtype=torch.bool), torch.ones(2, 4), NAMES, ["only one"])


def test_a_record_holds_the_target_only_where_it_is_known():
    assert LabelList("a", ["ash"], [0.5]).record() == {"id": "a", "labels": ["ash"], "probs": [0.5]}
    assert LabelList("a", [], [], []).record() == {"id": "a", "labels": [], "probs": [], "target": []}


@pytest.fixture
def predictions():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(40, 4, generator=generator)
    target = torch.rand(40, 4, generator=generator) < 0.3
    return Predictions(scores, target, ["Ñandú", 'a"b', "c,d\n", "鳥"], "sigmoid", [f"photo {n}" for n in range(40)])


@pytest.mark.parametrize("block_rows", [1, 7, 100])
def test_lists_of_predictions_do_not_depend_on_the_blocks(block_rows, predictions, monkeypatch):
    whole, rule, probs = Predictions.blocks, threshold(0.5), predictions.probs()
    monkeypatch.setattr(Predictions, "blocks", lambda self: whole(self, block_rows * self.num_classes))
    parts = list(lists_of(predictions, rule))
    assert len(parts) == -(-40 // block_rows)
    assert torch.equal(torch.cat([sets for sets, _ in parts]), rule(probs))
    found = [row for _, lists in parts for row in lists]
    everything = label_lists(rule(probs), probs, predictions.classes, predictions.ids, predictions.target)
    assert [(row.id, row.labels, row.target) for row in found] == [(row.id, row.labels, row.target) for row in everything]
    assert [row.probs for row in found] == [pytest.approx(row.probs) for row in everything]


def test_lists_without_names_count_rows_and_classes():
    ((_, lists),) = lists_of(Predictions([[0.1, 0.9], [0.8, 0.2]]), top_k(1))
    assert [(row.id, row.labels) for row in lists] == [("0", ["1"]), ("1", ["0"])]


def test_rules_that_need_probabilities_refuse_scores_that_are_none():
    with pytest.raises(InputError, match="as probabilities, which mass:0.1 needs"):
        next(lists_of(Predictions([[0.1, 0.9]]), mass(0.1)))


def read(path):
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return pq.read_table(path).to_pylist()


def test_parquet_and_jsonl_hold_the_same_lists(tmp_path, predictions):
    files = [tmp_path / "new" / name for name in ("sets.parquet", "sets.jsonl")]
    lists = next(iter(lists_of(predictions, threshold(0.5))))[1]
    for path in files:
        with list_writer(path) as write:
            write(lists[:15])
            write([])
            write(lists[15:])
    assert read(files[0]) == read(files[1]) == [row.record() for row in lists]
    assert not all(row.labels for row in lists)  # empty sets were among them
    assert sorted(file.name for file in files[0].parent.iterdir()) == ["sets.jsonl", "sets.parquet"]


@pytest.mark.parametrize("name", ["sets.parquet", "sets.jsonl"])
def test_unknown_targets_and_no_lists_at_all_can_be_written(name, tmp_path):
    path = tmp_path / name
    with list_writer(path):
        pass
    assert read(path) == []
    with list_writer(path) as write:
        write([LabelList("a", ["ash"], [0.5])])
    assert [row.get("target") for row in read(path)] == [None]


@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize("name", ["sets.parquet", "sets.jsonl"])
def test_an_exception_leaves_what_was_there_and_nothing_half_written(name, old, tmp_path):
    path = tmp_path / name
    if old:
        path.write_bytes(old)

    def fail():
        with list_writer(path) as write:
            write([LabelList("a", ["ash"], [0.5])])
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        fail()
    assert [file.read_bytes() for file in tmp_path.iterdir()] == ([old] if old else [])


@pytest.mark.parametrize("name", ["sets.tsv", "sets", "sets.json"])
def test_other_formats_are_refused_by_name(name, tmp_path):
    with (
        pytest.raises(InputError, match=r"expected a name that ends in \.parquet, \.jsonl or \.csv"),
        list_writer(tmp_path / name),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_set_that_is_a_superclass_is_called_by_its_name(tmp_path):
    genera = ["oak", "elm", "oak", "fir"]
    probs = [[0.3, 0.2, 0.4, 0.1], [0.6, 0.2, 0.1, 0.1], [0.4, 0.3, 0.3, 0.0], [0.1, 0.1, 0.1, 0.7]]
    rows = Predictions(probs, [0, 0, 0, 3], NAMES, "identity", list("abcd"), superclasses=genera)
    ((sets, lists),) = lists_of(rows, threshold(0.25))
    for row, one in zip(sets, lists, strict=True):
        within = {genera[j] for j in range(4) if row[j]}
        whole = len(within) == 1 and {j for j in range(4) if row[j]} == {j for j in range(4) if genera[j] in within}
        assert one.superclass == (next(iter(within)) if whole and row.sum() > 1 else None)
    assert [one.superclass for one in lists] == ["oak", None, None, None]
    assert [one.text() for one in lists[:2]] == ["any oak (2 labels) 0.700", "ash 0.600"]
    assert lists[0].record()["superclass"] == "oak"
    assert "superclass" not in lists[1].record()
    with list_writer(tmp_path / "sets.parquet", columns=["superclass"]) as write:
        write(lists)
    assert pq.read_table(tmp_path / "sets.parquet").column("superclass").to_pylist() == ["oak", None, None, None]


def test_refused_rows_are_called_so():
    probs, target = [[0.9, 0.1], [0.5, 0.5], [0.45, 0.55]], [[True, False], [False, False], [False, False]]
    rows = Predictions(probs, target, link="identity")
    ((_, lists),) = lists_of(rows, gate(threshold(0.99), 0.5).fit(rows))
    assert [(one.refused, one.text()) for one in lists] == [(False, "–"), (True, "refused"), (True, "refused")]
    assert lists[1].record()["refused"] is True
    assert "refused" not in lists[0].record()


def test_rows_of_a_csv_file_end_where_no_cell_goes_on(tmp_path):
    with list_writer(tmp_path / "sets.csv", columns=["superclass"]) as write:
        write([LabelList("a\rb", ["ash"], [0.5], superclass="o\rak"), LabelList("c\r\nd", ["e\nlm"], [1.0], ["ash"])])
    assert (tmp_path / "sets.csv").read_bytes() == (
        b'id,labels,probs,target,superclass\n"a\rb",ash,0.5,,"o\rak"\n"c\r\nd","e\nlm",1.0,ash,\n'
    )
