"""``shortlist reproduce``: lists claims, runs what is missing, prints verdicts."""

import json
from contextlib import nullcontext
from types import MappingProxyType

import pytest

from shortlist import cluster
from shortlist.claims import menu
from shortlist.claims.experiment import Arm, Experiment
from shortlist.claims.results import Results
from shortlist.cli import reproducing
from tests.claims.made_up import CLAIM, EXPERIMENT, GOOD, broken
from tests.cluster.stand_in import StandIn


@pytest.fixture
def made_up(monkeypatch):
    """Only made-up claims: one that can be run, one that needs data."""
    from dataclasses import replace

    needy = replace(EXPERIMENT, id="needy", data="cifar100", quick=False)
    claim = replace(CLAIM, experiments=("made-up", "needy"))

    def use(experiment=EXPERIMENT):
        experiments = MappingProxyType({"made-up": experiment, "needy": needy})
        monkeypatch.setattr(menu, "CLAIMS", {claim.id: claim})
        monkeypatch.setattr(menu, "EXPERIMENTS", experiments)
        monkeypatch.setattr(reproducing, "EXPERIMENTS", experiments)

    use()
    return use


def test_claims_are_listed(run):
    outcome = run("reproduce", "--list")
    assert outcome.code == 0
    assert all(name in outcome.out for name in menu.CLAIMS)
    listed = json.loads(run("reproduce", "--list", "--json").out)
    assert [one["id"] for one in listed] == list(menu.CLAIMS)


def test_an_unknown_claim_is_named_with_a_suggestion(fails):
    assert "garcin-2023-two-head" in fails("reproduce", "garcin-2023-two-hed")


def test_what_is_missing_is_run_and_judged(run, made_up, tmp_path):
    outcome = run("reproduce", "--quick", "--results", "found.jsonl")
    assert outcome.code == 0
    assert "6 runs to do" in outcome.err
    words = outcome.out.splitlines()[1].split()
    assert words[:3] == ["made-up-higher", "made-up", "holds"]
    assert len(list(Results(tmp_path / "found.jsonl"))) == 6
    again = run("reproduce", "--quick", "--results", "found.jsonl")
    assert "to do" not in again.err
    assert again.out.split()[:12] == outcome.out.split()[:12]


def test_workers_run_what_is_missing(run, fails, made_up, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "pool", lambda *_, **__: nullcontext(cluster.Pool(StandIn(deaths=0.1))))
    outcome = run("reproduce", "--quick", "--results", "found.jsonl", "--engine", "ray")
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[1].split()[:3] == ["made-up-higher", "made-up", "holds"]
    assert len(list(Results(tmp_path / "found.jsonl"))) == 6
    assert fails("reproduce", "--quick", "--engine", "ray", "--jobs", 2).startswith("--jobs applies only to --engine local")


def test_one_seed_is_open(run, made_up):
    found = json.loads(run("reproduce", "--quick", "--seeds", 1, "--json").out)
    assert [(one["verdict"], one["n"]) for one in found] == [("open", 1)]
    assert found[0]["parts"][0]["interval"] is None


def test_missing_data_are_said_and_skipped(run, made_up):
    outcome = run("reproduce")
    assert outcome.code == 0
    assert "needy: skipped, its data, cifar100, were not given" in outcome.err
    assert "made-up-higher" in outcome.out


def test_a_folder_that_is_not_there_is_refused(fails, made_up):
    assert "--data" in fails("reproduce", "--data", "nowhere")


def test_a_failed_arm_is_reported_and_the_others_are_kept(run, made_up, tmp_path):
    made_up(Experiment("made-up", "", {"high": GOOD["high"], "low": Arm(broken)}, seeds=1))
    outcome = run("reproduce", "--quick")
    assert outcome.code == 1
    assert "made-up, low, seed 0: level: expected a number" in outcome.err
    assert [one.arm for one in Results(tmp_path / "claims.jsonl")] == ["high"]
