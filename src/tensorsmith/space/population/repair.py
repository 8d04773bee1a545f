"""Repair: rows brought back to what can be built and is worth a try, all at once.

Sampling, mutation and crossover may give any integers; `repair` clamps every value to its domain and shrinks what would be too
large: register tiles, code, loops laid out step by step, buffers of one thread. Values that come to the same are made the same
(a size larger than what is left of an axis, threads sharing loops that run once, holes that a row's structure does not have).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from tensorsmith.lang.cost import Inside, cost
from tensorsmith.lang.expr import EXPENSIVE, Binary, Expr, Load, Select, Unary, children, variables
from tensorsmith.lang.workload import Stage
from tensorsmith.space.analysis import is_padding
from tensorsmith.space.population.geometry import Array, Matrix, Measured
from tensorsmith.space.population.population import Plan
from tensorsmith.space.sketch.loops import NestLoop
from tensorsmith.space.sketch.nest import Nest

_ROUNDS = 24  # of halving; more than any size has bits, for the sizes of a tile together


@dataclass(frozen=True)
class Limits:
    """What a row may ask for."""

    vectors: int = 48  # values of a register tile: three times the registers of AVX2 spill badly already
    instructions: int = 5000  # of one nest, a rough estimate: an eighth of a second to compile
    laid_out: int = 8  # steps of an outer loop laid out one by one; the code generator stops at 16
    local_bytes: int = 4 << 20  # of one attached stage, for each thread


LIMITS = Limits()


def repair(plan: Plan, matrix: Matrix, limits: Limits = LIMITS) -> Matrix:
    """A copy of the rows in which all of them are legal and in their simplest form."""
    rows = np.clip(matrix, plan.low, plan.high).astype(np.int32)
    if not len(rows):
        return rows
    _shrink_buffers(plan, rows, limits)
    _shrink_tiles(plan, rows, limits)
    _simplify(plan, rows)
    return rows


# -- register tiles and code -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Factor:
    """One of the numbers whose product is the size of a nest's code; `column` is the hole that makes it smaller, if any."""

    value: Array
    column: int | None
    least: int = 1  # below which making the column smaller changes nothing


def tile_factors(plan: Plan, nest: Nest, found: Measured) -> list[Factor]:
    """The values of a register tile: steps of its unrolled loops, and vectors."""
    stage = plan.geometry.stages[nest.stage]
    lanes = plan.geometry.lanes(nest.stage)
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


