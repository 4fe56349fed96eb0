"""Votes from files, and aggregations to files."""

import csv
import io

import numpy as np
import pandas as pd
import pytest

from shortlist.data.votes import Votes, adaptive_majority, plain_majority, user_weight
from shortlist.errors import InputError, ShortlistWarning

FRAME = pd.DataFrame(
    {
        "user": ["u2", "u1", "u2"],
        "item": [10, 9, 9],
        "label": ["oak", "NA", "oak"],
        "author": [True, False, True],
        "extra": [1.5] * 3,
    }
)


def written(folder, frame, suffix):
    path = folder / f"votes{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path, index=False)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_are_read_by_their_columns(tmp_path, suffix):
    votes = Votes.read(written(tmp_path, FRAME, suffix))
    assert votes.users[votes.user].tolist() == ["u2", "u1", "u2"]
    assert votes.items.tolist() == [9, 10]  # numbers, ordered as numbers
    assert votes.labels[votes.label].tolist() == ["oak", "NA", "oak"]
    assert votes.users[votes.authors].tolist() == ["u2", "u2"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_may_have_other_names(tmp_path, suffix):
    renamed = FRAME.rename(columns={"user": "who", "item": "what", "label": "species", "author": "own"})
    path = written(tmp_path, renamed, suffix)
    votes = Votes.read(path, user="who", item="what", label="species", author="own", items=[8, 9, 10], labels=["oak", "NA"])
    assert votes.item.tolist() == [2, 1, 1]
    assert votes.label.tolist() == [0, 1, 0]
    assert (votes.authors >= 0).tolist() == [False, True, True]
    assert (Votes.read(path, user="who", item="what", label="species").authors == -1).all()  # no column author


def test_names_that_are_not_written_as_numbers_stay_text(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("user,item,label\n007,1,5\n7,1,10\n+7,2,5\n")
    votes = Votes.read(path)
    assert votes.users.tolist() == ["+7", "007", "7"]
    assert votes.labels.tolist() == [5, 10]


@pytest.mark.parametrize("written_as", [("true", "false"), ("True", "False"), ("1", "0"), ("yes", "no")])
def test_authors_are_read_as_people_write_them(tmp_path, written_as):
    path = tmp_path / "votes.csv"
    path.write_text("user,item,label,author\n" + f"a,1,x,{written_as[1]}\nb,1,x,{written_as[0]}\n")
    assert Votes.read(path).authors.tolist() == [1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "user,item\na,1\n",
            r"votes.csv: expected a column 'label' \(label\), got user, item: give its name as label",
        ),
        ("user,item,label,label\na,1,x,y\n", "votes.csv: expected columns with different names, got 'label' more than once"),
        ("user,item,label\n", "expected at least one vote, got an empty table"),
        (
            "user,item,label\na,1,\n",
            "votes.csv: expected a value in every row, got 1 empty in 'label', the first in line 2: fill them",
        ),
        ("user,item,label,author\na,1,x,\n", "got 1 empty in 'author', the first in line 2"),
        ("user,item,label,author\na,1,x,maybe\n", "author: expected true or false .* got 'maybe'"),
        ("user,item,label\na,1\n", "votes.csv: expected 3 cells in every row, .* got 2 in a,1"),
        ("", "votes.csv: expected a line with the names of the columns, got an empty file"),
    ],
)
def test_files_that_are_no_votes_are_refused_in_words(tmp_path, text, message):
    path = tmp_path / "votes.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        Votes.read(path)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"votes.xlsx: expected a .csv, .tsv or .parquet table"):
        Votes.read(tmp_path / "votes.xlsx")
    with pytest.raises(InputError, match=r"votes.csv: .*got nothing"):
        Votes.read(tmp_path / "votes.csv")
    (tmp_path / "votes.parquet").write_text("user,item,label")
    with pytest.raises(InputError, match=r"votes.parquet: cannot be read as a table"):
        Votes.read(tmp_path / "votes.parquet")


def test_missing_values_in_parquet_are_refused(tmp_path):
    path = written(tmp_path, FRAME.assign(label=["oak", None, "ash"]), ".parquet")
    with pytest.raises(
        InputError, match=r"expected a value in every row, got 1 empty in 'label', the first in row 1 \(counted"
    ):
        Votes.read(path)
    assert len(Votes.read(path, missing="drop")) == 2


@pytest.mark.parametrize("mark", [";", "\t"])
def test_columns_may_be_parted_by_other_signs(tmp_path, mark):
    path = tmp_path / "votes.csv"
    path.write_text("user,item,label\nann,1,a b\nbob,1,c\n".replace(",", mark))
    assert Votes.read(path).labels.tolist() == ["a b", "c"]


