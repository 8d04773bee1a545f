"""How a fleet scales: trials per second against the number of nodes, on a SIMULATED fleet; and the real Ray path with three nodes.

    python benchmarks/fleet.py [--nodes 1,3,10,30,100,300,1000] [--each 120] [--most 1500] [--search 0.02] [--losses 1] [--json F]
    python benchmarks/fleet.py --ray [--model mobilenet_v2] [--faults] [--trials 240]

Real are the tuner's loop, the task scheduler, the dispatcher, the runner and its messages: `ts.tune` of a network of 40 tasks.
Simulated are the nodes and the clock: what a node takes for a candidate, how long messages travel, losses, stragglers, all drawn
from a seed (`tensorsmith.testing.simulated.Conditions`). A search takes `--search` simulated seconds for each candidate that it
proposes, which is what a real one may take (`verbose` of a run says: search and model, over its trials); the policy itself is the
random one, so that the simulation ends soon. Every number of nodes gets `--each` trials for each node, and `--most` at most.

`trials/s` is per simulated second, from when the nodes have loaded to the end of the search; `share` is of what so many times one
node would do. `tuner ms` is real: milliseconds of CPU time of this process for each trial, with messages, dispatcher and records.
The line bends where nodes wait for the tuner, which proposes a candidate in `--search` seconds.

`--ray` measures for real, on this machine: see `fleet_ray.py`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import fleet_ray
import models
import tensorsmith as ts
from ours_networks import load
from tensorsmith.graph.builder import Builder
from tensorsmith.measure.fleet.runner import FleetRunner
from tensorsmith.measure.places import Place
from tensorsmith.search.policies.random import RandomPolicy
from tensorsmith.targets.target import native
from tensorsmith.testing.simulated import Conditions, SimulatedFleet

NODES = (1, 3, 10, 30, 100, 300, 1000)
TASKS = 40
BEND = 0.8  # of a straight line: below that the line is said to bend


@dataclass(frozen=True)
class Point:
    """One number of nodes. Times are simulated, but for `tuner_ms`."""

    nodes: int
    trials: int
    seconds: float  # simulated
    trials_per_second: float  # simulated
    share: float  # of as many times what the first number of nodes did for each of its nodes
    losses: int  # of nodes, in that time
    tuner_ms: float  # of real CPU time for each trial


def network(tasks: int = TASKS) -> ts.Model:
    """Layers of different widths, each a task of its own."""
    b, rng = Builder("layers"), np.random.default_rng(0)
    h = b.input("x", (4, 64), "f32")
    for before, after in pairwise([64, *(64 + 8 * n for n in range(1, tasks + 1))]):
        h = b.add("relu", [b.add("matmul", [h, b.constant(rng.uniform(-1, 1, (before, after)).astype(np.float32))])])
    b.output("y", h)
    return ts.Model.from_graph(b.graph())


def simulate(model: ts.Model, conditions: Conditions, trials: int, search: float) -> Point:
    """A tuning run on a simulated fleet."""
    fleet = SimulatedFleet(conditions, native())
    lost: list[str] = []

    def warn(text: str) -> None:
        lost.extend([text] if " is lost: " in text else [])

    class Searching(RandomPolicy):
        def ask(self, count: int, stop: Callable[[], bool] = lambda: False) -> list[Any]:
            found = super().ask(count, stop)
            fleet.pass_by(search * len(found))
            return found

    def make(target: ts.Target, _: object) -> FleetRunner:
        return FleetRunner("simulated", fleet, target, warn=warn, clock=fleet.clock)

    ends: list[float] = []

    def progress(_: object) -> None:
        ends.append(fleet.now)

    cpu = time.process_time()
    ts.tune(
        model, trials=trials, patience=0, policy=Searching, model="random", runner=Place("simulated", make), on_progress=progress
    )
    cpu = time.process_time() - cpu
    seconds = ends[-1] - conditions.joining
    return Point(conditions.nodes, trials, seconds, trials / seconds, 1.0, len(lost), 1e3 * cpu / trials)


def shares(points: Sequence[Point]) -> list[Point]:
    """Each point with its share of a straight line through the first."""
    one = points[0].trials_per_second / points[0].nodes
    return [replace(p, share=p.trials_per_second / (one * p.nodes)) for p in points]


def bend(points: Sequence[Point]) -> Point | None:
    """The first number of nodes at which less than `BEND` of a straight line is had."""
    return next((p for p in points if p.share < BEND), None)


def show(points: Sequence[Point], search: float) -> None:
    table = Table(title="simulated fleet")
    for column in ("nodes", "trials", "simulated s", "trials/s", "share", "losses", "tuner ms (real)"):
        table.add_column(column, justify="right")
    for p in points:
        cells = (f"{p.nodes}", f"{p.trials}", f"{p.seconds:.1f}", f"{p.trials_per_second:.1f}", f"{p.share:.0%}")
        table.add_row(*cells, f"{p.losses}", f"{p.tuner_ms:.2f}")
    Console().print(table)
    at = bend(points)
    limit = (
        f"a search of {search:g} s a candidate allows {1 / search:.0f} trials a second" if search else "the search takes no time"
    )
    print(
        f"simulated: the line bends at {at.nodes} nodes; {limit}"
        if at
        else f"simulated: no bend up to {points[-1].nodes} nodes; {limit}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default=",".join(map(str, NODES)))
    parser.add_argument("--each", type=int, default=120, help="trials for each node")
    parser.add_argument("--most", type=int, default=1500, help="trials for all of them")
    parser.add_argument("--search", type=float, default=0.02, help="simulated seconds of searching for each candidate")
    parser.add_argument("--losses", type=float, default=1.0, help="of each node, per simulated hour")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ray", action="store_true", help="measure for real with three Ray nodes on this machine")
    parser.add_argument("--trials", type=int, default=240, help="of --ray")
    parser.add_argument("--model", default="", help="of --ray: a network of models.py, such as mobilenet_v2; else the 40 layers")
    parser.add_argument("--faults", action="store_true", help="of --ray: one node is killed, one hangs, one is three times as slow")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.ray:
        found: Any = fleet_ray.run(load(models.get(given.model)) if given.model else network(), given.trials, given.faults)
    else:
        model, points = network(), []
        for nodes in map(int, given.nodes.split(",")):
            trials = min(given.each * nodes, given.most)
            points.append(simulate(model, Conditions(nodes, given.seed, losses=given.losses), trials, given.search))
            print(f"simulated: {nodes} nodes, {points[-1].trials_per_second:.1f} trials/s", flush=True)
        points = shares(points)
        show(points, given.search)
        found = {f"{p.nodes} nodes, simulated": asdict(p) for p in points}
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
