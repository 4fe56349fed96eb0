"""The batteries of ``make fuzz``: a few cases of each, and what the runner says of a failure."""

import pytest

from tests.fuzz import runner

QUICK = sorted(set(runner.BATTERIES) - {"killed-index", "killed-training"})


@pytest.mark.parametrize("name", QUICK)
def test_a_few_cases_of_each_battery_pass(name):
    assert [runner.failure(name, 0, number) for number in range(10)] == [None] * 10


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_many_cases_of_each_battery_pass(name):
    assert list(filter(None, (runner.failure(name, 1, number) for number in range(200)))) == []


def test_a_failure_is_shown_with_the_command_that_repeats_it(monkeypatch, capsys):
    drawn = []

    def broken(draw, folder):
        drawn.append(draw.random())
        assert drawn[-1] < 0.5, "too large"

    monkeypatch.setitem(runner.BATTERIES, "broken", broken)
    assert runner.try_all(["broken"], seed=7, seconds=0.05) == 1
    printed = capsys.readouterr().out
    first = next(number for number, value in enumerate(drawn) if value >= 0.5)
    assert f"python -m tests.fuzz broken --seed 7 --case {first}\n" in printed
    assert "too large" in printed
    value = drawn[first]
    assert "too large" in runner.failure("broken", 7, first)
    assert drawn[-1] == value
