"""The queue: what is in it, why, and in which order."""

import torch

from shortlist import Predictions
from shortlist.sets import parse_rule
from shortlist.web.review import queue, suspects
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


def test_suspected_labels_are_confidently_something_else_and_come_last():
    probs = torch.tensor([[0.9, 0.05, 0.05], [0.5, 0.4, 0.1], [0.05, 0.05, 0.9], [0.97, 0.02, 0.01]])
    target = torch.tensor([1, 1, 2, 2])
    found = suspects(Predictions(probs.log(), target, NAMES, "softmax"), parse_rule("top-k:1"), "test")
    assert [one.id for one in found] == ["test-3", "test-0"]
    items = queue([seen("split", answer("ash"), ("Ann", "oak"), ("Bob", "elm"))], found, NAMES)
    assert [item.id for item in items] == ["split", "test-3", "test-0"]
    assert items[1].sentence == "Labelled oak, but looks much more like ash."
    kept = seen("test-3", answer("ash"), ("Ann", "ash"), origin="row:test-3")
    assert [item.id for item in queue([kept], found, NAMES)] == ["test-0"]


def test_rows_without_one_label_each_are_never_suspected():
    scores = torch.randn(5, 3)
    assert suspects(Predictions(scores, None, NAMES, "softmax"), parse_rule("top-k:1"), "test") == []
    assert suspects(Predictions(scores, scores > 0, NAMES, "sigmoid"), parse_rule("top-k:1"), "test") == []
    assert suspects(Predictions(scores, torch.zeros(5, dtype=torch.int64), NAMES), parse_rule("top-k:1"), "test") == []
