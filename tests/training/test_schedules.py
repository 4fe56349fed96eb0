"""The learning rate at every step, against its formula."""

import itertools

import pytest

from shortlist.training.recipe import Recipe
from shortlist.training.schedules import learning_rate
from tests.references import training as reference

SCHEDULES = ["constant", "step", "cosine", "one-cycle"]


def recipe(**settings):
    return Recipe("mine", "flora", **{"lr": 0.3, "milestones": (2, 5), **settings})


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("epochs", "steps"), [(1, 1), (1, 2), (2, 1), (1, 7), (6, 3), (7, 10)])
def test_every_step_has_the_rate_of_the_formula(schedule, epochs, steps):
    for warmup, decay in itertools.product((None, 0, 0.5, 1, 2.5, 6, 100), (0.0, 0.2)):
        rate = learning_rate(recipe(schedule=schedule, epochs=epochs, warmup=warmup, decay=decay), steps)
        for step in range(epochs * steps):
            wanted = reference.learning_rate(
                step, lr=0.3, schedule=schedule, epochs=epochs, steps=steps, warmup=warmup, milestones=(2, 5), decay=decay
            )
            assert rate(step) == pytest.approx(wanted, rel=1e-12, abs=1e-15)


def test_the_formulas_in_numbers():
    assert [learning_rate(recipe(lr=1.0, schedule="cosine", epochs=4), 1)(step) for step in range(4)] == pytest.approx(
        [1, 0.8535533905932737, 0.5, 0.14644660940672624]
    )
    cycle = learning_rate(recipe(lr=1.0, schedule="one-cycle", epochs=2), 4)  # 2 of 8 steps rise
    assert [cycle(step) for step in (0, 1, 2, 5)] == pytest.approx([1 / 3, 2 / 3, 1, 0.5])
    steps = learning_rate(recipe(lr=1.0, schedule="step", epochs=6, warmup=0.5), 4)
    assert [steps(step) for step in (0, 1, 2, 7, 8, 19, 20)] == pytest.approx([1 / 3, 2 / 3, 1, 1, 0.1, 0.1, 0.01])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_single_step_has_the_whole_rate(schedule):
    assert learning_rate(recipe(schedule=schedule, epochs=1), 1)(0) == pytest.approx(0.3)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_warm_up_longer_than_training_rises_to_the_last_step(schedule):
    rate = learning_rate(recipe(schedule=schedule, epochs=2, warmup=50, milestones=(9,)), 4)
    assert [rate(step) for step in range(8)] == pytest.approx([0.3 * (step + 1) / 8 for step in range(8)])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warmup", [None, 1.0])
def test_rates_rise_to_the_largest_and_never_rise_again_nor_reach_zero(schedule, warmup):
    rate = learning_rate(recipe(schedule=schedule, epochs=8, warmup=warmup), 5)
    rates = [rate(step) for step in range(40)]
    top = rates.index(max(rates))
    assert max(rates) == pytest.approx(0.3)
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert min(rates) > 0


def test_the_rate_depends_on_the_step_alone():
    rate = learning_rate(recipe(schedule="cosine", epochs=3), 5)
    forwards = [rate(step) for step in range(15)]
    assert [rate(step) for step in reversed(range(15))] == forwards[::-1]
