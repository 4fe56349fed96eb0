"""CSV tables larger than one of Arrow's blocks."""

from shortlist.data.readers.feature_table import read_feature_table
from shortlist.data.readers.table_file import BLOCK, TableFile
from shortlist.data.votes.reading import read_columns

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
