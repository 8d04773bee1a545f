"""`D.parallel`: how many outer loops of a nest at the root are fused and shared among threads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensorsmith.lang.workload import Stage
from tensorsmith.space.holes.kind import Array, Column, Hole, Matrix, NumberKind, Step
from tensorsmith.space.sketch.loops import NestLoop
from tensorsmith.space.sketch.nest import Nest

if TYPE_CHECKING:
    from tensorsmith.space.population.geometry import Measured
    from tensorsmith.space.population.population import Plan
    from tensorsmith.space.sketch.sketch import Candidate


@dataclass(frozen=True)
class ParallelSettings:
    """Steps that threads share."""

    per_thread: tuple[int, ...] = (1, 4, 4, 16)  # that are drawn: 1 is least overhead, with 4 a slow thread can be helped
    uniform: int = 16  # the paper's: loops are fused until there are more than so many for each thread
    carried: int = 4  # of a candidate of a similar workload, so that no thread waits long for the last
    alone: float = 0.8  # how often a stage with too little work to share is computed by one thread


SETTINGS = ParallelSettings()


class Parallel(NumberKind):
    name = "parallel"
    least = 0
    weight = 0.06  # sampling leaves little to find: all loops that have enough steps do about the same
    in_loops = True

    def holes(self, nest: Nest, stage: Stage) -> Sequence[Hole]:
        return [Hole(f"{nest.stage}.parallel", self.name, nest.stage)] if nest.at is None and not nest.loops.bound else []

    def column(self, plan: Plan, hole: Hole) -> Column:
        return Column(hole.name, self.name, hole.stage, 0, max(len(o.outer) for o in plan.geometry.orders[hole.stage]))

    def sample(self, plan: Plan, number: int, rows: Matrix, found: Measured, rng: np.random.Generator, uniform: bool) -> None:
        threads, stage = plan.tactics.threads, plan.columns[number].stage
        if uniform:
            rows[:, number] = shared_loops(plan, stage, rows, found, np.full(len(rows), SETTINGS.uniform * threads + 1))
            return
        rows[:, number] = shared_loops(plan, stage, rows, found, rng.choice([n * threads for n in SETTINGS.per_thread], len(rows)))
        if math.prod(a.extent for a in plan.geometry.stages[stage].all_axes) < plan.tactics.work_to_share:
            rows[rng.random(len(rows)) < SETTINGS.alone, number] = 0

    def start(self, plan: Plan, column: Column) -> int:
        return 0

    def comes_to(self, plan: Plan, number: int, rows: Matrix, found: Measured) -> Array:
        """Loops that threads share: not more than can be, and none at the end that runs once."""
        column = plan.columns[number]
        counts = plan.geometry.outer_counts(column.stage, rows, found)
        shared = np.zeros(len(rows), np.int64)
        if counts.shape[1]:
            wanted = np.minimum(rows[:, number], plan.geometry.parallel_limit(column.stage, rows, counts))
            positions = np.arange(1, counts.shape[1] + 1)
            useful = (counts > 1) & (positions <= wanted[:, None])
            shared = np.asarray((useful * positions).max(axis=1))
        return np.where(found.at_root[column.stage], shared, column.idle)

    def settle(self, plan: Plan, number: int, rows: Matrix, found: Measured, candidate: Candidate) -> None:
        """Threads where the candidate has some, and enough steps for all of them where there are any."""
        column = plan.columns[number]
        if candidate.decisions.get(column.hole, 0) > 0:
            wanted = np.full(len(rows), SETTINGS.carried * plan.tactics.threads)
            rows[:, number] = np.maximum(rows[:, number], shared_loops(plan, column.stage, rows, found, wanted))

    def marked(self, nest: Nest, value: int) -> Sequence[NestLoop]:
        return nest.outer[:value]

    def decided(self, hole: Hole, nest: Nest, steps: Mapping[NestLoop, Step], others: Mapping[str, int]) -> int:
        shared = [n for n, loop in enumerate(nest.outer) if loop in steps and steps[loop].mark == self.name]
        return shared[-1] + 1 if shared else 0


def shared_loops(plan: Plan, stage: str, rows: Matrix, found: Measured, wanted: Array) -> Array:
    """The fewest outer loops that have so many steps, or as many loops as threads can share."""
    counts = plan.geometry.outer_counts(stage, rows, found)
    if not counts.shape[1]:
        return np.zeros(len(rows), np.int64)
    limit = plan.geometry.parallel_limit(stage, rows, counts)
    enough = np.cumprod(np.maximum(1, counts), axis=1) >= wanted[:, None]
    fewest = np.where(enough.any(axis=1), enough.argmax(axis=1) + 1, counts.shape[1])
    return np.minimum(fewest, limit)


KIND = Parallel()
