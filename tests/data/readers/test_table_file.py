"""CSV tables with blanks around the names of their columns, and tables larger than one of Arrow's blocks."""

import pytest

from shortlist.data.readers.feature_table import read_feature_table
from shortlist.data.readers.table_file import BLOCK, TableFile
from shortlist.data.votes.reading import read_columns
from shortlist.errors import InputError

ROWS = 100_000


def broken_lines(path, header, rows):
    """A table of these rows again and again; rows of every length, so that blocks end anywhere within them."""
    path.write_text(header + "\n" + "".join(rows.replace("#", str(number)) for number in range(ROWS)))
    assert path.stat().st_size > 2 * BLOCK
    return path


def test_line_breaks_within_quotes_do_not_end_a_row(tmp_path):
    rows = '"Quercus\nrobur",#,0.2\n"Ilex\nopaca",#,0.4\n'
    dataset = read_feature_table(broken_lines(tmp_path / "leaves.csv", "species,a,b", rows))
    assert dataset.classes == ["Ilex\nopaca", "Quercus\nrobur"]
    assert dataset.splits["all"].target.tolist() == [1, 0] * ROWS


def test_the_last_row_may_be_the_only_one_with_quotes(tmp_path):
    path = broken_lines(tmp_path / "leaves.csv", "species,a,b", "Quercus robur,#,0.2\n")
    with path.open("a") as file:
        file.write('"Ilex\nopaca",0.3,0.4\n')
    assert TableFile(path).read_text(["species"])["species"][-2:].to_pylist() == ["Quercus robur", "Ilex\nopaca"]


def test_a_quoted_cell_may_be_longer_than_two_blocks(tmp_path):
    long = "\n".join(["x" * 99] * (3 * BLOCK // 100))
    path = tmp_path / "leaves.csv"
    path.write_text(f'species,note\noak,"{long}"\nelm,short\n')
    assert TableFile(path).read_text(["note"])["note"].to_pylist() == [long, "short"]


def test_votes_with_line_breaks_within_quotes(tmp_path):
    path = broken_lines(tmp_path / "votes.csv", "worker,item,label", '"Ann\nLee",#,oak\n"Bob\nRay",#,elm\n')
    columns, _ = read_columns(path, {"items": "item", "workers": "worker", "labels": "label"}, "refuse")
    assert columns["items"].to_pylist() == [number for number in range(ROWS) for _ in range(2)]
    assert set(columns["workers"].to_pylist()) == {"Ann\nLee", "Bob\nRay"}


def test_blanks_around_the_names_of_columns_are_ignored(tmp_path):
    path = tmp_path / "leaves.csv"
    path.write_text("width , is_oak, is_elm, is_ash, split\n1,1,0,1,train\n2,0,1,0,train\n")
    dataset = read_feature_table(path, label_column="is_*", split_column="split")
    assert (dataset.classes, list(dataset.feature_names)) == (["oak", "elm", "ash"], ["width"])
    assert dataset.splits["train"].target.int().tolist() == [[1, 0, 1], [0, 1, 0]]
    assert dataset.splits["train"].inputs.tolist() == [[1], [2]]


def test_columns_that_differ_by_blanks_alone_are_refused(tmp_path):
    path = tmp_path / "leaves.csv"
    path.write_text("width, width,species\n1,2,oak\n")
    with pytest.raises(InputError, match="leaves.csv: .*'width'"):
        read_feature_table(path)
