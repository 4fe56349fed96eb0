"""Advice is given only while the verdicts that it rests on are what the results say."""

from pathlib import Path

import pytest

from shortlist.claims.claim import Part, PartVerdict, Verdict
from shortlist.claims.conclusions import CONCLUSIONS, Conclusion, Reason
from shortlist.claims.menu import CLAIMS, verdicts
from shortlist.claims.page import page_text
from shortlist.claims.results import Results
from shortlist.claims.statistic import Number

from .made_up import CLAIM

RESULTS = Results(Path(__file__).parents[2] / "benchmarks/results/claims.jsonl")


def verdict(experiment, decision, n=5):
    interval = type("Interval", (), {"n": n})() if n else None
    return Verdict(CLAIM, experiment, decision, (PartVerdict(Part("all", Number("a", "top-5")), interval, decision),))


def test_a_conclusion_stands_if_every_experiment_says_so():
    conclusion = Conclusion("Take this.", (Reason("first", "holds"), Reason("second", "fails", ("there",))))
    second = [verdict("here", "open"), verdict("there", "fails")]
    assert conclusion.stands({"first": [verdict("one", "holds"), verdict("two", "holds")], "second": second})
    assert not conclusion.stands({"first": [verdict("one", "holds"), verdict("two", "open")], "second": second})
    assert not conclusion.stands({"first": [verdict("one", "holds"), verdict("two", "holds", n=0)], "second": second})
    assert not conclusion.stands({"first": [verdict("one", "holds")], "second": [verdict("there", "open")]})
    assert conclusion.markdown() == "- Take this. ([first](#first), [second](#second))"


@pytest.mark.parametrize("conclusion", CONCLUSIONS, ids=lambda one: one.reasons[0].claim)
def test_every_conclusion_stands_by_the_committed_results(conclusion):
    for reason in conclusion.reasons:
        claim = CLAIMS[reason.claim]
        assert set(reason.experiments) <= set(claim.experiments)
        assert reason.stands(verdicts(claim, RESULTS)), reason


def test_without_results_nothing_follows(tmp_path):
    assert "In one minute" not in page_text(Results(tmp_path / "claims.jsonl"))
    assert page_text(RESULTS).count("\n- **") == len(CONCLUSIONS)
