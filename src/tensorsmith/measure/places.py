"""Where a run measures: what `ts.tune(runner=...)` and `--runner` take.

"local"                    processes of this machine (`workshop.py`)
"ssh board"                a command that starts a node elsewhere (`fleet/command.py`); a list of commands: as many nodes
"ray", "ray://host:10001"  the nodes of a Ray cluster (`fleet/by_ray.py`)
"module:Name", an object   a `Place` or a `Runner` of your own
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tensorsmith.errors import Parameter, UserError
from tensorsmith.measure.fleet.command import Commands, exists
from tensorsmith.measure.fleet.greeting import as_status, greet, own_target
from tensorsmith.measure.fleet.published import Published
from tensorsmith.measure.fleet.runner import FleetRunner
from tensorsmith.measure.fleet.transport import Transport
from tensorsmith.measure.runner import NodeStatus, Runner
from tensorsmith.measure.workshop import Workshop
from tensorsmith.plugins import Registry, load
from tensorsmith.targets.target import Target, native

_ASKED = 30.0  # seconds that somebody who only wants to look waits for a node

Warn = Callable[[str], None]
MakeRunner = Callable[[Target, Warn], Runner]


@dataclass(frozen=True)
class Place:
    """Where to measure. `make` gives the runner of one run, for a target, with a function that is told of troubles."""

    name: str
    make: MakeRunner
    detect: Callable[[], Target] = native  # the target of the machines there, for those who name none
    ask: Callable[[], tuple[NodeStatus, ...]] = tuple  # who is there
    here: bool = False  # whether programs run on this very machine
    lasting: bool = False  # the runner is somebody else's, who closes it


def _local(text: str) -> Place:
    return Place(text, lambda target, warn: Workshop(warn=warn), ask=lambda: Workshop().nodes(), here=True)


def _ray(text: str) -> Place:
    from tensorsmith.measure.fleet.by_ray import RayNodes, sole_target

    def make(target: Target, warn: Warn) -> Runner:
        return FleetRunner(text, RayNodes(text, target.key), target, warn=warn, publish=Published(text))

    return Place(text, make, detect=lambda: sole_target(text), ask=lambda: _asked(RayNodes(text, None)))


#: by the first word, or by what comes before "://": what makes a place of the whole text
RUNNERS: Registry[Callable[[str], Place]] = Registry(
    "runner", {"local": "tensorsmith.measure.places:_local", "ray": "tensorsmith.measure.places:_ray"}
)

LOCAL = _local("local")

#: what stands for a runner
GivenRunner = str | Sequence[str] | Place | Runner


def register_runner(name: str, make: Callable[[str], Place]) -> None:
    """Gives a kind of runner a name: `make` gets the whole text that begins with it."""
    RUNNERS.add(name, make)


def as_place(given: GivenRunner) -> Place:
    """The place of a name, of a command or of several, or an object's own."""
    found: Any = given
    if isinstance(given, str):
        word = given.split("://")[0].split(" ")[0] if given.strip() else ""
        if word in RUNNERS.names():
            return RUNNERS.get(word)(given)
        if not _is_place(given):
            return _commands([given])
        found = load("runner", given)
    elif isinstance(given, (list, tuple)):
        return _commands(given)
    if isinstance(found, Place):
        return found
    lacking = [word for word in ("submit", "collect", "nodes", "compare", "cancel", "close") if not hasattr(found, word)]
    if lacking:
        names = ", ".join(RUNNERS.names())
        raise UserError(
            Parameter("runner"),
            f' is {given!r}, which has no {", no ".join(lacking)}; give {names}, a command such as "ssh board", or a runner of '
            "your own (`tensorsmith.measure.runner`)",
        )
    runner: Runner = found
    return Place(type(runner).__name__, lambda target, warn: runner, ask=runner.nodes, lasting=True)


def _is_place(text: str) -> bool:
    """Whether a text is "module:Name" or "file.py:Name", and no command."""
    where, colon, name = text.rpartition(":")
    return bool(colon) and " " not in text and name.isidentifier() and (where.endswith(".py") or "/" not in where)


def _commands(texts: Sequence[str]) -> Place:
    prefixes: dict[str, list[str]] = {}
    for text in texts:
        try:
            words = shlex.split(text)
        except (ValueError, AttributeError) as problem:
            raise UserError(Parameter("runner"), f" {text!r} is no command: {problem}") from problem
        if not exists(words):
            names, what = ", ".join(RUNNERS.names()), f"there is no command {words[0]!r} here" if words else "it is empty"
            raise UserError(Parameter("runner"), f' {text!r}: {what}; give {names}, or a command such as "ssh board"')
        if text in prefixes:
            raise UserError(Parameter("runner"), f" {text!r} is given twice: a node times one program at a time")
        prefixes[text] = words
    name = ", ".join(prefixes)

    def make(target: Target, warn: Warn) -> Runner:
        return FleetRunner(name, commands(), target, warn=warn, publish=Published(name))

    def commands() -> Commands:
        return Commands(dict(prefixes))

    return Place(name, make, detect=lambda: own_target(name, commands()), ask=lambda: _asked(commands()))


def _asked(transport: Transport) -> tuple[NodeStatus, ...]:
    return tuple(as_status(node, said) for node, said in greet(transport, _ASKED).items())
