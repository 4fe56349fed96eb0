"""Tables of votes: names and codes, repeated votes, authors, refusals."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings

from shortlist.data.votes import Votes, plain_majority
from shortlist.data.votes.tally import Tally
from shortlist.errors import InputError, ShortlistWarning
from tests.data.votes.cases import tables, votes_of
from tests.references import votes as ref

NAMES = ["oak", "ash", "oak", "elm"]


def columns(**changed):
    return {"user": [1, 2, 3], "item": ["a", "a", "b"], "label": ["oak", "ash", "oak"], **changed}


@pytest.mark.parametrize(
    "values",
    [
        NAMES,
        tuple(NAMES),
        np.array(NAMES),
        np.array(NAMES, object),
        pd.Series(NAMES),
        pd.Series(NAMES, dtype="category"),
        pd.Categorical(NAMES, categories=["yew", "oak", "elm", "ash"]),
        pa.array(NAMES),
        pa.chunked_array([NAMES[:1], NAMES[1:]]),
        pa.array(NAMES).dictionary_encode(),
        pa.chunked_array([pa.array(NAMES[:2]).dictionary_encode(), pa.array(NAMES[2:]).dictionary_encode()]),
        pa.DictionaryArray.from_arrays([1, 0, 3, 2], ["ash", "oak", "elm", "oak"]),
        pa.array(NAMES, pa.large_string()),
    ],
    ids=lambda values: type(values).__name__,
)
def test_text_of_any_kind_becomes_codes_of_the_sorted_names(values):
    votes = Votes.from_arrays(user=[1, 2, 3, 4], item=[0, 0, 0, 0], label=values)
    assert votes.labels.tolist() == ["ash", "elm", "oak"]
    assert votes.label.tolist() == [2, 0, 2, 1]


@pytest.mark.parametrize(
    "values",
    [
        [7, -2, 7, 10**12],
        np.array([7, -2, 7, 10**12]),
        torch.tensor([7, -2, 7, 10**12]),
        pd.Series([7, -2, 7, 10**12], dtype="Int64"),
        pa.array([7, -2, 7, 10**12]),
    ],
    ids=lambda values: type(values).__name__,
)
def test_integers_of_any_kind_become_codes_of_the_sorted_numbers(values):
    votes = Votes.from_arrays(user=[1, 2, 3, 4], item=[0, 0, 0, 0], label=values)
    assert votes.labels.tolist() == [-2, 7, 10**12]
    assert votes.label.tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.uint64])
def test_small_integer_types_do_not_overflow(dtype):
    values = np.array([100, 0, 127, 0], dtype)
    values[1] = 0 if np.dtype(dtype).kind == "u" else -128
    votes = Votes.from_arrays(user=[1, 2, 3, 4], item=[0, 0, 0, 0], label=values)
    assert votes.labels[votes.label].tolist() == values.tolist()


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, ">i2", ">i8"])
def test_the_extremes_of_a_type_are_names_like_any_other(dtype):
    """Their difference does not fit into the type; in 64 bits it is too long a range for flags."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    values = np.array([high, low, high, 7], dtype)
    votes = Votes.from_arrays(user=values, item=[0, 1, 2, 3], label=[0, 0, 0, 0])
    assert votes.users.tolist() == [low, 7, high]
    assert votes.users[votes.user].tolist() == [high, low, high, 7]
    listed = Votes.from_arrays(user=values, item=[0, 1, 2, 3], label=[0, 0, 0, 0], users=np.array([7, low, high], dtype))
    assert listed.users.dtype == np.int64
    assert listed.users[listed.user].tolist() == [high, low, high, 7]


def test_labels_alike_are_noted_and_kept_apart():
    votes = Votes.from_arrays(user=[1, 2, 3], item=[1, 1, 1], label=["Oak", "oak", "ash"])
    assert votes.labels.tolist() == ["Oak", "ash", "oak"]
    assert votes.notes == ("label 'oak' differs from 'Oak' by case or spaces only: kept as two classes",)
    assert plain_majority(votes).notes[0] == votes.notes[0]
    more = Votes.from_arrays(
        user=[1, 2, 3], item=[1, 1, 1], label=["Oak", "oak", "o a k"], labels=["Oak", "oak", "OAK", "o a k"]
    )
    assert more.notes[0].endswith("kept as two classes; and 1 label more like this")


def test_listed_names_keep_their_order_and_need_no_votes():
    votes = Votes.from_arrays(**columns(), items=["c", "b", "a"], labels=["oak", "yew", "ash"], users=[3, 2, 1, 0])
    assert votes.item.tolist() == [2, 2, 1]
    assert votes.label.tolist() == [0, 2, 0]
    assert votes.user.tolist() == [2, 1, 0]
    assert plain_majority(votes).label.tolist() == [-1, 0, 0]  # the tie on a goes to oak, which is listed first


