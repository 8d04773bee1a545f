"""A measurer on a simulated fleet."""

from __future__ import annotations

from tests.measure.small import candidate, matmul

from tensorsmith.measure.fleet.members import Rules
from tensorsmith.measure.fleet.runner import FleetRunner
from tensorsmith.measure.measurer import Measurer
from tensorsmith.search.trial import Trial
from tensorsmith.targets.target import native
from tensorsmith.testing.simulated import Conditions, SimulatedFleet

WORKLOAD = matmul()
CANDIDATE = candidate(WORKLOAD, 1)


class Simulation:
    """Candidates measured by simulated nodes; `said`: what people are told."""

    def __init__(self, conditions: Conditions, rules: Rules | None = None) -> None:
        self.said: list[str] = []
        self.fleet = SimulatedFleet(conditions, native())
        self.runner = FleetRunner("simulated", self.fleet, native(), warn=self.said.append, rules=rules, clock=self.fleet.clock)
        self.measurer = Measurer(WORKLOAD, runner=self.runner, check=False)

    def measure(self, count: int) -> list[Trial]:
        return self.measurer.measure([CANDIDATE] * count)

    @property
    def states(self) -> dict[str, str]:
        return {node.name: node.state for node in self.runner.nodes()}
