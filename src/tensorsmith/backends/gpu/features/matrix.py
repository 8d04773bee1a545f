"""What a block does that matrix instructions compute, in numbers: the same counts as in `kernel.py`, for fragments of warps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensorsmith.backends.gpu.features.access import Access, Lanes, pattern
from tensorsmith.backends.gpu.features.warp import Array, wavefronts
from tensorsmith.backends.gpu.matrix import (
    COLUMN_LANES,
    LANES,
    LEFT,
    LEFT_PIECES,
    NEIGHBOURS,
    PIECE,
    RIGHT,
    RIGHT_PIECES,
    STEPS,
    SUMS,
    matrix_product,
)
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
    executed = at.around * steps * tiles  # instructions of a warp
    told.add("matrix_multiply_adds", at.warps * executed * len(SUMS) * LANES * STEPS)
    told.add("steps", executed * len(SUMS) * _WAITS)
    told.add("passes", at.warps * told.target.warp * executed * len(SUMS))
    in_a_row = steps_in_a_row([v.count for v in serial], block.unroll)
    rounds = np.ones(told.count)
    for v, row in zip(serial, in_a_row):
        rounds = rounds * np.ceil(told.full(v.count) / np.maximum(1, told.full(row)))
    told.add("loop_rounds", at.warps * at.around * rounds * (rounds > 1))
    rows, columns = _tiles(told, at, names[product.rows]) / 2, _tiles(told, at, names[product.columns])
    registers = rows * len(LEFT) / 2 + columns * len(RIGHT) / 2
    told.at_least("operands", registers)
    lane, piece = np.arange(told.target.warp), np.arange(PIECE)
    group, within = lane // COLUMN_LANES, lane % COLUMN_LANES
    pair = next(v for v in block.tile if v.axis == product.columns)
    down, along = lanes[0].name, lanes[1].name
    _Fragments(told, block, at, product.left, step.name, rows * len(LEFT) * steps).count(
        {down: group, step.name: 2 * within}, LEFT_PIECES, ({step.name: 1}, {down: piece}), ({down: 1}, {step.name: piece})
    )
    _Fragments(told, block, at, product.right, step.name, columns * len(RIGHT) * steps).count(
        {along: group // NEIGHBOURS, pair.name: group % NEIGHBOURS, step.name: 2 * within},
        RIGHT_PIECES,
        ({step.name: 1}, {along: piece // NEIGHBOURS, pair.name: piece % NEIGHBOURS}),
        ({along: NEIGHBOURS, pair.name: 1}, {step.name: piece}),
    )


def _tiles(told: Told, at: Where, axis: str) -> Array:
    """How many parts of an axis a warp has in turns."""
    return told.product([v for v in at.played if v.axis == axis])


Rows = tuple[Mapping[str, int], Mapping[str, Array]]  # how far loops go along a row, and where each of eight rows is


@dataclass(frozen=True)
class _Fragments:
    """The loads of so many `values` of one operand's fragments, from shared memory."""

    told: Told
    block: Block
    at: Where
    load: Load
    step: str
    values: Array

    def count(self, lanes: Mapping[str, Array], pieces: int, *ways: Rows) -> None:
        """By rows where the operand lies so in one of the ways, each piece of 8 x 8 for itself; else as lanes have them, two
        steps at once where they are neighbours."""
        told, at = self.told, self.at
        plain = self._access(lanes, {self.step: 2}, told.target.warp)
        width, each = plain.width, plain.wavefronts()
        for neighbours, where in ways:
            rows = self._access(where, {}, PIECE)
            whole = rows.in_rows(neighbours, PIECE)
            width = np.where(whole, 2 * pieces, width)
            each = np.where(whole, pieces * wavefronts(rows.start, rows.lanes.there, np.array(PIECE * rows.bytes)), each)
        loads = at.warps * at.around * self.values / width
        told.add("shared_loads", loads)
        told.add("shared_wavefronts", loads * each)

    def _access(self, lanes: Mapping[str, Array], runs: Mapping[str, int], warp: int) -> Access:
        told, block = self.told, self.block
        buffer = told.program.buffers[self.load.tensor]
        counts = {v.name: told.full(v.count) for v in (*block.tile, *block.reduce)}
        given = {name: np.full(told.count, n) for name, n in runs.items()}
        there = self.at.lanes.there if warp == told.target.warp else np.ones((told.count, warp), bool)
        places = {name: np.broadcast_to(where, there.shape) for name, where in lanes.items()}
        size = dtype(buffer.dtype).bytes
        forms = read_at(self.load, block, buffer)
        return pattern(
            forms, buffer.shape, size, given, {}, {**counts, **given}, Lanes(places, there), told.count, told.target, 2 * size
        )
