"""What was found among some rows is sent in few bytes, comes back to the last bit, and is merged in any order."""

import functools
import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import load as load_arrays, save as save_arrays

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.evaluation import measure
from shortlist.evaluation.exact_sums import ExactSum
from shortlist.evaluation.galleries import Picker
from shortlist.evaluation.looking import Found
from shortlist.evaluation.packing import packed, unpacked
from shortlist.evaluation.tallies import Tally
from shortlist.sets import threshold, top_k
from tests.report.cases import COUNTS, KINDS, SUPERCLASSES, draw

NUMBERS = st.one_of(st.floats(), st.integers(-300, 300).map(float), st.floats(width=32), st.just(0.0), st.just(-0.0))


@given(arrays(np.float64, st.integers(0, 30), elements=NUMBERS))
def test_numbers_come_back_to_the_last_bit(numbers):
    found = unpacked(packed(numbers), len(numbers))
    assert found.dtype == np.float64
    assert found.view(np.uint64).tolist() == numbers.view(np.uint64).tolist()


@pytest.mark.parametrize(
    ("numbers", "bytes_each"),
    [(np.arange(200.0), 1), (-np.arange(200.0), 2), (np.linspace(0, 1, 257).astype(np.float32), 2), (np.arange(200) / 7, 8)],
)
def test_numbers_take_few_bytes(numbers, bytes_each):
    assert sum(array.nbytes for array in packed(numbers.astype(np.float64)).values()) == bytes_each * len(numbers)
    few = np.where(np.arange(len(numbers)) % 20, 0, numbers).astype(np.float64)
    assert sum(array.nbytes for array in packed(few).values()) <= (bytes_each + 1) * -(-len(numbers) // 20)


def parts_of(predictions, rule, cuts=(0, 31, 32, 32, 90), **options):
    """The evaluation of all rows, and what was found among each of some parts."""
    found = []

    def across(looking):
        found.extend(
            looking.at(predictions.rows(slice(*ends)).blocks(), ends[0])
            for ends in itertools.pairwise([*cuts, len(predictions)])
        )
        return functools.reduce(joined, found, looking.nothing())

    return measure(predictions, rule, across=across, **options), found


def joined(one, other):
    """Both, as new values."""
    found = Found.from_bytes(one.to_bytes())
    found.merge(other)
    return found


@pytest.mark.parametrize("ruled", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_merging_is_associative_and_commutative_and_what_was_sent_is_the_same(kind, ruled):
    predictions = draw(kind, counts=COUNTS, superclasses=SUPERCLASSES)
    evaluation, found = parts_of(predictions, threshold(0.45) if ruled else None)
    wanted = functools.reduce(joined, found).to_bytes()
    assert functools.reduce(joined, reversed(found)).to_bytes() == wanted
    assert functools.reduce(lambda one, other: joined(other, one), found).to_bytes() == wanted
    right = functools.reduce(lambda one, other: joined(other, one), reversed(found))
    assert right.to_bytes() == wanted
    assert Found.from_bytes(wanted).to_bytes() == wanted != found[0].to_bytes()
    back = Found.from_bytes(wanted)
    for name, total in evaluation.totals.items():
        assert torch.equal(torch.nan_to_num(back.tally.totals[name]), torch.nan_to_num(total)), name
    assert back.picker.chosen() == right.picker.chosen()
    if evaluation.confusions is not None:
        assert back.confusions.pairs(99) == evaluation.confusions.pairs(99)
        assert back.confusions.own.tolist() == evaluation.confusions.own.tolist()


@pytest.mark.parametrize("probabilities", [False, True])
def test_pickers_of_parts_are_that_of_the_whole_in_any_order(probabilities):
    predictions = draw(rows=400)
    probs, target = predictions.probs(), predictions.target

    def part(start, stop):
        found = Picker(probs.shape[1], probabilities)
        found.add(probs[start:stop], probs[start:stop] > 0.3, target[start:stop], start)
        return found

    def plain(found):
        numbers, held = found.packed()
        return numbers, {name: array.tolist() for name, array in held.items()}

    wanted = plain(part(0, 400))
    for ends in itertools.permutations([(0, 1), (1, 200), (200, 200), (200, 400)]):
        found = Picker(probs.shape[1], probabilities)
        for start, stop in ends:
            found.merge(Picker.unpacked(*part(start, stop).packed()))
        assert plain(found) == wanted
        right = part(*ends[-1])
        for start, stop in reversed(ends[:-1]):
            both = part(start, stop)
            both.merge(right)
            right = both
        assert plain(right) == wanted


def test_a_picker_that_was_sent_knows_that_all_sets_have_one_size():
    predictions = draw(rows=40)
    found = Picker(predictions.num_classes, True)
    found.add(predictions.probs(), top_k(2)(predictions), predictions.target)
    back = Picker.unpacked(*found.packed())
    assert "largest" not in back.chosen()
    other = Picker(predictions.num_classes, True)
    other.add(predictions.probs(), top_k(3)(predictions), predictions.target, 40)
    back.merge(other)
    assert back.chosen()["largest"] == (80, list(range(40, 48)))


def test_equal_sums_are_sent_as_equal_bytes():
    whole = Tally(("sizes",), 2, {"sizes": ExactSum.of(torch.tensor([1.5, -3.0]))})
    half = Tally(("sizes",), 1, {"sizes": ExactSum.of(torch.tensor([0.75, -1.5]))})
    assert (half + half).to_bytes() == whole.to_bytes()


@pytest.mark.parametrize(
    "damage", [lambda b: b[:40], lambda b: b"", lambda b: b.replace(b"picker", b"packer"), lambda b: b[:-9]]
)
def test_damaged_bytes_are_refused(damage):
    _, found = parts_of(draw(), threshold(0.45))
    with pytest.raises(InputError, match=r"(found|tally): expected"):
        Found.from_bytes(damage(found[0].to_bytes()))


def test_tallies_of_the_first_format_are_read():
    _, found = parts_of(draw("many"), threshold(0.45))
    tally = found[0].tally + found[3].tally  # rows between them are missing, so that there are two tables
    content = load_arrays(tally.to_bytes())
    header = json.loads(content.pop("header").tobytes())
    assert [len(parts) for parts in header["tables"].values()] == [2] * len(tally.tables) != []
    plain = {name: array for name, array in content.items() if name.split(".")[0] in tally.sums}
    plain |= {f"{name}.{start}": table.contiguous().numpy() for name, parts in tally.tables.items() for start, table in parts}
    starts = {name: [start for start, _ in parts] for name, parts in header["tables"].items()}
    header |= {"format": "shortlist-tally/1", "tables": starts}
    old = save_arrays({"header": np.frombuffer(json.dumps(header).encode(), np.uint8), **plain})
    assert Tally.from_bytes(old).to_bytes() == tally.to_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_bounded_evaluation_keeps_nothing_of_single_rows_and_says_the_rest_as_ever(kind):
    of_rows = {"calibration_p", "fpr95", "auroc_confidence", "auroc_any_label", "confidence_in", "confidence_out", "top1_in"}
    sizes = []
    for rows in (300, 3000):
        predictions, rule = draw(kind, rows=rows, counts=COUNTS), threshold(0.45)
        found, parts = parts_of(predictions, rule, bounded=True)
        whole = measure(predictions, rule)
        numbers, others = found.numbers(), whole.numbers()
        binned = {name for name in numbers if name.startswith("map_class")}
        assert others.keys() - numbers.keys() <= of_rows
        for name in numbers.keys() - binned:
            assert numbers[name] == pytest.approx(others[name], nan_ok=True), name
        if binned:
            assert numbers["map_class_low"] - 1e-9 <= others["map_class"] <= numbers["map_class_high"] + 1e-9
        assert not found.by_column(np.zeros(rows)).size
        assert not any(part.tally.tables for part in parts)
        assert ("outcomes" in whole.totals) == (kind != "none")
        sizes.append(len(functools.reduce(joined, parts).to_bytes()))
    assert sizes[1] < 1.5 * sizes[0]


def test_what_bounded_is_has_to_be_said():
    with pytest.raises(InputError, match="bounded: expected True or False, got 1"):
        measure(Predictions([[0.7, 0.3]], link="identity"), bounded=1)