def copies(plan: Plan, nest: Nest, rows: Matrix, found: Measured) -> Array:
    """Steps of the reduction that the unroll hole really lays out in a row."""
    total = np.ones(len(rows), np.int64)
    column = plan.names.get(f"{nest.stage}.unroll")
    if column is None:
        return total
    budget = rows[:, column].astype(np.int64)
    reduce = {a.name for a in plan.geometry.stages[nest.stage].reduce_axes}
    for loop in reversed(nest.tile):
        if loop == nest.vector or loop.axis not in reduce:
            continue
        count = np.maximum(1, found.loop(nest.stage, loop))
        total = total * np.minimum(budget, count)
        budget = np.where(budget >= count, budget // count, 1)
    return total


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
            factors.append(Factor(np.where(laid_out & (count <= 16), count, 1), column))
            around = found.counts[nest.stage][loop.axis][: loop.part]
            if loop in nest.outer:
                known[loop.axis] = laid_out & np.logical_and.reduce([c == 1 for c in around] or [ones == 1])
    variants = _variants(plan, nest, found, known)
    if nest.at is not None and nest.at.depth == len(plan.sketch.nest(nest.at.stage).outer):
        variants = variants * _variants(plan, plan.sketch.nest(nest.at.stage), found, {})  # written again in each of the tile's
    factors.append(Factor(variants, None))
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
            partial = found.lengths[nest.stage][loop.axis] % np.maximum(1, found.loop(nest.stage, loop)) != 0
            total = total * np.where(partial & ~known.get(loop.axis, np.zeros(found.rows, bool)), 2, 1)
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
    return () if isinstance(e, Load) else children(e), ()


def _shrink_tiles(plan: Plan, rows: Matrix, limits: Limits) -> None:
    """Makes register tiles fit, then the code: halves the steps laid out in a row, then the largest number, until it does."""
    todo = np.arange(len(rows))
    for _ in range(_ROUNDS):
        part = rows[todo]
        found = plan.geometry.measure(part)
        changed = np.zeros(len(part), bool)
        for nest in plan.sketch.nests:
            if nest.follows is not None:
                continue
            tile = tile_factors(plan, nest, found)
            code = code_factors(plan, nest, part, found, tile)
            wide = _product(tile, len(part)) > limits.vectors
            long = _product(code, len(part)) > limits.instructions
            large = (wide | long) & ~found.inlined[nest.stage] & ~changed
            if large.any():
                steps = [f for f in code if f.column is not None and plan.columns[f.column].kind == "unroll"]
                halved = _halve_largest(part, steps, large & ~wide)
                changed |= halved | _halve_largest(part, [f for f in code if f.column is not None], large & ~halved)
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


def _product(factors: list[Factor], rows: int) -> Array:
    total = np.ones(rows)
    for f in factors:
        total = total * f.value
    return total


def _halve_largest(part: Matrix, factors: list[Factor], chosen: Array) -> Array:
    """Halves, in each chosen row, the column of the largest factor; one that counts lanes, to whole vectors. Where it could."""
    changed = np.zeros(len(part), bool)
    if not factors:
        return changed
    values = np.stack([f.value for f in factors])
    largest = values.argmax(axis=0)
    for n, f in enumerate(factors):
        here = chosen & (largest == n) & (values[n] > 1)
        if f.column is not None and here.any():
            part[here, f.column] = np.maximum(f.least, (values[n][here] // 2) * f.least)
            changed |= here
    return changed


# -- buffers -----------------------------------------------------------------------------------------------------------


def _shrink_buffers(plan: Plan, rows: Matrix, limits: Limits) -> None:
    """Moves stages whose place needs too much memory to the root; where the place is fixed, makes the tiles around it smaller."""
    for stage in plan.geometry.workload.stages:
        column, places = plan.geometry.places[stage.name]
        if stage.buffer().bytes <= limits.local_bytes and not _varies(plan, stage.name):
            continue
        if column is not None and len(places) > 1:
            found = plan.geometry.measure(rows)
            attached = ~found.at_root[stage.name] & ~found.inlined[stage.name]
            root = next((p.option for p in places if p.at is None and not p.inline), None)
            if root is not None:
                rows[attached & (found.region_bytes(stage) > limits.local_bytes), column] = root
            continue
        point = places[0].at
        if point is None:
            continue
        sizes = [n for n, c in enumerate(plan.columns) if c.kind == "size" and c.stage == point.stage]
        for _ in range(_ROUNDS):
            large = plan.geometry.measure(rows).region_bytes(stage) > limits.local_bytes
            if not large.any() or not sizes:
                break
            part = rows[large]
            values = [Factor(part[:, n], n) for n in sizes]
            _halve_largest(part, values, np.ones(len(part), bool))
            rows[large] = part


def _varies(plan: Plan, stage: str) -> bool:
    return any(column is not None for column, _ in plan.geometry.extents[stage].values())


# -- the simplest form -------------------------------------------------------------------------------------------------


def _simplify(plan: Plan, rows: Matrix) -> None:
    """Writes what each value comes to."""
    found = plan.geometry.measure(rows)
    for n, c in enumerate(plan.columns):
        if c.kind == "size":
            value = found.counts[c.stage][c.axis][c.part]
            rows[:, n] = np.where(found.inlined[c.stage], c.idle, value)
        elif c.kind == "unroll":
            value = copies(plan, plan.sketch.nest(c.stage), rows, found)
            rows[:, n] = np.where(found.inlined[c.stage], c.idle, value)
        elif c.kind == "parallel":
            rows[:, n] = np.where(found.at_root[c.stage], _shared(plan, c.stage, rows, n, found), c.idle)


def _shared(plan: Plan, stage: str, rows: Matrix, column: int, found: Measured) -> Array:
    """Loops that threads share: not more than can be, and none at the end that runs once."""
    counts = plan.geometry.outer_counts(stage, rows, found)
    if not counts.shape[1]:
        return np.zeros(len(rows), np.int64)
    wanted = np.minimum(rows[:, column], plan.geometry.parallel_limit(stage, rows, counts))
    positions = np.arange(1, counts.shape[1] + 1)
    useful = (counts > 1) & (positions <= wanted[:, None])
    return np.asarray((useful * positions).max(axis=1))
