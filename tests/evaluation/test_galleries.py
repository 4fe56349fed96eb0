"""Galleries: the right rows, whatever the blocks, without a picture in sight."""

import pytest
import torch

from shortlist import Predictions
from shortlist.evaluation import measure
from shortlist.evaluation.galleries import Picker
from shortlist.sets import threshold, top_k
from tests.references import evaluation as reference

CLASSES = 5


def draw(rows=400, seed=0, sharp=4.0):
    generator = torch.Generator().manual_seed(seed)
    probs = (sharp * torch.randn(rows, CLASSES, generator=generator, dtype=torch.float64)).softmax(1)
    target = torch.multinomial(probs, 1, generator=generator).squeeze(1)
    target[::9] = (target[::9] + 1) % CLASSES  # wrong labels
    return probs, target


def picked(probs, sets, target, *, block=None, probabilities=True):
    picker = Picker(CLASSES, probabilities)
    for start in range(0, len(probs), block or len(probs)):
        rows = slice(start, start + (block or len(probs)))
        picker.add(probs[rows], None if sets is None else sets[rows], None if target is None else target[rows], start)
    return picker.chosen()


def few_of_a_pair(rows, probs, target, most=8):
    """The first rows, at most two with the same label and the same most probable label."""
    found, seen = [], []
    for row in rows:
        pair = (int(target[row]), reference.first_best(probs[row].tolist()))
        if seen.count(pair) < 2 and len(found) < most:
            found.append(row)
            seen.append(pair)
    return found


def test_typical_rows_are_those_with_the_smallest_hash():
    probs, target = draw()
    expected = few_of_a_pair(sorted(range(400), key=reference.hashed), probs, target)
    assert picked(probs, None, target)["typical"] == (400, expected)


def test_suspects_and_confident_mistakes_are_those_of_the_definition_and_apart():
    probs, target = draw()
    found = picked(probs, None, target)
    suspects = reference.suspects(probs.tolist(), target.tolist())
    assert found["suspect"] == (len(suspects), few_of_a_pair(suspects, probs, target))
    wrong = reference.confident_mistakes(probs.tolist(), target.tolist())
    rest = [row for row in wrong[:64] if row not in found["suspect"][1]]
    assert found["wrong"] == (len(wrong), few_of_a_pair(rest, probs, target))


def test_largest_and_empty_sets():
    probs, _ = draw(sharp=1.0)
    sets = probs > 0.35
    found = picked(probs, sets, None)
    sizes = sets.sum(1).tolist()
    by_size = sorted((row for row in range(400) if sizes[row] > 1), key=lambda row: -sizes[row])
    assert found["largest"] == (len(by_size), by_size[:8])
    empty = sorted((row for row in range(400) if not sizes[row]), key=lambda row: -float(probs[row].max()))
    assert found["empty"] == (len(empty), empty[:8])
    assert "wrong" not in found
    assert "suspect" not in found


def test_sets_of_one_size_have_no_largest():
    probs, target = draw()
    assert "largest" not in picked(probs, top_k(2).sets(probs), target)
    assert "empty" not in picked(probs, top_k(2).sets(probs), target)


@pytest.mark.parametrize("block", [1, 7, 399])
def test_the_division_into_blocks_changes_nothing(block):
    probs, target = draw()
    sets = probs > 0.3
    assert picked(probs, sets, target, block=block) == picked(probs, sets, target)


def test_pickers_of_different_rows_are_merged():
    probs, target = draw()
    sets = probs > 0.3
    parts = [Picker(CLASSES, True) for _ in range(2)]
    parts[0].add(probs[:150], sets[:150], target[:150], 0)
    parts[1].add(probs[150:], sets[150:], target[150:], 150)
    parts[1].merge(parts[0])
    assert parts[1].chosen() == picked(probs, sets, target)
    empty = Picker(CLASSES, True)
    empty.merge(parts[1])
    assert empty.chosen() == picked(probs, sets, target)


def test_scores_without_a_link_have_mistakes_by_margin_and_no_suspects():
    probs, target = draw()
    scores = 7 * probs.log()
    found = picked(scores, None, target, probabilities=False)
    margins = {row: float(scores[row].max() - scores[row, target[row]]) for row in range(400)}
    best = [row for row in sorted(margins, key=lambda row: (-margins[row], row)) if margins[row]]
    assert found["wrong"][1] == few_of_a_pair(best, probs, target)
    assert "suspect" not in found


def test_several_labels_show_labels_that_are_sure_and_not_given():
    probs, _ = draw(sharp=3.0)
    target = probs > 0.8
    target[5] = False
    found = picked(probs, probs > 0.5, target)
    others = probs.masked_fill(target, -1).amax(1)
    expected = sorted((row for row in range(400) if others[row] >= 0.5), key=lambda row: (-float(others[row]), row))
    assert found["wrong"] == (len(expected), expected[:8])
    assert "suspect" not in found


def test_an_evaluation_shows_the_sets_of_its_rows():
    probs, target = draw()
    predictions = Predictions(probs, target, [*"abcde"], "identity", [f"row {n}" for n in range(400)])
    evaluation = measure(predictions, threshold(0.2))
    assert [gallery.kind for gallery in evaluation.galleries] == ["typical", "suspect", "wrong", "largest"]
    typical = evaluation.galleries[0]
    sizes = [len(one.answer.labels) for one in typical.exhibits]
    assert sizes == sorted(sizes)
    for gallery in evaluation.galleries:
        for one in gallery.exhibits:
            row = probs[one.row]
            assert one.answer.id == f"row {one.row}"
            assert one.answer.target == ["abcde"[target[one.row]]]
            assert set(one.answer.labels) == {name for name, p in zip("abcde", row, strict=True) if p >= 0.2}
            assert (one.best, one.best_prob) == ("abcde"[row.argmax()], float(row.max()))
            assert one.given_prob == float(row[target[one.row]])


def test_no_galleries_where_only_some_numbers_are_asked_for():
    probs, target = draw()
    evaluation = measure(Predictions(probs, target, link="identity"), threshold(0.2), only=frozenset({"hits"}))
    assert evaluation.galleries == ()
    assert evaluation.lookup is None
    assert evaluation.confusions is None
