"""`C.buffers`: places for each tile that C fetches: with two, the next is fetched while one is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorsmith.space.holes.kind import Column, Hole, NumberKind

if TYPE_CHECKING:
    from tensorsmith.space.population.population import Plan


class Buffers(NumberKind):
    name = "buffers"
    weight = 0.04
    absent = 1

    def column(self, plan: Plan, hole: Hole) -> Column:
        return Column(hole.name, self.name, hole.stage, 1, 2)


KIND = Buffers()
