"""Copies in groups: four rows of bytes, or two of i16 or bf16, become one, those of a lane side by side (`program/grouping.py`).

Where the rows of the original run along the group, those of a lane lie side by side there too, and are moved as one number; or in
squares, loaded row by row and turned over, where as many steps in a row are copied as a vector has lanes (`transpose.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorsmith.backends.cpu.codegen.irtext import Value, storage_type
from tensorsmith.backends.cpu.codegen.points import Lanes, LoopValues
from tensorsmith.backends.cpu.codegen.shape import pieces
from tensorsmith.backends.cpu.codegen.transpose import columns
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Cast, Load
from tensorsmith.program.ir import Block, Loop, LoopVar

if TYPE_CHECKING:
    from tensorsmith.backends.cpu.codegen.tile import TileEmitter


_TYPES = ("i8", "u8", "i16", "bf16")  # of factors
_LANE_BYTES = (4, 8)  # of what a lane takes at once


def group_of_copy(tile: TileEmitter, block: Block) -> LoopVar | None:
    """The loop of a tile whose steps are stored side by side, between the lanes of its vectors; None where it has none."""
    if block.stage.reduction or block.vector is None or block.stage.dtype not in _TYPES:
        return None
    form = tile.position(block)
    steps = form.terms.get(block.vector)
    if steps not in [n // dtype(block.stage.dtype).bytes for n in _LANE_BYTES]:
        return None
    return next((v for v in block.tile if form.terms.get(v.name) == 1 and int(v.count) == steps), None)


def turns_over(tile: TileEmitter, loop: Loop, lanes: int) -> bool:
    """Whether the steps of a loop around a copy read whole groups that lie behind each other, while its lanes are apart."""
    (block,) = loop.body if len(loop.body) == 1 else (None,)
    if not isinstance(block, Block) or loop.unrolled or block.before or block.vector is None:
        return False
    group, read = group_of_copy(tile, block), block.stage.body
    if group is None or not isinstance(read, Load) or read.tensor in tile.body.registers or loop.var.axis != group.axis:
        return False
    form, safe = tile.body.offset(read, block)
    if form is None or not safe or 2 * int(block.loop(block.vector).count) <= lanes:
        return False
    behind = form.terms.get(group.name) == 1 and form.terms.get(loop.var.name) == int(loop.var.stride) == int(group.count)
    return behind and form.terms.get(block.vector, 0) not in (0, 1)


def store_turned(tile: TileEmitter, block: Block, var: LoopVar, points: Sequence[LoopValues], lanes: Lanes) -> bool:
    """Stores the groups of several steps, one of each in `points`; False where they are no square, and nothing is done."""
    if lanes.width != len(points) or 2 * lanes.active <= lanes.width:
        return False
    f, body, read = tile.f, tile.body, block.stage.body
    assert isinstance(read, Load)
    form = body.offset(read, block)[0]
    assert form is not None
    lane = f"i{8 * int(var.count) * dtype(read.dtype).bytes}"
    start, first, apart = body.linear(form, points[0], lanes)
    steps = int(var.count)
    at_once = min(lanes.width, max(1, body.interleaved_bytes // (steps * dtype(read.dtype).bytes)))
    for at in range(0, lanes.width, at_once):
        pointers = [body.pointer(read.tensor, start, first + at * steps + n * apart) for n in range(lanes.active)]
        rows = [f.op(f"load <{at_once} x {lane}>, {pointer}, align 1", lane, at_once) for pointer in pointers]
        for point, column in zip(points[at:], columns(tile.arith, rows, lanes.width, at_once)):
            running, constant, step = body.linear(tile.position(block), point, lanes)
            for start_lane, width in pieces(lanes.active):
                part = tile.arith.piece(column, start_lane, width)
                f.line(f"store {part}, {body.pointer(block.stage.name, running, constant + start_lane * step)}, align 1")
    return True


def store_group(tile: TileEmitter, block: Block, var: LoopVar, points: Sequence[LoopValues], lanes: Lanes) -> None:
    """Computes and stores the steps of a group, one after the other in `points`; what is left of it is filled with zeros."""
    f, body = tile.f, tile.body
    name = block.stage.name
    running, constant, step = body.linear(tile.position(block), points[0], lanes)
    source, steps = block.stage.body, int(var.count)
    bits = 8 * dtype(block.stage.dtype).bytes
    lane = f"i{steps * bits}"
    read = source.a if isinstance(source, Cast) else source  # which may be copied to another type
    form = body.offset(read, block)[0] if isinstance(read, Load) and read.tensor not in body.registers else None
    if len(points) == steps and form is not None and form.terms.get(var.name) == 1 and form.terms.get(lanes.var) != 1:
        assert isinstance(read, Load)
        start, first, apart = body.linear(form, points[0], lanes)
        for n in range(lanes.active):
            pointer = body.pointer(read.tensor, start, first + n * apart)
            if read is source:
                number = f.op(f"load {lane}, {pointer}, align 1", lane)
            else:
                found = f.op(f"load {storage_type(read.dtype, steps)}, {pointer}, align 1", read.dtype, steps)
                number = f.op(f"bitcast {tile.arith.cast(source.dtype, found)} to {lane}", lane)
            f.line(f"store {number}, {body.pointer(name, running, constant + n * step)}, align 1")
        return
    total: Value | None = None
    for n, point in enumerate(points):
        value = tile.arith.splat(body.value(source, block, point, lanes), lanes.width)
        wide = f.op(f"zext {value} to <{lanes.width} x {lane}>", lane, lanes.width)
        wide = f.op(f"shl {wide}, splat ({lane} {bits * n})", lane, lanes.width) if n else wide
        total = wide if total is None else f.op(f"or {total}, {wide.text}", lane, lanes.width)
    assert total is not None
    for start_lane, width in pieces(lanes.active):
        part = tile.arith.piece(total, start_lane, width)
        f.line(f"store {part}, {body.pointer(name, running, constant + start_lane * step)}, align 1")
