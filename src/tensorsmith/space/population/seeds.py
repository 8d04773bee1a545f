"""Seeds: a handful of rows per sketch that the target's facts alone call for, and the default schedule where it is one of them.

Register tiles in the order of their cycles, each loop order, with and without blocks that fill half of the second cache; where
operands are copied, also a thread's own copy of a panel that fills it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.default_tile import COPIES, register_tiles
from tensorsmith.errors import Refusal
from tensorsmith.lang.expr import variables
from tensorsmith.space.population.geometry import Matrix
from tensorsmith.space.population.population import Column, Plan, Population, Space, unique
from tensorsmith.space.population.repair import repair
from tensorsmith.space.population.sampling import Tile, register_tile, reusing, shared_loops, working_set

_TILES = 3  # best register tiles that are tried
_REDUCTION_BLOCK = 256  # steps of a split reduction
_WORK_TO_SHARE = 1 << 15
_PANELS_PER_CORE = 4


def seeds(space: Space, watch: Callable[[], None] = lambda: None) -> list[Population]:
    """Rows to start from; the same every time. The default schedule comes first in its sketch.

    `watch` is called before each sketch, and may raise.
    """
    found = {}
    for n, plan in enumerate(space.plans):
        watch()
        found[n] = seed_rows(plan)
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
            if tiles and order == 0:
                made += _private_copies(plan, row)
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
        return max(1, min(innermost, COPIES))
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
    for n, c in reversed(_block_sizes(plan)):
        tries = _doubled(row, n, c)
        fits = np.flatnonzero(working_set(plan, tries) <= plan.target.l2_bytes // 2)
        row[:, n] = tries[fits[-1], n] if len(fits) else 1


def _private_copies(plan: Plan, row: Matrix) -> list[Matrix]:
    """For each operand that its reader can copy in its own loops: a panel of it as large as fits half of the second cache, as long
    as there are several for each thread, and then everything that this panel is used for."""
    found = []
    for choice, c in enumerate(plan.columns):
        reader = plan.sketch.nest(c.stage).follows if c.kind == "at" else None
        if reader is None or len(c.options) < 2:
            continue
        private = row.copy()
        private[:, choice] = 1
        stage = plan.geometry.stages[reader]
        spatial = {a.name for a in stage.axes}
        used = {v for read in stage.reads if read.tensor == c.stage for index in read.indices for v in variables(index)}
        for n, size in _block_sizes(plan):
            if size.stage != reader or size.axis not in spatial:
                continue
            if size.axis not in used:
                private[:, n] = size.high
                continue
            tries = _doubled(private, n, size)
            panels = plan.geometry.measure(tries).counts[reader][size.axis][0]
            small = working_set(plan, tries, c.stage) <= plan.target.l2_bytes // 2
            fits = np.flatnonzero(small & (panels >= _PANELS_PER_CORE * plan.target.cores))
            private[:, n] = tries[fits[-1], n] if len(fits) else 1
        found.append(private)
    return found


def _block_sizes(plan: Plan) -> list[tuple[int, Column]]:
    """The sizes around the register tiles, by column."""
    inner = {f"{n.stage}.{loop}" for n in plan.sketch.nests for loop in n.tile}
    return [(n, c) for n, c in enumerate(plan.columns[: plan.numbers]) if c.kind == "size" and c.hole not in inner]


def _doubled(row: Matrix, n: int, c: Column) -> Matrix:
    """The row with 1, 2, 4, ... in a column, up to all there is."""
    sizes = [1 << k for k in range(c.high.bit_length() + 1)]
    tries = np.repeat(row, len(sizes), axis=0)
    tries[:, n] = np.minimum(sizes, c.high)
    return tries
