"""Columns of an index: kept by name, returned with results, and of one kind throughout."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from shortlist.errors import InputError
from shortlist.retrieval import Index, render
from shortlist.retrieval.parquet import FloatColumns
from tests.retrieval.small import predictions

PLACES = ["Lyon", None, "Rome", "Ω\nμ"]
COLUMNS = {
    "place": PLACES,
    "year": np.array([1999, 2000, 2001, 2002]),
    "height": torch.tensor([1.5, 2.5, 3.5, 4.5], dtype=torch.float64),
    "indoors": [True, False, None, True],
    "print": [b"\x00\xff", None, b"", b"x"],
    "a.b": pd.Series(["p", "q", "r", None]),
}
EXPECTED = [
    {"place": "Lyon", "year": 1999, "height": 1.5, "indoors": True, "print": b"\x00\xff", "a.b": "p"},
    {"place": None, "year": 2000, "height": 2.5, "indoors": False, "print": None, "a.b": "q"},
    {"place": "Rome", "year": 2001, "height": 3.5, "indoors": None, "print": b"", "a.b": "r"},
    {"place": "Ω\nμ", "year": 2002, "height": 4.5, "indoors": True, "print": b"x", "a.b": None},
]


@pytest.fixture
def index(tmp_path):
    return Index.build(predictions(4, ids=list("abcd")), tmp_path / "index", columns=COLUMNS)


def columns_of(results):
    return [result.columns for result in sorted(results, key=lambda result: result.row)]


@pytest.mark.parametrize("engine", ["arrow", "duckdb"])
def test_values_come_back_with_their_rows(index, engine):
    if engine == "duckdb":
        pytest.importorskip("duckdb")
    assert columns_of(index.search("fork", engine=engine)) == EXPECTED
    kinds = ["text", "whole numbers", "numbers", "booleans", "bytes", "text"]
    assert index.columns == dict(zip(COLUMNS, kinds, strict=True))


def test_rows_added_later_may_have_fewer_columns_or_more(index):
    index.add(predictions(2, seed=1, ids=["e", "f"]), columns={"height": [5, None], "note": ["new", "newer"]})
    more = [
        dict.fromkeys([*COLUMNS, "note"]) | {"height": height, "note": note} for height, note in [(5.0, "new"), (None, "newer")]
    ]
    expected = [{**row, "note": None} for row in EXPECTED] + more
    assert columns_of(index.search("fork", 9)) == expected
    index.delete(["b"])
    index.compact()
    assert columns_of(index.search("fork", 9)) == [expected[0], *expected[2:]]


def test_some_columns_or_none_may_be_asked_for(index):
    assert columns_of(index.search("fork", columns=["year"])) == [{"year": row["year"]} for row in EXPECTED]
    assert columns_of(index.search("fork", columns=[])) == [{}] * 4
    with pytest.raises(InputError, match="columns: did you mean 'place'.*got 'plase'"):
        index.search("fork", columns=["plase"])
    with pytest.raises(InputError, match="columns: expected a list of names, got 'year'"):
        index.search("fork", columns="year")


def test_a_search_reads_only_the_columns_that_are_asked_for(index, monkeypatch):
    read, asked = pq.ParquetFile.read_row_group, []
    floats = FloatColumns._read

    def recorded(file, group, columns=None, **more):
        asked.append(columns)
        return read(file, group, columns=columns, **more)

    def recorded_floats(columns, group, name, *more):
        asked.append([name])
        return floats(columns, group, name, *more)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", recorded)
    monkeypatch.setattr(FloatColumns, "_read", recorded_floats)
    index.search("fork", columns=["year"])
    assert None not in asked
    assert {name for columns in asked for name in columns} == {"yes_0", "row", "id", "odds", "year"}


def test_replaced_rows_do_not_lose_columns(index):
    with pytest.raises(InputError, match="1 of the rows .*lack .*height, indoors, place, print, year"):
        index.add(predictions(1, ids=["a"]), columns={"a.b": ["z"]}, replace=True)
    index.add(predictions(1, ids=["a"]), columns={name: [None] for name in COLUMNS}, replace=True)
    assert len(index) == 4
    assert columns_of(index.search("fork"))[-1] == dict.fromkeys(COLUMNS)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["place"], "columns: .*got list"),
        ({"row": [1] * 4}, "columns: .*got 'row'"),
        ({"": [1] * 4}, "columns: .*got ''"),
        ({7: [1] * 4}, "columns: .*got 7"),
        ({"place": ["Lyon"] * 3}, r"columns\['place'\]: expected 4 values, .*got 3"),
        ({"place": "Lyon"}, r"columns\['place'\]: .*got 'Lyon'"),
        ({"place": 5}, r"columns\['place'\]: .*got 5"),
        ({"place": ["Lyon", 1, 2, 3]}, r"columns\['place'\]: .*got a mixture"),
        ({"place": [[1], [2], [3], [4]]}, r"columns\['place'\]: .*got list"),
        ({"path": [1, 2, 3, 4]}, r"columns\['path'\]: expected text, got whole numbers"),
        ({"thumbnail": ["a"] * 4}, r"columns\['thumbnail'\]: expected bytes, got text"),
    ],
)
def test_what_is_no_column_is_refused_and_nothing_is_written(tmp_path, columns, message):
    with pytest.raises(InputError, match=message):
        Index.build(predictions(4), tmp_path / "new", columns=columns)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"year": [1.5]}, r"columns\['year'\]: expected whole numbers, got numbers, such as 1.5: build the index again"),
        ({"height": [2**53 + 1]}, r"columns\['height'\]: expected numbers, .*got 9007199254740993"),
        ({"height": [-(2**53) - 1]}, r"columns\['height'\]: expected numbers, .*got -9007199254740993"),
        ({"year": [2**63]}, r"columns\['year'\]: expected whole numbers from .*2\^63 - 1, got 9223372036854775808"),
        ({"place": [3]}, "expected text, got whole numbers"),
    ],
)
def test_a_column_has_one_kind_throughout(index, columns, message):
    with pytest.raises(InputError, match=message):
        index.add(predictions(1, seed=1, ids=["e"]), columns=columns)
    assert len(index) == 4


def test_thumbnails_are_given_once_and_one_for_each_row(tmp_path):
    from shortlist.data import PictureFiles
    from shortlist.retrieval import Thumbnails

    images = PictureFiles(tmp_path, ["a.png", "b.png", "c.png"])
    with pytest.raises(InputError, match="thumbnails: expected 4 images.*got 3"):
        Index.build(predictions(4), tmp_path / "index", thumbnails=Thumbnails(images))
    with pytest.raises(InputError, match="columns: .*'thumbnail'"):
        Index.build(predictions(3), tmp_path / "index", thumbnails=Thumbnails(images), columns={"thumbnail": [b"x"] * 3})
    with pytest.raises(InputError, match="side: .*got 0"):
        Thumbnails(images, side=0)


def test_one_thread_asks_a_dataset_for_its_pictures(tmp_path):
    import threading

    from PIL import Image

    from shortlist.data import as_dataset
    from shortlist.retrieval import Thumbnails

    asked, mine = set(), Image.new("RGB", (8, 8))

    class Mine:
        def __len__(self):
            return 4

        def __getitem__(self, row):
            asked.add(threading.get_ident())
            return mine

    images = as_dataset(Mine()).splits["all"].inputs
    Index.build(predictions(4), tmp_path / "index", thumbnails=Thumbnails(images, side=4))
    assert asked == {threading.get_ident()}
    assert mine.size == (8, 8)  # the picture of the dataset is not the one that was made smaller


def test_damaged_columns_are_named_and_can_be_skipped(index):
    path = index.path / "rows-000001.parquet"
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(2)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 2] ^= 0xFF
    path.write_bytes(content)
    index = Index.open(index.path)
    with pytest.raises(InputError, match="rows-000001.parquet: row group 0, .* is damaged"):
        index.search("fork")
    results = index.search("fork", skip_damaged=True)
    assert len(results) == 4
    assert len(results.damaged) == 1
    assert columns_of(results) == [dict.fromkeys(COLUMNS)] * 4
    assert len(index.search("fork", columns=["year"])) == 4


def test_the_page_and_json_show_columns_but_no_bytes(index):
    results = index.search("fork", 4)
    page = render(results, rows=4)
    assert "place: Lyon" in page
    assert "year: 1999" in page
    assert "print:" not in page
    assert "place: None" not in page
    record = json.loads(json.dumps(min(results, key=lambda result: result.row).to_json()))
    assert record["columns"] == {name: value for name, value in EXPECTED[0].items() if name != "print"}


def test_searching_with_columns_loads_neither_torch_nor_pandas(index):
    code = (
        "import sys; from shortlist.retrieval import Index, render; "
        f"found = Index.open({str(index.path)!r}).search('fork'); assert found[0].columns; render(found, rows=4); "
        "print(sorted({'torch', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
