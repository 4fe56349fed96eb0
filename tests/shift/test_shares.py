"""Shares of classes: the literal estimates, known gardens, and rules that hold again where the plain ones fail."""

import numpy as np
import pytest
import torch
from scipy.stats import binom

from shortlist import Predictions
from shortlist.data.flora import Flora
from shortlist.errors import InputError
from shortlist.links import Identity, Softmax, Temperature
from shortlist.models import Classifier, InputSpec, Network
from shortlist.sets import average_k, effective_sample_size, lac
from shortlist.shift import ClassShares, class_shares, input_weights, thinned
from tests.references import shift as ref

OLD, NEW = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
MEANS = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])


def blobs(n, shares, seed):
    """Normal features around a point for each class, their labels, and their exact probabilities for the old shares."""
    random = np.random.default_rng(seed)
    labels = random.choice(3, n, p=shares)
    features = MEANS[labels] + random.normal(size=(n, 2))
    density = np.exp(-((features[:, None] - MEANS) ** 2).sum(2) / 2) * OLD
    return features, labels, density / density.sum(1, keepdims=True)


def test_the_likelihood_is_climbed_as_literally():
    _, _, before = blobs(300, OLD, 0)
    _, _, probs = blobs(200, NEW, 1)
    found = class_shares(probs, before, resamples=2)
    np.testing.assert_allclose(found.old, before.mean(0))
    np.testing.assert_allclose(found.shares, ref.expectation_maximisation(probs, before.mean(0)), atol=1e-6)


@pytest.mark.parametrize("method", ["black-box", "soft"])
def test_confusions_are_inverted_as_literally(method):
    _, labels, before = blobs(500, OLD, 0)
    _, _, probs = blobs(400, NEW, 1)
    found = class_shares(probs, before, labels, method=method, resamples=2)
    ratio = ref.black_box(before, labels, probs, 3, method == "soft")
    expected = np.maximum(ratio, 0) * np.bincount(labels) / 500
    np.testing.assert_allclose(found.shares, expected / expected.sum(), atol=1e-9)
    np.testing.assert_allclose(found.weights, found.shares / found.old)


@pytest.mark.parametrize("method", ["em", "black-box", "soft"])
def test_known_shares_are_in_their_intervals_as_often_as_stated(method):
    """One interval of 95 % from each of 400 independent samples: more than 35 misses would be a chance of 1 in 1,000.

    So would be fewer than 8, of intervals that are wider than stated.
    """
    missed = 0
    for seed in range(400):
        _, labels, before = blobs(300, OLD, 2 * seed)
        found = class_shares(blobs(300, NEW, 2 * seed + 1)[2], before, labels, method=method, resamples=39)
        assert (found.low <= found.shares).all()
        assert (found.shares <= found.high).all()
        one = seed % 3
        missed += not found.low[one] <= NEW[one] <= found.high[one]
    assert binom.ppf(0.001, 400, 0.05) <= missed <= binom.ppf(0.999, 400, 0.05)


@pytest.mark.parametrize("method", ["em", "black-box", "soft"])
def test_known_shares_are_found(method):
    _, labels, before = blobs(3000, OLD, 10)
    assert np.abs(class_shares(blobs(3000, NEW, 30)[2], before, labels, method=method).shares - NEW).max() < 0.05


def test_there_are_as_many_samples_as_the_confidence_needs():
    """Of 199 samples the smallest and the largest are an interval of 99 %."""
    _, labels, before = blobs(200, OLD, 0)
    new = blobs(200, NEW, 1)[2]
    wide, same, narrow = (
        class_shares(new, before, labels, method="soft", confidence=confidence, resamples=resamples)
        for confidence, resamples in ((0.99, None), (0.995, 199), (0.95, 199))
    )
    np.testing.assert_allclose(wide.low, same.low)
    np.testing.assert_allclose(wide.high, same.high)
    assert (wide.low <= narrow.low).all()  # both are 0 for the rare one
    assert (wide.low < narrow.low)[1:].all()


