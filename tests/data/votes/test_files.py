"""Votes from files, and aggregations to files."""

import numpy as np
import pandas as pd
import pytest

from shortlist.data.votes import Votes, plain_majority
from shortlist.errors import InputError

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
        ("user,item\na,1\n", r"votes.csv: expected a column 'label' \(label\), got user, item: name the column"),
        ("user,item,label,label\na,1,x,y\n", "votes.csv: expected one column 'label', got 2"),
        ("user,item,label\n", "expected at least one vote, got an empty table"),
        ("user,item,label\na,1,\n", "label: expected a value in every row, got 1 empty, the first in row 0"),
        ("user,item,label,author\na,1,x,\n", "author: expected true or false in every row, got 1 empty, the first in row 0"),
        ("user,item,label,author\na,1,x,maybe\n", "author: expected true or false .* got 'maybe'"),
        ("user,item,label\na,1\n", "votes.csv: cannot be read as csv"),
        ("", "votes.csv: cannot be read as csv"),
    ],
)
def test_files_that_are_no_votes_are_refused_in_words(tmp_path, text, message):
    path = tmp_path / "votes.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        Votes.read(path)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"votes.xlsx: expected a .csv or .parquet file"):
        Votes.read(tmp_path / "votes.xlsx")
    with pytest.raises(InputError, match="there is no such file"):
        Votes.read(tmp_path / "votes.csv")
    (tmp_path / "votes.parquet").write_text("user,item,label")
    with pytest.raises(InputError, match="cannot be read as parquet"):
        Votes.read(tmp_path / "votes.parquet")


def test_missing_values_in_parquet_are_refused(tmp_path):
    path = written(tmp_path, FRAME.assign(label=["oak", None, "ash"]), ".parquet")
    with pytest.raises(InputError, match="label: expected a value in every row, got 1 empty, the first in row 1"):
        Votes.read(path)


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
