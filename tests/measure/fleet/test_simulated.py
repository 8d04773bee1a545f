"""The real runner and dispatcher on simulated nodes: whatever happens to those, every candidate has one result, and a right one."""

from __future__ import annotations

import json
import random

import pytest
from tests.measure.fleet.simulation import CANDIDATE, Simulation

from tensorsmith.errors import UserError
from tensorsmith.measure.fleet.members import Rules
from tensorsmith.testing.simulated import Conditions, Fault, seconds_of

#: seconds of the candidate on a node that is well
RIGHT = seconds_of({"sketch": json.dumps(CANDIDATE.sketch.to_json(), sort_keys=True), "decisions": dict(CANDIDATE.decisions)})


def test_one_killed_one_hung_one_slow() -> None:
    """The faults of the show case: nothing is lost, nothing counted twice, no time of the slow node believed."""
    faults = (Fault(8.0, "node-0", "dies"), Fault(9.0, "node-1", "hangs"), Fault(0.0, "node-2", "slows", 3.0))
    simulation = Simulation(Conditions(3, faults=faults))
    trials = simulation.measure(300)
    assert len(trials) == 300 and all(t.ok and t.seconds == RIGHT for t in trials)
    assert simulation.measurer.times.trials == 300
    assert simulation.states["node-2"] == "set apart"
    kept = {node.name: node.trials for node in simulation.runner.nodes()}
    assert sum(kept.values()) == 300 and kept["node-2"] == 0
    said = "\n".join(simulation.said)
    assert "node-0 is lost: the simulated machine died; its" in said
    assert "node-1 is lost: it hangs: it said nothing for 30 s" in said
    assert "node-2 is set apart: the calibration kernel took" in said


def test_a_node_that_becomes_slow_is_set_apart_before_any_of_its_times_counts() -> None:
    simulation = Simulation(Conditions(4, straggling=0.0, faults=(Fault(20.0, "node-3", "slows", 3.0),)))
    trials = simulation.measure(800)
    assert all(t.seconds == RIGHT for t in trials)
    assert simulation.states["node-3"] == "set apart"
    assert next(n for n in simulation.runner.nodes() if n.name == "node-3").trials > 0  # of the time before


def test_a_node_that_is_well_again_comes_back() -> None:
    faults = (Fault(10.0, "node-2", "slows", 3.0), Fault(60.0, "node-2", "slows", 1.0))
    simulation = Simulation(Conditions(3, candidate=1.0, faults=faults))
    assert all(t.seconds == RIGHT for t in simulation.measure(1000))
    assert simulation.states["node-2"] == "ready"
    assert "node-2 is like its peers again, and measures again" in simulation.said


def test_of_two_nodes_the_slower_is_set_apart() -> None:
    simulation = Simulation(Conditions(2, faults=(Fault(0.0, "node-1", "slows", 2.0),)))
    assert all(t.seconds == RIGHT for t in simulation.measure(60))
    assert simulation.states == {"node-0": "ready", "node-1": "set apart"}


@pytest.mark.parametrize("seed", range(12))
def test_any_faults_at_all(seed: int) -> None:
    """Nodes die, hang, slow down and straggle at random; one, the first, is well all the time."""
    draw = random.Random(seed)
    nodes, count = draw.randint(3, 12), draw.randint(1, 400)
    slow = draw.sample(range(1, nodes), k=(nodes - 1) // 3)  # fewer than half: the median is that of a node that is well
    faults = [Fault(draw.uniform(0, 40), f"node-{n}", "slows", draw.choice([0.5, 1.6, 3.0])) for n in slow]
    for n in range(1, nodes):
        for _ in range(draw.randint(0, 3)):
            faults.append(Fault(draw.uniform(0, 60), f"node-{n}", draw.choice(["dies", "hangs"])))
    conditions = Conditions(nodes, seed, straggling=0.05, faults=tuple(faults))
    simulation = Simulation(conditions, Rules(batch=draw.choice([1, 4, 8]), ahead=draw.choice([1, 2])))
    trials = simulation.measure(count)
    assert len(trials) == count and all(t.ok and t.seconds == RIGHT for t in trials)
    assert simulation.measurer.times.trials == count
    assert sum(node.trials for node in simulation.runner.nodes()) == count


def test_a_straggler_s_candidates_are_handed_to_others_and_counted_once() -> None:
    simulation = Simulation(Conditions(4, straggling=0.1, straggler=200.0))
    assert len(simulation.measure(200)) == 200
    assert simulation.measurer.times.trials == 200 == sum(n.trials for n in simulation.runner.nodes())
    assert simulation.fleet.now < 200  # a straggler alone would take 300 s or so


def test_results_that_come_after_another_node_s_are_not_counted() -> None:
    """The late node answers after all, while the run goes on: its results are heard, and ignored."""
    rules = Rules(late_floor=2.0, late=2.0, hopeless=1000.0)
    simulation = Simulation(Conditions(3, straggling=0.2, straggler=10.0), rules)
    simulation.measure(400)
    measured = sum(len(node.measured) for node in simulation.fleet.nodes.values())
    assert measured > 400 and simulation.measurer.times.trials == 400


def test_nobody_is_left() -> None:
    faults = [Fault(1.0 + 0.5 * k, f"node-{n}", "dies") for n in range(2) for k in range(400)]
    simulation = Simulation(Conditions(2, absence=0.1, faults=tuple(faults)))
    with pytest.raises(UserError, match="no node of runner 'simulated' is left: node-0: the simulated machine died; node-1: "):
        simulation.measure(10)