def test_samples_without_the_only_row_of_a_class_give_it_the_share_0():
    """The one row that is sure of class 2 is left out of (1 - 1 / n)^n, a third, of the samples."""
    random = np.random.default_rng(0)
    before, probs = random.dirichlet(np.ones(3), 60), np.eye(3)[[*random.integers(2, size=20), 2]]
    found = class_shares(probs, before, confidence=0.5, resamples=40, seed=3)
    drawn = np.random.default_rng(3).multinomial(21, np.full(21, 1 / 21), 40)
    drawn_before = np.random.default_rng(4).multinomial(60, np.full(60, 1 / 60), 40)
    assert 5 < (drawn[:, 20] == 0).sum() < 25
    samples = [
        ref.expectation_maximisation(np.repeat(probs, new, 0), np.repeat(before, old, 0).mean(0), steps=200)
        for new, old in zip(drawn, drawn_before, strict=True)
    ]
    np.testing.assert_allclose(found.low, np.quantile(samples, 0.25, axis=0, method="weibull"), atol=1e-4)
    np.testing.assert_allclose(
        found.high, np.maximum(np.quantile(samples, 0.75, axis=0, method="weibull"), found.shares), atol=1e-4
    )
    assert found.low[2] == 0


def test_batches_and_predictions_are_the_same_rows():
    _, labels, before = blobs(100, OLD, 0)
    probs = blobs(90, NEW, 1)[2]
    one = class_shares(probs, before, labels, method="black-box", resamples=5)
    batches = [(before[:30], labels[:30]), (before[30:], labels[30:])]
    other = class_shares(Predictions(probs, link="identity"), batches, method="black-box", resamples=5)
    np.testing.assert_array_equal(one.shares, other.shares)
    np.testing.assert_array_equal(one.low, other.low)


