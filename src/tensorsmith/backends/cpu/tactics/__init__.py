"""What a search does because the machine is a CPU: `CpuTactics` is what the space asks.

tiles        register tiles and blocks, drawn at random      code_size    tiles and code that can be built
seeds        rows that the machine's facts alone call for
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.default_tile import COPIES
from tensorsmith.backends.cpu.tactics import code_size, seeds, tiles
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang.workload import Workload
from tensorsmith.space.holes.kind import Column, Matrix, Move
from tensorsmith.space.population.population import Plan
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.space.tactics import Tactics


@dataclass(frozen=True)
class CpuTactics(Tactics):
    """For one target."""

    target: CpuTarget
    work_to_share = 1 << 13
    copies = COPIES
    vectors = 4  # more do not fit the registers beside some rows

    @property
    def threads(self) -> int:
        return self.target.cores

    def lanes(self, element_bytes: int) -> int:
        return self.target.lanes(element_bytes)

    def default_candidate(self, workload: Workload) -> Candidate:
        return default_candidate(workload, self.target)

    def draw_sizes(self, plan: Plan, rows: Matrix, rng: np.random.Generator) -> None:
        tiles.draw_sizes(plan, rows, rng, self.target)

    def start_size(self, plan: Plan, column: Column) -> int:
        return seeds.start_size(plan, column)

    def moves(self, plan: Plan) -> list[Move]:
        return tiles.moves(plan, self.target)

    def shrink(self, plan: Plan, rows: Matrix) -> None:
        code_size.shrink(plan, rows)

    def seed_rows(self, plan: Plan, starts: Matrix) -> Matrix:
        return seeds.seed_rows(plan, starts, self.target)
