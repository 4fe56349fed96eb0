"""The processes of an attempt agree on a name, whatever those of earlier attempts have left in the store."""

import random
import threading
import time
from contextlib import suppress
from datetime import timedelta

import pytest
from torch import distributed

from shortlist.errors import InputError
from shortlist.training import meeting
from shortlist.training.meeting import join_launched, meet


class Died(BaseException):
    """The process is killed."""


class Mortal:
    """A store whose user dies after so many calls."""

    def __init__(self, store, calls):
        self.store, self.left = store, calls

    def __getattr__(self, name):
        method = getattr(self.store, name)

        def call(*arguments):
            if self.left <= 0:
                raise Died
            self.left -= 1
            return method(*arguments)

        return call


def attempt(store, lives, delays):
    """The names that the processes of an attempt get; none for one that dies, and none for those that wait for it."""
    names = {}

    def join(rank):
        time.sleep(delays[rank])
        with suppress(Died, InputError):
            names[rank] = meet(Mortal(store, lives[rank]), rank, len(lives), timedelta(seconds=60 if min(lives) > 99 else 0.3))

    threads = [threading.Thread(target=join, args=(rank,)) for rank in range(len(lives))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return names


@pytest.mark.parametrize("seed", range(6))
def test_after_attempts_that_failed_at_any_point_all_get_one_new_name(seed):
    chance, store = random.Random(seed), distributed.HashStore()
    used = set()
    for _ in range(3):
        lives = [chance.choice([0, 1, 2, 3, 4, 6, 9]) for _ in range(3)]
        used |= set(attempt(store, lives, [chance.uniform(0, 0.05) for _ in lives]).values())
    names = attempt(store, [10**9] * 3, [chance.uniform(0, 0.3) for _ in range(3)])
    assert names.keys() == {0, 1, 2}
    assert len(set(names.values())) == 1
    assert not used & set(names.values())


def test_a_process_that_never_comes_is_told():
    with pytest.raises(InputError, match="expected the 2 processes .* together, got fewer"):
        meet(distributed.HashStore(), 0, 2, timedelta(seconds=0.1))
    with pytest.raises(InputError, match="expected the 2 processes .* together, got fewer"):
        meet(distributed.HashStore(), 1, 2, timedelta(seconds=0.1))


@pytest.mark.parametrize("variables", [{}, {"WORLD_SIZE": "2"}, {"TORCHELASTIC_USE_AGENT_STORE": "True"}])
def test_without_the_store_of_a_launcher_nothing_is_joined(monkeypatch, variables):
    places = {"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "RANK": "0"}
    for name in ("WORLD_SIZE", "TORCHELASTIC_USE_AGENT_STORE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (places | variables).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(meeting, "meet", lambda *_: pytest.fail("nobody to meet"))
    join_launched("gloo")
    assert not distributed.is_initialized()
