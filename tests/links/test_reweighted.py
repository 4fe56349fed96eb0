"""Probabilities for other shares of the classes, as a link on top of any other with one label per row."""

import json

import numpy as np
import pytest
import torch

from shortlist.errors import InputError, NotFittedError
from shortlist.links import (
    Dirichlet,
    Identity,
    Isotonic,
    Platt,
    Quasibinary,
    Reweighted,
    Sigmoid,
    Softmax,
    SoftmaxFocalRecovery,
    SparseTop,
    Temperature,
    VectorScaling,
    VennAbers,
    link_from_config,
)
from shortlist.predictions import Predictions
from tests.references import links as reference

WEIGHTS = [0.2, 5.0, 1.0, 1e-6]
GENERATOR = torch.Generator().manual_seed(0)
SCORES = 3 * torch.randn(80, 4, generator=GENERATOR, dtype=torch.float64)
LABELS = SCORES.softmax(1).multinomial(1, generator=GENERATOR).squeeze(1)
BASES = {
    "softmax": Softmax,
    "identity": Identity,
    "softmax-focal-recovery": SoftmaxFocalRecovery,
    "sparse-top": SparseTop,
    "temperature": lambda: Temperature().fit(SCORES, LABELS),
    "platt": lambda: Platt().fit(SCORES, LABELS),
    "isotonic": lambda: Isotonic().fit(SCORES, LABELS),
    "plain isotonic": lambda: Isotonic(pseudo_counts=0).fit(SCORES, LABELS),
    "venn-abers": lambda: VennAbers().fit(SCORES, LABELS),
    "dirichlet": lambda: Dirichlet().fit(SCORES, LABELS),
    "reweighted": lambda: Reweighted(Softmax(), [1.0, 2.0, 3.0, 4.0]),
}


def scores_for(base):
    return SparseTop().probs(SCORES) if isinstance(base, Identity) else SCORES


@pytest.mark.parametrize("name", BASES)
def test_each_probability_is_weighted_and_the_row_divided_by_its_sum(name):
    base = BASES[name]()
    scores = scores_for(base)
    found = Reweighted(base, WEIGHTS).probs(scores)
    expected = reference.reweighted(base.probs(scores).numpy(), np.array(WEIGHTS))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-15)


def test_weights_of_any_size_lose_no_digits_beside_large_scores():
    """In float32 a weight would change the seventh digit of scores of 1e6 not at all."""
    link = Reweighted(Softmax(), [1.0, 1.01])
    torch.testing.assert_close(link.log_odds(torch.full((1, 2), 1e6))[0, 1].item(), np.log(1.01), rtol=1e-5, atol=0)
    small = Reweighted(Softmax(), [1e-200, 1e200]).log_odds(torch.zeros(1, 2))
    torch.testing.assert_close(small[0, 1].item(), 400 * np.log(10), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["softmax", "identity", "temperature", "reweighted"])
def test_scores_have_these_probabilities(name):
    link = Reweighted(BASES[name](), WEIGHTS)
    probs = SCORES.softmax(1)
    torch.testing.assert_close(link.probs(link.scores(probs)), probs)


@pytest.mark.parametrize("base", [Identity(), SparseTop()])
def test_what_has_probability_0_keeps_it_and_has_a_gradient(base):
    scores = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]], requires_grad=True)
    link = Reweighted(base, [1e-9, 1.0, 1.0, 1.0])
    probs = link.probs(scores)
    torch.testing.assert_close(probs, torch.tensor([[1.0, 0, 0, 0], [1e-9, 1, 0, 0]]))
    assert link.reaches_zero
    assert link.log_odds(scores)[0].tolist() == [np.inf, -np.inf, -np.inf, -np.inf]
    probs[1, 1].backward()
    assert scores.grad.isfinite().all()


def test_a_probability_that_is_no_number_stays_so():
    probs = torch.tensor([[0.5, torch.nan, 0.3, 0.2], [0.25] * 4])
    found = Reweighted(SparseTop(), WEIGHTS).probs(probs)
    assert found[0].isnan().all()
    assert not found[1].isnan().any()


