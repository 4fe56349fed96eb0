"""The page: written from the results, and committed as they give it."""

from pathlib import Path

from benchmarks import claims_page

from shortlist.claims.claim import Curves, judge
from shortlist.claims.menu import CLAIMS, EXPERIMENTS
from shortlist.claims.page import page_text, readme_table
from shortlist.claims.plots import ArmCurves, Estimates
from shortlist.claims.results import Result, Results
from shortlist.claims.statistic import Combined

from .made_up import CLAIM

ROOT = Path(__file__).parents[2]
NAME = "garcin-2023-two-head"


def read(statistic, arm):
    """The names of the numbers that a statistic reads of an arm."""
    if isinstance(statistic, Combined):
        return {name for part in statistic.parts for name in read(part, arm)}
    return {statistic.name, getattr(statistic, "by", statistic.name)} if arm in statistic.arms() else set()


def filled(path, gap):
    """Results of one experiment in which every arm is better than cross-entropy by about the gap, in every number."""
    results = Results(path)
    experiment = EXPERIMENTS["flora-average-k"]
    statistics = [part.statistic for claim in CLAIMS.values() if experiment.id in claim.experiments for part in claim.parts]
    for seed in range(3):
        for name, arm in experiment.arms.items():
            value = 90.0 + 0.01 * seed + (0.0 if name == "cross-entropy" else gap + 0.02 * seed)
            numbers = {number: value for statistic in statistics for number in read(statistic, name)} | {"average-5 best": 95.0}
            results.append(Result(experiment.id, name, seed, arm.fingerprint, numbers, 1.0, 1.0, "a processor", "2026-01-01"))
    return results


def test_without_results_nothing_is_claimed(tmp_path):
    text = page_text(Results(tmp_path / "claims.jsonl"))
    assert "not run" in text
    assert "holds**" not in text.partition("## At a glance")[2]


def test_the_page_gives_verdicts_intervals_and_distances(tmp_path):
    text = page_text(filled(tmp_path / "claims.jsonl", 1.0))
    section = text.partition(f"#{NAME} }}")[2]
    assert "*flora-average-k*: **holds**" in section
    assert "| k = 5 | 3 | +1.02 | +0.97 to +1.07 | > 0 | holds |" in section
    assert "(4.99)" in section  # of cross-entropy from the best
    assert "a processor" in text


def test_the_page_says_so_where_a_claim_fails(tmp_path):
    text = page_text(filled(tmp_path / "claims.jsonl", -1.0))
    assert "*flora-average-k*: **fails**" in text.partition(f"#{NAME} }}")[2]


def test_the_table_of_the_readme_counts(tmp_path):
    lines = readme_table(filled(tmp_path / "claims.jsonl", 1.0)).splitlines()
    counts = [int(cell) for cell in next(line for line in lines if "Garcin 2023" in line).split("|")[2:5]]
    decided = [claim for claim in CLAIMS.values() if claim.paper == "garcin-2023" and "flora-average-k" in claim.experiments]
    assert sum(counts) == len(decided)
    assert counts[0] >= 1  # two-head
    assert counts[2] >= 1  # cross-entropy over the binary methods


def test_the_committed_page_and_readme_are_those_made_from_the_results():
    assert (ROOT / "docs/claims.md").read_text(encoding="utf-8") == claims_page.text()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert claims_page.readme(readme) == readme


def test_every_plot_of_the_page_is_there():
    text = (ROOT / "docs/claims.md").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("!["):
            assert (ROOT / "docs" / line.partition("(")[2].rstrip(")")).exists()


def test_curves_are_means_over_seeds_with_intervals():
    curves = Curves("made-up", "score", "level", {"all": {"low": 1.0, "high": 2.0, "unmeasured": 3.0}}, "")
    levels = {"low": 1.0, "high": 5.0}
    results = [Result("made-up", arm, seed, "", {"score": levels[arm] + seed}, 1.0) for arm in levels for seed in (0, 2)]
    display = ArmCurves(curves, results)
    assert not display.empty
    assert display.points()["place"] == [1.0, 2.0]
    assert display.points()["mean"] == [2.0, 6.0]
    assert len(display.plot().get_lines()) == 1
    assert ArmCurves(curves, results[:1]).empty


def test_the_plot_has_a_row_for_each_part():
    seeds = {seed: {"high": {"score": 2.0 + seed}, "low": {"score": 1.0 + 0.9 * seed}} for seed in range(3)}
    display = Estimates([judge(CLAIM, "made-up", seeds)])
    assert display.points()["name"] == ["made-up-higher: score"]
    assert display.points()["decision"] == ["holds"]
    assert [label.get_text() for label in display.plot().get_yticklabels()] == ["made-up-higher: score"]
