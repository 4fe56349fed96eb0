"""How well anybody could do: against linear programmes, against sampled plants, and what the default garden promises."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.data.flora import Flora, best_accuracies
from shortlist.errors import InputError
from shortlist.metrics import set_accuracy, set_size, top_k_accuracy
from shortlist.sets import average_k
from tests.references import flora as ref

NAMES = ("top_k", "average_k", "macro_top_k", "macro_average_k")
FLORA = Flora()
# Five standard errors: a false alarm in two million.
SIGMAS = 5


@st.composite
def laws(draw):
    """A few observations with their probabilities and posteriors, ties and zeros among them."""
    rows, classes = draw(st.integers(1, 6)), draw(st.integers(2, 5))
    joint = draw(st.lists(st.integers(0, 4), min_size=rows * classes, max_size=rows * classes))
    joint = np.array(joint, float).reshape(rows, classes)
    joint[:, 0] += joint.sum(1) == 0
    joint[0] += joint.sum(0) == 0
    joint /= joint.sum()
    return joint, draw(st.integers(1, classes))


@given(laws())
@settings(max_examples=100, deadline=None)
def test_limits_are_the_optima_of_linear_programmes(case):
    joint, k = case
    weight, prior = joint.sum(1), joint.sum(0)
    posterior = joint / weight[:, None]
    found = best_accuracies(posterior, prior, [k], weight)
    for name, expected in ref.best_accuracies(posterior, prior, k, weight).items():
        assert getattr(found, name)[0] == pytest.approx(expected, abs=1e-9), name
        assert found.error[name][0] == 0


@pytest.mark.parametrize("variation", [0, 1])
@pytest.mark.parametrize("size", [(2, 1), (4, 2), (5, 5)], ids=str)
def test_limits_of_a_small_garden_are_those_of_everything_that_can_be_seen(size, variation):
    garden = Flora(*size, seed=2, variation=variation)
    weight, posteriors = ref.weights_and_posteriors(garden)
    assert weight.sum() == pytest.approx(1)
    ks = [1, 2]
    found = garden.limits(ks)
    for place, k in enumerate(ks):
        for name, expected in ref.best_accuracies(posteriors, garden.prior, k, weight).items():
            assert getattr(found, name)[place] == pytest.approx(expected, abs=1e-7), (name, k)


@pytest.mark.parametrize("garden", [FLORA, Flora(3, 1), Flora(40, 8, abundance="balanced", variation=2)], ids=repr)
def test_limits_rise_with_k_and_average_beats_exact(garden):
    classes = len(garden.classes)
    found = garden.limits(range(1, classes + 1))
    for name in NAMES:
        curve = getattr(found, name)
        assert (np.diff(curve) >= -1e-12).all()
        assert (np.diff(curve, 2) <= 1e-12).all()  # each further label is worth less
        assert curve[-1] == pytest.approx(1)
    assert (found.average_k >= found.top_k - 1e-12).all()
    assert (found.macro_average_k >= found.macro_top_k - 1e-12).all()
    assert (found.macro_top_k <= 1 + 1e-12).all()
    if garden.abundance == "balanced":
        np.testing.assert_allclose(found.macro_top_k, found.top_k)
        np.testing.assert_allclose(found.macro_average_k, found.average_k)


@pytest.mark.parametrize("size", [(2, 1), (4, 2)], ids=str)
def test_a_garden_of_fewer_species_than_ten_has_limits_too(size):
    assert Flora(*size).limits().k.tolist() == list(range(1, size[0] + 1))


def test_without_variation_and_all_seen_nothing_is_missed():
    """Species that look different in every view cannot be confused."""
    garden = Flora(2, 2, seed=0, variation=0)
    assert (garden.taxa.typical[0] != garden.taxa.typical[1]).all()
    assert garden.limits([1]).top_k[0] == pytest.approx(1)


@pytest.fixture(scope="module")
def sample():
    return FLORA.observe(50_000, seed=40)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_most_probable_species_reach_the_limit_and_not_more(sample, k):
    target, posterior = sample
    limits = FLORA.limits([k])
    error = np.sqrt(limits.top_k[0] * (1 - limits.top_k[0]) / len(target))
    assert top_k_accuracy(posterior, target, k=k).item() == pytest.approx(limits.top_k[0], abs=SIGMAS * error)
    ratio = posterior / torch.from_numpy(FLORA.prior).float()
    macro = top_k_accuracy(ratio, target, k=k, average="macro").item()
    # The mean over classes of accuracies whose counts differ: its variance from the counts.
    counts = np.bincount(target, minlength=len(FLORA.classes))
    assert macro == pytest.approx(limits.macro_top_k[0], abs=SIGMAS * np.sqrt((0.25 / counts).sum()) / len(counts))


@pytest.mark.filterwarnings("ignore:average-k")
@pytest.mark.parametrize("k", [1, 2, 5])
def test_sets_of_average_size_reach_the_limit_and_not_more(sample, k):
    """Labels that tie at the cut leave the mean size a little off k, and the accuracy by less than that much."""
    target, posterior = sample
    sets = average_k(k).fit(posterior)(posterior)
    off = abs(set_size(sets).item() - k)
    assert off < 0.1
    limit = FLORA.limits([k]).average_k[0]
    assert set_accuracy(sets, target).item() == pytest.approx(
        limit, abs=off + SIGMAS * np.sqrt(limit * (1 - limit) / len(target))
    )


def test_no_other_rule_of_the_same_size_does_better(sample):
    target, posterior = sample
    limit = FLORA.limits([1]).top_k[0]
    blurred = posterior**0.5 / torch.from_numpy(FLORA.prior).float() ** 0.5
    assert top_k_accuracy(blurred, target, k=1).item() < limit - 0.02


def test_a_sample_comes_near_the_exact_limits(sample):
    ks = [1, 3, 5, 10]
    found, exact = best_accuracies(sample[1][:20_000].double().numpy(), FLORA.prior, ks), FLORA.limits(ks)
    for name in NAMES:
        assert (found.error[name] > 0).all()
        assert (np.abs(getattr(found, name) - getattr(exact, name)) < SIGMAS * found.error[name]).all(), name
        assert (exact.error[name] == 0).all()


def test_standard_errors_are_the_spread_over_samples():
    """200 samples of 400: a standard deviation is then known to 5 %; within 25 % is 5 standard errors of it."""
    garden, ks = Flora(12, 4, seed=1, abundance="balanced"), [1, 2, 4]
    posterior = garden.observe(200 * 400, seed=3)[1].double().numpy().reshape(200, 400, -1)
    found = [best_accuracies(rows, garden.prior, ks) for rows in posterior]
    for name in NAMES:
        spread = np.std([getattr(limits, name) for limits in found], axis=0, ddof=1)
        claimed = np.mean([limits.error[name] for limits in found], axis=0)
        np.testing.assert_allclose(claimed / spread, 1, atol=0.25, err_msg=name)


def test_one_row_says_nothing_about_its_error():
    found = best_accuracies(np.array([[0.7, 0.3]]), np.array([0.5, 0.5]), [1, 2])
    for name in ("top_k", "macro_top_k"):
        assert np.isinf(found.error[name]).all()
    assert found.top_k.tolist() == [0.7, 1.0]


def test_limits_as_rows():
    rows = Flora(4, 2).limits([1, 3]).rows()
    assert [row["k"] for row in rows] == [1, 3]
    assert set(rows[0]) == {"k", *NAMES, *(f"{name}_error" for name in NAMES)}
    assert rows[0]["top_k"] == pytest.approx(Flora(4, 2).limits([1]).top_k[0])


@pytest.mark.filterwarnings("ignore:average-k")
def test_the_default_garden_is_what_it_promises(sample):
    assert len(FLORA.classes) == 120
    assert len(set(FLORA.superclasses)) == 30
    assert 0.6 <= FLORA.limits([1]).top_k[0] <= 0.8
    assert float(ref.tail_share(FLORA.prior.tolist())) == pytest.approx(0.11, abs=1e-9)
    sizes = average_k(5).fit(sample[1])(sample[1]).sum(1)
    assert sizes.min() == 1
    assert sizes.max() > 10


def test_samples_of_tensors_are_taken_as_they_come():
    flora = Flora(species=8, genera=2)
    _, posterior = flora.observe(200, seed=1)
    found = best_accuracies(posterior, flora.prior, [1, 2])
    assert np.allclose(found.top_k, best_accuracies(posterior.double().numpy(), flora.prior, [1, 2]).top_k)


@pytest.mark.parametrize(
    ("posterior", "prior", "weight", "message"),
    [
        (np.zeros((0, 2)), np.ones(2) / 2, None, "posterior, prior: expected"),
        (np.ones((3, 2)) / 2, np.ones(3) / 3, None, "posterior, prior: expected"),
        (np.ones((3, 2)) / 2, np.array([1.0, 0.0]), None, "prior: expected a probability above 0 of every class"),
        (np.ones((3, 2)) / 2, np.ones(2) / 2, np.ones(3), "weight: expected a probability of each observation"),
    ],
)
def test_what_cannot_be_averaged_is_refused(posterior, prior, weight, message):
    with pytest.raises(InputError, match=message):
        best_accuracies(posterior, prior, [1], weight)
