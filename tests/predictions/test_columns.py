"""Columns of rows: texts and numbers by name, kept by every selection of rows and by every file."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.predictions import PredictionsWriter
from shortlist.predictions.columns import as_names

FORMATS = [".safetensors", ".npz", ".parquet"]
COLUMNS = {"site": ["north", "", "süd 鳥", "a,b"], "year": [2019, -1, 2**60 + 1, 0], "weight": [0.1, 3.0, float("nan"), -2.5]}


def example(rows=4, **fields):
    columns = {name: np.array(values)[:rows] for name, values in COLUMNS.items()}
    return Predictions(torch.randn(rows, 3), torch.arange(rows) % 3, link="softmax", columns=columns, **fields)


def entries(predictions):
    return {name: [None if one != one else one for one in column.tolist()] for name, column in predictions.columns.items()}


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        (["a", None, ""], "U", ["a", "", ""]),
        (pd.Series(["a", pd.NA, "c"], dtype="string"), "U", ["a", "", "c"]),
        (pd.Categorical(["x", None, "x"]), "U", ["x", "", "x"]),
        ([True, False, True], "U", ["True", "False", "True"]),
        (np.array([b"a", b"b", b"c"]), "U", ["a", "b", "c"]),
        (np.array(["2024-05-01", "NaT", "2024-05-02"], "datetime64[D]"), "U", ["2024-05-01", "", "2024-05-02"]),
        (range(3), "i", [0, 1, 2]),
        (torch.tensor([1, 2, 3], dtype=torch.int8), "i", [1, 2, 3]),
        (pd.Series([1, None, 3], dtype="Int64"), "f", [1.0, None, 3.0]),
        ([1, "two", 3.0], "U", ["1", "two", "3"]),
        ([3.0, "3", "3.0"], "U", ["3", "3", "3"]),
        ([3, "3", "3.0"], "U", ["3", "3", "3.0"]),
        ([1.1, "1.1", "1.10"], "U", ["1.1", "1.1", "1.10"]),
        ([float("inf"), "north", 1e300], "U", ["inf", "north", as_names(np.array([1e300]))[0]]),
        (np.array([np.float64(3), "3", np.int64(3)], object), "U", ["3", "3", "3"]),
        (np.array([np.float64(3), None, np.float32(1.1)], object), "f", [3.0, None, 1.1]),
        (np.array([np.int64(3), np.int32(4), 5], object), "i", [3, 4, 5]),
        (np.array([1.1, np.nan, 3], np.float32), "f", [1.1, None, 3.0]),
        (torch.tensor([1.1, 1e-30, 16777217]), "f", [1.1, 1e-30, 16777216.0]),
        (np.array([1.1, np.inf, 2.5], np.float16), "f", [1.1, np.inf, 2.5]),
        (pd.Series([1.1, None, 3], dtype="Float32"), "f", [1.1, None, 3.0]),
        (np.array([1.1, 3, -np.inf], np.longdouble), "f", [1.1, 3.0, -np.inf]),
        ([2**53, None, -3], "f", [2.0**53, None, -3.0]),
        ([2**53 + 1, None, 2**53], "U", ["9007199254740993", "", "9007199254740992"]),
        (np.array([0.5, 1, 2], np.float16), "f", [0.5, 1.0, 2.0]),
    ],
)
def test_any_entries_become_texts_or_numbers(given, kind, expected):
    column = Predictions(torch.zeros(3, 2), columns={"site": given}).columns["site"]
    assert column.dtype.kind == kind
    assert [None if one != one else one for one in column.tolist()] == expected


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_long_numbers_of_a_file_are_not_rounded_where_some_are_missing(tmp_path, suffix):
    sites = pd.array([1234567890123456001, None, 1234567890123456002], "Int64")
    frame = pd.DataFrame({"p_a": [0.5] * 3, "p_b": [0.5] * 3, "site": sites})
    path = tmp_path / f"rows{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    found = Predictions.load(path, scores_key="p_*", link="identity", columns=["site"]).columns["site"]
    assert found.tolist() == ["1234567890123456001", "", "1234567890123456002"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"site": ["a"]}, r"column 'site': .*\(3,\), got the shape \(1,\)"),
        ({"site": "abc"}, "column 'site': expected one entry for each of 3 rows, got 'abc'"),
        ({"site": ["a\0b", "b", "c"]}, "column 'site': .*NUL"),
        ({"target": range(3)}, "columns: .*'target'"),
        ({"scores.x": range(3)}, "columns: .*'scores.x'"),
        ({"": range(3)}, "columns: expected names that are texts, got ''"),
        ([1, 2, 3], "columns: expected a mapping"),
    ],
)
def test_what_no_file_could_hold_is_refused(columns, message):
    with pytest.raises(InputError, match=message):
        Predictions(torch.zeros(3, 2), columns=columns)


def test_rows_in_another_order_are_refused():
    scores = pd.DataFrame({"ash": [0.1, 0.2], "elm": [0.3, 0.4]}, index=["a", "b"])
    with pytest.raises(InputError, match="column 'site': expected the rows in their order, got 'b' in row 0"):
        Predictions(scores, columns=pd.DataFrame({"site": ["n", "s"]}, index=["b", "a"]))
    assert Predictions(scores, columns=pd.DataFrame({"site": ["n", "s"]}, index=["a", "b"])).columns["site"].tolist() == [
        "n",
        "s",
    ]


def test_every_selection_of_rows_keeps_the_columns():
    whole = example()
    assert whole.rows([2, 0]).columns["site"].tolist() == ["süd 鳥", "north"]
    assert whole.rows(slice(1, 3)).columns["year"].tolist() == [-1, 2**60 + 1]
    assert np.concatenate([block.columns["site"] for block in whole.blocks(3)]).tolist() == COLUMNS["site"]
    assert entries(whole.with_link("sigmoid")) == entries(whole)
    more = whole.with_columns({"site": range(4), "organ": list("wxyz")})
    assert list(more.columns) == ["site", "year", "weight", "organ"]
    assert more.columns["site"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("first", FORMATS)
@pytest.mark.parametrize("second", FORMATS)
@pytest.mark.parametrize("rows", [0, 1, 4])
def test_going_through_files_loses_nothing(tmp_path, first, second, rows):
    found = given = example(rows, ids=[str(row) * 3 for row in range(rows)], quality=np.arange(float(rows)))
    for place, suffix in enumerate((first, second)):
        found.save(tmp_path / f"{place}{suffix}")
        found = Predictions.load(tmp_path / f"{place}{suffix}")
    assert entries(found) == entries(given)
    assert [column.dtype.kind for column in found.columns.values()] == ["U", "i", "f"]
    assert torch.equal(found.scores, given.scores)
    assert (found.ids, found.quality.tolist()) == (given.ids, given.quality.tolist())


@pytest.mark.parametrize("suffix", FORMATS)
def test_blocks_of_a_writer_have_the_same_columns(tmp_path, suffix):
    path = tmp_path / f"scores{suffix}"
    with PredictionsWriter(path, link="softmax") as writer:
        writer.append([[1.0, 2.0]], columns={"site": ["n"], "year": [1]})
        writer.append([[1.0, 2.0]] * 2, columns={"site": ["longer", ""], "year": [2, 3]})
        for columns, message in ((None, "got none"), ({"site": [1], "year": [1]}, r"got site \(whole numbers\)")):
            with pytest.raises(InputError, match=rf"columns: expected site \(texts\).* {message}"):
                writer.append([[1.0, 2.0]], columns=columns)
    assert entries(Predictions.load(path)) == {"site": ["n", "longer", ""], "year": [1, 2, 3]}


def test_columns_of_other_programs_are_read_if_they_are_named(tmp_path):
    scores = np.random.default_rng(0).random((3, 2)).astype(np.float32)
    site, year = ["n", "", "s"], [1, 2, 3]
    np.savez(tmp_path / "a.npz", scores=scores, site=np.array(site), year=np.array(year))
    frame = pd.DataFrame({"ash": scores[:, 0], "site": site, "elm": scores[:, 1], "year": year})
    frame.to_csv(tmp_path / "a.csv", index=False)
    table = pa.table({**frame, "site": pa.array(["n", None, "s"]).dictionary_encode()})
    pq.write_table(table, tmp_path / "a.parquet")
    for name, key in (("a.npz", None), ("a.csv", "*"), ("a.parquet", "*")):
        found = Predictions.load(tmp_path / name, scores_key=key, columns=["site", "year"])
        assert entries(found) == {"site": site, "year": year}, name
        assert found.num_classes == 2
        with pytest.raises(InputError, match="columns: expected 'camera', found"):
            Predictions.load(tmp_path / name, scores_key=key, columns=["site", "year", "camera"])
    assert not Predictions.load(tmp_path / "a.npz").columns
    save_file({"scores": torch.from_numpy(scores), "year": torch.tensor(year)}, tmp_path / "a.safetensors")
    assert entries(Predictions.load(tmp_path / "a.safetensors", columns="year")) == {"year": year}


def test_a_column_that_was_added_to_a_file_of_ours_is_found(tmp_path):
    example().save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as arrays:
        np.savez(tmp_path / "b.npz", **arrays, camera=np.array(list("wxyz")))
    found = Predictions.load(tmp_path / "b.npz", columns=["camera", "site"])
    assert list(found.columns) == ["site", "year", "weight", "camera"]
    assert found.columns["camera"].tolist() == list("wxyz")


def test_dates_that_programs_cannot_hold_are_refused(tmp_path):
    (tmp_path / "new.csv").write_text("id,p_a,p_b,day\nx,0.9,0.1,0000-01-01\ny,0.2,0.8,2024-05-01\n")
    with pytest.raises(InputError, match="day: expected dates of the years 1 to 9999"):
        Predictions.load(tmp_path / "new.csv", link="identity", scores_key="p_*", columns=["day"])
