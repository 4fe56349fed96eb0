"""The test of calibration: exact on small cases, uniform under the null hypothesis, small otherwise; bands; classes."""

import math

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.metrics import calibration_test
from shortlist.metrics.binned_pairs import bins_by, frequency_bands, row_moments, rows_in_bins
from shortlist.metrics.calibration import width_bins
from shortlist.metrics.classwise import class_numbers
from tests.references import metrics as ref

DRAWS = 4000


def close(found, expected):
    """Within five standard errors of a share among that many draws."""
    return abs(found - expected) <= 5 * math.sqrt(expected * (1 - expected) / DRAWS) + 2 / DRAWS


@pytest.mark.parametrize("over", ["top", "all", 2])
@pytest.mark.parametrize("seed", range(4))
def test_with_one_label_a_row_the_p_value_is_that_of_all_possible_labels(over, seed):
    random = np.random.default_rng(seed)
    probs, target = random.dirichlet(np.ones(3), 6), random.integers(3, size=6)
    statistic, p_value = calibration_test(probs, target, bins=4, over=over, draws=DRAWS)
    assert statistic == pytest.approx(ref.calibration_statistic(probs, target, 4, over), rel=1e-9)
    assert close(p_value, ref.calibration_p_value(probs, target, 4, over))


@pytest.mark.parametrize("over", ["all", 2])
@pytest.mark.parametrize("seed", range(3))
def test_with_several_labels_the_p_value_is_that_of_all_signs_of_rows(over, seed):
    random = np.random.default_rng(seed)
    probs = random.uniform(size=(8, 3))
    target = random.uniform(size=probs.shape) < probs
    statistic, p_value = calibration_test(probs, target, bins=3, over=over, draws=DRAWS)
    assert statistic == pytest.approx(ref.calibration_statistic(probs, target, 3, over), rel=1e-9)
    assert close(p_value, ref.flipped_p_value(probs, target, 3, over))


def one_label(random, rows=150, classes=5):
    probs = random.dirichlet(np.full(classes, 0.5), rows)
    return probs, (probs.cumsum(1) > random.uniform(size=(rows, 1))).argmax(1)


def several_labels(random, rows=150, classes=6):
    """Labels that occur together: with probability 0.7 one number decides about all labels of a row."""
    probs = random.beta(0.5, 1.5, size=(rows, classes))
    shared, own = random.uniform(size=(rows, 1)), random.uniform(size=(rows, classes))
    return probs, np.where(random.uniform(size=(rows, 1)) < 0.7, shared, own) < probs


def p_values(draw, change=lambda probs: probs, samples=300, **keywords):
    random = np.random.default_rng(0)
    drawn = (draw(random) for _ in range(samples))
    return np.array([calibration_test(change(p), y, draws=99, seed=n, **keywords).p_value for n, (p, y) in enumerate(drawn)])


@pytest.mark.parametrize(
    ("draw", "keywords"),
    [
        (one_label, {}),
        (one_label, {"over": "all"}),
        (one_label, {"over": 2}),
        (several_labels, {}),
        (several_labels, {"over": "top"}),
    ],
)
def test_p_values_are_uniform_if_labels_are_drawn_from_the_probabilities(draw, keywords):
    """300 samples of 150 rows: shares below five levels within 3.5 standard errors (chance of failure about 0.002)."""
    found = p_values(draw, **keywords)
    for level in (0.05, 0.1, 0.25, 0.5, 0.75):
        assert abs((found <= level).mean() - level) <= 3.5 * math.sqrt(level * (1 - level) / len(found)), level


@pytest.mark.parametrize(
    ("draw", "over"), [(one_label, "top"), (one_label, "all"), (several_labels, "all"), (several_labels, "top")]
)
def test_p_values_are_small_if_probabilities_are_too_confident(draw, over):
    """40 samples of 150 rows; log-odds doubled, rows renormalised where they have one label."""

    def sharper(probs):
        odds = (probs / (1 - probs)) ** 2
        found = odds / (1 + odds)
        return found / found.sum(1, keepdims=True) if draw is one_label else found

    found = p_values(draw, sharper, samples=40, over=over)
    assert np.median(found) <= 0.03
    assert (found <= 0.1).mean() >= 0.8


def test_independent_draws_would_reject_labels_that_occur_together():
    """Why rows are kept together: with every pair a row of its own, more than twice the nominal share is rejected."""
    random = np.random.default_rng(0)
    samples = [several_labels(random) for _ in range(150)]
    apart = [calibration_test(p.reshape(-1, 1), y.reshape(-1, 1), draws=99, over="top").p_value for p, y in samples]
    assert np.mean(np.array(apart) <= 0.05) > 0.1


def test_an_outcome_of_probability_0_refutes_the_probabilities():
    for p, right in ((0.0, True), (1.0, False)):
        probs, target = torch.full((50, 3), 0.5), torch.arange(150).view(50, 3) % 2 == 0
        probs[7, 1], target[7, 1] = p, right
        found = calibration_test(probs, target, over="all", draws=99)
        assert (found.statistic.item(), found.p_value.item()) == (math.inf, 0.01)
    certain = calibration_test(torch.eye(3), torch.arange(3), draws=99)
    assert (certain.statistic.item(), certain.p_value.item()) == (0, 1)


