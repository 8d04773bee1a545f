"""The simulated fleet of the benchmark: what it counts, and what it says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import fleet
from tensorsmith.testing.simulated import Conditions


def test_a_run_of_the_real_tuner_on_simulated_nodes() -> None:
    model = fleet.network(tasks=3)
    one, three = (fleet.simulate(model, Conditions(n, straggling=0.0), trials=24 * n, search=0.001) for n in (1, 3))
    assert one.trials == 24 and three.trials == 72 and one.losses == 0
    assert three.trials_per_second > 1.8 * one.trials_per_second  # simulated: the machine of the test has no part in it
    again = fleet.simulate(model, Conditions(3, straggling=0.0), trials=72, search=0.001)
    assert replace(again, tuner_ms=0.0) == replace(three, tuner_ms=0.0)


def test_a_search_that_takes_long_is_the_limit() -> None:
    """Ten trials a second, but for the first few candidates, which are found while the nodes load."""
    point = fleet.simulate(fleet.network(tasks=3), Conditions(8, straggling=0.0), trials=480, search=0.1)
    assert point.trials_per_second < 11


def test_shares_and_the_bend(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {1: 4.0, 10: 38.0, 100: 90.0}
    points = fleet.shares([fleet.Point(n, 10 * n, 1.0, rate, 1.0, 0, 1.0) for n, rate in rates.items()])
    assert [round(p.share, 3) for p in points] == [1.0, 0.95, 0.225]
    bent = fleet.bend(points)
    assert bent is not None and bent.nodes == 100 and fleet.bend(points[:2]) is None
    fleet.show(points, 0.01)
    said = capsys.readouterr().out
    assert "simulated: the line bends at 100 nodes; a search of 0.01 s a candidate allows 100 trials a second" in said
