"""Register tiles, and the blocks around them, drawn for a CPU.

Whole vectors, tiles of results that fit the registers, blocks that fit the second cache, and sizes that need not divide anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorsmith.backends.cpu.default_tile import register_tiles
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import variables
from tensorsmith.lang.workload import Stage
from tensorsmith.space.holes.kind import Array, Matrix, Move, dealt
from tensorsmith.space.holes.size import balanced, block_sizes
from tensorsmith.space.population.geometry import Measured, reach
from tensorsmith.space.population.population import Plan
from tensorsmith.space.sketch.loops import NestLoop
from tensorsmith.space.sketch.nest import Nest


@dataclass(frozen=True)
class TileSettings:
    """How tiles are drawn for a CPU."""

    sharpness: int = 6  # tiles are drawn by their speed to this power: one of half the speed is 64 times less likely than the best
    useless_rows: float = 0.1  # weight of an axis for the rows along which no operand in lanes stays the same
    one_row_axis: float = 0.8  # how often the rows of a tile are of one axis; else of two
    second_rows: int = 4  # most steps along the second one: with more, rows along the first are too few
    vectors: int = 4  # most vectors of a stage that holds no tile of results: there is nothing to hide the latency of
    vectors_across: int = 8  # along a reduction: as many sums as hide the latency of an addition
    one_vector: float = 0.9  # how often a tile of results with lanes along the reduction has one vector for each; else two
    reduction_block: int = 16  # the shortest block of a reduction: results are loaded and stored once for each
    second_draft: float = 0.75  # how often blocks beyond half of the second cache are replaced by a second draft that is smaller
    weight: float = 0.10  # of the mutation that draws a register tile anew: its sizes are good together only


SETTINGS = TileSettings()


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
    return Tile(nest, stage, rows, plan.names[f"{nest.stage}.{last}"], plan.lanes_of(nest.stage) if last == nest.vector else 1)


def tiles(plan: Plan) -> list[Tile]:
    """The register tiles of a sketch."""
    return [t for n in plan.sketch.nests if n.follows is None and (t := register_tile(plan, n)) is not None]


def moves(plan: Plan, target: CpuTarget) -> list[Move]:
    """A register tile drawn anew."""
    found = tiles(plan)

    def apply(rows: Matrix, here: Array, rng: np.random.Generator) -> None:
        for tile, part in zip(found, dealt(here, len(found), rng)):
            drawn = rows[part]
            fill_tile(plan, tile, drawn, rng, target)
            rows[part] = drawn

    return [Move("tile", SETTINGS.weight, apply)] if found else []


def draw_sizes(plan: Plan, rows: Matrix, rng: np.random.Generator, target: CpuTarget) -> None:
    """Sizes of all tiles: register tiles first, then the blocks around them, of two drafts those that fit the second cache."""
    for nest in plan.sketch.nests:
        if nest.follows is None:
            _fill_innermost(plan, nest, rows, rng, target)
    other = rows.copy()
    _fill_blocks(plan, rows, rng)
    _fill_blocks(plan, other, rng)
    half = target.l2_bytes // 2
    mine, theirs = working_set(plan, rows), working_set(plan, other)
    better = (mine > half) & (theirs < mine) & (rng.random(len(rows)) < SETTINGS.second_draft)
    rows[better] = other[better]


def _fill_innermost(plan: Plan, nest: Nest, rows: Matrix, rng: np.random.Generator, target: CpuTarget) -> None:
    tile = register_tile(plan, nest)
    if tile is not None:
        fill_tile(plan, tile, rows, rng, target)
    column = plan.names.get(f"{nest.stage}.{nest.vector}")
    if nest.vector is not None and column is not None and (tile is None or column != tile.vector):
        reduce = {a.name for a in plan.geometry.stages[nest.stage].reduce_axes}
        across = nest.vector.axis in reduce
        vectors = rng.integers(1, 1 + (SETTINGS.vectors_across if across else SETTINGS.vectors), len(rows))
        if tile is not None or (across and nest.at is not None):  # a tile of results is held: one vector for each
            vectors = np.where(rng.random(len(rows)) < SETTINGS.one_vector, 1, 2)
        rows[:, column] = plan.lanes_of(nest.stage) * vectors
    if tile is None:
        _fill_unrolled(plan, nest, rows, rng)


def _fill_unrolled(plan: Plan, nest: Nest, rows: Matrix, rng: np.random.Generator) -> None:
    """Loops besides the lanes in a tile that holds no results: vectors that are turned over in registers, best as many as lanes."""
    spatial = {a.name for a in plan.geometry.stages[nest.stage].axes}
    lanes = plan.lanes_of(nest.stage)
    for loop in nest.tile:
        column = plan.names.get(f"{nest.stage}.{loop}")
        if column is not None and loop != nest.vector and loop.axis in spatial:
            rows[:, column] = rng.choice([1, max(1, lanes // 2), lanes, lanes], len(rows))


def fill_tile(plan: Plan, tile: Tile, rows: Matrix, rng: np.random.Generator, target: CpuTarget) -> None:
    """A register tile: rows and vectors by the cycles they take, the rows along one axis, sometimes two."""
    columns = plan.columns
    extents = [columns[c].high for c in tile.rows]
    vectors = -(-columns[tile.vector].high // tile.lanes) if tile.vector is not None else 1
    table = register_tiles(max([1, *extents]), vectors, target, grouped=grouped(plan, tile))
    cycles, shapes = np.array([c for c, _ in table]), np.array([s for _, s in table])
    weights = (cycles[0] / cycles) ** SETTINGS.sharpness if cycles[0] > 0 else np.ones(1)
    chosen = shapes[rng.choice(len(shapes), len(rows), p=weights / weights.sum())]
    if tile.vector is not None:
        rows[:, tile.vector] = np.minimum(chosen[:, 1] * tile.lanes, columns[tile.vector].high)
    if not tile.rows:
        return
    rows[:, tile.rows] = 1
    likely = np.sqrt(np.array(extents, float)) * np.where(reusing(plan, tile), 1.0, SETTINGS.useless_rows)
    first = rng.choice(len(extents), len(rows), p=likely / likely.sum())
    second = (first + rng.integers(1, max(2, len(extents)), len(rows))) % len(extents)
    one = rng.random(len(rows)) < SETTINGS.one_row_axis
    height = np.where(one, 1, rng.integers(2, 1 + SETTINGS.second_rows, len(rows)))  # steps along the second axis
    long, other = np.array(extents)[first], np.array(extents)[second]
    main = np.minimum(long, np.maximum(1, chosen[:, 0] // height))
    main = np.where(rng.random(len(rows)) < 0.5, balanced(long, main), main)
    spare = np.minimum(other, np.maximum(1, chosen[:, 0] // main))
    picks = np.array(tile.rows)
    if len(extents) > 1:
        rows[np.arange(len(rows)), picks[second]] = spare
    rows[np.arange(len(rows)), picks[first]] = main


def grouped(plan: Plan, tile: Tile) -> Stage | None:
    """What is computed in a tile, if it is a sum of products of bytes in groups."""
    return plan.geometry.stages[tile.stage] if plan.sketch.nest(tile.stage).group is not None else None


def reusing(plan: Plan, tile: Tile) -> list[bool]:
    """For each row axis of a tile, whether an operand that runs along the vectors stays the same along it."""
    stage, owner = plan.geometry.stages[tile.stage], plan.geometry.stages[tile.nest.stage]
    mine = {b.name: a.name for a, b in zip(stage.axes, owner.axes)}
    across = mine[_axis(plan, tile.vector)] if tile.vector is not None else ""
    loaded = [variables(x) for x in stage.reads if across in variables(x)]
    return [any(mine[_axis(plan, c)] not in used for used in loaded) for c in tile.rows]


def _axis(plan: Plan, column: int) -> str:
    loop = plan.columns[column].loop
    assert loop is not None
    return loop.axis


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
                inner = loop in (nest.vector, nest.group) or (axis in spatial and loop in nest.tile)
                if not inner:
                    rows[:, column] = block_sizes(left, rng, 1 if axis in spatial else SETTINGS.reduction_block)
                left = np.maximum(1, -(-left // np.maximum(1, np.minimum(rows[:, column], left))))


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
