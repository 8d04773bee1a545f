"""What two record files have for a network, against each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import fleet
import fleet_quality
import tensorsmith as ts
from fleet_quality import Quality, spread
from tensorsmith.measure.fleet.runner import FleetRunner
from tensorsmith.measure.places import Place
from tensorsmith.targets.target import native
from tensorsmith.testing.simulated import Conditions, SimulatedFleet


def searched(model: ts.Model, file: Path, seed: int) -> Path:
    """A record file of simulated times."""
    nodes = SimulatedFleet(Conditions(1, straggling=0.0), native())
    place = Place("simulated", lambda target, _: FleetRunner("simulated", nodes, target, clock=nodes.clock))
    ts.tune(model, trials=8, policy="random", model="random", runner=place, database=file, seed=seed, on_progress=lambda p: None)
    return file


def test_the_best_of_each_file_is_called(tmp_path: Path) -> None:
    model = fleet.network(tasks=1)
    one, other = (searched(model, tmp_path / f"{seed}.db", seed) for seed in (1, 2))
    (same,) = fleet_quality.quality(model, one, one, seconds=0.0)
    assert same.same and same.ratio == 1.0 and same.weight == 1
    (found,) = fleet_quality.quality(model, one, other, seconds=0.0)
    assert not found.same and found.ratio == found.second_seconds / found.first_seconds > 0.0


def test_the_geometric_mean_and_its_spread(capsys: pytest.CaptureFixture[str]) -> None:
    assert spread([1.0, 1.0]) == (1.0, 1.0, 1.0)
    mean, low, high = spread([0.5, 2.0, 1.0, 1.0])
    assert mean == pytest.approx(1.0) and 0.5 <= low < 0.9 and 1.1 < high <= 2.0
    row = Quality("matmul", 1, 2e-6, 1e-6, False, 0.4, 0.6)
    fleet_quality.show([row, replace(row, task="relu", same=True)], ("fleet", "alone"))
    said = capsys.readouterr().out
    assert (
        "0.40-0.60" in said
        and "fleet to alone: ratio of the geometric means 0.707" in said
        and "2 tasks, 1 with the same program" in said
    )
