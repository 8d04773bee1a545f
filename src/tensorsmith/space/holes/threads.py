"""`D.threads`: how many threads of a block share the loops of a nest that the threads of all blocks share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorsmith.space.holes.kind import Array, Column, Hole, Matrix, NumberKind

if TYPE_CHECKING:
    from tensorsmith.space.population.geometry import Measured
    from tensorsmith.space.population.population import Plan

_VALUES = (32, 64, 128, 256, 512)  # of a GPU's block; a whole number of warps
_START = 128


class Threads(NumberKind):
    name = "threads"
    logarithmic = True
    weight = 0.04  # a kernel without reuse hardly depends on it

    def column(self, plan: Plan, hole: Hole) -> Column:
        return Column(hole.name, self.name, hole.stage, 1, 1024, idle=_START)

    def sample(self, plan: Plan, number: int, rows: Matrix, found: Measured, rng: np.random.Generator, uniform: bool) -> None:
        rows[:, number] = rng.choice(_VALUES, len(rows))

    def start(self, plan: Plan, column: Column) -> int:
        return _START

    def other_values(self, plan: Plan, column: Column, count: int, rng: np.random.Generator) -> Array:
        return rng.choice(_VALUES, count)


KIND = Threads()
