"""Tuning for real on a Ray cluster that this machine is, and by processes of it: `python benchmarks/fleet.py --ray`.

A head and three nodes share the machine's cores: trials per second say what the path costs, not what three machines would do. Then
the same search is done by processes of this machine, with as many trials and the same seed, and what both found is compared
(`fleet_quality.py`). With faults one node is killed after a third of the trials, one hangs, and the times of one are three times as
long. It needs `pip install '.[fleet]'`.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import fleet_quality
import tensorsmith as ts
from tensorsmith.measure.fleet.by_ray import RESOURCE, STATION, RayNodes
from tensorsmith.measure.fleet.members import Rules
from tensorsmith.measure.fleet.runner import FleetRunner
from tensorsmith.measure.places import Place
from tensorsmith.records import Store
from tensorsmith.targets.target import native
from tensorsmith.testing.faulty import FAULTS
from tensorsmith.testing.faulty import STATION as FAULTY
from tensorsmith.tune import NetworkProgress

FLEET, ALONE = "fleet", "alone"  # the two searches


def run(model: ts.Model, trials: int, faults: bool) -> dict[str, Any]:
    """Both searches, shown, and what they found against each other."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        runs = [_by_ray(model, trials, faults, folder), _tuned(ALONE, model, trials, folder, "local", lambda done: None)]
        show_runs(runs)
        rows = fleet_quality.quality(model, folder / f"{FLEET}.db", folder / f"{ALONE}.db")
    fleet_quality.show(rows, (FLEET, ALONE))
    mean, low, high = fleet_quality.spread([row.ratio for row in rows])
    return {run.runner: asdict(run) for run in runs} | {"quality": {"ratio": mean, "low": low, "high": high, "tasks": len(rows)}}


@dataclass(frozen=True)
class Tuned:
    """A run for real. `estimated` is the latency of the network by the run: the sum over its tasks."""

    runner: str
    trials: int
    distinct: int  # records of the search in the file, each of another program
    seconds: float
    first_seconds: float  # until the first trials were there
    estimated_seconds: float
    default_seconds: float  # the same with the default schedules
    nodes: dict[str, str]


def _by_ray(model: ts.Model, trials: int, faults: bool, folder: Path) -> Tuned:
    """A network on three nodes of a Ray cluster that this machine is."""
    import ray
    from ray.cluster_utils import Cluster

    target, said = native(), list[str]()
    file = folder / "faults.json"
    os.environ |= {FAULTS: str(file), "PYTHONPATH": str(Path(ts.__file__).parents[1])}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=1, resources={f"{RESOURCE}{target.key}": 1}) for _ in range(3)]
        file.write_text(json.dumps({nodes[1].node_id: {"hang": 3}, nodes[2].node_id: {"slow": 3.0}} if faults else {}))
        ray.init(address=cluster.address, log_to_driver=False)
        station, rules = (FAULTY, Rules(first=60.0, late_floor=10.0, hopeless=3.0)) if faults else (STATION, None)
        made: list[FleetRunner] = []

        def make(target: ts.Target, warn: object) -> FleetRunner:
            made.append(FleetRunner("ray", RayNodes("ray", target.key, station), target, warn=said.append, rules=rules))
            return made[-1]

        def kill(done: int) -> None:
            if faults and done >= trials // 3 and nodes:
                cluster.remove_node(nodes.pop(0), allow_graceful=False)
                nodes.clear()

        by_nodes = _tuned(FLEET, model, trials, folder, Place("ray", make), kill)
        status = {n.name: f"{n.state}, {n.trials} trials kept{f': {n.why}' if n.why else ''}" for n in made[0].nodes()}
    finally:
        ray.shutdown()
        cluster.shutdown()
    for text in said:
        print(text)
    return replace(by_nodes, nodes=status)


def _tuned(name: str, model: ts.Model, trials: int, folder: Path, runner: Any, on_trials: Callable[[int], None]) -> Tuned:
    seen: list[tuple[float, NetworkProgress]] = []

    def progress(p: Any) -> None:
        seen.append((time.perf_counter(), p))
        on_trials(p.trials)

    begun, database = time.perf_counter(), folder / f"{name}.db"
    ts.tune(model, trials=trials, patience=0, database=database, runner=runner, on_progress=progress)
    with Store.open(database, read_only=True) as store:
        records = [r for s in store.workloads() for r in store.history(s.workload, s.target, s.timing) if not r.run]
    distinct, last = len({(r.workload.key, r.key) for r in records}), seen[-1][1]
    if len(records) != distinct or last.trials != distinct:
        raise SystemExit(f"{last.trials} trials were counted, {len(records)} are stored, of {distinct} programs")
    ends = seen[-1][0] - begun, seen[0][0] - begun
    return Tuned(name, last.trials, distinct, *ends, sum(last.latencies), sum(last.first), {})


def show_runs(runs: Sequence[Tuned]) -> None:
    for run in runs:
        print(
            f"{run.runner}: {run.trials} trials, {run.distinct} different programs stored, {run.seconds:.1f} s (the first after "
            f"{run.first_seconds:.1f} s); estimated {1e3 * run.default_seconds:.3f} ms -> {1e3 * run.estimated_seconds:.3f} ms"
        )
        for node, status in run.nodes.items():
            print(f"  {node}: {status}")
