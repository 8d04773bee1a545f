"""Runs that measure elsewhere, on simulated nodes: what is real is the search, the loop, the runner and the records."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith.backends import backend_of
from tensorsmith.errors import InternalError
from tensorsmith.graph.builder import Builder
from tensorsmith.measure.fleet.runner import FleetRunner
from tensorsmith.measure.places import Place
from tensorsmith.records import Store, Timing
from tensorsmith.search.trial import Status, Trial
from tensorsmith.targets.target import native
from tensorsmith.testing.promise import matmul
from tensorsmith.testing.simulated import Conditions, Fault, SimulatedFleet
from tensorsmith.tuning.history.journal import Journal

WORKLOAD = matmul()
TIMING = Timing("warm", native().cores)


def network() -> ts.Model:
    """Five layers, each a task of its own."""
    b, rng = Builder("dense"), np.random.default_rng(0)
    h = b.input("x", (4, 32), "f32")
    for before, after in pairwise((32, 24, 40, 16, 48, 8)):
        h = b.add("relu", [b.add("matmul", [h, b.constant(rng.uniform(-1, 1, (before, after)).astype(np.float32))])])
    b.output("y", h)
    return ts.Model.from_graph(b.graph())


class Elsewhere:
    """A place whose nodes are simulated; keeps what it made."""

    def __init__(self, conditions: Conditions) -> None:
        self.conditions = conditions
        self.place = Place("simulated", self.make)

    def make(self, target: ts.Target, warn) -> FleetRunner:
        self.fleet = SimulatedFleet(self.conditions, target)
        self.runner = FleetRunner("simulated", self.fleet, target, warn=warn, clock=self.fleet.clock)
        return self.runner


def stored(database: Path) -> list[tuple[str, str, float | None]]:
    """Workload, candidate and seconds of the trials of a search in a record file."""
    with Store.open(database, read_only=True) as store:
        found = [r for s in store.workloads() for r in store.history(s.workload, s.target, s.timing)]
        return [(r.workload.key, r.key, r.seconds) for r in found if not r.run]


def test_a_workload_on_three_nodes(tmp_path: Path) -> None:
    there, seen = Elsewhere(Conditions(3)), []
    ts.tune(WORKLOAD, trials=96, policy="random", runner=there.place, database=tmp_path / "tune.db", on_progress=seen.append)
    kept = {node.name: node.trials for node in there.runner.nodes()}
    assert seen[-1].trials == 96 == len(set(stored(tmp_path / "tune.db"))) and seen[-1].peak is None
    assert all(count > 0 for count in kept.values())
    assert there.runner.closed


def test_a_network_with_a_node_killed_one_hung_and_one_slow(tmp_path: Path) -> None:
    """No trial is lost, none is counted twice, and no time of the slow node is believed."""
    faults = (Fault(6.0, "node-0", "dies"), Fault(7.0, "node-1", "hangs"), Fault(0.0, "node-2", "slows", 3.0))
    there, seen = Elsewhere(Conditions(3, faults=faults)), []
    with pytest.warns(RuntimeWarning, match="node-2 is set apart"):
        ts.tune(network(), trials=120, policy="random", runner=there.place, database=tmp_path / "tune.db", on_progress=seen.append)
    found = stored(tmp_path / "tune.db")
    assert seen[-1].trials == 120 == len(found) == len({(workload, key) for workload, key, _ in found})
    assert all(seconds is not None and 1e-3 <= seconds <= 2e-3 for *_, seconds in found)  # a slow node's are 3 ms and more
    kept = {node.name: node.trials for node in there.runner.nodes()}
    assert kept["node-2"] == 0 and kept["node-0"] > 0 and kept["node-1"] > 0 and sum(kept.values()) == 120  # finals are no trials


def test_several_tasks_are_measured_at_once() -> None:
    there, groups = Elsewhere(Conditions(4)), set()
    make = there.place.make

    def watching(target: ts.Target, warn) -> FleetRunner:
        runner = make(target, warn)
        hear = runner._hear

        def look(event) -> None:
            groups.add(frozenset(i.group for m in runner.dispatch.members.values() for lease in m.leases for i in lease.items))
            hear(event)

        runner._hear = look
        return runner

    ts.tune(network(), trials=120, policy="random", runner=Place("simulated", watching), on_progress=lambda p: None)
    assert max(map(len, groups)) >= 3


def test_emulated_times_order_a_run_and_are_never_stored(tmp_path: Path) -> None:
    database, seen = tmp_path / "tune.db", []
    ts.tune(
        WORKLOAD, trials=8, policy="random", database=database, runner=Elsewhere(Conditions(1)).place, on_progress=lambda p: None
    )
    before = stored(database)
    assert len(before) == 8
    emulated = Elsewhere(Conditions(1, emulated="qemu-aarch64"))
    with pytest.warns(RuntimeWarning, match="all times of this run are emulated"):
        kernel = ts.tune(
            WORKLOAD, trials=8, policy="random", seed=1, database=database, runner=emulated.place, on_progress=seen.append
        )
    assert seen[-1].trials == 8 and seen[-1].emulated and "best emulated" in str(seen[-1])
    assert stored(database) == before and kernel is not None


def test_a_record_file_refuses_what_is_emulated(tmp_path: Path) -> None:
    trial = Trial(backend_of(native()).default_candidate(WORKLOAD, native()), Status.OK, 1e-3, emulated=True)
    assert "emulated 1" in repr(trial)
    with Store.open(tmp_path / "tune.db") as store, pytest.raises(InternalError, match="emulator"):
        store.add(WORKLOAD, native(), TIMING, [trial])
    with Journal(tmp_path / "tune.db") as journal:
        journal.add(WORKLOAD, native(), TIMING, [trial])
        assert [r.seconds for r in journal.top(WORKLOAD, native(), TIMING, 3)] == [1e-3]
        assert len(journal.history(WORKLOAD, native(), TIMING)) == 1
        assert journal.unsaved == 0 and journal.finish() is None
    assert stored(tmp_path / "tune.db") == []
