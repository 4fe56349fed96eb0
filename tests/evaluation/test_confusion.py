"""Which classes are confused: against a literal count, in any blocks, with bounded memory."""

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.evaluation import confusion
from shortlist.evaluation.confusion import Confusions
from tests.references import evaluation as reference

CLASSES = 7


def draw(rows=300, seed=0):
    generator = torch.Generator().manual_seed(seed)
    probs = (2 * torch.randn(rows, CLASSES, generator=generator)).softmax(1)
    return probs, probs > 0.2, torch.multinomial(probs, 1, generator=generator).squeeze(1)


def counted(probs, sets, target, block=None):
    found = Confusions(CLASSES)
    for start in range(0, len(probs), block or len(probs)):
        rows = slice(start, start + (block or len(probs)))
        found.add(probs[rows], None if sets is None else sets[rows], target[rows], start)
    return found


@pytest.mark.parametrize("block", [None, 1, 37])
def test_pairs_are_those_of_a_literal_count(block):
    probs, sets, target = draw()
    counts, example = reference.confusion_counts(probs.tolist(), sets.tolist(), target.tolist())
    both = {}
    for (y, j), count in counts.items():
        total = both.setdefault((min(y, j), max(y, j)), np.zeros(4, int))
        total += count
    found = counted(probs, sets, target, block).pairs(most=100)
    assert {(min(p.first, p.second), max(p.first, p.second)): [p.shared, p.mistaken, p.confused] for p in found} == {
        pair: total[1:].tolist() for pair, total in both.items()
    }
    assert [pair.confused for pair in found] == sorted((int(total[3]) for total in both.values()), reverse=True)
    for pair in found:
        own = counts.get((pair.first, pair.second), [0] * 4)[3]
        other = counts.get((pair.second, pair.first), [0] * 4)[3]
        assert own >= other
        known = [example[key] for key in ((pair.first, pair.second), (pair.second, pair.first)) if key in example]
        assert list(pair.rows) == known


def test_the_table_of_sets_counts_rows_of_a_class_that_hold_another():
    probs, sets, target = draw()
    table = counted(probs, sets, target).held([1, 4, 6])
    for place, y in enumerate([1, 4, 6]):
        for other, j in enumerate([1, 4, 6]):
            expected = 0 if y == j else int((sets[:, j] & (target == y)).sum())
            assert table[place, other] == expected


def test_without_a_rule_mistakes_alone_count():
    probs, _, target = draw()
    found = counted(probs, None, target)
    best = probs.argmax(1)
    assert sum(pair.confused for pair in found.pairs(100)) == int((best != target).sum())
    assert all(pair.confused == pair.mistaken and not pair.shared for pair in found.pairs(100))
    assert found.held([0, 1])[0, 1] == int(((best == 1) & (target == 0)).sum())


def test_several_labels_count_what_stands_in_the_place_of_a_missing_one():
    generator = torch.Generator().manual_seed(1)
    probs = torch.rand(200, CLASSES, generator=generator)
    sets, target = probs > 0.6, torch.rand(200, CLASSES, generator=generator) < 0.4
    target[3] = False
    counts = reference.instead_counts(sets.tolist(), target.tolist())
    both = {}
    for (i, j), count in counts.items():
        both[min(i, j), max(i, j)] = both.get((min(i, j), max(i, j)), 0) + count
    found = counted(probs, sets, target, 33).pairs(100)
    assert {(min(p.first, p.second), max(p.first, p.second)): p.confused for p in found} == both


def test_counts_of_different_rows_are_merged():
    probs, sets, target = draw()
    first, second = Confusions(CLASSES), Confusions(CLASSES)
    first.add(probs[:100], sets[:100], target[:100], 0)
    second.add(probs[100:], sets[100:], target[100:], 100)
    second.merge(first)
    assert second.pairs(100) == counted(probs, sets, target).pairs(100)


def test_very_large_sets_count_by_their_most_probable_label_only(monkeypatch):
    monkeypatch.setattr(confusion, "MOST_LABELS", 2)
    probs, sets, target = draw()
    found = counted(probs, sets, target)
    large = sets.sum(1) > 2
    assert found.skipped == int(large.sum()) > 0
    kept = counted(probs, sets & ~large[:, None], target)
    assert found.pairs(100) == kept.pairs(100)


def many_pairs(rows=4000, classes=1000):
    """Labels and most probable labels of rows of many pairs of classes."""
    generator = torch.Generator().manual_seed(0)
    weights = 1 / torch.arange(1, classes + 1).double()
    return [torch.multinomial(weights, rows, replacement=True, generator=generator) for _ in range(2)]


