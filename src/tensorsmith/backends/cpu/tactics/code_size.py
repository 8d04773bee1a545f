"""Register tiles and code that fit: what the code generator can build, and builds in a fraction of a second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from tensorsmith.lang.cost import Inside, cost
from tensorsmith.lang.expr import EXPENSIVE, Binary, Expr, Load, Select, Unary, variables
from tensorsmith.lang.workload import Stage
from tensorsmith.program.tails import is_partial, variants
from tensorsmith.program.unrolling import MAX_LAID_OUT, is_laid_out
from tensorsmith.space.analysis import is_padding
from tensorsmith.space.holes.kind import Array, Matrix
from tensorsmith.space.holes.unroll import copies
from tensorsmith.space.population.geometry import Measured
from tensorsmith.space.population.halving import ROUNDS, Factor, halve_largest, product
from tensorsmith.space.population.population import Plan
from tensorsmith.space.sketch.loops import NestLoop
from tensorsmith.space.sketch.nest import Nest


@dataclass(frozen=True)
class Limits:
    """What a row may ask for."""

    vectors: int = 48  # values of a register tile: three times the registers of AVX2 spill badly already
    instructions: int = 5000  # of one nest, a rough estimate: an eighth of a second to compile
    laid_out: int = MAX_LAID_OUT // 2  # steps of an outer loop laid out one by one: the code grows with all of them


LIMITS = Limits()


def shrink(plan: Plan, rows: Matrix, limits: Limits = LIMITS) -> None:
    """Makes register tiles fit, then the code: halves the steps laid out in a row, then the largest number, until it does."""
    todo = np.arange(len(rows))
    for _ in range(ROUNDS):
        part = rows[todo]
        found = plan.geometry.measure(part)
        changed = np.zeros(len(part), bool)
        for nest in plan.sketch.nests:
            if nest.follows is not None:
                continue
            tile = tile_factors(plan, nest, found)
            code = code_factors(plan, nest, part, found, tile)
            wide = product(tile, len(part)) > limits.vectors
            long = product(code, len(part)) > limits.instructions
            large = (wide | long) & ~found.inlined[nest.stage] & ~changed
            if large.any():
                steps = [f for f in code if f.column is not None and plan.columns[f.column].kind == "unroll"]
                halved = halve_largest(part, steps, large & ~wide)
                changed |= halved | halve_largest(part, [f for f in code if f.column is not None], large & ~halved)
        if not changed.any():
            break
        rows[todo] = part
        todo = todo[changed]
    for nest in plan.sketch.nests:
        for n, order in enumerate(plan.geometry.orders[nest.stage]):
            for loop in order.unrolled & set(order.outer):
                column = plan.names.get(f"{nest.stage}.{loop}")
                if column is not None:
                    here = plan.geometry.order(nest.stage, rows) == n
                    rows[here, column] = np.minimum(rows[here, column], limits.laid_out)


def tile_factors(plan: Plan, nest: Nest, found: Measured) -> list[Factor]:
    """The values of a register tile: steps of its unrolled loops, and vectors."""
    stage = plan.geometry.stages[nest.stage]
    lanes = plan.lanes_of(nest.stage)
    reduce = {a.name for a in stage.reduce_axes}
    factors = []
    for loop in nest.tile:
        if loop == nest.vector:
            vectors = -(-found.loop(nest.stage, loop) // lanes)
            factors.append(Factor(vectors, size_column(plan, nest, loop), lanes))
        elif loop.axis not in reduce:
            factors.append(Factor(found.loop(nest.stage, loop), size_column(plan, nest, loop)))
    return factors


def size_column(plan: Plan, nest: Nest, loop: NestLoop) -> int | None:
    """The column that sets how often a loop of a register tile runs: its own, or that of the tile it is attached to."""
    column = plan.names.get(f"{nest.stage}.{loop}")
    if column is not None or nest.at is None:
        return column
    owner = plan.sketch.nest(nest.at.stage)
    axes = [a.name for a in plan.geometry.stages[nest.stage].axes]
    theirs = plan.geometry.stages[owner.stage].axes
    if nest.at.depth != len(owner.outer) or loop.axis not in axes or len(theirs) != len(axes):
        return None
    name = theirs[axes.index(loop.axis)].name
    return plan.names.get(f"{owner.stage}.{NestLoop(name, owner.parts.get(name, 1) - 1)}")


def code_factors(plan: Plan, nest: Nest, rows: Matrix, found: Measured, tile: list[Factor]) -> list[Factor]:
    """Roughly the instructions of a nest: the tile, in a variant for each size it can have, times the steps laid out."""
    stage = plan.geometry.stages[nest.stage]
    ones = np.ones(len(rows), np.int64)
    factors = list(tile)
    factors.append(Factor(copies(plan, nest, rows, found), plan.names.get(f"{nest.stage}.unroll")))
    order = plan.geometry.order(nest.stage, rows)
    known: dict[str, Array] = {}  # axes whose tiles are laid out: their sizes, and what of them is padding, are decided beforehand
    for loop in nest.loops.all:
        laid_out = np.array([loop in o.unrolled for o in plan.geometry.orders[nest.stage]])[order]
        if laid_out.any():
            count = found.loop(nest.stage, loop)
            column = plan.names.get(f"{nest.stage}.{loop}") if loop in nest.outer else None
            factors.append(Factor(np.where(is_laid_out(laid_out, count), count, 1), column))
            around = found.counts[nest.stage][loop.axis][: loop.part]
            if loop in nest.outer:
                known[loop.axis] = laid_out & np.logical_and.reduce([c == 1 for c in around] or [ones == 1])
    written = _variants(plan, nest, found, known)
    if nest.at is not None and nest.at.depth == len(plan.sketch.nest(nest.at.stage).outer):
        written = written * _variants(plan, plan.sketch.nest(nest.at.stage), found, {})  # written again in each of the tile's
    factors.append(Factor(written, None))
    factors.append(Factor(ones * _instructions(stage.body), None))
    padding = ones
    for x in stage.reads:
        if x.tensor in plan.geometry.stages and is_padding(plan.geometry.stages[x.tensor]):
            cases = 2 ** len(_padded_axes(plan.geometry.stages[x.tensor]))  # inside or on the border, along each axis
            some = np.logical_or.reduce([*known.values()]) if known else np.zeros(len(rows), bool)
            padding = np.where(found.inlined[x.tensor], np.where(some, cases // 2, cases), padding)
    factors.append(Factor(padding, None))
    return factors


def _variants(plan: Plan, nest: Nest, found: Measured, known: dict[str, Array]) -> Array:
    """How often a tile is written: once more for each axis that it need not fit, unless that is known beforehand."""
    total = np.ones(found.rows, np.int64)
    for loop in nest.tile:
        if loop.axis in {a.name for a in plan.geometry.stages[nest.stage].axes}:
            partial = is_partial(found.lengths[nest.stage][loop.axis], np.maximum(1, found.loop(nest.stage, loop)))
            total = total * np.asarray(variants(partial & ~known.get(loop.axis, np.zeros(found.rows, bool))))
    return total


def _padded_axes(stage: Stage) -> set[str]:
    return variables(stage.body.cond) if isinstance(stage.body, Select) else set()


def _instructions(e: Expr) -> int:
    """Roughly, of a body at one point: those for indices are shared between points, and a choice by an index is made beforehand."""

    def own(x: Expr) -> int:
        if _chooses(x):
            return 0
        return 25 if isinstance(x, (Unary, Binary)) and x.op in EXPENSIVE else 2

    return cost(e, own, _computed)


def _chooses(e: Expr) -> TypeGuard[Select]:
    return isinstance(e, Select) and isinstance(e.cond, Binary) and e.cond.op == "eq"


def _computed(e: Expr) -> Inside:
    if _chooses(e):
        return (), (e.a, e.b)
    return () if isinstance(e, Load) else e.operands, ()
