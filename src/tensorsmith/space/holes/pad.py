"""`A.pad`: elements that nobody uses behind each row of a tile in shared memory, so that rows begin in different banks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorsmith.space.holes.kind import Array, Column, Hole, Matrix, NumberKind

if TYPE_CHECKING:
    from tensorsmith.space.population.geometry import Measured
    from tensorsmith.space.population.population import Plan

_VALUES = (0, 0, 1, 2, 4, 8)  # none costs nothing; 4 and 8 keep the beginnings of rows fit for loads of four elements


class Pad(NumberKind):
    name = "pad"
    least = absent = 0
    weight = 0.05

    def column(self, plan: Plan, hole: Hole) -> Column:
        return Column(hole.name, self.name, hole.stage, 0, max(_VALUES), idle=0)

    def sample(self, plan: Plan, number: int, rows: Matrix, found: Measured, rng: np.random.Generator, uniform: bool) -> None:
        rows[:, number] = rng.choice(_VALUES, len(rows))

    def other_values(self, plan: Plan, column: Column, count: int, rng: np.random.Generator) -> Array:
        return rng.choice(_VALUES, count)


KIND = Pad()
