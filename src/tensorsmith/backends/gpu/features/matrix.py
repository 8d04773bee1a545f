"""What a block does that matrix instructions compute, in numbers: the same counts as in `kernel.py`, for fragments of warps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorsmith.backends.gpu.features.access import Lanes, pattern
from tensorsmith.backends.gpu.features.warp import Array
from tensorsmith.backends.gpu.matrix import COLUMN_LANES, LANES, LEFT, NEIGHBOURS, RIGHT, STEPS, SUMS, matrix_product
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Load
from tensorsmith.program.ir import Block
from tensorsmith.program.positions import read_at
from tensorsmith.program.unrolling import steps_in_a_row
from tensorsmith.space.sketch.loops import THREAD

if TYPE_CHECKING:
    from tensorsmith.backends.gpu.features.kernel import Told, Where

_WAITS = 8  # multiply-adds of a thread one after another take as long as one matrix instruction: 32 cycles, 4 each


def count(told: Told, block: Block, at: Where) -> None:
    """Adds what a block does."""
    product = matrix_product(block.stage)
    assert product is not None
    lanes = [v for v in told.own if v.bound == THREAD][-2:]
    names = {a.name: b.name for a, b in zip(block.stage.axes, told.stage.axes)}
    step = next(v for v in reversed(block.reduce) if v.axis == product.steps)
    serial = [v for v in block.reduce if v is not step]
    steps = told.product(serial)
    tiles = told.product(list(at.played)) * told.product(list(block.tile)) / len(SUMS)
    beside = product.side_by_side
    executed = at.around * steps * tiles  # instructions of a warp
    told.add("matrix_multiply_adds", at.warps * executed * len(SUMS) * LANES * STEPS)
    told.add("steps", executed * len(SUMS) * _WAITS)
    in_a_row = steps_in_a_row([v.count for v in serial], block.unroll)
    rounds = np.ones(told.count)
    for v, row in zip(serial, in_a_row):
        rounds = rounds * np.ceil(told.full(v.count) / np.maximum(1, told.full(row)))
    told.add("loop_rounds", at.warps * at.around * rounds * (rounds > 1))
    rows, columns = _tiles(told, at, names[product.rows]) / 2, _tiles(told, at, names[product.columns]) * beside
    registers = rows * len(LEFT) / 2 + columns * len(RIGHT) / 2
    told.at_least("operands", registers)
    lane = np.arange(told.target.warp)
    group, within = lane // COLUMN_LANES, lane % COLUMN_LANES
    of_left = {lanes[0].name: group, step.name: 2 * within}
    _fragments(told, block, at, product.left, of_left, {step.name: 2}, rows * len(LEFT) * steps)
    pair = next(v for v in block.tile if v.axis == product.columns)
    of_right = {lanes[1].name: group // NEIGHBOURS, pair.name: group % NEIGHBOURS * beside, step.name: 2 * within}
    _fragments(told, block, at, product.right, of_right, {step.name: 2, pair.name: beside}, columns * len(RIGHT) * steps)


def _tiles(told: Told, at: Where, axis: str) -> Array:
    """How many parts of an axis a warp has in turns."""
    return told.product([v for v in at.played if v.axis == axis])


def _fragments(
    told: Told, block: Block, at: Where, load: Load, lanes: dict[str, Array], runs: dict[str, int], values: Array
) -> None:
    """The loads of so many values of one operand's fragments, from shared memory: two at once where they are neighbours."""
    buffer = told.program.buffers[load.tensor]
    forms = read_at(load, block, buffer)
    counts = {v.name: told.full(v.count) for v in (*block.tile, *block.reduce)}
    given = {name: np.full(told.count, n) for name, n in runs.items()}
    places = {name: np.broadcast_to(where, at.lanes.there.shape) for name, where in lanes.items()}
    access = pattern(
        forms,
        buffer.shape,
        dtype(buffer.dtype).bytes,
        given,
        {},
        {**counts, **given},
        Lanes(places, at.lanes.there),
        told.count,
        told.target,
        2 * dtype(buffer.dtype).bytes,
    )
    executed = at.warps * at.around * values / access.width
    told.add("shared_loads", executed)
    told.add("shared_wavefronts", executed * access.wavefronts())
