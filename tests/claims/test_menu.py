"""The menu: every claim can be decided by its experiments, and is found by its name or its paper's."""

import json

import pytest

from shortlist.claims.claim import Claim
from shortlist.claims.menu import CLAIMS, EXPERIMENTS, PAPERS, find_claims
from shortlist.claims.page import quoted_numbers
from shortlist.claims.training import trained_recipe
from shortlist.errors import InputError
from shortlist.recipes.published import PAPERS as PUBLISHED

TRAINED = [
    pytest.param(arm, one.data, id=f"{one.id}: {name}")
    for one in EXPERIMENTS.values()
    for name, arm in one.arms.items()
    if "recipe" in arm.settings
]


def test_ids_are_distinct():
    assert len(CLAIMS) == sum(len(paper.CLAIMS) for paper in PAPERS)
    assert len(EXPERIMENTS) == sum(len(paper.EXPERIMENTS) for paper in PAPERS)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: claim.id)
def test_every_claim_can_be_decided(claim: Claim):
    assert claim.paper in (*PUBLISHED, "beyond")
    assert claim.id.startswith(f"{claim.paper}-")
    assert claim.sentence.endswith(".")
    assert claim.parts
    assert claim.experiments
    for name in claim.experiments:
        assert set(claim.arms()) <= set(EXPERIMENTS[name].arms)
    if claim.published:
        assert quoted_numbers(claim)


def test_every_experiment_is_read_by_a_claim():
    assert set(EXPERIMENTS) == {name for claim in CLAIMS.values() for name in claim.experiments}


@pytest.mark.parametrize("one", EXPERIMENTS.values(), ids=lambda one: one.id)
def test_every_arm_is_read_by_a_claim(one):
    assert set(one.arms) == {arm for claim in CLAIMS.values() if one.id in claim.experiments for arm in claim.arms()}


@pytest.mark.parametrize("one", EXPERIMENTS.values(), ids=lambda one: one.id)
def test_settings_survive_json_and_arms_differ(one):
    for arm in one.arms.values():
        assert json.loads(json.dumps(arm.settings)) == arm.settings
    assert len({arm.fingerprint for arm in one.arms.values()}) == len(one.arms)


@pytest.mark.parametrize(("arm", "data"), TRAINED)
def test_arms_that_train_are_recipes(arm, data, tmp_path):
    recipe = trained_recipe(arm.settings["recipe"], 3, None if data == "none" else tmp_path)
    assert recipe.seed == 3
    assert "{" not in recipe.data


def test_claims_are_found_by_name_and_by_paper():
    assert find_claims() == list(CLAIMS.values())
    chosen = find_claims(["garcin-2022", "garcin-2022-noise"])
    assert chosen == [claim for claim in CLAIMS.values() if claim.paper == "garcin-2022"]
    with pytest.raises(InputError, match="did you mean 'garcin-2023-two-head'"):
        find_claims(["garcin-2023-two-heads"])