def test_what_the_confusions_do_not_tell_stays_as_it_was():
    """Class 2 never occurs in the calibration rows, nor is it ever answered."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 400)
    probs = np.full((400, 3), 0.0)
    probs[np.arange(400), np.where(random.uniform(size=400) < 0.8, labels, 1 - labels)] = 1
    new = probs[np.where(labels == 0, random.uniform(size=400) < 0.2, True)]
    found = class_shares(new, probs, labels, method="black-box", resamples=20)
    assert found.shares[2] < 1e-6
    assert found.weights[2] == pytest.approx(1, abs=1e-6)
    assert found.shares[1] > 0.7


def given(shares, old):
    return ClassShares(np.array(shares), np.array(shares), np.array(shares), np.array(old), 0, "em")


def test_probabilities_become_those_of_the_new_shares():
    """A garden knows its posterior for any shares."""
    flora = Flora(12, 3, seed=0)
    _, shown = flora.observations(200, seed=1)
    shares = np.random.default_rng(0).dirichlet(np.ones(12))
    exact = flora.law.posterior(shown.numpy(), shares, np.float64)
    old = flora.law.posterior(shown.numpy(), flora.prior, np.float64)
    found = given(shares, flora.prior)
    np.testing.assert_allclose(found.reweight(old), exact, atol=1e-9)
    assert found.reweight(torch.from_numpy(old).float()).dtype == torch.float32
    scores = Predictions(np.log(old + 1e-30), link="softmax")
    assert isinstance(found.reweight(scores).link, Softmax)
    np.testing.assert_allclose(found.reweight(scores).probs(), exact, atol=1e-5)
    assert isinstance(found.reweight(Predictions(old, link="identity")).link, Identity)
    np.testing.assert_allclose(found.reweight(Predictions(old, link="identity")).probs(), exact, atol=1e-6)


def test_plain_rules_fail_where_reweighted_ones_hold():
    _, labels, before = blobs(3000, OLD, 0)
    hard = np.array([0.02, 0.9, 0.08])
    _, later, probs = blobs(3000, hard, 1)
    found = class_shares(probs, before)
    plain = lac(0.1).fit(before, labels).predict(probs)
    assert plain[range(3000), later].mean() < 0.87
    kept = thinned(found.weights[labels])
    rule = lac(0.1).fit(before[kept], labels[kept])
    assert rule.predict(probs)[range(3000), later].mean() > 0.885
    size = average_k(1.5).fit(found.reweight(blobs(3000, hard, 2)[2])).predict(found.reweight(probs)).sum(1).mean()
    assert abs(size - 1.5) < 0.05
    best = average_k(1.5).fit(blobs(3000, hard, 2)[2]).predict(probs)  # plain probabilities: the same size, more errors
    better = average_k(1.5).fit(found.reweight(blobs(3000, hard, 2)[2])).predict(found.reweight(probs))
    assert better[range(3000), later].mean() > best[range(3000), later].mean() + 0.01


def test_inputs_that_shift_are_weighted():
    """Features move along one axis by a known density ratio, towards where the classifier is wrong more often."""
    random = np.random.default_rng(0)

    def rows(n, centre):
        x = random.normal(centre, 1, n)
        wrong = random.uniform(size=n) < 0.3 / (1 + np.exp(-4 * x))
        sure = 0.9 - 0.3 * random.uniform(size=n)
        return x[:, None], np.stack([sure, 1 - sure], 1), wrong.astype(int)

    old, before, labels = rows(6000, -0.3)
    new, probs, later = rows(6000, 0.4)
    found = input_weights(old, new)
    exact = np.exp(0.7 * old[:, 0])
    np.testing.assert_allclose(found.weights, exact / exact.mean(), rtol=0.25)
    assert found.weights.mean() == pytest.approx(1)
    assert found.effective == pytest.approx(effective_sample_size(exact), rel=0.1)
    plain = lac(0.12).fit(before, labels).predict(probs)
    assert plain[range(6000), later].mean() < 0.82
    kept = thinned(found.weights)
    held = lac(0.12).fit(before[kept], labels[kept]).predict(probs)
    assert held[range(6000), later].mean() > 0.86


def test_rows_too_different_are_refused():
    random = np.random.default_rng(0)
    with pytest.raises(InputError, match="500 rows count like .* among the new ones, .* at least 100 are needed"):
        input_weights(random.normal(0, 1, (500, 2)), random.normal(5, 1, (500, 2)))
    assert input_weights(random.normal(0, 1, (500, 2)), random.normal(5, 1, (500, 2)), least=0).effective < 100


@pytest.mark.parametrize(("n", "features", "penalty"), [(600, 1, 1.0), (600, 10, 1.0), (1500, 2, 1e-3)])
def test_rows_further_away_than_refused_ones_are_refused(n, features, penalty):
    """Rows that a regression separates have tiny weights of nearly one size, which look like no shift."""
    random = np.random.default_rng(0)
    old, later = random.normal(size=(2, n, features))
    away = np.eye(features)[0]
    accepted = []
    for shift in (0, 0.5, 1, 2, 3, 4, 6, 8, 10, 20, 50, 200):
        try:
            accepted.append(input_weights(old, later + shift * away, penalty=penalty).missing == 0)
        except InputError:
            accepted.append(None)
    assert accepted[:3] == [True] * 3
    assert accepted[4:] == [None] * 8  # N(0, 1) and N(3, 1): n rows are worth n / exp(9)


@pytest.mark.parametrize(("share", "refused"), [(0.0, False), (0.04, False), (0.3, True), (0.9, True)])
def test_new_rows_that_look_like_no_calibration_row_are_missing(share, refused):
    random = np.random.default_rng(0)
    old, later = random.normal(size=(2, 3000, 1))
    later[: round(share * 3000)] += 30
    found = input_weights(old, later, least=0)
    assert found.missing == pytest.approx(share, abs=0.05)
    assert found.effective == pytest.approx(ref.effective_with_missing(found.weights, found.missing))
    assert (found.effective < 100) == refused


def test_same_rows_have_equal_weights():
    rows = np.random.default_rng(0).normal(size=(600, 3))
    assert input_weights(rows[:300], rows[300:]).effective > 270
    assert input_weights(np.ones((50, 2)), np.ones((30, 2)), least=0).effective == pytest.approx(
        50
    )  # features that say nothing


@pytest.mark.parametrize("link", ["softmax", "sigmoid", "identity", None])
def test_predictions_are_told_apart_by_their_log_odds(link):
    random = np.random.default_rng(0)
    scores = random.normal(size=(500, 3)) + np.repeat([[0.0], [0.3]], 250, 0) * [1, 0, 0]
    values = {"softmax": np.exp(scores) / np.exp(scores).sum(1, keepdims=True), "sigmoid": 1 / (1 + np.exp(-scores))}.get(link)
    if link == "identity":
        scores = values = random.dirichlet([0.5] * 3, 500)
        scores[0] = [1.0, 0.0, 0.0]  # log-odds without end
    features = scores
    if values is not None:
        clipped = np.clip(values, 1e-9, 1 - 1e-9)
        features = np.log(clipped) - np.log(1 - clipped)
    found = input_weights(Predictions(scores[:250], link=link), Predictions(scores[250:], link=link))
    np.testing.assert_allclose(found.weights, input_weights(features[:250], features[250:]).weights, rtol=1e-6)


def test_thinned_keeps_each_row_with_its_chance():
    weights = np.repeat([0.0, 1.0, 2.0], 4000)
    kept = thinned(weights, seed=1).numpy().reshape(3, 4000).mean(1)
    assert kept[0] == 0
    assert kept[1] == pytest.approx(0.5, abs=0.03)
    assert kept[2] == 1
    assert torch.equal(thinned(weights, seed=1), thinned(weights, seed=1))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p, t: class_shares(p, p, t, method="both"), "method: "),
        (lambda p, t: class_shares(p, p, method="black-box"), "target: expected labels .* which 'black-box' needs, got none"),
        (lambda p, t: class_shares(p, [(p, t), (p, None)], method="soft"), "target: expected labels .* which 'soft' needs"),
        (lambda p, t: class_shares(p[:, :2], p, t), "new: expected 3 classes, got 2"),
        (lambda p, t: class_shares(p / 2, p), "probs: expected rows that sum to 1, got 0.5 in row 0"),
        (lambda p, t: class_shares(p, p / 2), "probs: expected rows that sum to 1"),
        (lambda p, t: class_shares(p, p, np.eye(3, dtype=bool)[t], method="soft"), "target: expected one label a row"),
        (lambda p, t: class_shares(p[:0], p), "probs: expected rows, got none"),
        (lambda p, t: class_shares(p, Predictions(p, t)), "without a link"),
        (lambda p, t: class_shares(p, p, confidence=1), "confidence: "),
        (lambda p, t: class_shares(p, p, resamples=1), "resamples: "),
        (lambda p, t: class_shares(p, p, seed=-1), "seed: "),
        (lambda p, t: given(OLD, OLD).reweight(np.ones((2, 4)) / 4), "probs: expected 3 classes, got 4"),
        (lambda p, t: thinned([]), "weights: "),
        (lambda p, t: thinned([0.0, 0.0]), "weights: "),
        (lambda p, t: thinned([1.0, -1.0]), "weights: "),
        (lambda p, t: thinned([1.0, np.nan]), "weights: "),
        (lambda p, t: input_weights(p, p[:, :2]), "new: expected 3 features, got 2"),
        (lambda p, t: input_weights(p[:3], p), "calibration: expected at least a row for each of 5 folds, got 3"),
        (lambda p, t: input_weights(p, p[:0]), "new: expected rows, got none"),
        (lambda p, t: input_weights(p, p * np.nan), "new: expected finite numbers"),
        (lambda p, t: input_weights(p, p, penalty=0), "penalty: "),
        (lambda p, t: input_weights(p, p, folds=1), "folds: "),
    ],
)
def test_wrong_values_are_refused(call, words):
    _, labels, probs = blobs(30, OLD, 0)
    with pytest.raises(InputError, match=words):
        call(probs, labels)


@pytest.mark.parametrize("base", [None, Softmax(), Identity(), "temperature"], ids=str)
def test_a_link_does_what_reweighting_the_probabilities_does(base):
    _, labels, probs = blobs(300, OLD, 0)
    scores = torch.from_numpy(probs if isinstance(base, Identity) else np.log(probs))
    base = Temperature().fit(scores, torch.from_numpy(labels)) if base == "temperature" else base
    found = given(NEW, OLD)
    again = found.link(base).probs(scores)
    np.testing.assert_allclose(again, found.reweight((base or Softmax()).probs(scores).numpy()), rtol=1e-9)
    assert np.abs(again.numpy().mean(0) - probs.mean(0)).max() > 0.1


def knowing():
    """A linear network that knows the blobs, so that its softmax is exact for the old shares."""
    network = Network("features", "linear", InputSpec.features(2), 3)
    weight, bias = network.head.parameters()
    with torch.no_grad():
        weight.copy_(torch.from_numpy(MEANS))
        bias.copy_(torch.from_numpy(np.log(OLD) - (MEANS**2).sum(1) / 2))
    return Classifier(network, ["ash", "elm", "oak"], link=Softmax())


def test_a_classifier_with_that_link_answers_for_the_new_shares(tmp_path):
    """Also from its file, where a rule is fitted again; the plain one does not hold."""
    features, labels, _ = (torch.from_numpy(part) for part in blobs(4000, NEW, 1))
    before, old_labels, _ = (torch.from_numpy(part) for part in blobs(4000, OLD, 0))
    plain, found = knowing(), given(NEW, OLD)
    made = plain.with_link(found.link(plain.link))
    density = np.exp(-((features.numpy()[:, None] - MEANS) ** 2).sum(2) / 2) * NEW
    exact = density / density.sum(1, keepdims=True)
    scores = plain.scores(features.float())
    np.testing.assert_allclose(made.link.probs(scores), exact, rtol=1e-3, atol=1e-6)
    assert np.abs(plain.link.probs(scores).numpy() - exact).max() > 0.1
    kept = thinned(found.weights[old_labels.numpy()])
    rows = before[kept].float()
    made = made.fit_rule("lac:0.1", made.predictions(rows, old_labels[kept]))
    made.save(tmp_path / "made")
    answers = Classifier.load(tmp_path / "made").predict(features.float())
    assert torch.equal(answers.probabilities, made.predict(features.float()).probabilities)
    covered = answers.sets[torch.arange(4000), labels].double().mean()
    assert 0.87 < covered < 0.93


def test_that_classifier_is_the_same_in_onnx(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    features, labels, _ = (torch.from_numpy(part) for part in blobs(500, NEW, 1))
    plain = knowing()
    calibrated = Temperature().fit(plain.scores(features.float()), labels)
    made = plain.with_link(given(NEW, OLD).link(calibrated))
    made = made.fit_rule("average-k:1.5", made.predictions(features.float(), labels))
    made.export_onnx(tmp_path / "made.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "made.onnx"), providers=["CPUExecutionProvider"])
    _, probs, sets = session.run(None, {session.get_inputs()[0].name: features.float().numpy()})
    answers = made.predict(features.float())
    np.testing.assert_allclose(probs, answers.probabilities, rtol=1e-5, atol=1e-7)
    at = (answers.probabilities - made.rule.threshold).abs().amin(1).numpy() < 1e-6
    assert ((sets == answers.sets.numpy()).all(1) | at).all()
