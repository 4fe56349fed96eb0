"""Fitted links on a base that gives probabilities of exactly 0 or 1, whose log-odds are infinite."""

import pytest
import torch
from torch.testing import assert_close

from shortlist.links import Beta, FocalRecovery, Identity, Isotonic, Platt, SparseTop, Temperature, VennAbers, link_from_config

KINDS = [Platt, Temperature, Isotonic, Beta, VennAbers]
TINY = 2.0**-149  # the smallest positive float32


def draw(single, rows=400, classes=3):
    """Scores that are exact in float32, and labels that follow their probabilities only loosely."""
    generator = torch.Generator().manual_seed(5)
    scores = (8 * torch.randn(rows, classes, generator=generator)).round() / 8
    target = (scores + 2 * torch.randn(rows, classes, generator=generator)).argmax(1)
    other = scores + 2 * torch.randn(rows, classes, generator=generator) > 0
    return scores.double(), target if single else other


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fitted_on", [torch.float32, torch.float64])
def test_a_row_has_the_same_probabilities_in_either_precision(kind, single, fitted_on):
    scores, target = draw(single)
    certain = {
        "identity": (Identity(), SparseTop(1).probs(scores.float()).double()),
        "sparse-top": (SparseTop(1), scores),
        "focal-recovery": (FocalRecovery(shift=0.5), scores),
    }
    for name, (base, rows) in certain.items():
        link = kind(base).fit(rows.to(fitted_on), target)
        assert (base.probs(rows) == 0).any(), name
        assert_close(link.probs(rows.float()).double(), link.probs(rows), rtol=1e-4, atol=1e-5, msg=name)
        again = link_from_config(link.config(), link.state_dict())
        assert torch.equal(again.probs(rows), link.probs(rows)), name


def test_rounding_does_not_decide_what_is_certain():
    second = torch.rand(2000, generator=torch.Generator().manual_seed(0))
    scores = torch.stack([second + 1, second], 1)  # a difference of 1 makes the first certain, but for rounding
    link = Temperature(SparseTop(1)).fit(scores, torch.arange(2000) % 3 // 2)
    certain = [SparseTop(1).probs(rows) == 1 for rows in (scores, scores.double())]
    assert (certain[0] != certain[1]).any()
    assert_close(link.probs(scores).double(), link.probs(scores.double()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_float32_rounds_to_zero_is_zero_in_float64(kind):
    probs, target = SparseTop(1).probs(draw(single=False)[0]), draw(single=False)[1]
    link = kind(Identity()).fit(probs, target)
    rows = torch.tensor([[0.0] * 3, [1e-300] * 3, [1e-50] * 3], dtype=torch.float64)
    found = link.probs(rows)
    assert_close(found, found[:1].expand(3, 3))


def test_probabilities_increase_with_those_of_the_base_down_to_zero():
    probs, target = SparseTop(1).probs(draw(single=False)[0]), draw(single=False)[1]
    column = torch.tensor([0.0, 1e-320, 1e-100, TINY, 1e-30, 1e-9, 0.5, 1 - 1e-12, 1.0], dtype=torch.float64)
    rows = column[:, None].expand(-1, 3).contiguous()
    found = Platt(Identity()).fit(probs, target).log_odds(rows)
    assert (found.diff(dim=0) >= 0).all()
    assert (found[3:].diff(dim=0) > 0).all()
    shifted = Platt(FocalRecovery(gamma_neg=10.0, shift=0.5)).fit(*draw(single=False))
    above = torch.tensor([-1.0, 0.0, 1e-14, 1e-10, 1e-3, 1.0], dtype=torch.float64)[:, None].expand(-1, 3).contiguous()
    assert (shifted.log_odds(above).diff(dim=0) >= 0).all()


def test_probabilities_that_are_not_certain_keep_the_precision_of_float64():
    scores, target = draw(single=False)
    rows = torch.sigmoid(scores)
    link = Platt(Identity()).fit(rows, target)
    expected = torch.sigmoid(link.slope * torch.logit(rows) + link.intercept)
    assert_close(link.probs(rows), expected, rtol=1e-14, atol=0)
    far = 40 * scores  # log-odds to ±1000: of a base whose log-odds are its scores, none is cut
    wide = Platt().fit(far, target)
    assert_close(wide.log_odds(far), wide.slope * far + wide.intercept, rtol=1e-14, atol=0)


@pytest.mark.parametrize(("single", "scale", "seed"), [(True, 30, 1), (True, 1000, 33), (False, 30, 0), (False, 1000, 16)])
def test_isotonic_steps_are_at_the_same_scores_in_either_precision(single, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(40, 3, generator=generator)
    target = torch.randint(3, (40,), generator=generator) if single else torch.rand(40, 3, generator=generator) < 0.3
    link = Isotonic(FocalRecovery(shift=0.05)).fit(scores, target)
    assert link.probs(scores).dtype == link.log_odds(scores).dtype == torch.float32
    assert_close(link.probs(scores).double(), link.probs(scores.double()), rtol=1e-4, atol=1e-5)
