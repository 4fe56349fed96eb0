"""The choice of a link: cross-validated log-loss, recomputed from the definition."""

import math

import numpy as np
import pytest
import torch

from shortlist.errors import InputError
from shortlist.links import SPA, Beta, FocalRecovery, Identity, Platt, Sigmoid, Softmax, Temperature, choose_link
from shortlist.links.choice import CALIBRATIONS, Candidate, _compared, _simplest, unfitted


def draw(seed=0, rows=150, classes=3, *, single=True):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    if single:
        return 3 * scores, scores.softmax(1).multinomial(1, generator=generator).squeeze(1)
    return 3 * scores, torch.rand(rows, classes, generator=generator) < scores.sigmoid()


def by_hand(kind, scores, target, folds, seed):
    order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(seed)).tolist()
    losses = []
    for fold in range(folds):
        left_out = order[fold::folds]
        rest = sorted(set(order) - set(left_out))
        probs = kind().fit(scores[rest], target[rest]).probs(scores[left_out]).numpy()
        for row, p in zip(left_out, probs, strict=True):
            if target.ndim == 1:
                losses.append(-math.log(p[target[row]]))
            else:
                losses.append(-np.mean([math.log(q if marked else 1 - q) for q, marked in zip(p, target[row], strict=True)]))
    return np.mean(losses)


@pytest.mark.parametrize("single", [True, False])
def test_losses_are_those_of_rows_that_were_left_out(single):
    scores, target = draw(single=single)
    found = choose_link(scores, target, folds=3, seed=4)
    losses = {one.name: one.loss for one in found.candidates}
    for kind in (Temperature, Platt, Beta):
        assert losses[kind.kind] == pytest.approx(by_hand(kind, scores, target, 3, 4), rel=1e-9)
    smallest = min(losses, key=losses.get)
    for one in found.candidates:
        assert one.behind == pytest.approx(one.loss - losses[smallest], abs=1e-12)
    within = [one.name for one in found.candidates if one.name == smallest or one.behind <= one.error]
    doubted = within[0] == "none" and losses["temperature"] < losses["none"]
    assert found.chosen == within[doubted]
    again = CALIBRATIONS[found.chosen]().fit(scores, target)
    assert torch.equal(found.link.probs(scores), again.probs(scores))


def test_the_error_of_a_difference_is_that_of_its_rows():
    one, other = torch.tensor([1.0, 2.0, 6.0]), torch.tensor([1.0, 1.0, 4.0])
    found = _compared({"none": one, "platt": other, "beta": "no optimum"})
    assert (found[0].behind, found[0].error) == pytest.approx((1.0, 1 / 3**0.5))
    assert (found[1].behind, found[1].error) == (0, 0)
    assert (math.isnan(found[2].loss), found[2].note) == (True, "no optimum")


@pytest.mark.parametrize(
    ("losses", "chosen"),
    [
        ([0.40, 0.30, 0.29], "temperature"),  # the base is within an error of the best, but one number is better
        ([0.29, 0.30, 0.40], "none"),
        ([0.31, 0.32, 0.30], "none"),
        ([0.31, math.nan, 0.30], "none"),  # no temperature was found
        ([0.31, 0.30, 0.10], "platt"),
    ],
)
def test_the_base_alone_is_chosen_only_if_no_temperature_is_better(losses, chosen):
    best, names = min(loss for loss in losses if loss == loss), ("none", "temperature", "platt")
    found = [Candidate(name, loss, loss - best, 0.15) for name, loss in zip(names, losses, strict=True)]
    assert _simplest(found) == chosen


def test_probability_0_of_a_true_label_is_not_chosen():
    probs = torch.tensor([[1.0, 0.0], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]]).repeat(10, 1)
    target = torch.tensor([0, 0, 1, 1]).repeat(10)
    target[0] = 1
    assert choose_link(probs, target, Identity()).chosen != "none"


def test_candidates_suit_the_labels():
    of_one, of_any = (choose_link(*draw(single=single), folds=2) for single in (True, False))
    assert [one.name for one in of_one.candidates] == ["none", *CALIBRATIONS]
    softmax_only = {"vector-scaling", "dirichlet"}
    assert [one.name for one in of_any.candidates] == ["none", *(name for name in CALIBRATIONS if name not in softmax_only)]


def test_calibrated_scores_stay_as_they_are():
    probs = torch.tensor([[5, 3, 2], [2, 5, 3], [3, 2, 5]], dtype=torch.float64) / 10
    target = torch.cat([torch.arange(3).repeat_interleave((10 * row).long()) for row in probs]).repeat(20)
    scores = probs.log().repeat_interleave(10, 0).repeat(20, 1)  # each label as often as it has probability
    found = choose_link(scores, target)
    assert found.chosen == "none"
    assert isinstance(found.link, Softmax)
    probs = scores.softmax(1)
    own = -probs.gather(1, target[:, None]).log().mean()
    assert found.candidates[0].loss == pytest.approx(float(own))


def test_a_candidate_that_cannot_be_fitted_is_told():
    scores, target = torch.eye(4).repeat(10, 1), torch.arange(4).repeat(10)
    found = choose_link(scores, target)
    told = {one.name: one for one in found.candidates}
    assert math.isnan(told["temperature"].loss)
    assert "every label ranks first" in told["temperature"].note
    assert found.chosen not in ("temperature", "vector-scaling", "dirichlet")


def test_the_base_stays():
    scores, target = draw(2, single=False)
    assert isinstance(choose_link(scores, target, SPA()).candidates[0].loss, float)
    found = choose_link(scores.sigmoid(), target, Identity())
    plain = choose_link(scores, target, Sigmoid())
    assert [one.loss for one in found.candidates] == pytest.approx([one.loss for one in plain.candidates], rel=1e-6)


def test_division_and_seed_are_checked():
    scores, target = draw(rows=4)
    with pytest.raises(InputError, match="at least 5 labelled rows to divide into 5 folds, got 4"):
        choose_link(scores, target)
    with pytest.raises(InputError, match="folds"):
        choose_link(scores, target, folds=1)
    with pytest.raises(InputError, match="seed"):
        choose_link(scores, target, seed=-1)


def focal(n=300, seed=0):
    """Scores at the minimiser of the asymmetric focal loss, of log-odds that a line maps to the true ones, and labels."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(n, 3, generator=generator) - 2
    return scores, torch.rand(n, 3, generator=generator) < (1.5 * scores + 1).sigmoid()


def test_platt_scaling_of_the_focal_loss_starts_from_the_sigmoid_alone():
    scores, target = focal()
    base = FocalRecovery(0, 4, 0.05)
    found = unfitted("platt", base, single=False).fit(scores, target)
    assert torch.equal(found.probs(scores), Platt(Sigmoid()).fit(scores, target).probs(scores))
    for name, kind in CALIBRATIONS.items():
        if name != "platt":
            assert isinstance(unfitted(name, base, single=False), kind)
            assert unfitted(name, base, single=False).base is base
    assert unfitted("platt", base, single=True).base is base
    assert unfitted("platt", SPA(), single=False).base.kind == "spa"
    assert unfitted("platt", None, single=False).base is None


def test_the_choice_tries_what_it_fits():
    scores, target = focal(2000)
    found = choose_link(scores, target, FocalRecovery(0, 4, 0.05))
    by_name = {one.name: one.loss for one in found.candidates}
    assert by_name["platt"] == pytest.approx({one.name: one.loss for one in choose_link(scores, target).candidates}["platt"])
    assert found.chosen == "platt"
    assert found.link.base.kind == "sigmoid"
