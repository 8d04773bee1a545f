"""`C.matrix`: a nest whose tiles are computed by matrix instructions. There is nothing to choose: its value is 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorsmith.space.holes.kind import Column, Hole, NumberKind

if TYPE_CHECKING:
    from tensorsmith.space.population.population import Plan


class Matrix(NumberKind):
    name = "matrix"

    def column(self, plan: Plan, hole: Hole) -> Column:
        return Column(hole.name, self.name, hole.stage, 1, 1)


KIND = Matrix()
