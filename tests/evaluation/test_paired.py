"""Paired differences: against a literal formula, by id, and only of the same rows."""

import pytest
import torch

from shortlist import Predictions
from shortlist.evaluation import measure
from shortlist.evaluation.paired import changed_rows, paired_differences, same_rows
from shortlist.sets import threshold
from tests.references import evaluation as reference

NAMES = [*"abcd"]


def draw(rows=120, seed=0, many=False):
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(rows, 4, generator=torch.Generator().manual_seed(5))
    target = torch.multinomial(scores.softmax(1), 1, generator=torch.Generator().manual_seed(6)).squeeze(1)
    if many:
        target = torch.rand(scores.shape, generator=torch.Generator().manual_seed(7)) < scores.sigmoid()
    return scores + torch.randn(rows, 4, generator=generator), target


def measured(scores, target, ids=None, classes=NAMES, level=0.3):
    link = "softmax" if target.ndim == 1 else "sigmoid"
    return measure(Predictions(scores, target, classes, link, ids), threshold(level))


@pytest.mark.parametrize("many", [False, True])
def test_differences_are_those_of_the_formula(many):
    (one, target), (two, _) = draw(seed=1, many=many), draw(seed=2, many=many)
    found = {d.name: d for d in paired_differences(measured(one, target), measured(two, target))}
    assert list(found) == (["recall", "size"] if many else ["coverage", "size", "top1"])
    link = torch.sigmoid if many else lambda scores: scores.softmax(1)
    sets = [link(scores) >= 0.3 for scores in (one, two)]
    labels = target if many else torch.nn.functional.one_hot(target, 4).bool()
    hits = [(held & labels).sum(1).tolist() for held in sets]
    value, error = reference.paired_difference(*hits, labels.sum(1).tolist())
    coverage = found["recall" if many else "coverage"]
    assert (coverage.value, coverage.error) == pytest.approx((value, error))
    sizes = [held.sum(1).tolist() for held in sets]
    assert (found["size"].value, found["size"].error) == pytest.approx(reference.paired_difference(*sizes, [1] * 120))
    if not many:
        right = [(scores.argmax(1) == target).double().tolist() for scores in (one, two)]
        assert (found["top1"].value, found["top1"].error) == pytest.approx(reference.paired_difference(*right, [1] * 120))


def test_the_difference_is_that_of_the_two_numbers_and_less_uncertain():
    (one, target), (two, _) = draw(seed=1), draw(seed=2)
    first, second = measured(one, target), measured(two, target)
    coverage = paired_differences(first, second)[0]
    assert coverage.value == pytest.approx(second.coverage - first.coverage)
    assert coverage.error < (first.coverage_error**2 + second.coverage_error**2) ** 0.5
    same = paired_differences(first, first)[0]
    assert (same.value, same.error) == (0, 0)


def test_rows_are_matched_by_id_in_any_order_and_classes_by_name():
    (one, target), (two, _) = draw(seed=1), draw(seed=2)
    ids = [f"photo-{row}" for row in range(120)]
    first, straight = measured(one, target, ids), measured(two, target, ids)
    order, columns = torch.randperm(120, generator=torch.Generator().manual_seed(0)), torch.tensor([2, 0, 3, 1])
    turned = columns.argsort()[target[order]]
    shuffled = measured(
        two[order][:, columns], turned, [ids[row] for row in order.tolist()], [NAMES[place] for place in columns.tolist()]
    )
    assert torch.equal(order[same_rows(first, shuffled)], torch.arange(120))
    for mine, theirs in zip(paired_differences(first, shuffled), paired_differences(first, straight), strict=True):
        assert (mine.value, mine.error) == pytest.approx((theirs.value, theirs.error))


def test_other_rows_have_no_differences():
    scores, target = draw()
    ids = [f"photo-{row}" for row in range(120)]
    first = measured(scores, target, ids)
    relabelled = target.clone()
    relabelled[7] = (target[7] + 1) % 4
    for other in (
        measured(scores[:100], target[:100], ids[:100]),
        measured(scores, target, [*ids[:-1], "another"]),
        measured(scores, target),
        measured(scores, relabelled, ids),
        measured(scores, target, ids, ["a", "b", "c", "e"]),
        measure(Predictions(scores, None, NAMES, "softmax", ids), threshold(0.3)),
    ):
        assert same_rows(first, other) is None
        assert paired_differences(first, other) == []
        assert changed_rows(first, other) == (0, 0, [])


def test_changed_rows_are_gained_and_lost_in_turn():
    (one, target), (two, _) = draw(seed=1), draw(seed=2)
    gained, lost, rows = changed_rows(measured(one, target), measured(two, target))
    hits = [(scores.softmax(1) >= 0.3).gather(1, target[:, None]).squeeze(1) for scores in (one, two)]
    won, missed = ((~hits[0] & hits[1]).nonzero().flatten().tolist(), (hits[0] & ~hits[1]).nonzero().flatten().tolist())
    assert (gained, lost) == (len(won), len(missed))
    assert min(gained, lost) > 1
    assert sorted(row for row, _ in rows) == sorted(won + missed)
    assert [row for row, _ in rows[:4]] == [missed[0], won[0], missed[1], won[1]]
    assert all(row == other for row, other in rows)


@pytest.mark.parametrize("classes", [7, 60])
def test_rows_with_several_labels_are_found_again_in_any_order(classes):
    """What stands for the labels of a row is exact: it does not depend on where in a block the row is."""
    names = [f"class {number}" for number in range(classes)]
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        probs = torch.rand(30, classes, generator=generator)
        target = torch.rand(30, classes, generator=generator) < 0.3
        order = torch.randperm(30, generator=generator)
        first = Predictions(probs, target, names, "identity", [str(row) for row in range(30)])
        second = Predictions(probs[order], target[order], names, "identity", [str(row) for row in order.tolist()])
        found = same_rows(measure(first, threshold(0.5)), measure(second, threshold(0.3)))
        assert found is not None
        assert found.tolist() == order.argsort().tolist()


def test_rows_with_other_labels_are_other_rows_whatever_their_numbers_sum_to():
    """3³ + 4³ + 5³ = 6³: sums of powers of the numbers of classes would take these labels for the same."""
    names, probs = [f"class {number}" for number in range(40)], torch.full((1, 40), 0.5)
    three, one = torch.zeros(2, 1, 40, dtype=torch.bool)
    three[0, [8, 15, 24]] = one[0, 35] = True
    first, second = (measure(Predictions(probs, target, names, "identity"), threshold(0.3)) for target in (three, one))
    assert same_rows(first, second) is None
