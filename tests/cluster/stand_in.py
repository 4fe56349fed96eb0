"""A stand-in for Ray in one process, whose workers die at random moments, so that a pool can be tested by the hundred.

Jobs, tasks, answers and errors are sent as bytes, as Ray sends them, and every worker opens its rows for itself.
"""

import random
import types
from dataclasses import dataclass, field
from unittest import mock

from ray import cloudpickle  # starts nothing

import shortlist.cluster.worker


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause):
        super().__init__(str(cause))
        self.cause = cause


@dataclass(frozen=True)
class Sent:
    """A value on its way: bytes, of which everybody makes a copy."""

    content: bytes


@dataclass(eq=False)
class Call:
    """A call of a method of an actor; its answer is known once it was run."""

    actor: "Actor"
    method: str
    given: tuple
    done: bool = False
    answer: Sent | None = None
    error: Exception | None = None


@dataclass(eq=False)
class Actor:
    ray: "StandIn"
    worker: object
    dead: bool = False
    calls: list = field(default_factory=list)
    opened: dict = field(default_factory=dict)  # what this process keeps open

    def __getattr__(self, name):
        def remote(*given):
            call = Call(self, name, tuple(one if isinstance(one, Sent) else self.ray.put(one) for one in given))
            self.calls.append(call)
            return call

        return types.SimpleNamespace(remote=remote)


class StandIn:
    """What a pool uses of Ray.

    Args:
        seed: of the moments and of the victims.
        deaths: how often a worker dies while it runs a call, before what the call does or after it, and before it is answered.
        cpus: of the cluster.
        machines: the CPUs and GPUs of each of several machines, in place of ``cpus``.

    Attributes:
        largest: the number of bytes of the largest answer.
    """

    def __init__(self, seed=0, deaths=0.0, cpus=3, machines=()):
        self.machines = [{"CPU": float(cpu), "GPU": float(gpu)} for cpu, gpu in machines or [(cpus, 0)]]
        cpus = sum(there["CPU"] for there in self.machines)
        self.draws, self.deaths, self.cpus, self.died = random.Random(seed), deaths, cpus, 0
        self.largest = 0
        self.exceptions = types.SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
        self.rooms = []  # placement groups that are held
        strategy = types.SimpleNamespace(PlacementGroupSchedulingStrategy=lambda room, number: (room, number))
        self.util = types.SimpleNamespace(
            placement_group=self._room,
            remove_placement_group=self.rooms.remove,
            scheduling_strategies=strategy,
            get_node_ip_address=lambda: "127.0.0.1",
        )

    def _room(self, shares, strategy):
        needed = sum(share["CPU"] for share in shares)
        room = types.SimpleNamespace(wait=lambda _: needed <= self.cpus)
        self.rooms.append(room)
        return room

    def cluster_resources(self):
        return {kind: total for kind in ("CPU", "GPU") if (total := sum(there[kind] for there in self.machines))}

    def nodes(self):
        return [{"Alive": True, "Resources": {kind: n for kind, n in there.items() if n}} for there in self.machines]

    def put(self, value):
        return Sent(cloudpickle.dumps(value))

    def received(self, value):
        return cloudpickle.loads(value.content)

    def remote(self, kind):
        return types.SimpleNamespace(options=lambda **_: types.SimpleNamespace(remote=lambda: Actor(self, kind())))

    def kill(self, actor):
        actor.dead = True
        for call in actor.calls:
            call.done, call.error = True, RayError("the actor is dead")

    def wait(self, calls, num_returns=1, timeout=None):
        while not any(call.done for call in calls):
            actors = list({id(call.actor): call.actor for call in calls if not call.done}.values())
            self._run(self.draws.choice(actors))
        return [self.draws.choice([call for call in calls if call.done])], []

    def get(self, call, timeout=None):
        if isinstance(call, list):
            return [self.get(one) for one in call]
        while not call.done:
            self._run(call.actor)
        if call.error is not None:
            raise call.error
        return self.received(call.answer)

    def _run(self, actor):
        call = actor.calls[0]
        dies = self.draws.random() < self.deaths
        if dies and self.draws.random() < 0.5:
            return self._died(actor)
        try:
            with mock.patch.object(shortlist.cluster.worker, "_opened", actor.opened):
                call.answer = self.put(getattr(actor.worker, call.method)(*map(self.received, call.given)))
            self.largest = max(self.largest, len(call.answer.content))
        except Exception as error:
            call.error = RayTaskError(self.received(self.put(error)))
        if dies:
            return self._died(actor)
        call.done = True
        actor.calls.remove(call)

    def _died(self, actor):
        self.died += 1
        self.kill(actor)
