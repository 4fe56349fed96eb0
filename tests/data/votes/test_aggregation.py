"""What all aggregations have in common: every item in, every item out; comparisons of two."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from shortlist.data.votes import Votes, adaptive_majority, dawid_skene, plain_majority
from tests.data.votes.cases import rounds_of, tables, votes_of

RULES = {
    "plain": lambda votes, theta: plain_majority(votes, theta=theta),
    "adaptive": lambda votes, theta: rounds_of(adaptive_majority, votes, b0=0.4, theta=theta),
    "one-coin": lambda votes, theta: rounds_of(dawid_skene, votes, theta=theta, most_rounds=5),
    "full": lambda votes, theta: rounds_of(dawid_skene, votes, theta=theta, model="full", most_rounds=5),
}


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=40, deadline=None)
@given(rows=tables())
def test_every_item_comes_out_and_is_valid_exactly_if_its_support_exceeds_theta(rule, rows):
    votes, theta = votes_of(rows, items=range(9), users=range(6), labels=range(4)), 0.75
    found = RULES[rule](votes, theta)
    frame = found.frame()
    voted = np.isin(np.arange(9), [row[1] for row in rows])
    assert frame.item.tolist() == list(range(9))
    assert np.array_equal(frame.label.notna(), voted)
    assert np.array_equal(found.label >= 0, voted)
    assert np.array_equal(found.valid, (found.support > theta) & voted)
    assert found.label.dtype == np.int64
    assert ((found.confidence >= 0) & (found.confidence <= 1 + 1e-12)).all()
    assert (found.confidence[~voted] == 0).all()
    assert found.user_frame().user.tolist() == list(range(6))
    silent = 9 - voted.sum()
    assert any(note.startswith(f"no votes: {silent} of 9 items") for note in found.notes)
    assert any(note.startswith("ties") for note in found.notes) == found.tied.any()


def test_what_changed_is_told_by_name():
    before = Votes.from_arrays(user=["a", "b"], item=["x", "y"], label=["oak", "ash"], items=["x", "y", "z"])
    after = Votes.from_arrays(user=["a", "b", "c", "c"], item=["x", "y", "y", "w"], label=["oak", "ash", "yew", "yew"])
    one, other = (adaptive_majority(votes, b0=0.5, theta=0) for votes in (before, after))
    changes = one.changed(other)
    assert repr(changes) == "Changes(2 items, 1 users)"
    assert changes.items.columns.tolist() == ["item", "label_before", "valid_before", "label_after", "valid_after"]
    assert sorted(changes.items.item) == ["w", "z"]  # known to one of the two only
    assert changes.items.set_index("item").label_after["w"] == "yew"
    assert changes.users.user.tolist() == ["c"]
    assert pd.isna(changes.users.weight_before[0])


def test_a_change_of_label_or_of_validity_is_one():
    votes = votes_of([(0, 0, 0, False), (0, 1, 1, False), (1, 1, 1, False), (2, 1, 0, False)])
    loose, strict = plain_majority(votes), plain_majority(votes, theta=1)
    changes = loose.changed(strict)
    assert changes.items[["item", "valid_before", "valid_after"]].to_numpy().tolist() == [[0, True, False]]
    assert len(changes.users) == 0
    assert len(loose.changed(loose).items) == 0


def test_the_plain_form_says_how_it_ended():
    votes = votes_of([(0, 0, 0, False)], items=range(1200))
    assert repr(plain_majority(votes)) == "Aggregation(1,200 items, 1 labelled, 1 valid; rounds 1, settled)"
    assert len(plain_majority(votes)) == 1200
