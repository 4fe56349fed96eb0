"""The temperature is the minimiser of the negative log-likelihood, or there is none and the fit says so."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings, strategies as st
from scipy.optimize import minimize_scalar

from shortlist.errors import InputError, NotConvergedError
from shortlist.links import SPA, Beta, Identity, Isotonic, Platt, Sigmoid, Softmax, Temperature, VennAbers, temperature
from tests.references import links as reference


def draw(seed, rows=60, classes=4, *, single=True, scale=3.0):
    """Scores that are too bold by the factor ``scale``, and labels drawn from what they mean."""
    generator = np.random.default_rng(seed)
    scores = generator.standard_normal((rows, classes))
    if single:
        target = np.array([generator.choice(classes, p=row) for row in reference.softmax(scores)])
    else:
        target = generator.random((rows, classes)) < np.vectorize(reference.sigmoid)(scores)
    return scale * scores, target


def best_temperature(scores, target):
    """By brute force, on the reference."""
    found = minimize_scalar(
        lambda log_t: reference.temperature_nll(math.exp(log_t), scores, target),
        bounds=(math.log(1e-2), math.log(1e3)),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return math.exp(found.x)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("scale", [0.05, 1.0, 40.0])
def test_temperature_minimises_the_negative_log_likelihood(single, scale):
    scores, target = draw(0, single=single, scale=scale)
    link = Temperature().fit(torch.from_numpy(scores), torch.from_numpy(target))
    assert link.temperature.item() == pytest.approx(best_temperature(scores, target), rel=1e-5)


@given(st.integers(0, 2**31), st.integers(2, 30), st.integers(2, 5), st.booleans())
@settings(max_examples=25, deadline=None)
def test_no_temperature_nearby_is_likelier(seed, rows, classes, single):
    scores, target = draw(seed, rows, classes, single=single)
    try:
        fitted = Temperature().fit(scores, target).temperature.item()
    except NotConvergedError:
        assume(False)
    least = reference.temperature_nll(fitted, scores, target)
    for factor in (0.99, 1.01):
        assert least <= reference.temperature_nll(fitted * factor, scores, target)


@pytest.mark.parametrize("single", [True, False])
def test_scores_times_a_factor_have_the_temperature_times_it(single):
    scores, target = draw(1, single=single, scale=1.0)
    plain = Temperature().fit(scores, target)
    bold = Temperature().fit(scores * 7, target)
    assert bold.temperature.item() == pytest.approx(7 * plain.temperature.item(), rel=1e-9)
    torch.testing.assert_close(bold.probs(torch.from_numpy(scores * 7)), plain.probs(torch.from_numpy(scores)))


@pytest.mark.parametrize("single", [True, False])
def test_probabilities_and_log_odds_are_those_of_the_scores_over_the_temperature(single):
    scores, target = draw(2, single=single)
    link = Temperature().fit(scores, target)
    base, cooled = Softmax() if single else Sigmoid(), torch.from_numpy(scores) / link.temperature
    torch.testing.assert_close(link.probs(torch.from_numpy(scores)), base.probs(cooled))
    torch.testing.assert_close(link.log_odds(torch.from_numpy(scores)), base.log_odds(cooled))


def test_probabilities_of_one_label_a_row_are_raised_to_a_power():
    scores, target = draw(3, scale=1.0)
    probs = reference.softmax(scores)
    link = Temperature(Identity()).fit(probs, target)
    assert link.temperature.item() == pytest.approx(best_temperature(scores, target), rel=1e-5)
    powers = probs ** (1 / link.temperature.item())
    np.testing.assert_allclose(link.probs(torch.from_numpy(probs)), powers / powers.sum(1, keepdims=True), rtol=1e-9)


def test_probability_zero_of_a_label_that_happened_does_not_break_the_fit():
    probs = torch.tensor([[1.0, 0.0]] * 9 + [[0.7, 0.3]])
    link = Temperature(Identity()).fit(probs, torch.tensor([0] * 8 + [1, 1]))
    assert math.isfinite(link.temperature.item())
    assert link.probs(probs).isfinite().all()


def test_another_base_is_read_through_its_log_odds():
    scores, target = draw(4, single=False, scale=1.0)
    odds = np.vectorize(reference.spa_logit)(scores)
    link = Temperature(SPA()).fit(scores, target)
    assert link.temperature.item() == pytest.approx(best_temperature(odds, target), rel=1e-5)
    torch.testing.assert_close(link.log_odds(torch.from_numpy(scores)), torch.from_numpy(odds) / link.temperature)


def test_blocks_of_rows_do_not_change_the_fit(monkeypatch):
    scores, target = draw(5)
    whole = Temperature().fit(scores, target).temperature
    monkeypatch.setattr("shortlist.links.temperature.row_blocks", lambda rows, _: (slice(i, i + 7) for i in range(0, rows, 7)))
    torch.testing.assert_close(Temperature().fit(scores, target).temperature, whole)


@pytest.mark.parametrize("single", [True, False])
def test_labels_that_always_rank_first_have_no_temperature(single):
    scores = torch.eye(4)
    target = torch.arange(4) if single else torch.eye(4, dtype=torch.bool)
    scores = scores if single else 2 * scores - 1
    with pytest.raises(NotConvergedError, match="ranks first"):
        Temperature().fit(scores, target)


@pytest.mark.parametrize("scores", [torch.zeros(4, 4), 1 - torch.eye(4)])
def test_scores_no_better_than_chance_have_no_temperature(scores):
    with pytest.raises(NotConvergedError, match="^temperature: .*chance"):
        Temperature().fit(scores, torch.arange(4))


def test_fitting_again_is_as_fitting_afresh():
    single, many = draw(6), draw(7, single=False)
    again = Temperature().fit(*single).fit(*many)
    torch.testing.assert_close(again.temperature, Temperature().fit(*many).temperature)


@pytest.mark.parametrize("kind", [Temperature, Platt, Beta, Isotonic, VennAbers])
@pytest.mark.parametrize("fails", [NotConvergedError("no optimum"), KeyboardInterrupt()])
def test_a_refit_that_fails_leaves_the_link_as_it_was(kind, fails, monkeypatch):
    link = kind().fit(*draw(6))
    before, base, probs = link.config(), link.base, link.probs(draw(6)[0])

    def broken(*_):
        raise fails

    for place in (
        "temperature._root",
        "per_label._fit_platt",
        "beta._fit_beta",
        "per_label._fit_isotonic",
        "venn_abers._fit_steps",
    ):
        monkeypatch.setattr(f"shortlist.links.{place}", broken)
    with pytest.raises(type(fails)):
        link.fit(*draw(7, single=False))
    assert (link.config(), link.base) == (before, base)
    assert torch.equal(link.probs(draw(6)[0]), probs)


def test_a_first_fit_that_fails_leaves_nothing_fitted():
    link = Temperature()
    with pytest.raises(NotConvergedError):
        link.fit(torch.zeros(4, 4), torch.arange(4))
    assert (link.base, link.single, link.fitted) == (None, None, False)


@pytest.mark.parametrize("base", [Softmax(), Sigmoid()])
def test_given_base_is_kept(base):
    assert Temperature(base).fit(*draw(8)).base is base


def test_fit_needs_rows():
    with pytest.raises(InputError, match="labelled rows"):
        Temperature().fit(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))


def test_fit_refuses_a_target_of_another_length():
    with pytest.raises(InputError, match="target"):
        Temperature().fit(torch.zeros(3, 3), torch.zeros(2, dtype=torch.int64))


def softmax_nll(temperature, scores, target):
    """-Σ over rows with labels of the mean over their labels of log softmax(scores/T)."""
    log_probs = np.log(reference.softmax(scores / temperature))
    return -math.fsum(np.mean(row[own]) for row, own in zip(log_probs, target, strict=True) if own.any())


@pytest.mark.parametrize("scale", [0.05, 1.0, 40.0])
def test_with_softmax_as_the_base_several_labels_share_one_softmax(scale):
    scores, target = draw(1, single=False, scale=scale)
    target[:5] = False  # rows without a label say nothing
    link = Temperature(Softmax()).fit(scores, target)
    found = minimize_scalar(
        lambda log_t: softmax_nll(math.exp(log_t), scores, target), bounds=(-5, 7), method="bounded", options={"xatol": 1e-9}
    )
    assert link.temperature.item() == pytest.approx(math.exp(found.x), rel=1e-5)
    np.testing.assert_allclose(link.probs(scores), reference.softmax(scores / link.temperature.item()), rtol=1e-9)


def test_the_sigmoid_as_the_base_stays_one_sigmoid_a_label():
    scores, target = draw(2, single=False)
    link, default = Temperature(Sigmoid()).fit(scores, target), Temperature().fit(scores, target)
    assert link.temperature == default.temperature
    expected = np.vectorize(reference.sigmoid)(scores / link.temperature.item())
    np.testing.assert_allclose(link.probs(scores), expected, rtol=1e-9)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 3.0, 1e3])
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_a_fit_takes_a_few_evaluations_whatever_the_unit_of_the_scores(single, scale, classes, monkeypatch):
    asked = []
    name = "_softmax_slopes" if single else "_sigmoid_slopes"
    plain = getattr(temperature, name)

    def counted(scores, target, at):
        asked.append(at)
        return plain(scores, target, at)

    monkeypatch.setattr(temperature, name, counted)
    link = Temperature().fit(*draw(3, 200, classes, single=single, scale=scale))
    assert link.temperature.item() == pytest.approx(scale, rel=0.3)
    assert len(asked) <= 8, asked


def peaked(top, classes=300, rows=200):
    """Scores as of a network that is all but sure of one class in each row; the temperature of the labels is 1.4."""
    generator = np.random.default_rng(0)
    scores = generator.standard_normal((rows, classes))
    scores[np.arange(rows), generator.integers(classes, size=rows)] += top
    return scores, np.array([generator.choice(classes, p=row) for row in reference.softmax(scores / 1.4)])


@pytest.mark.parametrize("top", [9, 12])
def test_scores_that_are_all_but_certain_take_little_more(top, monkeypatch):
    asked = []
    plain = temperature._softmax_slopes
    monkeypatch.setattr(temperature, "_softmax_slopes", lambda *given: asked.append(given[2]) or plain(*given))
    scores, target = peaked(top)
    link = Temperature().fit(scores, target)
    probs = link.probs(scores).numpy()
    assert (probs * scores).sum() == pytest.approx(scores[np.arange(len(target)), target].sum(), rel=1e-9)  # stationary
    assert len(asked) <= 16, asked


@pytest.mark.parametrize("single", [True, False])
def test_sums_over_rows_do_not_depend_on_the_number_of_threads(single):
    scores, target = (torch.as_tensor(part) for part in draw(5, 100_000, 3, single=single))
    link, before, found = Temperature().fit(scores, target), torch.get_num_threads(), set()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.add(tuple(link.slope(scores, target, scale) for scale in (0.3, 0.7, 1.1)))
    finally:
        torch.set_num_threads(before)
    assert len(found) == 1
