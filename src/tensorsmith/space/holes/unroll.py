"""`C.unroll`: how many steps of the innermost reduction loops of C are laid out in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensorsmith.lang.workload import Stage
from tensorsmith.program.unrolling import steps_in_a_row
from tensorsmith.space.holes.kind import Array, Column, Hole, Matrix, NumberKind
from tensorsmith.space.sketch.loops import NestLoop
from tensorsmith.space.sketch.nest import Nest

if TYPE_CHECKING:
    from tensorsmith.space.population.geometry import Measured
    from tensorsmith.space.population.population import Plan


@dataclass(frozen=True)
class UnrollSettings:
    """What is tried."""

    most: int = 1024  # the limit of the hole: the largest pragma that Ansor tries, of a body with one store; draws stay below
    few: tuple[int, ...] = (1, 2, 4, 8)  # always worth a try
    uniform: tuple[int, ...] = (1, 2, 4, 8, 16)  # as in the paper's samples, whose 64 and 512 are for whole bodies
    whole: int = 24  # steps up to which short loops (the taps of a kernel) are also tried as a whole: 5 x 5, but for one


SETTINGS = UnrollSettings()


class Unroll(NumberKind):
    name = "unroll"
    logarithmic = True
    weight = 0.07  # one value in a row of many; what it changes is a few percent

    def holes(self, nest: Nest, stage: Stage) -> Sequence[Hole]:
        return [Hole(f"{nest.stage}.unroll", self.name, nest.stage)] if stage.reduction else []

    def column(self, plan: Plan, hole: Hole) -> Column:
        return Column(hole.name, self.name, hole.stage, 1, SETTINGS.most)

    def sample(self, plan: Plan, number: int, rows: Matrix, found: Measured, rng: np.random.Generator, uniform: bool) -> None:
        values = SETTINGS.uniform if uniform else worth_trying(plan, plan.columns[number].stage)
        rows[:, number] = rng.choice(np.array(values), len(rows))

    def start(self, plan: Plan, column: Column) -> int:
        innermost = plan.geometry.stages[column.stage].reduce_axes[-1].extent
        return max(1, min(innermost, plan.tactics.copies))

    def other_values(self, plan: Plan, column: Column, count: int, rng: np.random.Generator) -> Array:
        return rng.choice(np.array(worth_trying(plan, column.stage)), count)

    def comes_to(self, plan: Plan, number: int, rows: Matrix, found: Measured) -> Array:
        column = plan.columns[number]
        return np.where(found.inlined[column.stage], column.idle, copies(plan, plan.sketch.nest(column.stage), rows, found))


def worth_trying(plan: Plan, stage: str) -> list[int]:
    """Copies of the reduction step: a few, and whole short kernel axes."""
    nest = plan.sketch.nest(stage)
    reduce = {a.name for a in plan.geometry.stages[stage].reduce_axes}
    values, product = set(SETTINGS.few), 1
    for loop in reversed(nest.tile):
        if loop.axis in reduce and _is_loop(nest, loop):
            product *= max(1, plan.geometry.most(stage, loop.axis))
            if product > SETTINGS.whole:
                break
            values.add(product)
    return sorted(values)


def copies(plan: Plan, nest: Nest, rows: Matrix, found: Measured) -> Array:
    """Steps of the reduction that the hole really lays out in a row."""
    column = plan.names.get(f"{nest.stage}.unroll")
    total = np.ones(len(rows), np.int64)
    if column is None:
        return total
    loops, _ = reduction_steps(plan, nest.stage, found)
    for in_a_row in steps_in_a_row(loops, rows[:, column].astype(np.int64)):
        total = total * np.asarray(in_a_row)
    return total


def reduction_steps(plan: Plan, stage: str, found: Measured) -> tuple[list[Array], Array]:
    """How often the loops over the reduction of a register tile run, outermost first, and the points that each of their steps
    computes, the lanes of a vector as one."""
    nest = plan.sketch.nest(stage)
    reduce = {a.name for a in plan.geometry.stages[stage].reduce_axes}
    loops = [found.loop(stage, loop) for loop in nest.tile if loop.axis in reduce and _is_loop(nest, loop)]
    points = np.ones(found.rows, np.int64)
    for loop in nest.tile:
        if loop.axis not in reduce and loop != nest.vector:
            points = points * found.loop(stage, loop)
    return loops, points


def _is_loop(nest: Nest, loop: NestLoop) -> bool:
    """Whether the steps of a loop are single ones: those in lanes are taken at once, and those whose number is the structure's."""
    return loop not in (nest.vector, nest.group) and loop not in nest.loops.sizes


KIND = Unroll()
