"""Parts of a folder on disk, measured separately and merged in any order, are the whole measured at once, to the last bit."""

import random
from itertools import pairwise

import numpy as np
import pytest
import torch

from shortlist import Predictions
from shortlist.errors import InputError
from shortlist.evaluation import evaluate_shards, measure, shards, tally
from shortlist.evaluation.shards import spans_of
from shortlist.predictions import ShardedPredictions, ShardedWriter
from shortlist.sets import fit_shards
from tests.sets.cases import CASES, draw

SIZES = [31, 0, 1, 70, 48]
BLOCK = 29  # rows
pytestmark = pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")


def predictions_of(many, rows=150):
    data = draw(many, rows=rows)
    names = [f"class {label}" for label in range(data.calibration.shape[1])]
    more = {"train_counts": np.arange(5) * 30, "superclasses": ["rose", "oak", "rose", "oak", "elm"]}
    ids, quality = [f"{row}.jpg" for row in range(rows)], torch.linspace(0, 1, rows)
    return Predictions(data.calibration, data.target, names, "identity", ids, quality=quality, **more)


def folder_of(path, whole):
    ends = np.cumsum([0, *SIZES])
    with ShardedWriter(path, whole, [str(size) for size in SIZES]) as writer:
        for number, (start, stop) in enumerate(pairwise(ends)):
            rows = whole.rows(slice(start, stop))
            writer.write(number, rows if len(rows) else [])
        writer.finish()
    found = Predictions.load(path)
    assert isinstance(found, ShardedPredictions)
    return found


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    whole = {many: predictions_of(many) for many in (False, True)}
    return {many: (one, folder_of(tmp_path_factory.mktemp("scores") / "parts", one)) for many, one in whole.items()}


def shuffled(function, spans):
    parts = [function(span) for span in spans]
    random.Random(1).shuffle(parts)
    parts[0].merge(parts.pop())
    return parts


def by_blocks(whole):
    """The pass over all rows at once, in blocks as small as those of the shards."""
    return {"across": lambda looking: looking.at(whole.blocks(BLOCK * 5))}


def assert_same(found, whole):
    assert found.totals.keys() == whole.totals.keys()
    for name, total in whole.totals.items():
        assert torch.equal(torch.nan_to_num(found.totals[name]), torch.nan_to_num(total)), name
    assert repr(found.numbers()) == repr(whole.numbers())
    assert found.galleries == whole.galleries
    assert found.details == whole.details
    if whole.confusions is not None:
        assert found.confusions.pairs() == whole.confusions.pairs()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_rule_fitted_and_measured_on_shards_is_that_of_the_whole(folders, monkeypatch, case):
    whole, folder = folders[case.many_labels]
    monkeypatch.setattr(shards, "BLOCK_ENTRIES", BLOCK * 5)
    rule = case.make(np.full(5, 0.2)).fit(whole)
    other = fit_shards(case.make(np.full(5, 0.2)), folder.shards)
    assert (rule.threshold is None) == (other.threshold is None)
    assert rule.threshold is None or torch.equal(rule.threshold, other.threshold)
    assert rule.calibrated == other.calibrated
    assert_same(evaluate_shards(folder, other, over=shuffled), measure(whole, rule, **by_blocks(whole)))


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("exact", [0, 2**25])
def test_without_a_rule_and_with_histograms(folders, monkeypatch, many, exact):
    monkeypatch.setattr(shards, "BLOCK_ENTRIES", BLOCK * 5)
    monkeypatch.setattr(tally, "EXACT_ENTRIES", exact)
    whole, folder = folders[many]
    options = {"calibration_bins": 7, "top_n": 2, "shots": (40, 100)}
    expected = measure(whole, **options, **by_blocks(whole))
    assert_same(measure(folder, **options, **by_blocks(folder)), expected)
    assert_same(evaluate_shards(folder, **options), expected)
    assert_same(evaluate_shards(folder, over=shuffled, **options), expected)


def test_spans_are_whole_blocks(monkeypatch):
    monkeypatch.setattr(shards, "BLOCK_ENTRIES", BLOCK * 5)
    whole = predictions_of(False)
    spans = spans_of(whole, SIZES)
    assert [row for span in spans for row in range(*span)] == list(range(150))
    assert all(start % BLOCK == 0 for start, _ in spans)
    assert spans_of(whole, [1] * 150) == [(row, min(row + BLOCK, 150)) for row in range(0, 150, BLOCK)]


def test_predictions_in_memory_are_refused():
    with pytest.raises(InputError, match="shards: .*use measure"):
        evaluate_shards(predictions_of(False))
