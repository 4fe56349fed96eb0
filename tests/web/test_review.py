"""The queue: what is in it, why, and in which order."""

from functools import partial

import pytest
import torch

from shortlist import Predictions
from shortlist.data import PictureArray, Split
from shortlist.sets import parse_rule
from shortlist.web import review
from shortlist.web.review import queue, row_name, suspects
from shortlist.web.votes import Observation, Vote

NAMES = ["ash", "elm", "oak"]


def answer(*names, size=None):
    results = [{"inSet": True, "species": {"scientificName": name}} for name in names]
    return {"results": results, "rule": {"size": len(names) if size is None else size}}


def seen(name, given, *votes, origin="upload"):
    return Observation(
        name, origin, "", given, votes=[Vote(voter, "label" if label else "none", label) for voter, label in votes]
    )


def test_disagreement_comes_first_then_large_sets():
    unsure = Observation("doubt", "upload", "", answer("ash"), votes=[Vote("Ann", "unsure")])
    items = queue(
        [
            seen("large", answer(*NAMES), ("Ann", "ash")),
            unsure,
            seen("against", answer("ash"), ("Ann", "oak")),
            seen("split", answer("ash"), ("Ann", "oak"), ("Bob", "elm")),
            seen("small", answer("ash", "elm"), ("Ann", "ash")),
        ]
    )
    assert [(item.id, item.reason) for item in items] == [
        ("split", "disagreement"),
        ("against", "disagreement"),
        ("large", "large set"),
        ("doubt", "large set"),
        ("small", "large set"),
    ]
    assert "oak" in items[0].sentence
    assert "elm" in items[0].sentence


def test_what_is_settled_or_certain_needs_no_eyes():
    agreed = seen("agreed", answer(*NAMES), ("Ann", "ash"), ("Bob", "ash"))
    outside = seen("outside", answer("ash"), ("Ann", "oak"), ("Bob", "oak"))
    certain = seen("certain", answer("ash"), ("Ann", "ash"))
    assert queue([agreed, outside, certain]) == []


def test_nobody_reviews_what_they_voted_on():
    one = seen("one", answer("ash"), ("Ann", "oak"))
    assert queue([one], voter="Ann") == []
    assert len(queue([one], voter="Bob")) == 1


@pytest.mark.parametrize(
    ("vote", "said"),
    [
        ("ash", "Votes for ash: it is labelled oak."),
        ("oak", "Votes for oak: the classifier did not suggest it."),
        (None, "Votes for none of these: it is labelled oak."),
    ],
)
def test_one_vote_on_a_suspected_label_needs_another_and_says_what_it_is_against(vote, said):
    given = {"label": "oak", "rule": {"size": 1}, "results": []}
    [item] = queue([seen("row-3", given, ("Ann", vote), origin="row:row-3")])
    assert (item.reason, item.sentence) == ("disagreement", said)
    assert queue([seen("row-3", given, ("Ann", vote), ("Bob", vote), origin="row:row-3")]) == []


def test_suspected_labels_are_confidently_something_else_and_come_last():
    probs = torch.tensor([[0.9, 0.05, 0.05], [0.5, 0.4, 0.1], [0.05, 0.05, 0.9], [0.97, 0.02, 0.01]])
    target = torch.tensor([1, 1, 2, 2])
    found = suspects(Predictions(probs.log(), target, NAMES, "softmax"), parse_rule("top-k:1"), "test", "row-{}".format)
    assert [one.id for one in found] == ["row-3", "row-0"]
    items = queue([seen("split", answer("ash"), ("Ann", "oak"), ("Bob", "elm"))], found, NAMES)
    assert [item.id for item in items] == ["split", "row-3", "row-0"]
    assert items[1].sentence == "Labelled oak, but looks much more like ash."
    kept = seen("row-3", answer("ash"), ("Ann", "ash"), origin="row:row-3")
    assert [item.id for item in queue([kept], found, NAMES)] == ["row-0"]


def test_rows_without_one_label_each_are_never_suspected():
    scores = torch.randn(5, 3)
    assert suspects(Predictions(scores, None, NAMES, "softmax"), parse_rule("top-k:1"), "test", str) == []
    assert suspects(Predictions(scores, scores > 0, NAMES, "sigmoid"), parse_rule("top-k:1"), "test", str) == []
    assert suspects(Predictions(scores, torch.zeros(5, dtype=torch.int64), NAMES), parse_rule("top-k:1"), "test", str) == []


def colours(*values, ids):
    """Pictures of one shade each."""
    images = torch.stack([torch.full((3, 4, 4), value, dtype=torch.uint8) for value in values])
    return Split(PictureArray(images, list(ids)), torch.zeros(len(values), dtype=torch.int64), list(ids), classes=NAMES)


def test_the_name_of_a_row_stays_when_others_are_removed_and_is_of_no_other_row():
    rows = colours(1, 2, 3, ids="abc")
    names = [row_name(rows, row) for row in range(3)]
    assert len(set(names)) == 3
    fewer = rows.rows(torch.tensor([1, 2]))
    assert [row_name(fewer, row) for row in range(2)] == names[1:]
    assert row_name(colours(7, ids="a"), 0) != names[0]  # of other data, whose rows are called the same


def test_pictures_that_cannot_be_compared_are_told_apart_by_their_data(monkeypatch):
    monkeypatch.setattr(review, "contents", lambda inputs: [0] * len(inputs))
    rows = colours(1, ids="a")
    assert row_name(rows, 0, "garden") != row_name(rows, 0, "forest")


def test_a_vote_on_a_row_stays_with_it_when_the_table_is_edited():
    """Row 0 was voted on and then removed: row 1, which has its number now, is still offered."""
    probs, target = torch.tensor([[0.97, 0.02, 0.01], [0.96, 0.02, 0.02]]), torch.tensor([2, 1])
    rows = colours(1, 2, ids="ab")

    def suspected(kept):
        predictions = Predictions(probs.log(), target, NAMES, "softmax").rows(kept)
        return suspects(predictions, parse_rule("top-k:1"), "test", partial(row_name, rows.rows(kept)))

    first, second = suspected(torch.tensor([0, 1]))
    voted = seen(first.id, answer("ash"), ("Ann", "ash"), ("Bob", "ash"), origin=f"row:{first.id}")
    items = queue([voted], suspected(torch.tensor([1])), NAMES)
    assert [item.id for item in items] == [second.id]
    assert items[0].sentence == "Labelled elm, but looks much more like ash."
