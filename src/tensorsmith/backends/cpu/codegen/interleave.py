"""Copies in groups: four rows of bytes become one, the bytes of a lane side by side (`program/grouping.py`).

Where the rows of the original run along the group, a lane's four bytes lie side by side there too, and are moved as one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorsmith.backends.cpu.codegen.irtext import Value
from tensorsmith.backends.cpu.codegen.points import Lanes, LoopValues
from tensorsmith.backends.cpu.codegen.shape import pieces
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Load
from tensorsmith.program.grouping import GROUP
from tensorsmith.program.ir import Block, LoopVar

if TYPE_CHECKING:
    from tensorsmith.backends.cpu.codegen.tile import TileEmitter


def group_of_copy(tile: TileEmitter, block: Block) -> LoopVar | None:
    """The loop of a tile whose steps are stored side by side, between the lanes of its vectors; None where it has none."""
    if block.stage.reduction or block.vector is None or dtype(block.stage.dtype).bytes != 1 or block.stage.dtype == "bool":
        return None
    form = tile.position(block)
    if form.terms.get(block.vector) != GROUP:
        return None
    return next((v for v in block.tile if form.terms.get(v.name) == 1 and int(v.count) == GROUP), None)


def store_group(tile: TileEmitter, block: Block, var: LoopVar, points: Sequence[LoopValues], lanes: Lanes) -> None:
    """Computes and stores the steps of a group, one after the other in `points`; what is left of it is filled with zeros."""
    f, body = tile.f, tile.body
    name = block.stage.name
    running, constant, step = body.linear(tile.position(block), points[0], lanes)
    source = block.stage.body
    form = body.offset(source, block)[0] if isinstance(source, Load) and source.tensor not in body.registers else None
    if len(points) == GROUP and form is not None and form.terms.get(var.name) == 1 and form.terms.get(lanes.var) != 1:
        assert isinstance(source, Load)
        start, first, apart = body.linear(form, points[0], lanes)
        for n in range(lanes.active):
            number = f.op(f"load i32, {body.pointer(source.tensor, start, first + n * apart)}, align 1", "i32")
            f.line(f"store {number}, {body.pointer(name, running, constant + n * step)}, align 1")
        return
    total: Value | None = None
    for n, point in enumerate(points):
        value = tile.arith.splat(body.value(source, block, point, lanes), lanes.width)
        wide = f.op(f"zext {value} to <{lanes.width} x i32>", "i32", lanes.width)
        wide = f.op(f"shl {wide}, splat (i32 {8 * n})", "i32", lanes.width) if n else wide
        total = wide if total is None else f.op(f"or {total}, {wide.text}", "i32", lanes.width)
    assert total is not None
    for start_lane, width in pieces(lanes.active):
        part = tile.arith.piece(total, start_lane, width)
        f.line(f"store {part}, {body.pointer(name, running, constant + start_lane * step)}, align 1")
