"""A simulated fleet: nodes that take the messages of a real `FleetRunner` and answer as machines might, by a clock of their own.

Latencies, losses, stragglers and the time of every candidate are drawn from a seed. Nothing is built, run or timed: what is real is
the runner and its dispatcher. Times of it are the simulation's, and are to be called so.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
import zlib
from dataclasses import dataclass, field
from typing import Literal

import tensorsmith
from tensorsmith.measure.fleet.transport import Event
from tensorsmith.measure.wire import Message
from tensorsmith.targets.target import Target

_LIVE = 5.0  # seconds between two signs of life
_TOGETHER = 0.005  # seconds: what comes in so short a time is heard at once


@dataclass(frozen=True)
class Fault:
    """Something that happens to a node at a moment: it dies, it hangs, or it is slower from then on (`factor` times)."""

    at: float
    node: str
    what: Literal["dies", "hangs", "slows"]
    factor: float = 1.0


@dataclass(frozen=True)
class Conditions:
    """What a simulated fleet is like. Seconds, unless said otherwise; every one of them is drawn around what stands here."""

    nodes: int
    seed: int = 0
    latency: float = 0.02  # of a message, one way
    joining: float = 3.0  # until a node has loaded the package
    setting_up: float = 0.05  # of a workload
    candidate: float = 0.2  # built, checked and timed
    calibration: float = 0.1
    losses: float = 0.0  # of a node, per hour
    absence: float = 20.0  # of a node that was lost, before it can be called again
    straggling: float = 0.01  # share of the leases that take `straggler` times as long
    straggler: float = 20.0
    faults: tuple[Fault, ...] = ()
    emulated: str = ""  # by what, if the nodes are to say that they are emulated


def seconds_of(form: Message) -> float:
    """What a candidate takes on a node that is well: from one to two milliseconds, by what it is."""
    text = json.dumps([form["sketch"], form["decisions"]], sort_keys=True)
    return 1e-3 * (1 + zlib.crc32(text.encode()) / 2**32)


@dataclass
class _Node:
    name: str
    life: int = 0  # how often it has been called: what an earlier life had to say never comes
    up: bool = False
    hung: bool = False
    back: float = 0.0  # when it can be called again
    factor: float = 1.0
    free: float = 0.0  # when it has done all that it was sent
    measured: list[int] = field(default_factory=list)  # candidates, in the order of their ends


class SimulatedFleet:
    """A transport, and the clock of its world: time passes in `poll`, and by `pass_by`."""

    silent_because = ""

    def __init__(self, conditions: Conditions, target: Target) -> None:
        self.conditions, self._target, self.now = conditions, target, 0.0
        self._random = random.Random(conditions.seed)
        self.nodes = {f"node-{n}": _Node(f"node-{n}") for n in range(conditions.nodes)}
        self._events: list[tuple[float, int, str, int, Message | None, str]] = []
        self._count = itertools.count()
        self._lived = 0.0
        for fault in conditions.faults:
            self._push(fault.at, fault.node, -1, {"fault": fault.what, "factor": fault.factor})
        for node in self.nodes.values() if conditions.losses else ():
            self._next_loss(node)

    def clock(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        """Time in which the tuner does something else: what comes meanwhile is heard later."""
        self.now += seconds

    # -- the transport ---------------------------------------------------------------------------------------------------------

    def find(self) -> list[str]:
        return list(self.nodes)

    def call(self, node: str) -> None:
        it = self.nodes[node]
        it.life, it.up, it.hung = it.life + 1, True, False
        start = max(self.now, it.back)
        it.free = start + self._about(self.conditions.joining)

    def send(self, node: str, message: Message) -> None:
        it = self.nodes[node]
        if not it.up:
            return
        start = max(it.free, self.now + self._way())
        it.free = start + self._takes(it, message)
        answer = self._answer(it, message)
        if answer is not None:
            self._push(it.free + self._way(), node, it.life, answer)

    def end(self, node: str) -> None:
        it = self.nodes[node]
        it.up = False
        it.life += 1

    def poll(self, seconds: float) -> list[Event]:
        end = self.now + seconds
        found: list[Event] = []
        while self._events and self._events[0][0] <= end:
            at, _, name, life, message, why = heapq.heappop(self._events)
            self.now = max(self.now, at)
            heard = self._heard(self.nodes[name], life, message, why)
            if heard is not None:
                found.append(heard)
                end = min(end, self.now + _TOGETHER)
        if not found:
            self.now = max(self.now, end)
        return found + self._signs_of_life()

    def close(self) -> None:
        for node in self.nodes:
            self.end(node)

    @property
    def processes(self) -> tuple[int, ...]:
        return ()

    # -- what happens ------------------------------------------------------------------------------------------------------------

    def _heard(self, node: _Node, life: int, message: Message | None, why: str) -> Event | None:
        if message is not None and "fault" in message:
            return self._strike(node, message)
        if life != node.life or not node.up or node.hung:
            return None
        if message is not None:
            node.measured += [form["id"] for form in message.get("trials", ())]
        return Event(node.name, message, why)

    def _strike(self, node: _Node, fault: Message) -> Event | None:
        if fault["fault"] == "slows":
            node.factor = fault["factor"]
        elif fault["fault"] == "hangs":
            node.hung = True
        else:
            if fault.get("again"):
                self._next_loss(node)
            if node.up:
                node.up, node.back, node.life = False, self.now + self._about(self.conditions.absence), node.life + 1
                return Event(node.name, None, "the simulated machine died")
        return None

    def _signs_of_life(self) -> list[Event]:
        if self.now - self._lived < _LIVE:
            return []
        self._lived = self.now
        return [Event(n.name, {"did": "live"}) for n in self.nodes.values() if n.up and not n.hung and n.back <= self.now]

    def _takes(self, node: _Node, message: Message) -> float:
        c = self.conditions
        if message["do"] == "setup":
            return self._about(c.setting_up) * node.factor
        if message["do"] not in ("measure", "compare"):
            return 0.0
        seconds = sum(self._about(c.candidate) for _ in message["jobs"]) + (c.calibration if message.get("calibrate") else 0.0)
        late = c.straggler if message["jobs"] and self._random.random() < c.straggling else 1.0
        return seconds * node.factor * late

    def _answer(self, node: _Node, message: Message) -> Message | None:
        if message["do"] == "hello":
            facts = {"version": tensorsmith.__version__, "machine": self._target.to_json(), "key": self._target.key}
            return {
                "did": "hello",
                "why_not": None,
                "emulated": self.conditions.emulated,
                "cores": 1,
                "load": None,
                "celsius": None,
                **facts,
            }
        if message["do"] not in ("measure", "compare"):
            return None
        trials = [self._trial(form, node.factor, message.get("turns")) for form in message["jobs"]]
        noise = self._random.uniform(0.97, 1.06)
        calibration = 1e-5 * node.factor * noise if message.get("calibrate") else None
        return {"did": message["do"], "lease": message["lease"], "trials": trials, "calibration": calibration}

    @staticmethod
    def _trial(form: Message, factor: float, turns: Message | None) -> Message:
        seconds = seconds_of(form) * factor
        rounds = {condition: [seconds] * turns["least"] for condition in turns["conditions"]} if turns is not None else {}
        return {"id": form["id"], "status": "ok", "cut": False, "seconds": seconds, "rounds": rounds}

    # -- small things ------------------------------------------------------------------------------------------------------------

    def _about(self, seconds: float) -> float:
        return seconds * self._random.lognormvariate(0.0, 0.3)

    def _way(self) -> float:
        return self._random.expovariate(1 / self.conditions.latency) if self.conditions.latency else 0.0

    def _next_loss(self, node: _Node) -> None:
        after = self._random.expovariate(self.conditions.losses / 3600)
        self._push(self.now + after, node.name, -1, {"fault": "dies", "again": True})

    def _push(self, at: float, node: str, life: int, message: Message | None, why: str = "") -> None:
        heapq.heappush(self._events, (at, next(self._count), node, life, message, why))
