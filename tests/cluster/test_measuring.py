"""What the workers of a cluster find is what one process finds, to the last bit, whoever dies meanwhile."""

import os
import random
import signal
import threading

import pytest
import torch

from shortlist import cluster
from shortlist.errors import InputError, NotConvergedError
from shortlist.evaluation import measure
from shortlist.links import Temperature
from shortlist.predictions import Predictions
from shortlist.sets import average_k, gate, lac, risk_control, top_k
from shortlist.sets.lists import lists_of
from tests.cluster.stand_in import StandIn
from tests.sets.cases import CASES, draw
from tests.sets.test_shards import RANDOM, assert_same, fitted_or_refused

pytestmark = pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")


def small(many, rows=150, dtype=torch.float32):
    data = draw(many, rows=rows)
    return Predictions(torch.from_numpy(data.calibration).to(dtype), data.target, link="identity"), data.prior


def wide(many=False, rows=1300, classes=4096):
    """Rows of three blocks."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(rows, classes, generator=generator)
    target = torch.randint(classes, (rows,), generator=generator)
    scores[torch.arange(rows), target] += 6
    if many:
        target = (torch.rand(rows, classes, generator=generator) < 0.002) & (torch.arange(rows) % 3 > 0)[:, None]
    return Predictions(scores, target, link="sigmoid" if many else "softmax")


def same(found, whole):
    """Whether two evaluations agree in everything that was measured."""
    assert found.totals.keys() == whole.totals.keys()
    for name, total in whole.totals.items():
        assert torch.equal(found.totals[name], total), name
    assert repr(found.numbers()) == repr(whole.numbers())
    assert found.mean_average_precision == whole.mean_average_precision
    assert found.galleries == whole.galleries
    assert found.confusions.pairs() == whole.confusions.pairs()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_fit_is_that_of_one_process(case, some):
    rows, prior = small(case.many_labels)
    whole = case.make(prior).fit(rows)
    assert_same(cluster.fit(some, case.make(prior), rows), whole)


@pytest.mark.parametrize("name", RANDOM)
def test_randomised_rules_draw_the_same(name, some):
    rows, _ = small(False)
    assert_same(cluster.fit(some, RANDOM[name](), rows), RANDOM[name]().fit(rows))


@pytest.mark.parametrize("many", [False, True])
def test_an_evaluation_is_that_of_one_process(many, some):
    rows = wide(many)
    rule = (gate(risk_control("recall", 0.5), 0.2) if many else lac(0.1)).fit(rows)
    same(cluster.measure(some, rows, rule), measure(rows, rule))
    same(cluster.measure(some, rows, rule, bounded=True), measure(rows, rule, bounded=True))
    assert cluster.measure(some, rows).numbers().keys() == measure(rows).numbers().keys()


def test_the_names_of_the_classes_are_those_of_one_process(some):
    rows = wide(rows=40)
    rows = Predictions(rows.scores, rows.target, classes=[f"class {number}" for number in range(4096)], link="softmax")
    assert_same(cluster.fit(some, average_k(2), rows), average_k(2).fit(rows))


@pytest.mark.parametrize("many", [False, True])
def test_answers_hold_neither_names_nor_probabilities(many):
    rows = wide(many)
    names = [f"a rather long name of a class, the {number}th" for number in range(4096)]
    named = Predictions(rows.scores, rows.target, classes=names, link=rows.link)
    sizes = {}
    for name, given in (("bare", rows), ("named", named)):
        ray = StandIn()
        cluster.measure(cluster.Pool(ray), given, average_k(2).fit(given))
        assert ray.largest < rows.scores.numel()  # a byte of each score would be more
        sizes[name] = ray.largest
        ray = StandIn()
        assert_same(cluster.fit(cluster.Pool(ray), average_k(2), given), average_k(2).fit(given))
        assert ray.largest < 20_000
    assert sizes["named"] == sizes["bare"]


@pytest.mark.parametrize("many", [False, True])
def test_a_temperature_is_that_of_one_process(many, some):
    rows = wide()
    if many:
        noise = torch.randn(rows.scores.shape, generator=torch.Generator().manual_seed(1))
        rows = Predictions(rows.scores, rows.scores > noise, link="sigmoid")
    whole = Temperature().fit(rows.scores, rows.target)
    found = cluster.fit_temperature(some, Temperature(), rows)
    assert torch.equal(found.temperature, whole.temperature)
    assert found.config() == whole.config()
    odd = Predictions(torch.eye(3), torch.arange(3), link="softmax")
    with pytest.raises(NotConvergedError, match="every label ranks first"):
        cluster.fit_temperature(some, found, odd)
    assert torch.equal(found.temperature, whole.temperature)  # as it was
    with pytest.raises(InputError, match="rows: expected labels to fit a link on"):
        cluster.fit_temperature(some, Temperature(), Predictions(torch.eye(3), link="softmax"))


def test_files_and_some_of_their_rows_are_opened_by_the_workers(tmp_path, some):
    rows = wide()
    rows.save(tmp_path / "scores.safetensors")
    there = cluster.Rows.at(tmp_path / "scores.safetensors")
    first, second = rows.split_rows(0.4, seed=1)
    rule = average_k(2.5)
    assert_same(cluster.fit(some, rule, there.only(first)), average_k(2.5).fit(rows.rows(first)))
    same(cluster.measure(some, there.only(second), rule), measure(rows.rows(second), rule))
    found = list(cluster.list_sets(some, there.only(second), rule))
    whole = list(lists_of(rows.rows(second), rule))
    assert [one for _, lists in found for one in lists] == [one for _, lists in whole for one in lists]
    assert torch.equal(torch.cat([sizes for sizes, _ in found]), torch.cat([sets.sum(1) for sets, _ in whole]))


def test_errors_are_those_of_one_process(tmp_path, some):
    empty = Predictions(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), link="identity")
    with pytest.raises(InputError, match="rows: expected some"):
        cluster.measure(some, empty, top_k(1))
    refused = fitted_or_refused(lambda: lac(0.1).fit(empty))
    assert fitted_or_refused(lambda: cluster.fit(some, lac(0.1), empty)) == refused
    bare = Predictions(torch.zeros(4, 3), link="softmax")
    with pytest.raises(InputError, match="target: expected labels, which this rule is fitted on"):
        cluster.fit(some, risk_control("recall", 0.1), bare)
    (small(False)[0]).save(tmp_path / "gone.safetensors")
    there = cluster.Rows.at(tmp_path / "gone.safetensors")
    (tmp_path / "gone.safetensors").unlink()
    with pytest.raises(InputError, match=r"gone\.safetensors.*no such file"):
        cluster.fit(some, lac(0.1), there)


@pytest.mark.ray
def test_a_worker_killed_at_any_moment_changes_nothing(workers):
    rows, _ = small(False, rows=4000)
    whole, draws = lac(0.1).fit(rows), random.Random(0)
    for _ in range(3):
        list(workers.each(abs, range(4)))  # at least one worker has begun, whoever died in the tests before
        begun = [member.actor for member in workers._members if member.begun]
        victim = workers.ray.get(begun[0].begin.remote(1))
        timer = threading.Timer(draws.uniform(0, 0.05), os.kill, (victim, signal.SIGKILL))
        timer.start()
        assert_same(cluster.fit(workers, lac(0.1), rows), whole)
        timer.join()


@pytest.mark.ray
def test_a_task_that_kills_its_workers_is_named(workers, monkeypatch):
    monkeypatch.setattr("shortlist.cluster.pooling.ATTEMPTS", 1)
    with pytest.raises(InputError, match=r"task 0: 1 workers died while they were at it"):
        list(workers.each(os._exit, [1]))
    assert list(workers.in_order(abs, [-3, -4, 5])) == [3, 4, 5]  # others begin in their place