def ends_in_zeros(row, zeros):
    return reference.hashed(row) % 2**zeros == 0


@pytest.mark.parametrize("block", [4000, 500, 33])
def test_beyond_the_most_pairs_they_are_counted_among_some_of_the_rows(monkeypatch, block):
    monkeypatch.setattr(confusion, "MOST_PAIRS", 200)
    monkeypatch.setattr(confusion, "AT_ONCE", 100)
    target, best = many_pairs()
    found = Confusions(1000)
    for start in range(0, 4000, block):
        rows = slice(start, start + block)
        found.add(torch.nn.functional.one_hot(best[rows], 1000).double(), None, target[rows], start)
    assert found.every == 2 ** int(np.log2(found.every)) > 1

    def counted_among(zeros):
        """Counts, own rows and the number of kept entries, where rows of different levels are kept apart."""
        counts, own, kept = {}, np.zeros(1000, int), set()
        for row, (y, j) in enumerate(zip(target.tolist(), best.tolist(), strict=True)):
            if not ends_in_zeros(row, zeros):
                continue
            own[y] += 1
            if y != j:
                counts[y, j] = counts.get((y, j), 0) + 1
                kept.add((y, j, next(zeros for zeros in range(11, -1, -1) if ends_in_zeros(row, zeros))))
        return counts, own, len(kept)

    level = int(np.log2(found.every))
    counts, own, kept = counted_among(level)
    assert kept <= 200 < counted_among(level - 1)[2]  # no more rows than needed are left out
    assert own.tolist() == found.own[0].tolist()
    both = {}
    for (y, j), count in counts.items():
        both[min(y, j), max(y, j)] = both.get((min(y, j), max(y, j)), 0) + count
    assert {(min(p.first, p.second), max(p.first, p.second)): p.confused for p in found.pairs(5000)} == both
    labels = found.most_confused(9)
    shares = [[counts.get((y, j), 0) / max(1, own[y]) for j in labels if j != y] for y in labels]
    np.testing.assert_array_equal([row[~np.eye(9, dtype=bool)[n]] for n, row in enumerate(found.shares(labels))], shares)


def as_bytes(found):
    plain, arrays = found.packed()
    return plain, {name: (array.dtype, array.tobytes()) for name, array in arrays.items()}


@pytest.mark.parametrize("most", [2**22, 40])
@pytest.mark.parametrize("ruled", [False, True])
def test_merging_is_associative_and_commutative_and_parts_are_the_whole(monkeypatch, most, ruled):
    monkeypatch.setattr(confusion, "MOST_PAIRS", most)
    monkeypatch.setattr(confusion, "AT_ONCE", 20)
    probs, sets, target = draw(900)
    sets = sets if ruled else None

    def part(start, stop):
        found = Confusions(CLASSES)
        found.add(probs[start:stop], None if sets is None else sets[start:stop], target[start:stop], start)
        return Confusions.unpacked(*found.packed())

    def joined(*ends):
        found = Confusions(CLASSES)
        for start, stop in ends:
            found.merge(part(start, stop))
        return found

    a, b, c = (0, 31), (31, 500), (500, 900)
    wanted = as_bytes(part(0, 900))
    assert (part(0, 900).every > 1) == (most == 40)
    right = part(*a)
    right.merge(joined(b, c))
    left = joined(a, b)
    left.merge(part(*c))
    for found in (right, left, joined(c, a, b), joined(b, c, a), joined(a, (31, 31), b, c)):
        assert as_bytes(found) == wanted
    assert counted(probs, sets, target, 7).pairs(99) == part(0, 900).pairs(99) == right.pairs(99)


def test_counts_of_other_classes_are_refused():
    with pytest.raises(InputError, match="confusions: expected those of 3 classes, got 4"):
        Confusions(3).merge(Confusions(4))


def test_the_most_confused_classes_come_by_number():
    probs, sets, target = draw()
    found = counted(probs, sets, target)
    counts, _ = reference.confusion_counts(probs.tolist(), sets.tolist(), target.tolist())
    totals = [sum(count[3] for pair, count in counts.items() if label in pair) for label in range(CLASSES)]
    best = sorted(range(CLASSES), key=lambda label: -totals[label])[:3]
    assert found.most_confused(3) == sorted(best)
    assert Confusions(CLASSES).most_confused(3) == []
    assert Confusions(CLASSES).pairs() == []
