"""Nodes that answer anything at all: what another machine may send when it is broken, or somebody else's."""

from __future__ import annotations

import copy
import random
from typing import Any

from tensorsmith.measure.fleet.transport import Event
from tensorsmith.targets.target import Target
from tensorsmith.testing.simulated import Conditions, SimulatedFleet


class Bomb:
    """An object that notes whatever is done with it; nobody may do anything but look at its type, or write its name."""

    touched: list[str] = []  # noqa: RUF012  all of them share it

    def _touch(self, *arguments: Any) -> Any:
        Bomb.touched.append(repr(arguments)[:80])
        raise RuntimeError("a value of a node did something")

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __len__ = __iter__ = __getitem__ = __contains__ = _touch  # type: ignore[assignment]
    __bool__ = __float__ = __int__ = __index__ = __call__ = __format__ = __reduce__ = _touch  # type: ignore[assignment]
    __hash__ = object.__hash__


def deep(levels: int = 200) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


#: what a field may be instead of what it should be
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    10**400,
    -(10**400),
    float("nan"),
    float("inf"),
    -float("inf"),
    -1e-3,
    0.0,
    5e-324,
    1e308,
    "",
    "ok",
    "hello",
    "measure",
    "timed out",
    "\x1b[2J\x07",
    "x" * 100_000,
    "\ud800",
    "__import__('os').abort()",
    "tensorsmith.cli:app",
    [],
    [None],
    [[]],
    [{}],
    {},
    {"": {}},
    {"back to back": [0.0]},
    {"back to back": ["x"]},
    b"\x80\x04.",
    deep(),
    Bomb(),
)


def garble(message: Any, draw: random.Random) -> Any:
    """The message with one thing wrong, somewhere."""
    if draw.random() < 0.05:
        return draw.choice(VALUES[1:])  # None is a node that is lost
    found = copy.copy(message)
    inner = [name for name, value in found.items() if isinstance(value, (dict, list)) and value]
    if inner and draw.random() < 0.7:
        name = draw.choice(inner)
        found[name] = _within(found[name], draw)
        return found
    name = draw.choice([*found, "said", "trials", "lease", "load", "status", "no such field"])
    if name in found and draw.random() < 0.3:
        del found[name]
    else:
        found[name] = draw.choice(VALUES)
    return found


def _within(value: Any, draw: random.Random) -> Any:
    if isinstance(value, dict):
        return garble(value, draw)
    found = list(value)
    at = draw.randrange(len(found))
    what = draw.random()
    if what < 0.1:
        del found[at]
    elif what < 0.2:
        found.append(found[at])
    else:
        found[at] = garble(found[at], draw) if isinstance(found[at], dict) else draw.choice(VALUES)
    return found


class Garbling(SimulatedFleet):
    """A simulated fleet of which all nodes but the first garble what they say, so often."""

    def __init__(self, conditions: Conditions, target: Target, often: float, well: frozenset[str] = frozenset({"node-0"})) -> None:
        super().__init__(conditions, target)
        self._draw, self._often, self._well, self.garbled = random.Random(conditions.seed), often, well, 0

    def poll(self, seconds: float) -> list[Event]:
        return [self._perhaps(event) for event in super().poll(seconds)]

    def _perhaps(self, event: Event) -> Event:
        if event.message is None or event.node in self._well or self._draw.random() >= self._often:
            return event
        self.garbled += 1
        return Event(event.node, garble(event.message, self._draw))
