"""`A.run`: steps in a row that a thread takes of loops that the threads of a block share.

A tile of 6 x 6 elements, fetched four neighbours at a time however its rows end: two at once (`A.d1.1 = 2`), two in a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorsmith.space.holes.kind import Array, Column, Hole, Matrix, NumberKind

if TYPE_CHECKING:
    from tensorsmith.space.population.geometry import Measured
    from tensorsmith.space.population.population import Plan

_VALUES = (1, 1, 1, 1, 1, 1, 2, 4)  # neighbours for neighbours is best nearly always
_MOST = 64  # Ansor's limit of an innermost size


class Run(NumberKind):
    name = "run"
    weight = 0.02
    absent = 1

    def column(self, plan: Plan, hole: Hole) -> Column:
        return Column(hole.name, self.name, hole.stage, 1, _MOST, idle=1)

    def sample(self, plan: Plan, number: int, rows: Matrix, found: Measured, rng: np.random.Generator, uniform: bool) -> None:
        rows[:, number] = rng.choice(_VALUES, len(rows))

    def other_values(self, plan: Plan, column: Column, count: int, rng: np.random.Generator) -> Array:
        return rng.choice(_VALUES, count)


KIND = Run()
