"""Running: only what is missing, side by side, and a failure loses nothing of the others."""

import multiprocessing
import time
from dataclasses import replace
from pathlib import Path

import pytest

from shortlist.claims.experiment import Arm, Experiment, folder_of
from shortlist.claims.results import Results, by_seed
from shortlist.claims.running import missing_tasks, run_tasks
from shortlist.cluster import Pool
from tests.cluster.stand_in import StandIn

from .made_up import EXPERIMENT, GOOD, broken, crashing, endless, interrupted, patient


def tasks_of(experiment, results, **options):
    return missing_tasks({experiment.id: experiment}, {experiment.id: experiment.arms}, results, **options)


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path / "claims.jsonl")


def test_everything_is_run_once(results):
    assert run_tasks(tasks_of(EXPERIMENT, results), results) == []
    found = by_seed(results.of(EXPERIMENT))
    assert {seed: found[seed]["high"]["score"] for seed in found} == {0: 2.0, 1: 2.1, 2: 2.2}
    assert tasks_of(EXPERIMENT, results) == []
    assert [task.seed for task in tasks_of(EXPERIMENT, results, seeds=4)] == [3, 3]


def test_only_the_arms_that_are_asked_for_are_run(results):
    tasks = missing_tasks({EXPERIMENT.id: EXPERIMENT}, {EXPERIMENT.id: {"low"}}, results)
    assert [(task.name, task.seed) for task in tasks] == [("low", 0), ("low", 1), ("low", 2)]


def test_seed_follows_seed_over_all_experiments(results):
    other = Experiment("other", "", {"low": GOOD["low"]}, seeds=1)
    tasks = missing_tasks({"made-up": EXPERIMENT, "other": other}, {"made-up": {"high"}, "other": {"low"}}, results)
    assert [(task.experiment, task.seed) for task in tasks] == [("made-up", 0), ("other", 0), ("made-up", 1), ("made-up", 2)]
    assert missing_tasks({}, {}, results) == []


def test_seeds_by_which_something_was_chosen_do_not_count(results):
    later = replace(EXPERIMENT, first_seed=2)
    run_tasks(tasks_of(EXPERIMENT, results), results)
    assert sorted(by_seed(results.of(later))) == [2]
    assert sorted({task.seed for task in tasks_of(later, results)}) == [3, 4]
    assert sorted({task.seed for task in tasks_of(later, results, seeds=1)}) == []


def test_results_say_where_they_come_from(results):
    run_tasks(tasks_of(EXPERIMENT, results, seeds=1), results)
    for result in results:
        assert result.machine
        assert result.date
        assert result.versions["torch"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_loses_nothing_of_the_others(results, jobs):
    mixed = Experiment("mixed", "", {"broken": Arm(broken), **GOOD, "crashing": Arm(crashing)}, seeds=2)
    seen = []
    failures = run_tasks(
        tasks_of(mixed, results), results, jobs=jobs, report=lambda done, total, one: seen.append((done, total))
    )
    assert sorted((one.task.name, one.task.seed) for one in failures) == [
        ("broken", 0),
        ("broken", 1),
        ("crashing", 0),
        ("crashing", 1),
    ]
    assert {one.sentence.partition(":")[0] for one in failures} == {"level", "ZeroDivisionError"}
    assert sorted((one.arm, one.seed) for one in results) == [("high", 0), ("high", 1), ("low", 0), ("low", 1)]
    assert seen == [(number, 8) for number in range(1, 9)]


def test_workers_of_a_cluster_find_the_same_and_name_their_machine(results, monkeypatch):
    monkeypatch.setattr("shortlist.claims.running.machine", lambda: "here")
    pool = Pool(StandIn(seed=2, deaths=0.2))
    mixed = Experiment("mixed", "", {"broken": Arm(broken), **GOOD}, seeds=3)
    failures = run_tasks(tasks_of(mixed, results), results, each=pool.each)
    assert sorted(one.task.seed for one in failures if one.task.name == "broken") == [0, 1, 2]
    found = by_seed(results.of(mixed))
    assert {seed: found[seed]["high"]["score"] for seed in found} == {0: 2.0, 1: 2.1, 2: 2.2}
    assert {result.machine for result in results} == {"here"}
    assert len(list(results)) == 6


def test_ctrl_c_keeps_what_is_done(results):
    stopped = Experiment("stopped", "", {"high": GOOD["high"], "stop": Arm(interrupted), "low": GOOD["low"]}, seeds=1)
    with pytest.raises(KeyboardInterrupt):
        run_tasks(tasks_of(stopped, results), results)
    assert [one.arm for one in results] == ["high"]
    assert [task.name for task in tasks_of(stopped, results)] == ["stop", "low"]


def ended(true):
    """Whether this becomes true: a thread of the pool may be collecting the same processes, and is not done for a moment."""
    for _ in range(200):
        if true():
            return True
        time.sleep(0.05)
    return False


def test_ctrl_c_ends_the_workers(results, tmp_path):
    begun = {"begun": str(tmp_path / "begun")}
    slow = Experiment("slow", "", {"patient": Arm(patient, begun), "slow": Arm(endless, begun)}, seeds=1)
    before = set(multiprocessing.active_children())

    def stop(number, total, found):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tasks(tasks_of(slow, results), results, jobs=2, report=stop)
    assert ended(lambda: set(multiprocessing.active_children()) <= before)
    assert [one.arm for one in results] == ["patient"]


def test_data_are_found_below_the_folder_of_the_user(tmp_path):
    assert folder_of("cifar100", None) is None
    assert folder_of("cifar100", tmp_path) is None
    home = tmp_path / "cifar-100-binary"
    home.mkdir()
    (home / "fine_label_names.txt").touch()
    assert folder_of("cifar100", tmp_path) == home
    assert folder_of("cifar100", home) == home / Path(".")
    assert folder_of("none", tmp_path) is None
