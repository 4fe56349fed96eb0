"""Arms that train nothing by recipe, or measure something else: conformal sets, votes, the normaliser."""

import numpy as np
import pytest

from shortlist.claims.conformal import conformal_arm
from shortlist.claims.grounds import LONG_TAILED
from shortlist.claims.normaliser import normaliser_arms
from shortlist.claims.voting import SETTINGS, vote_numbers


def run(arm, seed=0):
    return arm.compute(arm.settings, seed, None)


@pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
def test_conformal_sets():
    small = LONG_TAILED.with_settings(
        data="flora:kind=measurements,seed={seed},species=10,genera=3,train=300,val=400,test=400",
        rule="average-k:2",
        monitor="average-2",
        epochs=3,
        validate_every=3,
        backbone="mlp-16",
    )
    found, wider = run(conformal_arm(small)), run(conformal_arm(small, alpha=0.3))
    for rule in ("marginal", "class-wise", "interpolated", "prevalence-adjusted"):
        assert found[rule] > wider[rule]
        assert found[f"{rule} size"] > wider[f"{rule} size"]
    assert found["marginal"] == pytest.approx(90, abs=5)
    assert found["class-wise size"] > found["interpolated size"] > 0


def test_votes_of_better_users_weigh_more():
    settings = {**SETTINGS, "items": 1500, "users": 150, "labels": 60, "genera": 12, "votes": 4}
    engaged, unrelated = (vote_numbers({**settings, "engagement": e}, 0, None) for e in (1.0, 0.0))
    gains = [found["weighted"] - found["majority"] for found in (engaged, unrelated)]
    assert gains[0] > gains[1]
    assert engaged["weighted"] > engaged["majority"]
    assert engaged["weighted valid"] >= engaged["weighted"]
    assert 0 < engaged["valid"] <= 100


def test_votes_are_of_the_seed():
    settings = {**SETTINGS, "items": 300, "users": 30, "labels": 20, "genera": 4, "votes": 2, "engagement": 0.5}
    assert vote_numbers(settings, 1, None) == vote_numbers(settings, 1, None) != vote_numbers(settings, 2, None)


def test_the_normaliser_of_the_quasibinary_classifier_varies_less():
    found = {}
    for name, arm in normaliser_arms().items():
        settings = {**arm.settings, "rows": 600, "epochs": 12, "batch": 100}
        found[name] = arm.compute(settings, 0, None)
        assert found[name] == arm.compute(settings, 0, None)
    assert found["quasibinary"]["spread"] < found["softmax"]["spread"]
    assert found["quasibinary"]["above 1"] <= found["quasibinary"]["rows above 1"] <= 100 * found["quasibinary"]["above 1"]
    assert np.isfinite(list(found["quasibinary"].values())).all()
