"""`tensorsmith fleet`: the machines that candidates are measured on, besides this one."""

from __future__ import annotations

import json as json_text
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from tensorsmith.cli import show
from tensorsmith.cli.command import Command, Group
from tensorsmith.cli.options import AsJson, Runner, TargetName
from tensorsmith.targets.target import given_or_native

if TYPE_CHECKING:  # what measures is loaded by those who ask for it, not by every command
    from tensorsmith.measure.fleet.published import FleetStatus
    from tensorsmith.measure.runner import NodeStatus

app = typer.Typer(cls=Group, no_args_is_help=True, help="The machines that programs are measured on, besides this one.")


@dataclass(frozen=True)
class Fleet:
    """`runs`: those of this user on this machine that measure elsewhere just now; `asked`: nodes that were asked now."""

    runs: tuple[FleetStatus, ...]
    asked: tuple[NodeStatus, ...]


@app.command(cls=Command)
def status(runner: Runner = None, json: AsJson = False) -> None:
    """Shows who is there, what it does, and why somebody is idle: of every tuning on this machine that measures elsewhere.

    With --runner also the machines that it leads to are asked: whether they can be reached, have the package, and what they are.
    """
    from tensorsmith.measure.fleet.published import published
    from tensorsmith.measure.places import as_place

    with show.apart(json):
        asked = as_place(runner[0] if len(runner) == 1 else runner).ask() if runner else ()
        found = Fleet(tuple(published()), asked)
    show.answer(found, json, _show)


@app.command(cls=Command)
def resources(target: TargetName = None) -> None:
    """Prints how this machine announces itself to Ray:

    ray start --address=HEAD:6379 --resources="$(tensorsmith fleet resources)"
    """
    from tensorsmith.measure.fleet.by_ray import RESOURCE

    show.say(json_text.dumps({f"{RESOURCE}{given_or_native(target).key}": 1}))


def _show(found: Fleet) -> None:
    for run in found.runs:
        show.prose(
            f"process {run.process} measures by {run.runner}: {run.open} candidates have no result yet, {run.queued} have no node"
        )
        _table(run.nodes)
    if found.asked:
        _table(found.asked)
    elif not found.runs:
        show.prose("no tuning of this machine measures elsewhere just now; --runner asks the machines that it leads to")


def _table(nodes: Sequence[NodeStatus]) -> None:
    texts = ("node", "state", "target", "it", "why")
    rows = [
        (
            n.name,
            n.state,
            n.target + (f" (emulated by {n.emulated})" if n.emulated else ""),
            n.does or "is idle",
            n.why,
            n.trials,
            "-" if n.load is None else f"{n.load:.1f}",
            "-" if n.celsius is None else f"{n.celsius:.0f}",
            show.time(n.calibration),
        )
        for n in nodes
    ]
    show.table((*texts, "trials", "load", "celsius", "calibration"), rows, texts, ("celsius", "calibration", "load", "trials"))
