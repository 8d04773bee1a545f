"""What a search does because the machine is a GPU: `GpuTactics` is what the space asks.

sizes     blocks and tiles, drawn at random        limits    blocks that the target takes
roots     what belongs to each kernel              seeds     rows that the machine's facts alone call for
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorsmith.backends.gpu.default import default_candidate
from tensorsmith.backends.gpu.tactics import limits, seeds, sizes
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.lang.workload import Workload
from tensorsmith.space.holes.kind import Matrix
from tensorsmith.space.population.population import Plan
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.space.tactics import Tactics


@dataclass(frozen=True)
class GpuTactics(Tactics):
    """For one target."""

    target: GpuTarget
    local_bytes = 1 << 40  # what is attached is shared memory or registers, which `limits` sees to
    copies = 4

    def default_candidate(self, workload: Workload) -> Candidate:
        return default_candidate(workload, self.target)

    def draw_sizes(self, plan: Plan, rows: Matrix, rng: np.random.Generator) -> None:
        sizes.draw_sizes(plan, rows, rng)

    def shrink(self, plan: Plan, rows: Matrix) -> None:
        limits.shrink(plan, rows, self.target)

    def seed_rows(self, plan: Plan, starts: Matrix) -> Matrix:
        return seeds.seed_rows(plan, starts)
