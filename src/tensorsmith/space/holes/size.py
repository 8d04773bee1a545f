"""`C.i.1`: the size of a part of an axis, a tile. The outermost part takes what is left, and no tile need divide its extent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensorsmith.lang.workload import Stage
from tensorsmith.program.grouping import group_steps
from tensorsmith.space.holes.kind import Array, Column, Hole, Matrix, Move, NumberKind, Step
from tensorsmith.space.sketch.loops import NestLoop
from tensorsmith.space.sketch.nest import Nest

if TYPE_CHECKING:
    from tensorsmith.space.population.geometry import Measured
    from tensorsmith.space.population.population import Plan
    from tensorsmith.space.sketch.sketch import Candidate


@dataclass(frozen=True)
class SizeSettings:
    """How sizes are drawn and changed. The shares of mutations add up to 1."""

    innermost: int = 64  # the paper's limit for the innermost size of a uniform sample
    least: float = 0.35  # how often a block is as small as can be: most axes need no second level of tiles
    whole: float = 0.15  # how often it is all that is left of an axis
    balanced: float = 0.5  # how often a size is changed so that the pieces of an axis are of nearly equal length: no short last one
    exchanged: float = 0.4  # the paper's mutation: a factor goes from one part of an axis to another
    stepped: float = 0.2  # one more or less, or a vector: for tiles that should divide nothing
    doubled: float = 0.1
    halved: float = 0.1
    anew: float = 0.2  # the only move that gets far away in one step


SETTINGS = SizeSettings()


class Size(NumberKind):
    name = "size"
    logarithmic = True
    weight = 0.65  # most holes are sizes
    in_loops = True

    def holes(self, nest: Nest, stage: Stage) -> Sequence[Hole]:
        return [Hole(f"{nest.stage}.{loop}", self.name, nest.stage, loop) for loop in nest.sized]

    def column(self, plan: Plan, hole: Hole) -> Column:
        assert hole.loop is not None
        extent = plan.geometry.most(hole.stage, hole.loop.axis)
        nest = plan.sketch.nest(hole.stage)
        vector = nest.vector == hole.loop
        if nest.group == hole.loop:
            whole = max(1, min(group_steps(plan.geometry.stages[hole.stage], nest.group_size), extent))
            return Column(hole.name, self.name, hole.stage, whole, whole, hole.loop, idle=whole)
        given = nest.loops.sizes.get(hole.loop)
        if given is not None:
            return Column(hole.name, self.name, hole.stage, given, given, hole.loop, vector, given)
        idle = min(extent, 2 * plan.lanes_of(hole.stage)) if vector else 1
        return Column(hole.name, self.name, hole.stage, 1, max(1, extent), hole.loop, vector, max(1, idle))

    # -- first rows ----------------------------------------------------------------------------------------------------

    def sample_together(self, plan: Plan, rows: Matrix, rng: np.random.Generator, uniform: bool) -> None:
        if uniform:
            _uniform_sizes(plan, rows, rng)
        else:
            plan.tactics.draw_sizes(plan, rows, rng)

    def sample(self, plan: Plan, number: int, rows: Matrix, found: Measured, rng: np.random.Generator, uniform: bool) -> None:
        return  # drawn together

    def start(self, plan: Plan, column: Column) -> int:
        return plan.tactics.start_size(plan, column)

    # -- evolution and repair ------------------------------------------------------------------------------------------

    def moves(self, plan: Plan) -> list[Move]:
        columns = np.array([n for n, c in enumerate(plan.columns) if c.kind == self.name and c.high > c.low], np.int64)

        def apply(rows: Matrix, here: Array, rng: np.random.Generator) -> None:
            _mutate(plan, rows, here, columns[rng.integers(0, len(columns), len(here))], rng)

        return [Move(self.name, self.weight, apply)] if len(columns) else []

    def comes_to(self, plan: Plan, number: int, rows: Matrix, found: Measured) -> Array:
        column = plan.columns[number]
        assert column.loop is not None
        return np.where(found.inlined[column.stage], column.idle, found.loop(column.stage, column.loop))

    # -- from elsewhere ------------------------------------------------------------------------------------------------

    def carry(self, plan: Plan, rows: Matrix, candidate: Candidate) -> None:
        """Sizes follow what they were chosen for: a block that was all of an axis is all of the new one; others are kept as far as
        the axis goes, in the second row with pieces of equal length."""
        old = candidate.sketch.rewritten
        for nest in candidate.sketch.nests:
            if nest.follows is not None:
                continue
            for axis, parts in nest.parts.items():
                before = old.stage(nest.stage).axis(axis).extent
                now = int(plan.geometry.extent(nest.stage, axis, rows[:1])[0])
                covered, done = 1, np.ones(2, np.int64)  # of the old axis, and of the new one, by the parts inside
                for part in reversed(range(1, parts)):
                    loop = NestLoop(axis, part)
                    hole = f"{nest.stage}.{loop}"
                    size = candidate.decisions[hole]
                    whole = size > 1 and loop not in nest.tile and covered * size >= before
                    left = np.maximum(1, -(-now // done))
                    new = np.array([1, 1]) * (left if whole else np.minimum(size, left))
                    if loop != nest.vector:
                        new[1] = balanced(left[1:], new[1:])[0]
                    if hole in plan.names:
                        rows[:, plan.names[hole]] = new
                    covered, done = covered * size, done * new

    def decided(self, hole: Hole, nest: Nest, steps: Mapping[NestLoop, Step], others: Mapping[str, int]) -> int:
        return steps[hole.loop].count if hole.loop is not None and hole.loop in steps else 1


# -- as in the paper -----------------------------------------------------------------------------------------------------


def _uniform_sizes(plan: Plan, rows: Matrix, rng: np.random.Generator) -> None:
    """Exact divisors, every tuple of tile sizes of an axis equally likely."""
    for nest in plan.sketch.nests:
        if nest.follows is not None:
            continue
        for axis, parts in nest.parts.items():
            columns = [plan.names[f"{nest.stage}.{NestLoop(axis, p)}"] for p in range(1, parts)]
            extents = plan.geometry.extent(nest.stage, axis, rows)
            for extent in np.unique(extents) if columns else ():
                here = np.flatnonzero(extents == extent)
                tuples = np.array(divisor_tuples(int(extent), len(columns)))
                rows[np.ix_(here, np.array(columns))] = tuples[rng.integers(0, len(tuples), len(here))]


def divisor_tuples(extent: int, parts: int) -> list[tuple[int, ...]]:
    """All (l1, ..., ln) with l1 | extent, l2 | extent / l1, ...; the last at most 64."""
    if parts == 0:
        return [()]
    found: list[tuple[int, ...]] = []
    for d in divisors(extent):
        if parts > 1 or d <= SETTINGS.innermost:
            found.extend((d, *rest) for rest in divisor_tuples(extent // d, parts - 1))
    return found


def divisors(n: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(max(1, n)) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


# -- any sizes -----------------------------------------------------------------------------------------------------------


def block_sizes(left: Array, rng: np.random.Generator, least: int = 1) -> Array:
    """Sizes between `least` and all that is left of an axis: often one of the two, else small ones as likely as large ones."""
    low = np.minimum(least, left)
    size = np.exp(np.log(low) + rng.random(len(left)) * np.log(np.maximum(1, (left + 0.99) / low))).astype(np.int64)
    size = np.where(rng.random(len(left)) < SETTINGS.balanced, balanced(left, size), size)
    kind = rng.random(len(left))
    return np.where(kind < SETTINGS.least, low, np.where(kind < SETTINGS.least + SETTINGS.whole, left, size))


def balanced(extent: Array, size: Array) -> Array:
    """The size that cuts an extent into as many pieces, but of nearly equal length."""
    pieces = -(-extent // np.maximum(1, size))
    return np.maximum(1, -(-extent // np.maximum(1, pieces)))


# -- mutation ------------------------------------------------------------------------------------------------------------


def _mutate(plan: Plan, rows: Matrix, here: Array, columns: Array, rng: np.random.Generator) -> None:
    """One move for each of the rows `here`, of the size in the column given for it."""
    s = SETTINGS
    bounds = np.cumsum([s.exchanged, s.stepped, s.doubled, s.halved, s.anew])
    move = np.minimum(np.searchsorted(np.round(bounds, 9), rng.random(len(here)), side="right"), 4)
    exchanged, step, double, half, anew = (move == n for n in range(5))
    exchange(plan, rows, here[exchanged], columns[exchanged], rng)
    lanes = plan.lanes
    rows[here[step], columns[step]] += rng.choice([-1, 1], step.sum()) * lanes[columns[step]]
    rows[here[double], columns[double]] *= 2
    rows[here[half], columns[half]] = (rows[here[half], columns[half]] + 1) // 2
    per = lanes[columns[anew]]
    most = np.where(per > 1, np.minimum(plan.tactics.vectors, plan.high[columns[anew]] // per), plan.high[columns[anew]])
    rows[here[anew], columns[anew]] = block_sizes(np.maximum(1, most), rng) * per


def exchange(plan: Plan, rows: Matrix, here: Array, columns: Array, rng: np.random.Generator) -> None:
    """The paper's move: a factor of one part of an axis goes to another part, the product stays."""
    if not len(here):
        return
    group = plan.axes
    for axis in np.unique(group[columns]):
        members = np.flatnonzero(group == axis)
        mine = group[columns] == axis
        part = here[mine]
        c = plan.columns[int(members[0])]
        assert c.loop is not None
        sizes = rows[np.ix_(part, members)].astype(np.int64)
        outermost = -(-plan.geometry.extent(c.stage, c.loop.axis, rows[part]) // np.maximum(1, sizes.prod(axis=1)))
        sizes = np.concatenate([np.maximum(1, outermost)[:, None], sizes], axis=1)
        target = np.searchsorted(members, columns[mine]) + 1  # one end is the chosen column
        other = (target + rng.integers(1, sizes.shape[1], len(part))) % sizes.shape[1]
        swap = rng.random(len(part)) < 0.5
        source, goal = np.where(swap, target, other), np.where(swap, other, target)
        lines = np.arange(len(part))
        factor = _random_divisor(sizes[lines, source], rng)
        sizes[lines, source] //= factor
        sizes[lines, goal] *= factor
        rows[np.ix_(part, members)] = np.minimum(sizes[:, 1:], plan.high[members])


def _random_divisor(values: Array, rng: np.random.Generator) -> Array:
    """A divisor above 1 of each value, all of them equally likely; 1 for 1."""
    numbers, inverse = np.unique(values, return_inverse=True)
    lists = [divisors(int(v))[1:] or [1] for v in numbers]
    table = np.zeros((len(lists), max(map(len, lists))), np.int64)
    for n, found in enumerate(lists):
        table[n, : len(found)] = found
    lengths = np.array([len(found) for found in lists])[inverse]
    return table[inverse, (rng.random(len(values)) * lengths).astype(np.int64)]


KIND = Size()
