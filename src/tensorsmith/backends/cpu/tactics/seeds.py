"""Rows that a CPU's facts alone call for.

Register tiles in the order of their cycles, each loop order, with and without blocks that fill half of the second cache; where
operands are copied, also a thread's own copy of a panel that fills it.
"""

from __future__ import annotations

import math

import numpy as np

from tensorsmith.backends.cpu.default_tile import STEPS_PER_THREAD, register_tiles
from tensorsmith.backends.cpu.tactics.tiles import Tile, grouped, reusing, tiles, working_set
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang.expr import variables
from tensorsmith.space.holes.kind import Column, Matrix
from tensorsmith.space.holes.parallel import shared_loops
from tensorsmith.space.population.population import Plan
from tensorsmith.space.population.repair import repair

_TILES = 3  # best register tiles that are tried
_REDUCTION_BLOCK = 256  # steps of a split reduction: enough that loading and storing the results costs little
_VECTORS = 4  # of a loop in lanes, before tiles are set
_VECTORS_ACROSS = 8  # along a reduction: as many sums as hide the latency of an addition
_WORK_TO_SHARE = 1 << 15  # points below which starting the other threads does not pay for certain
_PANELS_PER_CORE = 4  # of an operand that threads copy each for themselves: a slow one can be helped


def start_size(plan: Plan, column: Column) -> int:
    """Few vectors, one row, a long block of a reduction; the tiles are set afterwards."""
    assert column.loop is not None
    spatial = column.loop.axis in {a.name for a in plan.geometry.stages[column.stage].axes}
    if column.vector:
        return plan.lanes_of(column.stage) * (_VECTORS if spatial else _VECTORS_ACROSS)
    return 1 if spatial else _REDUCTION_BLOCK


def seed_rows(plan: Plan, starts: Matrix, target: CpuTarget) -> Matrix:
    """The seeds of one sketch."""
    mine = tiles(plan)
    made = []
    for rank in range(_TILES if mine else 1):
        for order in range(len(starts) if rank == 0 else 1):
            row = starts[order : order + 1].copy()
            for tile in mine:
                _set_tile(plan, tile, row, rank, target)
            blocked = row.copy()
            _grow_blocks(plan, blocked, target)
            made += [row, blocked] if mine else [row]
            if mine and order == 0:
                made += _private_copies(plan, row, target)
    rows = repair(plan, np.concatenate(made))
    found = plan.geometry.measure(rows)
    for n, c in enumerate(plan.columns):
        if c.kind == "parallel" and math.prod(a.extent for a in plan.geometry.stages[c.stage].all_axes) >= _WORK_TO_SHARE:
            rows[:, n] = shared_loops(plan, c.stage, rows, found, np.full(len(rows), STEPS_PER_THREAD * target.cores))
    return rows


def _set_tile(plan: Plan, tile: Tile, row: Matrix, rank: int, target: CpuTarget) -> None:
    """One of the best tiles, its rows along the last axis that is long enough and along which operands are reused."""
    extents = [plan.columns[c].high for c in tile.rows]
    good = [n for n, (extent, reused) in enumerate(zip(extents, reusing(plan, tile))) if reused and extent >= 4]
    along = good[-1] if good else int(np.argmax(extents)) if extents else None
    vectors = -(-plan.columns[tile.vector].high // tile.lanes) if tile.vector is not None else 1
    table = register_tiles(extents[along] if along is not None else 1, vectors, target, grouped=grouped(plan, tile))
    height, width = table[min(rank, len(table) - 1)][1]
    if tile.vector is not None:
        row[:, tile.vector] = width * tile.lanes
    if along is not None:
        row[:, tile.rows[along]] = height


def _grow_blocks(plan: Plan, row: Matrix, target: CpuTarget) -> None:
    """Doubles the sizes around the register tiles, the last axis first, while what a block reads fits half of the second cache."""
    for n, c in reversed(_block_sizes(plan)):
        tries = _doubled(row, n, c)
        fits = np.flatnonzero(working_set(plan, tries) <= target.l2_bytes // 2)
        row[:, n] = tries[fits[-1], n] if len(fits) else 1


def _private_copies(plan: Plan, row: Matrix, target: CpuTarget) -> list[Matrix]:
    """For each operand that its reader can copy in its own loops: a panel of it as large as fits half of the second cache, as long
    as there are several for each thread, and then everything that this panel is used for."""
    found = []
    for choice, c in enumerate(plan.choices, plan.numbers):
        reader = plan.sketch.nest(c.stage).follows if c.kind == "at" else None
        if reader is None or len(c.options) < 2:
            continue
        private = row.copy()
        private[:, choice] = 1
        stage = plan.geometry.stages[reader]
        spatial = {a.name for a in stage.axes}
        used = {v for read in stage.reads if read.tensor == c.stage for index in read.indices for v in variables(index)}
        for n, size in _block_sizes(plan):
            if size.stage != reader or size.loop is None or size.loop.axis not in spatial:
                continue
            if size.loop.axis not in used:
                private[:, n] = size.high
                continue
            tries = _doubled(private, n, size)
            panels = plan.geometry.measure(tries).counts[reader][size.loop.axis][0]
            small = working_set(plan, tries, c.stage) <= target.l2_bytes // 2
            fits = np.flatnonzero(small & (panels >= _PANELS_PER_CORE * target.cores))
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
