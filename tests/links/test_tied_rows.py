"""Isotonic and Venn–Abers on rows with the same probability of a label, which tie whatever the rest of the row is."""

import numpy as np
import pytest
import torch
from scipy.optimize import isotonic_regression
from torch.testing import assert_close

from shortlist.links import Identity, Isotonic, Softmax, Temperature, VennAbers, link_from_config
from shortlist.links.ties import knots_of
from tests.references import links as reference

KINDS = [Isotonic, VennAbers]


def shares(rows=400, classes=5, parts=10, seed=3):
    """Probabilities in whole parts, as those of the nearest rows or of votes, and labels that follow them."""
    generator = np.random.default_rng(seed)
    truth = generator.dirichlet(np.ones(classes), rows)
    target = np.array([generator.choice(classes, p=row) for row in truth])
    return generator.multinomial(parts, truth) / parts, target


def by_themselves(link, scores):
    """The probabilities of each label, before a row is divided by its sum."""
    scores = torch.as_tensor(scores)
    return link.interval(scores)[0] if isinstance(link, VennAbers) else link._each(link._odds_of_base(scores))


def assert_one_value_each(found, parts):
    for label in range(parts.shape[1]):
        for part in np.unique(parts[:, label]):
            values = found[parts[:, label] == part, label]
            assert values.min() == values.max(), (label, part, values.unique())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_isotonic_of_shares_is_that_of_whole_numbers(dtype):
    probs, target = shares()
    found = by_themselves(Isotonic(Identity()).fit(probs.astype(dtype), target), probs.astype(dtype))
    for label in range(5):
        _, place, counts = np.unique(np.rint(10 * probs[:, label]), return_inverse=True, return_counts=True)
        weights, positives = counts.astype(float), np.bincount(place, weights=target == label)
        positives[0], weights[0], weights[-1] = positives[0] + 1, weights[0] + 1, weights[-1] + 1
        expected = isotonic_regression(positives / weights, weights=weights).x[place]
        assert_close(found[:, label].double(), torch.from_numpy(expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_venn_abers_of_shares_is_that_of_whole_numbers(dtype):
    probs, target = shares(rows=150)
    lower, upper = VennAbers(Identity()).fit(probs.astype(dtype), target).interval(probs.astype(dtype))
    for label in range(5):
        parts = np.rint(10 * probs[:, label])
        for part in np.unique(parts):
            here = parts == part
            low, high = reference.venn_abers(parts, target == label, part)
            assert_close(lower[here, label].double(), torch.full((here.sum(),), low).double())
            assert_close(upper[here, label].double(), torch.full((here.sum(),), high).double())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fitted_on", [np.float64, np.float32])
@pytest.mark.parametrize("asked_in", [np.float64, np.float32])
@pytest.mark.parametrize("parts", [3, 7, 10, 100])
def test_the_same_probability_has_one_value_whatever_the_row(kind, fitted_on, asked_in, parts):
    probs, target = shares(parts=parts)
    link = kind(Identity()).fit(probs[:200].astype(fitted_on), target[:200])
    found = by_themselves(link, probs[200:].astype(asked_in))
    known = [set(np.rint(parts * probs[:200, label])) for label in range(5)]
    for label in range(5):
        met = np.isin(np.rint(parts * probs[200:, label]), list(known[label]))
        assert_one_value_each(found[met][:, [label]], np.rint(parts * probs[200:][met][:, [label]]))


@pytest.mark.parametrize("kind", KINDS)
def test_no_probability_is_one_knot_even_if_rows_do_not_sum_to_one(kind):
    probs, target = shares(classes=6)
    random = np.random.default_rng(0)
    rounded = np.round(probs * random.choice([0.999, 1, 1.001], (400, 1)), 4)
    link = kind(Identity()).fit(rounded, target)
    found = by_themselves(link, rounded)
    for label in range(6):
        assert len(found[rounded[:, label] == 0, label].unique()) == 1
    lowest = (link.knots if kind is Isotonic else link.steps)[:, 0]
    assert lowest == pytest.approx(-103.97, abs=2e-4)


def rounded_rows(rounding, concentration=1.0, rows=600, classes=5, seed=4):
    """Probabilities that were rounded one by one, to decimals or to half precision, and labels that follow them."""
    generator = np.random.default_rng(seed)
    truth = generator.dirichlet(np.full(classes, concentration), rows)
    target = np.array([generator.choice(classes, p=row) for row in truth])
    if isinstance(rounding, torch.dtype):
        return torch.from_numpy(truth).to(rounding), target
    return torch.from_numpy(np.round(truth, rounding)), target


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("concentration", [1.0, 0.03], ids=["spread", "confident"])
@pytest.mark.parametrize("rounding", [2, 3, 4, torch.float16, torch.bfloat16], ids=str)
def test_the_same_probability_has_one_value_where_rows_do_not_sum_to_one(kind, concentration, rounding):
    """Of 1 the rest of a row may say more; but never that it is less than another probability."""
    probs, target = rounded_rows(rounding, concentration)
    assert ((probs.double().sum(1) - 1).abs() > 1e-4).any()
    for given in (probs, probs.double(), probs.float()):
        link = kind(Identity()).fit(given, target)
        for asked in (probs.double(), probs.float()):
            found = by_themselves(link, asked).numpy()
            for label in range(5):
                own = probs[:, label].double().numpy()
                assert_one_value_each(torch.from_numpy(found[own < 1][:, [label]]), own[own < 1][:, None])
                order = np.argsort(own, kind="stable")
                largest = np.maximum.accumulate(found[order, label])
                firsts = np.searchsorted(own[order], own[order], side="left")
                below = np.where(firsts > 0, largest[firsts - 1], 0)
                assert (found[order, label] >= below).all()


def printed_rows(form, trees, classes, sure, seed=0, rows=400):
    """Shares of trees as a file holds them that was written with so many digits, and labels that follow them."""
    random = np.random.default_rng(seed)
    wrong = 10 ** random.uniform(-8, -1, rows) if sure else random.uniform(0.02, 0.6, rows)
    truth = np.repeat((wrong / (classes - 1))[:, None], classes, 1)
    truth[np.arange(rows), random.integers(classes, size=rows)] = 1 - wrong
    found = truth if sure else np.array([random.multinomial(trees, row) for row in truth]) / trees
    target = np.array([random.choice(classes, p=row / row.sum()) for row in 0.7 * truth + 0.3 / classes])
    return np.array([[float(form % value) for value in row] for row in found]), target


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sure", [False, True], ids=["spread", "sure"])
@pytest.mark.parametrize("form", ["%.6f", "%.7f", "%.8f", "%.9f", "%.6g", "%.7g", "%.8g"])
def test_printed_probabilities_have_one_value_each_and_keep_their_order(kind, form, sure):
    for trees, classes, seed in ((30, 12, 0), (30, 12, 3), (300, 6, 5), (60, 40, 2)):
        probs, target = printed_rows(form, trees, classes, sure, seed)
        assert len(np.unique(np.abs(probs.sum(1) - 1).round(12))) > 1
        found = by_themselves(kind(Identity()).fit(probs, target), probs).numpy()
        for label in range(classes):
            own, value = probs[:, label], found[:, label]
            assert_one_value_each(torch.from_numpy(value[own < 1][:, None]), own[own < 1][:, None])
            order = np.argsort(own, kind="stable")
            largest = np.maximum.accumulate(value[order])
            firsts = np.searchsorted(own[order], own[order], side="left")
            assert (value[order] >= np.where(firsts > 0, largest[firsts - 1], 0)).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_rest_of_a_row_tells_probabilities_near_1_apart_in_either_precision(dtype):
    wrong = [0.0123456789012, 1.23456789e-3, 1.23456789e-5, 1.23456789e-6, 1.98765432e-7, 1.2345e-9, 1e-14, 2.0**-53]
    wrong = torch.tensor(wrong, dtype=torch.float64)
    rows = torch.stack([1 - wrong, 0.75 * wrong, 0.25 * wrong], 1).to(dtype)
    odds = Isotonic(Identity(), single=True)._odds_of_base(rows)[:, 0]
    assert_close(odds.double(), torch.log1p(-wrong) - wrong.log(), rtol=1e-6, atol=0)


def test_two_numbers_of_float32_near_1_keep_their_order_whatever_their_rows_sum_to():
    steps = torch.arange(8, dtype=torch.float64).repeat_interleave(20)
    probs = 1 - steps * 2.0**-24
    rest = (1 - probs + torch.linspace(-4.9e-7, 4.9e-7, 20).repeat(8)).clamp(min=0)
    rows = torch.stack([probs, rest], 1)
    odds = Isotonic(Identity(), single=True)._odds_of_base(rows)[:, 0].view(8, 20)
    assert (odds[1:].amax(1) <= odds[:-1].amin(1)).all()


def test_log_odds_of_rounded_probabilities_are_those_of_each_by_itself():
    rows = torch.tensor([[0.33, 0.33, 0.33], [0.33, 0.33, 0.34], [0.33, 0.34, 0.34]], dtype=torch.float64)
    odds = Isotonic(Identity(), single=True)._odds_of_base(rows)
    assert_close(odds, torch.logit(rows), rtol=0, atol=1e-6)
    sure = torch.tensor([[1, 1e-12, 1e-9], [1.0, 0.001, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    odds = Isotonic(Identity(), single=True)._odds_of_base(sure)
    assert_close(odds[0], torch.tensor([-np.log(1.001e-9), np.log(1e-12), np.log(1e-9)]), rtol=0, atol=1e-6)
    assert_close(odds[1], torch.tensor([np.log(2e6), np.log(0.001 / 0.999), -103.97]), rtol=0, atol=1e-6)
    assert_close(odds[2], torch.full((3,), -np.log(2), dtype=torch.float64), rtol=0, atol=1e-6)
    assert Isotonic(Identity(), single=True)._odds_of_base(torch.full((1, 3), torch.nan)).isnan().all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("base", [Identity, Softmax], ids=lambda base: base.kind)
def test_equal_numbers_have_equal_probabilities_however_they_are_stored(kind, base):
    truth, target = shares(rows=300, classes=6, parts=1000)
    numbers = truth if base is Identity else np.round(np.log(truth + 0.01), 1)
    by_rows, by_columns = torch.from_numpy(numbers), torch.from_numpy(np.asfortranarray(numbers))
    every_other = torch.from_numpy(np.repeat(numbers, 2, axis=1))[:, ::2]
    one_by_one = [by_rows[row : row + 1] for row in range(300)]
    link = kind(base()).fit(by_rows, target)
    expected = link.probs(by_rows)
    for stored in (by_columns, every_other):
        assert torch.equal(stored, by_rows)
        assert_close(link.probs(stored), expected, rtol=0, atol=1e-12)
        assert_close(kind(base()).fit(stored, target).probs(by_rows), expected, rtol=0, atol=1e-12)
    assert_close(torch.cat([link.probs(row) for row in one_by_one]), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("base", [Softmax, lambda: Temperature(Softmax())], ids=["softmax", "temperature"])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 300.0])
def test_what_the_other_labels_of_a_softmax_are_called_does_not_matter(kind, base, scale):
    generator = np.random.default_rng(1)
    rows = scale * generator.standard_normal((20, 6))
    scores = np.concatenate([np.c_[row[:1], generator.permutation(row[1:])[None]] for row in np.repeat(rows, 20, axis=0)])
    scores += 0.125 * scale * generator.integers(-5, 5, (400, 1))  # that says nothing about a softmax
    below = base()
    if isinstance(below, Temperature):
        below.fit(rows, generator.integers(0, 6, 20))
    link = kind(below).fit(scores, generator.integers(0, 3, 400))
    found = by_themselves(link, scores)[:, 0]
    assert all(len(values.unique()) == 1 for values in found.split(20))
    assert len(found.unique()) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_many_labels_are_taken_as_they_are(kind):
    """Also where they differ by less than a softmax would be rounded."""
    scores, target = torch.arange(40.0, dtype=torch.float64)[:, None] * 1e-15, torch.arange(40)[:, None] % 7 > 3
    tiny, large = kind().fit(scores, target), kind().fit(1e15 * scores, target)
    assert_close(tiny.probs(scores), large.probs(1e15 * scores))
    assert len(tiny.probs(scores).unique()) > 2


@pytest.mark.parametrize("kind", KINDS)
def test_tied_rows_are_tied_after_saving(kind):
    probs, target = shares()
    link = kind(Identity()).fit(probs, target)
    again = link_from_config(link.config(), link.state_dict())
    assert_one_value_each(by_themselves(again, probs), np.rint(10 * probs))


def test_knots_without_tolerance_are_the_distinct_numbers():
    knots = knots_of(np.array([2.0, 1.0, 2.0, 1.0 + 1e-15]), 0.0)
    assert knots.low.tolist() == knots.high.tolist() == [1.0, 1.0 + 1e-15, 2.0]
    assert knots.place.tolist() == [2, 0, 2, 1]
    assert knots.counts.tolist() == [1, 1, 2]


@pytest.mark.filterwarnings("error")
def test_knots_at_the_largest_numbers_are_finite():
    knots = knots_of(np.array([1.0, -1.0, 0.0]) * np.finfo(float).max, 1e-12)
    assert np.isfinite([knots.low, knots.high]).all()
    assert (knots.high[:-1] < knots.low[1:]).all()


def test_numbers_within_the_tolerance_are_one_knot_which_reaches_as_far_on_either_side():
    knots = knots_of(np.array([0.5, 0.5 + 1e-9, -0.5, 30.0]), 1e-6)
    assert knots.place.tolist() == [1, 1, 0, 2]
    assert knots.counts.tolist() == [1, 2, 1]
    assert knots.low == pytest.approx([-0.5 - 1e-6, 0.5 - 1e-6, 30 - 3e-5], rel=1e-10)
    assert knots.high == pytest.approx([-0.5 + 1e-6, 0.5 + 1e-9 + 1e-6, 30 + 3e-5], rel=1e-10)


@pytest.mark.parametrize("gap", [1e-17, 1e-16, 3e-16, 1e-9, 3e-7, 1e-6, 1.1e-6, 3e-6])
def test_knots_do_not_meet_and_many_close_numbers_are_not_one_knot(gap):
    odds = 1 + gap * np.arange(1000) * np.random.default_rng(0).random(1000)
    knots = knots_of(odds, 1e-6)
    assert (knots.high[:-1] < knots.low[1:]).all()
    assert (knots.low <= knots.high).all()
    assert (knots.high - knots.low <= 3.1e-6).all()
    assert ((knots.low[knots.place] <= odds) & (odds <= knots.high[knots.place])).all()
    assert knots.counts.sum() == 1000