@pytest.mark.parametrize("name", BASES)
def test_configuration_and_tensors_give_the_link_back(name, tmp_path):
    link = Reweighted(BASES[name](), WEIGHTS)
    scores = scores_for(link.base)
    back = link_from_config(json.loads(json.dumps(link.config())), dict(link.state_dict()))
    assert torch.equal(back.probs(scores), link.probs(scores))
    assert back.fingerprint() == link.fingerprint()
    assert back.fingerprint() != Reweighted(link.base, WEIGHTS[::-1]).fingerprint()
    Predictions(scores.float(), link=link).save(tmp_path / "scores.safetensors")
    again = Predictions.load(tmp_path / "scores.safetensors")
    assert torch.equal(again.probs(), link.probs(scores.float()))


def test_weights_may_be_given_in_any_form():
    expected = Reweighted(Softmax(), torch.tensor([1.0, 2.0])).probs(torch.zeros(1, 2))
    for weights in ([1, 2], np.array([1, 2]), np.array([1.0, 2.0], np.float32), torch.tensor([1, 2])):
        assert torch.equal(Reweighted(Softmax(), weights).probs(torch.zeros(1, 2)), expected)
    assert torch.equal(Reweighted(weights=[1, 2]).probs(torch.zeros(1, 2)), expected)


def test_later_changes_of_the_weights_given_change_nothing():
    weights = np.array([1.0, 2.0])
    link = Reweighted(Softmax(), weights)
    weights[0] = 100
    torch.testing.assert_close(link.probs(torch.zeros(1, 2)), torch.tensor([[1 / 3, 2 / 3]]))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 0.0], "above 0, got 0"),
        ([1.0, -2.0], "above 0, got -2"),
        ([1.0, np.nan], "got nan"),
        ([1.0, np.inf], "got inf"),
        ([[1.0, 2.0]], r"\(1, 2\)"),
        (2.0, r"float32 \(\)"),
        ({"ash": 1.0, "elm": 2.0}, "got a dict"),
    ],
)
def test_weights_that_are_no_weights_are_refused(weights, message):
    with pytest.raises(InputError, match=f"weights: .*{message}"):
        Reweighted(Softmax(), weights)


@pytest.mark.parametrize(
    "base", [Sigmoid(), Quasibinary(), Temperature(), SparseTop(2), Platt().fit(SCORES, torch.randn(80, 4) > 0)]
)
def test_bases_whose_labels_do_not_exclude_each_other_are_refused(base):
    with pytest.raises(InputError, match=r"base: .*sum to 1.*got"):
        Reweighted(base, WEIGHTS)


def test_probabilities_that_do_not_sum_to_one_are_refused():
    with pytest.raises(InputError, match="sum to 1, got 1.3 in row 1"):
        Reweighted(Identity(), WEIGHTS).probs(torch.tensor([[0.25] * 4, [0.9, 0.4, 0, 0]]))


def test_scores_of_other_classes_are_refused():
    for call in (Reweighted(weights=WEIGHTS).probs, Reweighted(weights=WEIGHTS).scores):
        with pytest.raises(InputError, match="expected scores of 4 classes.*got 3"):
            call(torch.full((1, 3), 1 / 3))


def test_a_link_without_its_weights_says_so():
    with pytest.raises(NotFittedError, match="has no weights"):
        Reweighted().probs(torch.zeros(1, 2))
    with pytest.raises(InputError, match="link reweighted: .*weights, which are missing"):
        link_from_config(Reweighted(weights=WEIGHTS).config(), {})
    link = Reweighted(BASES["temperature"](), WEIGHTS)
    with pytest.raises(InputError, match=r"base\.temperature, which are missing"):
        link_from_config(link.config(), {"weights": link.weights})


@pytest.mark.parametrize("wrong", [torch.tensor([1.0, 0.0]), torch.tensor([1.0, torch.nan]), torch.ones(1, 2)])
def test_weights_from_a_damaged_file_are_refused(wrong):
    with pytest.raises(InputError, match="link reweighted: weights: "):
        link_from_config(Reweighted(weights=[1.0, 2.0]).config(), {"weights": wrong})


def test_rows_with_many_labels_have_no_such_link():
    link = Reweighted(weights=WEIGHTS)
    assert link.for_rows(single=True) is link
    assert link.for_rows(single=False) is None


def test_a_link_can_be_fitted_on_top():
    """Equal weights change nothing, whatever they are."""
    link = VectorScaling(Reweighted(weights=[2.0] * 4)).fit(SCORES, LABELS)
    torch.testing.assert_close(link.probs(SCORES), VectorScaling().fit(SCORES, LABELS).probs(SCORES))
