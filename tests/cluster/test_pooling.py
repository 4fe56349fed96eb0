"""Tasks are answered once each whichever workers die, errors come through, and little is taken ahead."""

import random

import pytest

from shortlist.cluster import Pool
from shortlist.errors import InputError
from tests.cluster.stand_in import StandIn


@pytest.mark.parametrize("seed", range(100))
def test_every_task_is_answered_once_whoever_dies(seed):
    ray = StandIn(seed, deaths=0.2)
    pool = Pool(ray)
    tasks = list(range(random.Random(seed).randrange(40)))
    assert sorted(pool.each(lambda task: task**2, tasks)) == [(task, task**2) for task in tasks]
    assert list(pool.in_order(lambda task: -task, tasks)) == [-task for task in tasks]
    assert ray.died or len(tasks) < 20
    pool.close()


def test_errors_of_the_user_are_raised_as_they_are_and_others_with_their_cause():
    def refuse(task):
        raise InputError(f"row {task} is odd")

    pool = Pool(StandIn())
    with pytest.raises(InputError, match="^row . is odd$"):
        list(pool.each(refuse, range(5)))
    assert list(pool.in_order(abs, [-1, 2])) == [1, 2]  # the pool is as good as new
    with pytest.raises(Exception, match="division by zero"):
        list(pool.each(lambda task: 1 / task, [0]))


def test_a_task_that_kills_its_workers_is_named_and_one_that_waits_behind_it_is_not_blamed():
    class Killing(StandIn):
        def _run(self, actor):
            if actor.calls[0].method == "answer" and self.received(actor.calls[0].given[1]) == 3:
                return self._died(actor)
            super()._run(actor)

    ray = Killing()
    with pytest.raises(InputError, match="^task 3: 8 workers died while they were at it, the last with: the actor is dead"):
        list(Pool(ray).each(abs, range(9)))
    assert ray.died == 8


def test_workers_that_die_before_they_begin_are_not_tried_for_ever():
    with pytest.raises(InputError, match="^8 workers died before they began"):
        list(Pool(StandIn(deaths=1.0)).each(abs, range(9)))


@pytest.mark.parametrize("seed", range(10))
def test_little_is_taken_ahead(seed):
    taken = []
    pool = Pool(StandIn(seed, deaths=0.1))
    tasks = (taken.append(task) or task for task in range(1000))
    for done, answer in zip(range(100), pool.in_order(abs, tasks), strict=False):
        assert answer == done
        assert len(taken) <= done + 1 + 2 * 2 * pool.size


@pytest.mark.parametrize(
    ("machines", "gpus", "cpus", "workers"),
    [
        ([(16, 4), (8, 0), (32, 2)], 1, 4, 6),
        ([(16, 4), (8, 0), (32, 2)], 0.5, 2, 12),
        ([(16, 4), (8, 0), (32, 2)], 0, 1, 56),
        ([(2, 4)], 1, 1, 2),
    ],
)
def test_a_worker_with_a_gpu_has_the_cpus_beside_it(machines, gpus, cpus, workers):
    pool = Pool(StandIn(machines=machines), gpus=gpus)
    assert (pool.cpus, pool.size) == (cpus, workers)


def test_a_cluster_without_room_is_refused():
    with pytest.raises(InputError, match="workers: expected a cluster with 4 CPUs for each, got 3 CPUs and 0 GPUs"):
        Pool(StandIn(), cpus=4)
    with pytest.raises(InputError, match="1 CPUs and 1 GPUs for each"):
        Pool(StandIn(), gpus=1)
    with pytest.raises(InputError, match="workers: expected a whole number from 1, got 0"):
        Pool(StandIn(), 0)
