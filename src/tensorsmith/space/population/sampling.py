"""Random rows: the first population of a search.

`uniform` is the paper's: exact divisors, every tuple of tile sizes of an axis equally likely. `target` knows the machine: whole
vectors, register tiles that fit the registers, blocks that fit the caches, steps enough for all threads, and sizes that need
not divide anything. Both fill a matrix column by column; none goes through rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensorsmith.backends.cpu.default_tile import register_tiles
from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import variables
from tensorsmith.space.population.geometry import Array, Matrix, Measured, reach
from tensorsmith.space.population.population import Column, Plan, Population, Space
from tensorsmith.space.population.repair import LIMITS, Limits, repair
from tensorsmith.space.sketch.loops import NestLoop
from tensorsmith.space.sketch.nest import Nest

_INNERMOST = 64  # the paper's limit for the innermost size
_WORK_TO_SHARE = 1 << 13  # points below which starting the other threads seldom pays


@dataclass(frozen=True)
class Sampling:
    """How to draw rows."""

    kind: str = "target"  # or "uniform"
    structures: int = 16  # different structures drawn per sketch: features are computed structure by structure
    limits: Limits = LIMITS


SAMPLING = Sampling()


def sample(space: Space, count: int, rng: np.random.Generator, sampling: Sampling = SAMPLING) -> list[Population]:
    """About `count` rows, shared evenly among the sketches of a space."""
    shares = np.bincount(np.arange(count) % len(space.plans), minlength=len(space.plans))
    return [Population(n, sample_plan(p, int(k), rng, sampling)) for n, (p, k) in enumerate(zip(space.plans, shares))]


def sample_plan(plan: Plan, count: int, rng: np.random.Generator, sampling: Sampling = SAMPLING) -> Matrix:
    """Rows of one sketch, repaired."""
    rows = np.tile(plan.low, (count, 1))
    if not count:
        return rows
    uniform = sampling.kind == "uniform"
    _structures(plan, rows, rng, sampling.structures, uniform)
    if uniform:
        _uniform_sizes(plan, rows, rng)
    else:
        fill_sizes(plan, rows, rng)
    found = plan.geometry.measure(rows)
    for n, c in enumerate(plan.columns):
        if c.kind == "unroll":
            values = np.array([1, 2, 4, 8, 16] if uniform else unroll_values(plan, c.stage))
            rows[:, n] = rng.choice(values, count)
        elif c.kind == "parallel":
            cores = plan.target.cores
            steps = np.full(count, 16 * cores + 1) if uniform else rng.choice([cores, 4 * cores, 4 * cores, 16 * cores], count)
            rows[:, n] = shared_loops(plan, c.stage, rows, found, steps)
            if not uniform and math.prod(a.extent for a in plan.geometry.stages[c.stage].all_axes) < _WORK_TO_SHARE:
                rows[rng.random(count) < 0.8, n] = 0
    return repair(plan, rows, sampling.limits)


# -- structure -----------------------------------------------------------------------------------------------------------


def _structures(plan: Plan, rows: Matrix, rng: np.random.Generator, most: int, uniform: bool) -> None:
    """Options for all choices, out of a limited number of structures."""
    pool = min(len(rows), most)
    chosen = rng.integers(0, pool, len(rows))
    for n in range(plan.numbers, len(plan.columns)):
        weights = np.ones(len(plan.columns[n].options)) if uniform else option_weights(plan, plan.columns[n])
        rows[:, n] = rng.choice(len(weights), pool, p=weights / weights.sum())[chosen]


def option_weights(plan: Plan, column: Column) -> Array:
    """How likely each option of a choice is: inlining where it is offered, rows computed as deep as can be.

    A stage attached inside nothing but loops that run once is one at the root that keeps the threads away.
    """
    weights = np.ones(len(column.options))
    if column.kind == "at":
        for place in plan.geometry.places[column.stage][1]:
            if place.option is not None and place.at is not None:
                around = plan.sketch.nest(place.at.stage).outer[: place.at.depth]
                if all(plan.geometry.most(place.at.stage, loop.axis) == 1 for loop in around):
                    weights[place.option] = 0.05
    if column.kind == "at" and "inline" in column.options and len(weights) > 1:
        weights[column.options.index("inline")] = len(weights) - 1
    if column.kind == "rows" and len(weights) > 1:
        weights[-1] = 2 * (len(weights) - 1)
    return weights


# -- sizes, as in the paper ----------------------------------------------------------------------------------------------


def _uniform_sizes(plan: Plan, rows: Matrix, rng: np.random.Generator) -> None:
    for nest in plan.sketch.nests:
        if nest.follows is not None:
            continue
        for axis, parts in nest.parts.items():
            columns = [plan.names[f"{nest.stage}.{axis}.{p}"] for p in range(1, parts)]
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
        if parts > 1 or d <= _INNERMOST:
            found.extend((d, *rest) for rest in divisor_tuples(extent // d, parts - 1))
    return found


def divisors(n: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(max(1, n)) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


# -- sizes for a machine -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tile:
    """A register tile: the columns of its sizes."""

    nest: Nest
    stage: str  # what is computed in it: the nest's own, or a reduction attached to the tile
    rows: tuple[int, ...]  # sizes of the loops that are unrolled
    vector: int | None  # of the loop in lanes, or of the last spatial loop where lanes run along the reduction
    lanes: int  # per step of `vector`: 1 in the latter case


def register_tile(plan: Plan, nest: Nest) -> Tile | None:
    """The tile of a nest, if results of a reduction are held in it."""
    stages = plan.geometry.stages
    held = [n.stage for n in plan.sketch.nests if n.at == (nest.stage, len(nest.outer)) and stages[n.stage].reduction]
    stage = nest.stage if stages[nest.stage].reduction else held[0] if held else None
    spatial = {a.name for a in stages[nest.stage].axes}
    loops = [n for n in nest.tile if n.axis in spatial and f"{nest.stage}.{n}" in plan.names]
    if stage is None or not loops or (len(loops) == 1 and loops[0] == nest.vector):
        return None
    last = nest.vector if nest.vector in loops else loops[-1]
    rows = tuple(plan.names[f"{nest.stage}.{n}"] for n in loops if n != last)
    return Tile(
        nest, stage, rows, plan.names[f"{nest.stage}.{last}"], plan.geometry.lanes(nest.stage) if last == nest.vector else 1
    )


def fill_sizes(plan: Plan, rows: Matrix, rng: np.random.Generator) -> None:
    """Sizes of all tiles: register tiles first, then the blocks around them, of two drafts those that fit the second cache."""
    for nest in plan.sketch.nests:
        if nest.follows is None:
            _fill_innermost(plan, nest, rows, rng)
    other = rows.copy()
    _fill_blocks(plan, rows, rng)
    _fill_blocks(plan, other, rng)
    half = plan.target.l2_bytes // 2
    mine, theirs = working_set(plan, rows), working_set(plan, other)
    better = (mine > half) & (theirs < mine) & (rng.random(len(rows)) < 0.75)
    rows[better] = other[better]


def _fill_innermost(plan: Plan, nest: Nest, rows: Matrix, rng: np.random.Generator) -> None:
    tile = register_tile(plan, nest)
    if tile is not None:
        fill_tile(plan, tile, rows, rng)
    column = plan.names.get(f"{nest.stage}.{nest.vector}")
    if nest.vector is not None and column is not None and (tile is None or column != tile.vector):
        reduce = {a.name for a in plan.geometry.stages[nest.stage].reduce_axes}
        across = nest.vector.axis in reduce
        vectors = rng.integers(1, 9 if across else 5, len(rows))
        if tile is not None or (across and nest.at is not None):  # a tile of results is held: one vector for each
            vectors = np.where(rng.random(len(rows)) < 0.9, 1, 2)
        rows[:, column] = plan.geometry.lanes(nest.stage) * vectors
    if tile is None:
        _fill_unrolled(plan, nest, rows, rng)


def _fill_unrolled(plan: Plan, nest: Nest, rows: Matrix, rng: np.random.Generator) -> None:
    """Loops besides the lanes in a tile that holds no results: vectors that are turned over in registers, best as many as lanes."""
    spatial = {a.name for a in plan.geometry.stages[nest.stage].axes}
    lanes = plan.geometry.lanes(nest.stage)
    for loop in nest.tile:
        column = plan.names.get(f"{nest.stage}.{loop}")
        if column is not None and loop != nest.vector and loop.axis in spatial:
            rows[:, column] = rng.choice([1, max(1, lanes // 2), lanes, lanes], len(rows))


def fill_tile(plan: Plan, tile: Tile, rows: Matrix, rng: np.random.Generator) -> None:
    """A register tile: rows and vectors by the cycles they take, the rows along one axis, sometimes two."""
    columns = plan.columns
    extents = [columns[c].high for c in tile.rows]
    vectors = -(-columns[tile.vector].high // tile.lanes) if tile.vector is not None else 1
    table = register_tiles(max([1, *extents]), vectors, plan.target.vector_registers)
    cycles, shapes = np.array([c for c, _ in table]), np.array([s for _, s in table])
    weights = (cycles[0] / cycles) ** 6 if cycles[0] > 0 else np.ones(1)
    chosen = shapes[rng.choice(len(shapes), len(rows), p=weights / weights.sum())]
    if tile.vector is not None:
        rows[:, tile.vector] = np.minimum(chosen[:, 1] * tile.lanes, columns[tile.vector].high)
    if not tile.rows:
        return
    rows[:, tile.rows] = 1
    likely = np.sqrt(np.array(extents, float)) * np.where(reusing(plan, tile), 1.0, 0.1)
    first = rng.choice(len(extents), len(rows), p=likely / likely.sum())
    second = (first + rng.integers(1, max(2, len(extents)), len(rows))) % len(extents)
    height = np.where(rng.random(len(rows)) < 0.8, 1, rng.integers(2, 5, len(rows)))  # steps along the second axis
    long, other = np.array(extents)[first], np.array(extents)[second]
    main = np.minimum(long, np.maximum(1, chosen[:, 0] // height))
    main = np.where(rng.random(len(rows)) < 0.5, balanced(long, main), main)
    spare = np.minimum(other, np.maximum(1, chosen[:, 0] // main))
    picks = np.array(tile.rows)
    if len(extents) > 1:
        rows[np.arange(len(rows)), picks[second]] = spare
    rows[np.arange(len(rows)), picks[first]] = main


def reusing(plan: Plan, tile: Tile) -> list[bool]:
    """For each row axis of a tile, whether an operand that runs along the vectors stays the same along it."""
    stage, owner = plan.geometry.stages[tile.stage], plan.geometry.stages[tile.nest.stage]
    mine = {b.name: a.name for a, b in zip(stage.axes, owner.axes)}
    across = mine[plan.columns[tile.vector].axis] if tile.vector is not None else ""
    loaded = [variables(x) for x in stage.reads if across in variables(x)]
    return [any(mine[plan.columns[c].axis] not in used for used in loaded) for c in tile.rows]


def balanced(extent: Array, size: Array) -> Array:
    """The size that cuts an extent into as many pieces, but of nearly equal length."""
    pieces = -(-extent // np.maximum(1, size))
    return np.maximum(1, -(-extent // np.maximum(1, pieces)))


def _fill_blocks(plan: Plan, rows: Matrix, rng: np.random.Generator) -> None:
    """All sizes but those of register tiles: often 1 or all that is left, else anything, small ones as likely as large ones."""
    for nest in plan.sketch.nests:
        if nest.follows is not None:
            continue
        spatial = {a.name for a in plan.geometry.stages[nest.stage].axes}
        for axis, parts in nest.parts.items():
            left = plan.geometry.extent(nest.stage, axis, rows)
            for p in reversed(range(1, parts)):
                loop = NestLoop(axis, p)
                column = plan.names[f"{nest.stage}.{loop}"]
                inner = loop == nest.vector or (axis in spatial and loop in nest.tile)
                if not inner:
                    rows[:, column] = block_sizes(left, rng, 1 if axis in spatial else 16)
                left = np.maximum(1, -(-left // np.maximum(1, np.minimum(rows[:, column], left))))


def block_sizes(left: Array, rng: np.random.Generator, least: int = 1) -> Array:
    """Sizes between `least` and all that is left of an axis."""
    low = np.minimum(least, left)
    size = np.exp(np.log(low) + rng.random(len(left)) * np.log(np.maximum(1, (left + 0.99) / low))).astype(np.int64)
    size = np.where(rng.random(len(left)) < 0.5, balanced(left, size), size)
    kind = rng.random(len(left))
    return np.where(kind < 0.35, low, np.where(kind < 0.5, left, size))


def working_set(plan: Plan, rows: Matrix, tensor: str | None = None) -> Array:
    """Bytes that the register tiles of a block (all loops but the outermost ones) read, for the stage that reads most; or those
    of one tensor alone."""
    most = np.zeros(len(rows))
    found = plan.geometry.measure(rows)
    for nest in plan.sketch.nests:
        tile = register_tile(plan, nest) if nest.follows is None else None
        if tile is None:
            continue
        stage = plan.geometry.stages[tile.stage]
        seen = {a.name: _inner_length(found, tile.stage, a.name) for a in stage.reduce_axes}
        for mine, theirs in zip(stage.axes, plan.geometry.stages[nest.stage].axes):
            seen[mine.name] = _inner_length(found, nest.stage, theirs.name)
        total = np.zeros(len(rows))
        for read in stage.reads:
            if tensor not in (None, read.tensor):
                continue
            size = np.full(len(rows), float(dtype(read.dtype).bytes))
            for index in read.indices:
                form = affine(index)
                size = size * (1 if form is None else reach(form, seen, len(rows)))
            total += size
        most = np.maximum(most, total)
    return most


def _inner_length(found: Measured, stage: str, axis: str) -> Array:
    counts = found.counts[stage][axis]
    length = found.lengths[stage][axis]
    if len(counts) == 1:
        return length
    stride = np.ones(len(length), np.int64)
    for count in counts[1:]:
        stride = stride * count
    return np.minimum(length, stride)


# -- threads and copies --------------------------------------------------------------------------------------------------


def unroll_values(plan: Plan, stage: str) -> list[int]:
    """Copies of the reduction step worth a try: a few, and whole short kernel axes."""
    nest = plan.sketch.nest(stage)
    reduce = {a.name for a in plan.geometry.stages[stage].reduce_axes}
    values, product = {1, 2, 4, 8}, 1
    for loop in reversed(nest.tile):
        if loop.axis in reduce and loop != nest.vector:
            product *= max(1, plan.geometry.most(stage, loop.axis))
            if product > 24:
                break
            values.add(product)
    return sorted(values)


def shared_loops(plan: Plan, stage: str, rows: Matrix, found: Measured, wanted: Array) -> Array:
    """The fewest outer loops that have so many steps, or as many loops as threads can share."""
    counts = plan.geometry.outer_counts(stage, rows, found)
    if not counts.shape[1]:
        return np.zeros(len(rows), np.int64)
    limit = plan.geometry.parallel_limit(stage, rows, counts)
    enough = np.cumprod(np.maximum(1, counts), axis=1) >= wanted[:, None]
    fewest = np.where(enough.any(axis=1), enough.argmax(axis=1) + 1, counts.shape[1])
    return np.minimum(fewest, limit)
