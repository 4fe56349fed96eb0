"""Processes that train as one: whoever dies, what is saved is gone on with, and what is the user's is said in one sentence."""

import random
import signal
import warnings
from contextlib import suppress

import pytest

import shortlist.cluster.group as group
from shortlist.cluster import Pool
from shortlist.cluster.group import WorkerFailedError, together
from shortlist.cluster.member import WARNED, Heard, Member, Place
from shortlist.errors import InputError, ShortlistWarning
from shortlist.training.interruption import Interrupted, deferred_signals
from tests.cluster.stand_in import StandIn

STEPS = 12
LOST = "Traceback\nRuntimeError: connection closed by peer"


class World:
    """What the processes of a training share: a disk, and the machines that they are on."""

    def __init__(self, ray, seed=0):
        self.ray, self.draws = ray, random.Random(seed)
        self.saved, self.step, self.weights = 0, 0, []
        self.begun, self.ranks = {}, {}  # by attempt: what was saved before it, and the variables of each process

    def kind(self):
        return Trainee(self)


class Trainee:
    """A process that takes a step whenever it is asked, saves it, and fails if another one has died."""

    def __init__(self, world):
        self.world, self.deaths = world, world.ray.died
        self.rank = None

    def begin(self, address):
        assert address() == "127.0.0.1"
        return Place(self.world.draws.choice(["a", "b"]), 1000, self.world.draws.choice(["0", "3"]), 0)

    def start(self, job, attempt, variables, threads):
        world, self.rank = self.world, int(variables["RANK"])
        assert variables["TORCHELASTIC_RESTART_COUNT"] == str(attempt)
        if attempt not in world.begun:
            world.begun[attempt] = world.step = world.saved
        world.ranks.setdefault(attempt, []).append(variables)

    def heard(self, within):
        world = self.world
        assert len(world.ranks[max(world.ranks)]) == 3  # nobody is asked before all were started
        if world.ray.died != self.deaths:
            return Heard(ended=True, failed=LOST)
        if self.rank:
            return Heard(ended=world.step == STEPS)
        if world.step < STEPS:  # else it died after the last one, before it could say so
            world.step += 1
            world.weights = [*world.weights[: world.step - 1], world.step]
            world.saved = world.step
        return Heard((("step_ended", (world.step, 0.5)),), ended=world.step == STEPS)


@pytest.mark.parametrize("seed", range(100))
def test_whoever_dies_what_was_saved_is_gone_on_with(seed, monkeypatch):
    monkeypatch.setattr(group, "ATTEMPTS", 12)
    ray = StandIn(seed, deaths=0.05)
    world, told = World(ray, seed), []
    together(Pool(ray), "the job", told.append, lambda: world.saved, kind=world.kind)
    assert world.weights == list(range(1, STEPS + 1))
    assert list(world.begun.values()) == sorted(world.begun.values())
    again = [given[0] for name, given in told if name == "message"]
    assert len(again) == max(world.begun)
    assert all(sentence.endswith(": all 3 start again, from the last checkpoint") for sentence in again)
    assert ray.rooms == []


def test_deaths_happened():
    """Else the test above shows little."""
    found = []
    for seed in range(30):
        world = World(StandIn(seed, deaths=0.05), seed)
        with suppress(InputError):
            together(Pool(world.ray), "the job", lambda event: None, lambda world=world: world.saved, kind=world.kind)
        found.append(len(world.begun))
    assert sum(count > 1 for count in found) > 20


@pytest.mark.parametrize("seed", range(10))
def test_processes_of_one_machine_are_numbered_together_and_see_all_its_gpus(seed):
    world = World(StandIn(seed), seed)
    together(Pool(world.ray), "the job", lambda event: None, lambda: world.saved, kind=world.kind)
    (found,) = world.ranks.values()
    assert [int(one["RANK"]) for one in found] == [0, 1, 2]
    sizes = [int(one["LOCAL_WORLD_SIZE"]) for one in found]
    locals_ = [int(one["LOCAL_RANK"]) for one in found]
    assert (sizes, locals_) in (([3, 3, 3], [0, 1, 2]), ([2, 2, 1], [0, 1, 0]), ([1, 2, 2], [0, 0, 1]))
    assert [len(one["CUDA_VISIBLE_DEVICES"].split(",")) for one in found] == sizes
    assert len({(one["MASTER_ADDR"], one["MASTER_PORT"], one["WORLD_SIZE"]) for one in found}) == 1


