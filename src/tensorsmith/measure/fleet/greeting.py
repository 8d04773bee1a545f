"""Asking nodes what they are, before anything is measured there."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

import tensorsmith
from tensorsmith.errors import Parameter, UserError, install
from tensorsmith.measure.fleet.answers import Cannot, Hello, read_answer
from tensorsmith.measure.fleet.fields import Malformed
from tensorsmith.measure.fleet.members import Rules
from tensorsmith.measure.fleet.transport import Event, Transport
from tensorsmith.measure.runner import NodeStatus
from tensorsmith.show.line import plain
from tensorsmith.targets.target import Target


def greet(
    transport: Transport, limit: float = Rules().joining, clock: Callable[[], float] = time.monotonic
) -> dict[str, Hello | str]:
    """By node: what it says of itself, or why it says nothing within `limit` seconds. Ends the nodes."""
    found: dict[str, Hello | str] = {}
    try:
        nodes = transport.find()
        for node in nodes:
            transport.call(node)
            transport.send(node, {"do": "hello", "version": tensorsmith.__version__, "target": None})
        end = clock() + limit
        while len(found) < len(nodes) and clock() < end:
            for event in transport.poll(0.5):
                heard = _heard(event)
                if heard is not None:
                    found.setdefault(event.node, heard)
        return {node: found.get(node, f"it did not answer within {limit:g} s{transport.silent_because}") for node in nodes}
    finally:
        transport.close()


def _heard(event: Event) -> Hello | str | None:
    """What a node says of itself, or why it does not; None: nothing yet."""
    if event.message is None:
        return event.why
    try:
        answer = read_answer(event.message)
    except Malformed as problem:
        return malformed(problem)
    if isinstance(answer, Cannot):
        return answer.why
    return answer if isinstance(answer, Hello) else None


def own_target(name: str, transport: Transport) -> Target:
    """The target of the machines that a transport leads to; it has to be the same for all. Raises `UserError` if none is there."""
    found = greet(transport)
    said = {node: what for node, what in found.items() if isinstance(what, Hello)}
    if not said:
        raise UserError(f"runner {name!r}: " + "; ".join(str(what) for what in found.values()))
    for facts in said.values():
        if not facts.same_version:
            raise UserError(f"runner {name!r}: {other_version(facts.version)}")
    targets = {facts.key: facts.machine for facts in said.values()}
    if len(targets) > 1:
        raise several_kinds(name, set(targets))
    try:
        return Target.from_json(next(iter(targets.values())))
    except UserError as problem:
        raise UserError(f"runner {name!r}: {malformed(problem)}") from problem


def several_kinds(name: str, keys: Collection[str]) -> UserError:
    machines = f"runner {name!r} has machines of several kinds, {', '.join(sorted(keys))}; say which: give "
    return UserError(machines, Parameter("target"))


def other_version(there: str) -> str:
    """What is wrong with a node that has another version of the package, and what to do."""
    here = tensorsmith.__version__
    return f"it has tensorsmith {there} and this is {here}; install the same there: {install(version=here)}"


def malformed(problem: Exception) -> str:
    """What is wrong with a node whose answer is none."""
    return f"what it answered is malformed: {plain(problem)}"


def as_status(node: str, said: Hello | str) -> NodeStatus:
    """Of a node that was greeted."""
    if isinstance(said, str):
        return NodeStatus(node, "lost", why=said)
    same = said.same_version
    return NodeStatus(
        node,
        "ready" if same else "lost",
        why="no tuning has given it anything" if same else other_version(said.version),
        target=said.key,
        version=said.version,
        load=said.load,
        celsius=said.celsius,
        emulated=said.emulated,
    )