def test_the_seed_decides_and_other_draws_do_not_matter_much():
    probs, target = one_label(np.random.default_rng(5))
    assert calibration_test(probs, target, seed=1) == calibration_test(probs, target, seed=1)
    values = [float(calibration_test(probs, target, seed=seed).p_value) for seed in range(5)]
    assert max(values) - min(values) < 0.12
    assert len(set(values)) > 1


def test_rows_that_do_not_sum_to_1_have_no_distribution_of_one_label():
    probs, target = np.full((4, 3), 0.5), np.array([0, 1, 2, 0])
    with pytest.raises(InputError, match=r"probs: .*sum to 1.*1\.5 in row 0.*over='top'"):
        calibration_test(probs, target, over="all")
    assert 0 < calibration_test(probs, target).p_value <= 1


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"bins": 0}, "bins: .*got 0"),
        ({"draws": 0}, "draws: .*got 0"),
        ({"seed": -1}, "seed: .*got -1"),
        ({"over": "best"}, "over: .*got 'best'"),
    ],
)
def test_parameters_are_checked(keywords, message):
    with pytest.raises(InputError, match=message):
        calibration_test([[0.5, 0.5]], [0], **keywords)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("bins", [1, 4, 15])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_pairs_are_counted_by_row_and_by_class_as_by_hand(single, bins, dtype):
    random = np.random.default_rng(3)
    probs = torch.from_numpy(random.choice([0.0, 0.01, 0.25, 0.5, 0.75, 0.9, 1.0], size=(9, 5))).to(dtype)
    marks = random.uniform(size=(9, 5)) < 0.4
    target = torch.from_numpy(marks.argmax(1) if single else marks)
    marks = ref.marks_of(target.numpy(), 5)
    values = probs.double().numpy()
    for group, lines in (("row", range(9)), ("class", range(5))):
        found = bins_by(group, probs, target, bins)
        for line in lines:
            index = (line, slice(None)) if group == "row" else (slice(None), line)
            table = ref.width_bins(list(zip(values[index], marks[index], strict=True)), bins)
            for place, part in enumerate(table):
                expected = [len(part), sum(p for p, _ in part), sum(y for _, y in part), sum(p * (1 - p) for p, _ in part)]
                assert found[:, line, place].tolist() == pytest.approx(expected, abs=1e-6 if dtype != torch.float64 else 1e-12)


def test_class_numbers_by_hand():
    probs = np.array([[0.5, 0.1], [0.5, 0.1], [0.5, 0.1], [0.5, 0.1]])
    target = torch.tensor([[True, False], [False, True], [False, True], [False, False]])
    table = bins_by("class", torch.from_numpy(probs), target, 10)
    found = {name: values.tolist() for name, values in class_numbers(table).items()}
    assert found["labels"] == [1, 2]
    assert found["probability"] == pytest.approx([0.5, 0.1])
    assert found["frequency"] == [0.25, 0.5]
    assert found["gap"] == pytest.approx([0.25, -0.4])
    assert found["z"] == pytest.approx([1.0, -1.6 / math.sqrt(0.36)])
    assert found["ece"] == found["mce"] == found["ace"] == pytest.approx([0.25, 0.4])


def coverage_of_bands(draw, over, samples=200, by_row=True):
    """How often the band holds the expected frequency of its bin, over all bins with 20 pairs or more."""
    random, held = np.random.default_rng(1), []
    for _ in range(samples):
        probs, target = (torch.from_numpy(part) for part in draw(random))
        table = width_bins(probs, target, 5, over)
        low, high = frequency_bands(table, row_moments(rows_in_bins(probs, target, 5, over)) if by_row else None)
        expected = table[1] / table[0]
        held += ((low <= expected) & (expected <= high))[table[0] >= 20].tolist()
    return np.mean(held)


@pytest.mark.parametrize("over", ["top", "all", 3])
def test_bands_hold_the_expected_frequency_in_about_95_of_100_bins(over):
    """200 samples of 150 rows of labels that occur together: not below 93 %, and too narrow if pairs counted as independent."""
    assert coverage_of_bands(several_labels, over) >= 0.93
    assert coverage_of_bands(one_label, over) >= 0.93
    if over == "all":
        assert coverage_of_bands(several_labels, over, by_row=False) < 0.93


def test_bands_where_all_pairs_of_a_bin_agree_count_rows():
    """Ten pairs of two rows, all right: as sure as two rows can be."""
    probs, target = torch.full((2, 5), 0.9, dtype=torch.float64), torch.ones(2, 5, dtype=torch.bool)
    table = width_bins(probs, target, 1, "all")
    low, high = frequency_bands(table, row_moments(rows_in_bins(probs, target, 1, "all")))
    square = 1.959963984540054**2
    assert high.item() == 1
    assert low.item() == pytest.approx(2 / (2 + square))
    assert frequency_bands(table).low.item() == pytest.approx(10 / (10 + square))


def test_a_frequency_of_1_or_0_is_in_its_interval_for_any_number_of_rows():
    rows = torch.arange(1, 2_000, dtype=torch.float64)
    assert (frequency_bands(torch.stack([rows, rows, rows])).high == 1).all()
    assert (frequency_bands(torch.stack([rows, rows, 0 * rows])).low == 0).all()
