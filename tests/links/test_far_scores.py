"""Links at the ends of float32, at infinite scores, and at NaN."""

import math

import pytest
import torch
from torch.testing import assert_close

from shortlist.links import (
    LDAM,
    SPA,
    AssumeNegative,
    Beta,
    FocalRecovery,
    Isotonic,
    Platt,
    Quasibinary,
    Sigmoid,
    Softmax,
    SoftmaxFocalRecovery,
    SparseTop,
    Temperature,
    VennAbers,
)

GENERATOR = torch.Generator().manual_seed(0)
SCORES = torch.randn(80, 4, generator=GENERATOR)
LABELS = torch.softmax(2 * SCORES, 1).multinomial(1, generator=GENERATOR).squeeze(1)
MARKS = torch.rand(80, 4, generator=GENERATOR) < torch.sigmoid(SCORES)


def updated():
    link = Quasibinary()
    link.update(SCORES, LABELS)
    return link


LINKS = {
    "softmax": Softmax(),
    "sigmoid": Sigmoid(),
    "assume-negative": AssumeNegative(),
    "spa": SPA(),
    "focal-recovery": FocalRecovery(),
    "focal-recovery of both": FocalRecovery(2.0, 4.0),
    "focal-recovery with a shift": FocalRecovery(1.0, 2.0, 0.05),
    "softmax-focal-recovery": SoftmaxFocalRecovery(),
    "ldam": LDAM(torch.tensor([0.1, 0.2, 0.3, 0.5])),
    "sparse-top": SparseTop(),
    "sparse-top:2": SparseTop(2),
    "temperature": Temperature().fit(10 * SCORES, LABELS),
    "sharper": Temperature().fit(SCORES / 10, LABELS),
    "temperature, many": Temperature().fit(SCORES / 10, MARKS),
    "platt": Platt().fit(SCORES, LABELS),
    "platt, many": Platt().fit(SCORES, MARKS),
    "isotonic": Isotonic().fit(SCORES, LABELS),
    "beta": Beta().fit(SCORES, LABELS),
    "beta, many": Beta().fit(SCORES, MARKS),
    "venn-abers": VennAbers().fit(SCORES, LABELS),
    "venn-abers, many": VennAbers().fit(SCORES, MARKS),
    "plain isotonic": Isotonic(pseudo_counts=0).fit(SCORES, LABELS),
    "isotonic, many": Isotonic().fit(SCORES, MARKS),
    "quasibinary": updated(),
}
every_link = pytest.mark.parametrize("name", LINKS)


@every_link
@pytest.mark.parametrize("column", range(4))
def test_nan_stays_nan_and_in_its_row(name, column):
    scores = SCORES[:2].clone()
    scores[0, column] = math.nan
    for answer in (LINKS[name].probs(scores), LINKS[name].log_odds(scores)):
        assert answer[0, column].isnan()
        assert not answer[1].isnan().any()


@every_link
@pytest.mark.parametrize("far", [1e30, 1e37, 1e38, 3.4e38])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_scores_of_float32_have_the_probabilities_that_float64_gives(name, far, sign):
    scores = SCORES[:3].clone()
    scores[0, 1], scores[1, 0], scores[1, 2], scores[2] = sign * far, sign * far, -sign * far, sign * far
    link = LINKS[name]
    found, expected = link.probs(scores), link.probs(scores.double())
    assert_close(found.double(), expected, rtol=1e-4, atol=2e-2 if name == "platt" else 1e-6)  # clips odds by precision
    assert not link.log_odds(scores).isnan().any()


SOFTMAX_LIKE = ["softmax", "softmax-focal-recovery", "ldam", "temperature", "plain isotonic", "sparse-top"]


@pytest.mark.parametrize("name", SOFTMAX_LIKE)
def test_a_class_that_is_ruled_out_has_probability_0(name):
    scores = SCORES[:3].clone()
    scores[:, 1] = -math.inf
    probs = LINKS[name].probs(scores)
    assert_close(probs.sum(1), torch.ones(3))
    assert probs[:, 1].tolist() == [0.0] * 3


@pytest.mark.parametrize(
    "name", ["sigmoid", "spa", "focal-recovery", "focal-recovery of both", "assume-negative", "quasibinary"]
)
def test_infinite_scores_are_certain(name):
    probs = LINKS[name].probs(torch.tensor([[math.inf, -math.inf, 0.0, 0.0]]))
    assert probs[0, :2].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_batch_that_is_not_finite_leaves_the_running_normaliser_as_it_was(value):
    """The training loop drops its step; the normaliser must not remember it."""
    link, before = updated(), updated().log_normalizer
    scores = SCORES.clone()
    scores[3, 1] = value
    link.update(scores, LABELS)
    assert torch.equal(link.log_normalizer, before)
    fresh = Quasibinary()
    fresh.update(scores, LABELS)
    assert fresh.log_normalizer is None
