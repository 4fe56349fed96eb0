"""Results on disk: appended line by line, by several processes, whatever was cut short."""

import json
import multiprocessing
import os
import resource
import signal
from dataclasses import replace

import pytest

from shortlist.claims.experiment import Arm, Experiment, data_digest
from shortlist.claims.results import Result, Results, by_seed
from shortlist.claims.running import missing_tasks, run_tasks
from shortlist.errors import InputError

from .made_up import EXPERIMENT, GOOD, broken, shifted


def result(arm="high", seed=0, experiment=EXPERIMENT, **numbers):
    return Result(experiment.id, arm, seed, experiment.arms[arm].fingerprint, numbers or {"score": 1.0}, seconds=0.5)


def test_what_is_appended_is_read_again(tmp_path):
    results = Results(tmp_path / "new" / "claims.jsonl")
    assert list(results) == []
    written = [result(seed=seed, score=seed / 3) for seed in range(3)]
    for one in written:
        results.append(one)
    assert list(results) == written


def test_a_line_that_was_cut_short_is_left_out_and_replaced(tmp_path):
    results = Results(tmp_path / "claims.jsonl")
    results.append(result(seed=0))
    whole = results.path.read_text()
    results.path.write_text(whole + whole[:40])
    assert [one.seed for one in results] == [0]
    results.append(result(seed=1))
    assert [one.seed for one in results] == [0, 1]


def test_a_line_that_is_no_result_is_named(tmp_path):
    results = Results(tmp_path / "claims.jsonl")
    results.path.write_text('{"colour": "red"}\n')
    with pytest.raises(InputError, match="line 1"):
        list(results)


def test_results_of_a_changed_arm_are_not_used(tmp_path):
    results = Results(tmp_path / "claims.jsonl")
    results.append(result(seed=0))
    assert len(results.of(EXPERIMENT)) == 1
    changed = Experiment(EXPERIMENT.id, "", {**GOOD, "high": Arm(shifted, {"level": 2.5})}, seeds=3)
    assert results.of(changed) == []


def test_results_of_other_data_are_neither_used_nor_mixed(tmp_path):
    folder = tmp_path / "mulan"
    (folder / "scene").mkdir(parents=True)
    (folder / "scene" / "scene-train.arff").write_text("a")
    needing = replace(EXPERIMENT, data="mulan", seeds=2)
    experiments, arms = {needing.id: needing}, {needing.id: ["high"]}
    results = Results(tmp_path / "claims.jsonl")
    tasks = missing_tasks(experiments, arms, results, data=tmp_path)
    assert [task.seed for task in tasks] == [0, 1]
    assert run_tasks(tasks, results) == []
    assert missing_tasks(experiments, arms, results, data=tmp_path) == []
    (folder / "scene" / "scene-train.arff").write_text("b")
    data_digest.cache_clear()
    again = missing_tasks(experiments, arms, results, data=tmp_path)
    assert [task.seed for task in again] == [0, 1]
    assert len(results.of(needing)) == 2
    run_tasks(again[:1], results)
    assert [one.seed for one in results.of(needing)] == [0]  # seed 1 was measured on other data
    results.append(result(seed=5, experiment=needing))  # of a version that did not record the data
    assert [one.seed for one in results.of(needing)] == [0, 5]


def test_the_last_result_of_an_arm_and_seed_counts(tmp_path):
    results = Results(tmp_path / "claims.jsonl")
    results.append(result(score=1.0))
    results.append(result(score=2.0))
    assert by_seed(results.of(EXPERIMENT)) == {0: {"high": {"score": 2.0}}}


def test_the_fingerprint_is_of_the_function_and_the_settings():
    arm = Arm(shifted, {"a": 1, "b": [2, 3]})
    assert arm.fingerprint == Arm(shifted, {"b": [2, 3], "a": 1}).fingerprint
    assert arm.fingerprint != Arm(shifted, {"a": 1, "b": [2, 4]}).fingerprint
    assert arm.fingerprint != Arm(broken, {"a": 1, "b": [2, 3]}).fingerprint


def write_many(path, arm):
    for seed in range(50):
        Results(path).append(result(arm, seed, **{f"number {n}": float(n) for n in range(200)}))


def test_processes_that_write_together_leave_whole_lines(tmp_path):
    path = tmp_path / "claims.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_many, args=(path, arm)) for arm in ("high", "low")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted((one.arm, one.seed) for one in Results(path)) == sorted((a, s) for a in ("high", "low") for s in range(50))


@pytest.mark.parametrize("content", ["my notes, one line, without a line end", "{}", "1,2,3"])
def test_a_file_of_something_else_is_refused_and_stays_as_it_is(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_text(content)
    with pytest.raises(InputError, match="expected a result of shortlist reproduce"):
        list(Results(path))
    assert path.read_text() == content


def test_a_whole_last_line_without_a_line_end_is_kept(tmp_path):
    results = Results(tmp_path / "claims.jsonl")
    for seed in range(2):
        results.append(result(seed=seed))
    results.path.write_text(results.path.read_text().rstrip("\n"))
    results.append(result(seed=2))
    assert [one.seed for one in results] == [0, 1, 2]


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": "0"},
        {"seed": 0.5},
        {"seed": True},
        {"numbers": None},
        {"numbers": [1.0]},
        {"numbers": {"score": "1.0"}},
        {"arm": ["high"]},
        {"seconds": None},
        {"versions": []},
    ],
)
def test_a_line_with_values_of_another_kind_is_named(tmp_path, changed):
    results = Results(tmp_path / "claims.jsonl")
    results.append(result(seed=0))
    line = json.loads(results.path.read_text()) | changed
    results.path.write_text(json.dumps(line) + "\n")
    with pytest.raises(InputError, match="line 1: expected a result of shortlist reproduce"):
        results.of(EXPERIMENT)


def write_to_a_full_disk(path):
    """Write one more result where only half of it has room; exits with 3 if that was said."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    size = os.path.getsize(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 60, resource.RLIM_INFINITY))
    try:
        Results(path).append(result(seed=1))
    except InputError as error:
        os._exit(3 if "cannot write" in str(error) else 4)
    os._exit(0)


def test_a_result_that_has_no_room_is_an_error_and_leaves_no_half_line(tmp_path):
    results = Results(tmp_path / "claims.jsonl")
    results.append(result(seed=0))
    before = results.path.read_bytes()
    writer = multiprocessing.get_context("fork").Process(target=write_to_a_full_disk, args=(results.path,))
    writer.start()
    writer.join()
    assert writer.exitcode == 3
    assert results.path.read_bytes() == before