def test_line_ends_within_names_are_read_however_long_the_file(tmp_path):
    path = tmp_path / "votes.csv"
    rows = "".join(f'{number},1,"a\nb{"x" * 500}"\n' for number in range(5000))  # 2.5 MB, more than Arrow reads at once
    path.write_text(f"user,item,label\n{rows}")
    votes = Votes.read(path)
    assert (len(votes), len(votes.labels)) == (5000, 1)


GAPS = """user,item,label,author

ann,1,"an
oak",1

,1,elm,0
bob,,,0
bob,2,elm,
bob,3,elm,0
"""


def test_missing_cells_are_counted_in_every_column_with_the_line_of_the_first(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text(GAPS)
    counts = "got 1 empty in 'user', 1 empty in 'item', 1 empty in 'label', 1 empty in 'author'"
    with pytest.raises(InputError, match=f'{counts}, the first in line 6: fill them, .*missing="drop"'):
        Votes.read(path)
    votes = Votes.read(path, missing="drop")
    assert votes.items.tolist() == [1, 3]
    assert votes.notes == ("3 rows have an empty cell: dropped, as asked",)
    assert plain_majority(votes).notes[0] == votes.notes[0]
    with pytest.raises(InputError, match="missing: .*got 'keep'"):
        Votes.read(path, missing="keep")


def test_nothing_dropped_is_not_noted_and_nothing_left_is_refused(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("user,item,label\nann,1,oak\n")
    assert Votes.read(path, missing="drop").notes == ()
    path.write_text("user,item,label\nann,1,\n")
    with pytest.raises(InputError, match="expected at least one vote"):
        Votes.read(path, missing="drop")


def test_what_does_not_settle_and_what_users_know_is_written(tmp_path):
    """The table of docs/votes.md that cycles."""
    votes = Votes.from_arrays(
        user=["p", "p", "q", "r"], item=["i", "j", "i", "i"], label=["B", "B", "A", "A"], author=[True, True, False, False]
    )
    with pytest.warns(ShortlistWarning, match="do not settle"):
        found = adaptive_majority(votes, b0=0.4, theta=0)
    assert found.cycle
    found.save(tmp_path / "labels.csv")
    found.save_users(tmp_path / "users.csv")
    assert pd.read_csv(tmp_path / "labels.csv").unsettled.tolist() == [True, False]
    users = pd.read_csv(tmp_path / "users.csv")
    assert np.allclose(users.weight, user_weight(users.n, b0=0.4))
    settled = plain_majority(votes)
    assert "unsettled" not in settled.frame()
    assert "n" not in settled.user_frame()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("labels", [["elm", "oak"], [4, 7]])
def test_aggregations_are_written_with_their_names(tmp_path, suffix, labels):
    votes = Votes.from_arrays(user=[1, 2], item=["a", "b"], label=[labels[1], labels[0]], items=["a", "b", "c"], labels=labels)
    found = plain_majority(votes)
    found.save(tmp_path / f"labels{suffix}")
    found.save_users(tmp_path / f"users{suffix}")
    read = pd.read_csv if suffix == ".csv" else pd.read_parquet
    items, users = read(tmp_path / f"labels{suffix}"), read(tmp_path / f"users{suffix}")
    assert items.columns.tolist() == ["item", "label", "valid", "support", "confidence", "tied"]
    assert items.item.tolist() == ["a", "b", "c"]
    assert items.label.tolist()[:2] == [labels[1], labels[0]]
    assert pd.isna(items.label[2])
    assert users.user.tolist() == [1, 2]
    assert np.array_equal(users.weight, [1, 1])


def test_aggregations_are_not_written_as_anything_else(tmp_path):
    votes = Votes.from_arrays(user=[1], item=[1], label=[1])
    with pytest.raises(InputError, match=r"labels.json: expected a name that ends in .csv or .parquet"):
        plain_majority(votes).save(tmp_path / "labels.json")


def test_names_with_a_carriage_return_are_one_cell(tmp_path):
    found = plain_majority(Votes.from_arrays(user=["u\r1", "u2"], item=["a\rb", "c"], label=["o\rak", "elm"]))
    found.save(tmp_path / "labels.csv")
    found.save_users(tmp_path / "users.csv")
    texts = ((tmp_path / name).read_bytes().decode() for name in ("labels.csv", "users.csv"))
    items, users = ([*csv.DictReader(io.StringIO(text, newline=""))] for text in texts)
    assert [(row["item"], row["label"]) for row in items] == [("a\rb", "o\rak"), ("c", "elm")]
    assert [row["user"] for row in users] == ["u\r1", "u2"]
    assert b"\r\n" not in (tmp_path / "labels.csv").read_bytes()
