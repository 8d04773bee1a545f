"""Nodes of a Ray cluster: a station in an actor on each, and nothing else; who gets what is the dispatcher's.

A node announces itself by a custom resource, `target:` and the key of its target, of which it has one: `tensorsmith fleet
resources` prints it for `ray start --resources`. An actor takes it, so that two tuners never time on one machine at once.

Messages and answers are JSON in bytes, and are checked like those of a command. But Ray carries everything by pickle, and runs code
for anyone who reaches the ports of the cluster: who is in the cluster is trusted.

Actors are restarted by Ray without end, and none of their calls is ever repeated by it: Ray's own retries would be used up before
another node could have taken over, and would count twice what had been done.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import time
from collections.abc import Callable
from typing import Any

import tensorsmith
from tensorsmith.errors import InternalError, UserError, install
from tensorsmith.measure import wire
from tensorsmith.measure.fleet.greeting import malformed, own_target, several_kinds
from tensorsmith.measure.fleet.transport import MOST_BYTES, Event
from tensorsmith.measure.wire import Message
from tensorsmith.show.line import plain
from tensorsmith.targets.target import Target

RESOURCE = "target:"
STATION = "tensorsmith.measure.fleet.station:Station"
_EVERY = 3.0  # seconds between two questions whether a node lives
_LEFT = "it left the cluster"


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as problem:
        raise UserError(f"runner 'ray' needs Ray: {install('fleet')}") from problem


def connect(address: str) -> Any:
    """Ray, connected: to the cluster that this process is in already, that of this machine ("ray"), or one elsewhere ("ray://...")."""
    ray = _ray()
    if not ray.is_initialized():
        try:
            ray.init(address="auto" if address == "ray" else address, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as problem:  # connection errors of several kinds
            first = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
            hint = "; `ray start --head` starts one here" if address == "ray" else ""
            raise UserError(f"runner {address!r}: no Ray cluster answers: {first}{hint}") from problem
    return ray


class Actor:
    """What runs on a node: a station, and a thread of its own that says that it lives."""

    def __init__(self, station: str) -> None:
        module, _, name = station.partition(":")
        self._station = getattr(importlib.import_module(module), name)()

    def obey(self, message: bytes) -> bytes:
        return wire.text(self._station.obey(wire.decode(message)))

    def live(self) -> bytes:
        return wire.text({"did": "live"})


class RayNodes:
    """A transport to the nodes of a Ray cluster that are for a target; `key` None: for any."""

    silent_because = "; perhaps it serves another tuner: a node serves one at a time"

    def __init__(self, address: str, key: str | None, station: str = STATION, clock: Callable[[], float] = time.monotonic) -> None:
        """`station`: "module:Name" of what runs there; tests have one with faults."""
        self._address, self._key, self._station, self._clock = address, key, station, clock
        self._nodes: dict[str, tuple[str, str]] = {}  # by name: Ray's own name of it, and its key
        self._actors: dict[str, Any] = {}
        self._refs: dict[Any, str] = {}  # answers to come, and from whom
        self._asked: dict[str, float] = {}  # when each was asked last whether it lives
        self._events: list[Event] = []
        self._connected: Any = None

    @property
    def _ray(self) -> Any:
        if self._connected is None:
            self._connected = connect(self._address)
        return self._connected

    def find(self) -> list[str]:
        self._nodes |= self._alive()
        if not self._nodes:
            wanted = f"target {self._key}" if self._key else "any target"
            raise UserError(f"runner {self._address!r}: no node of the cluster is for {wanted}; {_how()}")
        return list(self._nodes)

    @property
    def keys(self) -> set[str]:
        """Of the targets that its nodes announce."""
        return {key for _, key in self._nodes.values()}

    def _alive(self) -> dict[str, tuple[str, str]]:
        found = {}
        for node in self._ray.nodes():
            keys = [r[len(RESOURCE) :] for r in node.get("Resources", {}) if r.startswith(RESOURCE)]
            for key in keys if node["Alive"] else ():
                if self._key in (None, key):
                    found[plain(f"{node['NodeManagerHostname']}-{node['NodeID'][:6]}")] = (node["NodeID"], key)
        return found

    def call(self, node: str) -> None:
        if node not in self._alive():
            self._events.append(Event(node, None, _LEFT, for_good=True))
            return
        if node not in self._actors:
            self._actors[node] = self._make(node)
        self._asked[node] = self._clock()

    def _make(self, node: str) -> Any:
        ray, (own, key) = self._ray, self._nodes[node]
        strategy = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy(own, soft=False)
        actor = ray.remote(
            num_cpus=0,
            resources={f"{RESOURCE}{key}": 1},
            max_restarts=-1,
            max_task_retries=0,
            concurrency_groups={"life": 1},
        )(type("Actor", (Actor,), {"live": ray.method(concurrency_group="life")(Actor.live)}))
        return actor.options(scheduling_strategy=strategy).remote(self._station)

    def send(self, node: str, message: Message) -> None:
        if node in self._actors:
            self._refs[self._actors[node].obey.remote(wire.text(message))] = node

    def end(self, node: str) -> None:
        """The process is killed; Ray starts another one in its place."""
        self._drop(node)
        if node in self._actors:
            with contextlib.suppress(Exception):  # it is gone already
                self._ray.kill(self._actors[node], no_restart=False)

    def poll(self, seconds: float) -> list[Event]:
        now = self._clock()
        for node, actor in self._actors.items():
            if now - self._asked.get(node, now) >= _EVERY:
                self._asked[node] = now
                self._refs[actor.live.remote()] = node
        found, self._events = self._events, []
        if not self._refs:
            if not found:
                time.sleep(seconds)
            return found
        ready, _ = self._ray.wait(list(self._refs), num_returns=1, timeout=0.0 if found else max(seconds, 0.001))
        if ready:
            ready, _ = self._ray.wait(list(self._refs), num_returns=len(self._refs), timeout=0.0)
        for ref in ready:
            if ref in self._refs:  # not of a node that was lost just now
                found.append(self._answer(self._refs.pop(ref), ref))
        return found

    def _answer(self, node: str, ref: Any) -> Event:
        try:
            return Event(node, message_of(self._ray.get(ref)))
        except InternalError as problem:
            self.end(node)
            return Event(node, None, malformed(problem))
        except Exception as problem:  # Ray's own errors, and whatever comes up while it unpacks an answer
            self._drop(node)
            return Event(node, None, *self._cause(node, problem))

    def _cause(self, node: str, problem: Exception) -> tuple[str, bool]:
        words = str(problem)
        if "No module named 'tensorsmith" in words:
            self._actors.pop(node, None)
            return f"there is no tensorsmith on it; install it there: {install(version=tensorsmith.__version__)}", True
        if node not in self._alive():
            self._actors.pop(node, None)
            return _LEFT, True
        return f"its process died, or cannot be reached ({type(problem).__name__})", False

    def _drop(self, node: str) -> None:
        self._refs = {ref: other for ref, other in self._refs.items() if other != node}

    def close(self) -> None:
        actors, self._actors = self._actors, {}
        self._refs.clear()
        for actor in actors.values():
            with contextlib.suppress(Exception):
                self._ray.kill(actor, no_restart=True)

    @property
    def processes(self) -> tuple[int, ...]:
        return ()


def message_of(answer: object) -> Message:
    """The message of what an actor has returned. Raises `InternalError` on anything else."""
    if not isinstance(answer, bytes) or len(answer) > MOST_BYTES:
        raise InternalError(f"an answer of {len(answer)} bytes" if isinstance(answer, bytes) else f"a {type(answer).__name__}")
    return wire.decode(answer)


def sole_target(address: str) -> Target:
    """The target of the nodes of a cluster, which has to be one."""
    nodes = RayNodes(address, None)
    nodes.find()
    if len(nodes.keys) > 1:
        raise several_kinds(address, nodes.keys)
    return own_target(address, nodes)


def _how() -> str:
    return 'start Ray there with: ray start --address=HEAD:6379 --resources="$(tensorsmith fleet resources)"'
