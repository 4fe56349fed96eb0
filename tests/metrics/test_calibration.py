"""Calibration errors: three norms, two kinds of bins, three choices of pairs."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.errors import InputError
from shortlist.metrics import CalibrationError, MeanAveragePrecision, calibration_definition, calibration_error
from shortlist.metrics.calibration import mass_bins, width_bins
from tests.references import metrics as ref

NORMS = ("expected", "average", "max")


@st.composite
def rows_with_ties(draw):
    rows, classes = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    values = draw(st.lists(st.integers(0, 12), min_size=rows * classes, max_size=rows * classes))
    marks = draw(st.lists(st.booleans(), min_size=rows * classes, max_size=rows * classes))
    return np.array(values).reshape(rows, classes) / 12, np.array(marks).reshape(rows, classes)


@settings(max_examples=80, deadline=None)
@given(
    data=rows_with_ties(),
    norm=st.sampled_from(NORMS),
    bins=st.sampled_from([1, 2, 3, 4, 6, 12, 15]),
    binning=st.sampled_from(["width", "mass"]),
    over=st.sampled_from(["all", "top", 1, 2, 9]),
    single=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_every_definition_equals_the_literal_loop(data, norm, bins, binning, over, single, dtype):
    probs, target = torch.tensor(data[0], dtype=dtype), torch.from_numpy(data[1])
    target = target.long().argmax(1) if single else target
    keywords = {"norm": norm, "bins": bins, "binning": binning, "over": over}
    expected = ref.calibration_error(probs.double().numpy(), target.numpy(), **keywords)
    assert calibration_error(probs, target, **keywords).item() == pytest.approx(expected, rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("bins", [1, 2, 8, 16])
def test_a_value_at_an_edge_belongs_to_the_upper_bin_and_one_to_the_last(bins, dtype):
    """Edges of halves are exact in every precision; each value and its two neighbours."""
    edges = torch.arange(bins + 1, dtype=dtype) / bins
    zero, one = torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype)
    probs = torch.cat([edges, torch.nextafter(edges[1:], zero), torch.nextafter(edges[:-1], one)])[:, None]
    counts = width_bins(probs, torch.ones(len(probs), 1, dtype=torch.bool), bins, "all")[0]
    assert counts.tolist() == [3.0] * (bins - 1) + [4.0]


@pytest.mark.parametrize("bins", range(1, 101))
def test_decimal_edges_in_float64_belong_to_the_upper_bin(bins):
    """The edge is the float64 nearest to i / bins, as it would be typed."""
    probs = torch.tensor([[i / bins] for i in range(bins)], dtype=torch.float64)
    assert (width_bins(probs, torch.zeros(bins, dtype=torch.long), bins, "all")[0] == 1).all()


@pytest.mark.parametrize(("value", "place"), [(0.1, 1), (0.2, 2), (0.3, 3), (0.6, 6), (0.7, 6), (0.9, 8)])
def test_float32_is_taken_as_the_number_that_it_is(value, place):
    """float32 0.7 is 0.69999999, below the edge; float32 0.3 is 0.30000001."""
    counts = width_bins(torch.tensor([[value]]), torch.tensor([0]), 10, "all")[0]
    assert counts.argmax().item() == place


def test_bins_are_closed_below_and_open_above():
    probs = torch.tensor([[0.5], [0.5]], dtype=torch.float64)
    table = width_bins(probs, torch.tensor([[True], [False]]), 2, "all")
    assert table.tolist() == [[0, 2], [0, 1.0], [0, 1]]


def test_the_three_norms_by_hand():
    """Two pairs in [0, 0.5) with a gap of 0.25, four in [0.5, 1] with a gap of 0.125."""
    probs = torch.tensor([[0.25], [0.25], [0.875], [0.875], [0.875], [0.875]])
    target = torch.tensor([[False], [False], [True], [True], [True], [True]])
    found = [calibration_error(probs, target, norm=norm, bins=2).item() for norm in NORMS]
    assert found == pytest.approx([(2 * 0.25 + 4 * 0.125) / 6, (0.25 + 0.125) / 2, 0.25])


def test_empty_bins_do_not_count_in_the_average():
    probs, target = torch.tensor([[0.25]]), torch.tensor([[False]])
    assert calibration_error(probs, target, norm="average", bins=100).item() == 0.25


def test_gaps_of_a_bin_cancel_before_their_absolute_value():
    probs, target = torch.tensor([[0.5], [0.5]]), torch.tensor([[True], [False]])
    for norm in NORMS:
        assert calibration_error(probs, target, norm=norm).item() == 0


def test_one_label_a_row_is_the_same_as_its_one_hot_form():
    probs = torch.rand(50, 4, generator=torch.Generator().manual_seed(0))
    target = torch.arange(50) % 4
    many = torch.nn.functional.one_hot(target, 4).bool()
    for over in ("all", "top", 2):
        assert calibration_error(probs, target, over=over) == calibration_error(probs, many, over=over)


def test_top_ties_go_to_the_lower_index():
    probs = torch.full((3, 3), 0.5)
    target = torch.tensor([0, 1, 2])
    for over, right in (("top", 1), (1, 1), (2, 2), (3, 3)):
        pairs = 3 * (1 if over == "top" else over)
        assert calibration_error(probs, target, over=over).item() == pytest.approx(abs(0.5 - right / pairs)), over


def test_over_more_labels_than_there_are_is_over_all():
    probs, target = torch.rand(20, 3, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 3
    everything = calibration_error(probs, target, over="all").item()
    assert calibration_error(probs, target, over=7).item() == pytest.approx(everything, rel=1e-13)


@pytest.mark.parametrize("n", [1, 4, 5, 7, 30, 100])
@pytest.mark.parametrize("bins", [1, 3, 15])
def test_bins_of_equal_mass_hold_equal_numbers(n, bins):
    counts = mass_bins(torch.rand(n, 1, dtype=torch.float64), torch.zeros(n, dtype=torch.long), bins, "all")[0]
    assert counts.sum() == n
    assert counts.max() - counts.min() <= 1


def test_tied_confidences_share_their_outcomes_whatever_their_order():
    probs, target = torch.full((4, 1), 0.5), torch.tensor([[True], [True], [False], [False]])
    for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
        assert calibration_error(probs, target[order], norm="max", bins=2, binning="mass").item() == 0


def test_frequencies_that_are_the_probabilities_have_no_error():
    """Label frequencies equal to p up to chance: ECE of 20,000 pairs in 15 bins is about 0.008; 0.03 is beyond 1e-6."""
    random = np.random.default_rng(0)
    probs = random.uniform(size=(20000, 1))
    assert calibration_error(probs, random.uniform(size=probs.shape) < probs).item() < 0.03
    assert calibration_error(probs, random.uniform(size=probs.shape) < probs**2).item() > 0.1


def test_rows_without_labels_count_as_wrong():
    probs, target = torch.tensor([[0.75, 0.25]]), torch.zeros(1, 2, dtype=torch.bool)
    assert calibration_error(probs, target, over="top").item() == 0.75


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"norm": "l2"}, "norm: .*got 'l2'"),
        ({"bins": 0}, "bins: expected a whole number from 1, got 0"),
        ({"bins": 2.5}, "bins"),
        ({"binning": "equal"}, "binning: .*'width', 'mass'.* got 'equal'"),
        ({"over": "best"}, "over: expected 'all', 'top' or a whole number from 1"),
        ({"over": 0}, "over"),
        ({"over": 1.5}, "over"),
    ],
)
def test_definitions_that_do_not_exist_are_refused_at_once(keywords, message):
    with pytest.raises(InputError, match=message):
        calibration_error(torch.rand(2, 2), torch.tensor([0, 1]), **keywords)
    with pytest.raises(InputError, match=message):
        CalibrationError(**keywords)
    with pytest.raises(InputError, match=message):
        calibration_definition(**keywords)


def test_the_definition_is_stated_with_the_metric():
    assert CalibrationError(over="all").definition == "ECE, 15 bins of equal width, over all (row, label) pairs"
    assert CalibrationError("max", 10, "mass", "top").definition == "MCE, 10 bins of equal mass, over the top label of a row"
    assert calibration_definition("average", over=4).startswith("ACE, 15 bins of equal width, over the 4 most confident")


def test_nothing_is_no_number():
    for norm in NORMS:
        assert math.isnan(calibration_error(torch.empty(0, 3), torch.empty(0, dtype=torch.long), norm=norm))


def test_one_label_a_row_counts_the_top_label_and_several_labels_all_pairs_unless_told_otherwise():
    probs = torch.rand(50, 4, generator=torch.Generator().manual_seed(0)).softmax(1)
    target = torch.arange(50) % 4
    many = torch.nn.functional.one_hot(target, 4).bool()
    assert calibration_error(probs, target) == calibration_error(probs, target, over="top")
    assert calibration_error(probs, many) == calibration_error(probs, many, over="all")
    assert calibration_error(probs, target) != calibration_error(probs, many)
    for binning in ("width", "mass"):
        for labels, over, words in ((target, "top", "the top label of a row"), (many, "all", "all (row, label) pairs")):
            metric = CalibrationError(binning=binning)
            assert "if rows have several labels" in metric.definition
            metric.update(probs, labels)
            assert metric.compute() == calibration_error(probs, labels, binning=binning, over=over)
            assert metric.definition == f"ECE, 15 bins of equal {binning}, over {words}"


def test_the_default_is_what_torchmetrics_computes():
    from torchmetrics.functional.classification import multiclass_calibration_error

    random = torch.Generator().manual_seed(0)
    probs = (3 * torch.randn(400, 10, generator=random)).softmax(1)
    target = torch.randint(10, (400,), generator=random)
    theirs = multiclass_calibration_error(probs, target, num_classes=10, n_bins=15, norm="l1")
    assert calibration_error(probs, target).item() == pytest.approx(theirs.item(), rel=1e-5)


ONE, SEVERAL = torch.tensor([0, 1]), torch.tensor([[True, False], [True, True]])
PROBS = torch.tensor([[0.9, 0.1], [0.3, 0.7]])


@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize("targets", [(ONE, SEVERAL), (SEVERAL, ONE)])
def test_batches_of_one_label_and_of_several_are_not_mixed_unless_told_which_pairs_count(targets, binning):
    first, second = targets
    metric = CalibrationError(binning=binning)
    metric.update(PROBS, first)
    before, words = metric.compute(), metric.definition
    with pytest.raises(InputError, match="CalibrationError: target: .*got both"):
        metric.update(PROBS, second)
    assert metric.compute() == before
    assert metric.definition == words
    metric.reset()
    metric.update(PROBS, second)
    assert metric.compute() == calibration_error(PROBS, second, binning=binning)


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_batches_that_were_mixed_by_forward_are_refused_at_the_end(binning):
    metric = CalibrationError(binning=binning)
    metric(PROBS, ONE)
    metric(PROBS, SEVERAL)
    with pytest.raises(InputError, match="target: .*got both"):
        metric.compute()


def test_batches_of_both_kinds_add_up_when_told_which_pairs_count():
    metric = CalibrationError(over="all")
    metric.update(PROBS, ONE)
    metric.update(PROBS, SEVERAL)
    marks = torch.cat([torch.eye(2, dtype=torch.bool)[ONE], SEVERAL])
    assert metric.compute() == calibration_error(PROBS.repeat(2, 1), marks, over="all")


def test_batches_of_both_kinds_cannot_be_kept_together():
    metric = MeanAveragePrecision()
    metric.update(PROBS, ONE)
    with pytest.raises(InputError, match="MeanAveragePrecision: target: .*got both"):
        metric.update(PROBS, SEVERAL)