@settings(max_examples=200, deadline=None)
@given(tables())
def test_the_last_row_of_a_user_on_an_item_counts_and_what_is_left_out_is_counted(rows):
    votes = votes_of(rows)
    last, authors = ref.last_votes(rows)
    named = zip(votes.users[votes.user], votes.items[votes.item], votes.labels[votes.label], strict=True)
    assert {(int(user), int(item)): int(label) for user, item, label in named} == last
    assert len(votes) == len(last)
    assert {int(votes.items[i]): int(votes.users[u]) for i, u in enumerate(votes.authors) if u >= 0} == authors
    repeated = sum(last[user, item] == label for user, item, label, _ in rows) - len(last)
    replaced = len(rows) - len(last) - repeated
    repeat = "row repeats" if repeated == 1 else "rows repeat"
    replace = "row is replaced" if replaced == 1 else "rows are replaced"
    assert any(note.startswith(f"{repeated} {repeat}") for note in votes.notes) == (repeated > 0)
    assert any(note.startswith(f"{replaced} {replace}") for note in votes.notes) == (replaced > 0)


def test_contradicting_votes_are_never_silent():
    with pytest.warns(ShortlistWarning, match="1 row is replaced by a later vote .* user 'ann' on item 7: the last row counts"):
        votes = Votes.from_arrays(user=["ann", "bob", "ann"], item=[7, 7, 7], label=["oak", "elm", "ash"])
    assert votes.labels[votes.label].tolist() == ["elm", "ash"]
    assert plain_majority(votes).notes[0] == votes.notes[0]


def test_repeated_votes_count_once_without_a_warning():
    votes = Votes.from_arrays(user=[1, 1, 2], item=[7, 7, 7], label=["oak", "oak", "ash"], author=[True, False, False])
    assert len(votes) == 2
    assert votes.authors.tolist() == [0]  # the flag of any of the rows
    assert votes.notes == ("1 row repeats a vote of the same user on the same item: each vote counts once",)


def test_two_authors_of_one_item_are_refused_by_name():
    with pytest.raises(InputError, match="author: .*got 1 and 2 for item 'a'"):
        Votes.from_arrays(**columns(), author=[True, True, False])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"user": [], "item": [], "label": []}, "votes: expected at least one vote, got an empty table"),
        ({"item": ["a"]}, "item: expected one value for each of the 3 votes, got 1"),
        ({"author": [True]}, "author: expected one value for each of the 3 votes, got 1"),
        ({"author": [0, 1, 2]}, "author: expected true or false"),
        ({"author": [0.0, 1.0, 0.5]}, "author: expected true or false"),
        ({"label": ["oak", None, "ash"]}, "label: expected a value in every row, got 1 empty, the first in row 1"),
        ({"label": pd.Series([1.0, np.nan, 2.0])}, "label: expected a value in every row, got 1 empty"),
        ({"label": [0.5, 1.5, 2.5]}, "label: expected integers or text, got double"),
        ({"label": [True, False, True]}, "label: expected integers or text, got bool"),
        ({"label": ["oak", 3, "ash"]}, "label: expected integers or text, all of one kind"),
        ({"label": np.zeros((3, 2), int)}, "label: expected one value a row, got an array of shape"),
        ({"label": np.array([1, 2, 2**63], np.uint64)}, "label: expected integers below"),
        ({"items": ["a"]}, "item: expected names from the list 'items', got 1 others, the first 'b'"),
        ({"items": ["a", "b", "a"]}, "items: expected different names, got 'a' more than once"),
        ({"items": [1, 2]}, "items: expected text, like the values of 'item', got integers"),
        ({"labels": []}, "label: expected names from the list 'labels', got 2 others"),
    ],
)
def test_bad_columns_are_refused_in_words(changed, message):
    with pytest.raises(InputError, match=message):
        Votes.from_arrays(**columns(**changed))


def test_inputs_are_left_as_they_are():
    user, item, label = np.array([3, 1, 3]), np.array([5, 5, 5]), np.array([2, 2, 2])
    author = np.array([True, False, False])
    kept = [part.copy() for part in (user, item, label, author)]
    plain_majority(Votes.from_arrays(user=user, item=item, label=label, author=author))
    assert all(np.array_equal(one, other) for one, other in zip((user, item, label, author), kept, strict=True))


def test_many_names_are_ordered_without_packing(monkeypatch):
    """Beyond 63 bits the order comes from a sort of three columns, and is the same."""
    random = np.random.default_rng(0)
    votes = Votes.from_arrays(user=np.arange(500), item=random.integers(20, size=500), label=random.integers(9, size=500))
    packed = Tally.of(votes)

    class Long:
        def __len__(self):
            return 2**31

    large = Votes(votes.user, votes.item, votes.label, votes.authors, Long(), Long(), Long())
    for name in ("user", "pair_start", "pair_label", "item_start", "voted"):
        assert np.array_equal(getattr(Tally.of(large), name), getattr(packed, name))


def test_a_table_says_what_it_holds():
    assert repr(Votes.from_arrays(**columns())) == "Votes(3 votes of 3 users on 2 items, 2 labels)"
    assert repr(Votes.from_arrays(user=[1], item=[1], label=[1])) == "Votes(1 vote of 1 user on 1 item, 1 label)"
