"""The real Ray path, on a cluster of this machine: `make test-fleet`, which installs Ray."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.measure.fleet.by_ray import RESOURCE, RayNodes, sole_target
from tensorsmith.measure.fleet.members import Rules
from tensorsmith.measure.fleet.runner import FleetRunner
from tensorsmith.measure.places import Place, as_place
from tensorsmith.records import Store
from tensorsmith.targets.target import native
from tensorsmith.testing import check_runner
from tensorsmith.testing.faulty import FAULTS, STATION

pytestmark = pytest.mark.fleet

ROOT = Path(__file__).parents[3]
KEY = native().key


class Nodes:
    """A cluster of this machine, and the faults of its nodes."""

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        self.faults = folder / "faults.json"
        self.faults.write_text("{}")
        os.environ |= {FAULTS: str(self.faults), "PYTHONPATH": str(ROOT / "src")}
        os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        self.nodes: list[Any] = []

    def add(self, count: int, key: str = KEY) -> None:
        import ray

        self.nodes += [self.cluster.add_node(num_cpus=1, resources={f"{RESOURCE}{key}": 1}) for _ in range(count)]
        if not ray.is_initialized():
            ray.init(address=self.cluster.address, log_to_driver=False)

    def fault(self, number: int, **faults: float) -> None:
        known = json.loads(self.faults.read_text())
        self.faults.write_text(json.dumps(known | {self.nodes[number].node_id: faults}))

    def kill(self, number: int) -> None:
        self.cluster.remove_node(self.nodes[number], allow_graceful=False)

    def name(self, number: int) -> str:
        return f"-{self.nodes[number].node_id[:6]}"

    def close(self) -> None:
        import ray

        ray.shutdown()
        self.cluster.shutdown()


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    for name in (FAULTS, "PYTHONPATH", "RAY_ENABLE_UV_RUN_RUNTIME_ENV"):
        monkeypatch.setenv(name, "")  # so that they are put back
    made = Nodes(tmp_path)
    yield made
    made.close()


def network() -> ts.Model:
    """Eight layers, each a task of its own."""
    b, rng = Builder("dense"), np.random.default_rng(0)
    h = b.input("x", (8, 32), "f32")
    for before, after in pairwise((32, 24, 40, 16, 48, 64, 56, 72, 8)):
        h = b.add("relu", [b.add("matmul", [h, b.constant(rng.uniform(-1, 1, (before, after)).astype(np.float32))])])
    b.output("y", h)
    return ts.Model.from_graph(b.graph())


def test_a_node_killed_one_hung_one_slowed_threefold(nodes: Nodes, tmp_path: Path) -> None:
    """No trial is lost, none is counted twice, the slow node is set apart and none of its times is believed."""
    nodes.add(3)
    nodes.fault(1, hang=3)
    nodes.fault(2, slow=3.0)
    made: list[FleetRunner] = []
    said: list[str] = []
    rules = Rules(late_floor=5.0, first=30.0, hopeless=3.0)

    def make(target: ts.Target, warn: Any) -> FleetRunner:
        made.append(FleetRunner("ray", RayNodes("ray", target.key, STATION), target, warn=said.append, rules=rules))
        return made[-1]

    seen: list[int] = []

    def progress(p: Any) -> None:
        if p.trials >= 30 and not any(n >= 30 for n in seen):
            nodes.kill(0)
        seen.append(p.trials)

    database = tmp_path / "tune.db"
    ts.tune(network(), trials=120, policy="random", runner=Place("ray", make), database=database, on_progress=progress)
    with Store.open(database, read_only=True) as store:
        found = [r for s in store.workloads() for r in store.history(s.workload, s.target, s.timing) if not r.run]
    assert seen[-1] == 120 == len(found) == len({(r.workload.key, r.key) for r in found})
    status = {n.name[n.name.rindex("-") :]: n for n in made[0].nodes()}
    killed, hung, slow = (status[nodes.name(n)] for n in range(3))
    assert slow.state == "set apart" and slow.trials == 0
    assert killed.state in ("lost", "joining", "given up") and killed.trials > 0  # Ray is slow to say that it is gone
    assert hung.state == "ready" and hung.trials > 0
    text = "\n".join(said)
    assert "it hangs: " in text and "is set apart: the calibration kernel took 3 times the time of its peers" in text


def test_it_keeps_the_promises_of_a_runner_and_finds_nodes_by_their_target(nodes: Nodes) -> None:
    nodes.add(1)
    assert sole_target("ray").key == KEY
    nodes.add(1, "riscv64/other/v16x32/c1")
    assert len(as_place("ray").ask()) == 2
    with pytest.raises(UserError, match="has machines of several kinds"):
        sole_target("ray")
    check_runner("ray")


def test_a_cluster_without_such_machines(nodes: Nodes) -> None:
    nodes.add(1, "riscv64/other/v16x32/c1")
    with pytest.raises(UserError, match=f"no node of the cluster is for target {KEY}; start Ray there with: ray start"):
        ts.tune(network(), trials=4, policy="random", runner="ray", target=native(), on_progress=lambda p: None)


def test_no_cluster() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(UserError, match=r"runner 'ray': no Ray cluster answers: .*; `ray start --head` starts one here"):
            ts.tune(network(), trials=4, policy="random", runner="ray", target=native(), on_progress=lambda p: None)