def scripted(*answers):
    """Kinds of processes that answer in this way, by rank; the last answer is given again and again."""
    starts = []

    class Scripted:
        def begin(self, address):
            return Place(address(), 1, "", 0)

        def start(self, job, attempt, variables, threads):
            starts.append(attempt)
            self.answers = list(answers[int(variables.get("RANK", 0))])

        def heard(self, within):
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

        def stop(self, number):
            self.answers = [Heard(ended=True, stopped=f"saved after signal {number}")]
            return True

    return Scripted, starts


def train(kind, listen=lambda event: None, reached=lambda: None, workers=2):
    together(Pool(StandIn(), workers), "the job", listen, reached, kind=kind)


def test_what_is_the_user_s_is_said_at_once_even_if_another_failed_of_it_first():
    lost, odd = Heard(ended=True, failed=LOST), Heard(ended=True, refused="the data differ")
    for answers in ([[lost], [Heard(), Heard(), odd]], [[odd], [lost]]):
        kind, starts = scripted(*answers)
        with pytest.raises(InputError, match=r"^the data differ$"):
            train(kind)
        assert set(starts) == {0}


def test_a_training_that_gets_no_further_is_given_up(monkeypatch):
    monkeypatch.setattr(group, "GRACE", 0.0)
    kind, starts = scripted([Heard(ended=True, failed=LOST)], [Heard()])
    with pytest.raises(WorkerFailedError, match="worker 0:\nTraceback\nRuntimeError: connection closed by peer"):
        train(kind)
    assert starts == [0, 0, 1, 1, 2, 2, 3, 3]
    kind, starts = scripted([Heard(ended=True, failed=LOST)], [Heard()])
    progress = iter([0, 0, 1, 2, 2, 2, 2])
    with pytest.raises(WorkerFailedError):
        train(kind, reached=lambda: next(progress))
    assert max(starts) == 5  # the fourth attempt saved something, and three more did not


def test_deaths_that_never_end_are_the_user_s_to_know():
    class Deadly(StandIn):
        def _run(self, actor):
            return self._died(actor) if actor.calls[0].method == "heard" else super()._run(actor)

    kind, _ = scripted([Heard()], [Heard()])
    with pytest.raises(InputError, match="^4 attempts in a row got no further; in the last, worker . died: the actor is dead"):
        together(Pool(Deadly(), 2), "the job", lambda event: None, lambda: None, kind=kind)


def test_too_little_room_is_said():
    kind, _ = scripted([Heard()])
    with pytest.raises(InputError, match="workers: expected room for 5 at once, each with 1 CPUs, got less"):
        train(kind, workers=5)


def test_ctrl_c_asks_the_first_process_to_save():
    def press(event):
        if event[0] == "step_ended":
            raise KeyboardInterrupt

    started, step = Heard((("training_started", (9, 3, 1, 0)),)), Heard((("step_ended", (1, 0.5)),))
    kind, _ = scripted([started, step], [Heard()])
    with pytest.raises(Interrupted, match=r"^saved after signal 2$"):
        train(kind, press)
    kind, _ = scripted([step], [Heard()])  # nothing is there to be saved yet
    with pytest.raises(Interrupted, match=r"^$"):
        train(kind, press)


def outcome(job, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    member = Member()
    assert member.begin(lambda: "here").address == "here"
    member.start(job, 3, {"RANK": "0"}, 1)
    events = []
    while not (found := member.heard(10.0)).ended:
        events += found.events
    return [*events, *found.events], found


def test_what_happens_in_a_process_is_heard(monkeypatch):
    def job(attempt, tell):
        tell("message", f"attempt {attempt}")
        warnings.warn("few rows", ShortlistWarning, stacklevel=1)

    events, found = outcome(job, monkeypatch)
    assert events == [("message", ("attempt 3",)), (WARNED, ("few rows",))]
    assert (found.refused, found.stopped, found.failed) == (None, None, None)

    def refuse(attempt, tell):
        raise InputError("the data differ")

    assert outcome(refuse, monkeypatch)[1].refused == "the data differ"
    assert "ZeroDivisionError" in outcome(lambda attempt, tell: attempt / 0, monkeypatch)[1].failed


def test_a_training_in_a_thread_is_asked_to_stop(monkeypatch):
    member = Member()
    assert not member.stop(signal.SIGINT)

    def job(attempt, tell):
        with deferred_signals() as stop:
            while not stop.requested:
                member.stop(signal.SIGINT)
            raise stop.exception("stopped after step 1")

    assert outcome(job, monkeypatch)[1].stopped == "stopped after step 1"
