"""Seeds: a handful of rows per sketch that the target's facts alone call for, and the default schedule where it is one of them.

Register tiles in the order of their cycles, each loop order, with and without blocks that fill half of the second cache.
"""

from __future__ import annotations

import math

import numpy as np

from tensorsmith.errors import Refusal
from tensorsmith.space.default import default_candidate, register_tiles
from tensorsmith.space.domains import repair
from tensorsmith.space.geometry import Matrix
from tensorsmith.space.population import Column, Plan, Population, Space, unique
from tensorsmith.space.sampling import Tile, register_tile, reusing, shared_loops, working_set

_TILES = 3  # best register tiles that are tried
_REDUCTION_BLOCK = 256  # steps of a split reduction
_WORK_TO_SHARE = 1 << 15


def seeds(space: Space) -> list[Population]:
    """Rows to start from; the same every time. The default schedule comes first in its sketch."""
    found = {n: seed_rows(plan) for n, plan in enumerate(space.plans)}
    try:
        known = space.find(default_candidate(space.workload, space.target))
    except Refusal:
        known = None
    if known is not None:
        found[known[0]] = unique(np.concatenate([known[1][None, :], found[known[0]]]))
    return [Population(n, rows) for n, rows in found.items()]


def seed_rows(plan: Plan) -> Matrix:
    """The seeds of one sketch."""
    tiles = [t for n in plan.sketch.nests if n.follows is None and (t := register_tile(plan, n)) is not None]
    orders = max((len(c.options) for c in plan.columns if c.kind == "loops"), default=1)
    made = []
    for rank in range(_TILES if tiles else 1):
        for order in range(orders if rank == 0 else 1):
            row = np.array([[_start(plan, c, order) for c in plan.columns]], np.int32)
            for tile in tiles:
                _set_tile(plan, tile, row, rank)
            blocked = row.copy()
            _grow_blocks(plan, blocked)
            made += [row, blocked] if tiles else [row]
    rows = repair(plan, np.concatenate(made))
    found = plan.geometry.measure(rows)
    for n, c in enumerate(plan.columns):
        if c.kind == "parallel" and math.prod(a.extent for a in plan.geometry.stages[c.stage].all_axes) >= _WORK_TO_SHARE:
            rows[:, n] = shared_loops(plan, c.stage, rows, found, np.full(len(rows), 4 * plan.target.cores))
    return unique(repair(plan, rows))


def _start(plan: Plan, c: Column, order: int) -> int:
    if c.kind == "loops":
        return order % len(c.options)
    if c.kind == "at":
        return c.options.index("inline") if "inline" in c.options else 0
    if c.kind == "rows":
        return len(c.options) - 1
    if c.kind == "factor":
        return len(c.options) // 2
    if c.kind == "unroll":
        innermost = plan.geometry.stages[c.stage].reduce_axes[-1].extent
        return innermost if innermost <= 4 else 2
    if c.kind == "size":
        spatial = c.axis in {a.name for a in plan.geometry.stages[c.stage].axes}
        if c.vector:
            return plan.geometry.lanes(c.stage) * (4 if spatial else 8)
        return 1 if spatial else _REDUCTION_BLOCK
    return 0


def _set_tile(plan: Plan, tile: Tile, row: Matrix, rank: int) -> None:
    """One of the best tiles, its rows along the last axis that is long enough and along which operands are reused."""
    extents = [plan.columns[c].high for c in tile.rows]
    good = [n for n, (extent, reused) in enumerate(zip(extents, reusing(plan, tile))) if reused and extent >= 4]
    along = good[-1] if good else int(np.argmax(extents)) if extents else None
    vectors = -(-plan.columns[tile.vector].high // tile.lanes) if tile.vector is not None else 1
    table = register_tiles(extents[along] if along is not None else 1, vectors, plan.target.vector_registers)
    height, width = table[min(rank, len(table) - 1)][1]
    if tile.vector is not None:
        row[:, tile.vector] = width * tile.lanes
    if along is not None:
        row[:, tile.rows[along]] = height


def _grow_blocks(plan: Plan, row: Matrix) -> None:
    """Doubles the sizes around the register tiles, the last axis first, while what a block reads fits half of the second cache."""
    inner = {f"{n.stage}.{loop}" for n in plan.sketch.nests for loop in n.tile}
    for n in reversed(range(plan.numbers)):
        c = plan.columns[n]
        if c.kind != "size" or c.hole in inner:
            continue
        sizes = [1 << k for k in range(c.high.bit_length() + 1)]
        tries = np.repeat(row, len(sizes), axis=0)
        tries[:, n] = np.minimum(sizes, c.high)
        fits = np.flatnonzero(working_set(plan, tries) <= plan.target.l2_bytes // 2)
        row[:, n] = tries[fits[-1], n] if len(fits) else 1
