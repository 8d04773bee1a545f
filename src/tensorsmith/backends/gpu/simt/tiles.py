"""The statements of a block that matrix instructions compute: one for each tile of 16 x 8 that a warp has.

    for k.1: for each of the warp's tiles: C.cache[lane's four] += (lane's eight of A) by warps with (lane's four of B)

A lane's sums are its own points of the block's tile. What it gives of the operands belongs to other lanes' points too:
`gpu/matrix.py` says which.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tensorsmith.backends.gpu.matrix import (
    COLUMN_LANES,
    HALVES,
    LEFT,
    NEIGHBOURS,
    RIGHT,
    ROW_LANES,
    STEPS,
    SUMS,
    matrix_product,
)
from tensorsmith.backends.gpu.simt.ir import For, If, Let, Meet, Multiply, Statement
from tensorsmith.backends.gpu.simt.values import Values, conjunction, number
from tensorsmith.errors import Refusal
from tensorsmith.lang.expr import Binary, Expr, Load, Var, substitute
from tensorsmith.lang.workload import Stage
from tensorsmith.program.ir import Block, LoopVar
from tensorsmith.program.unrolling import steps_in_a_row
from tensorsmith.space.sketch.loops import THREAD, VTHREAD


def matrix_tiles(block: Block, values: Values, root: Stage, around: Sequence[LoopVar]) -> list[Statement]:
    """What a thread does for a block, given the loops `around` it of the kernel's own nest, outermost first."""
    stage = block.stage
    product = matrix_product(stage)
    if product is None:
        raise Refusal("no matrix product", f"{stage.name} is no sum in f32 of products of f16 along {STEPS} steps")
    names = {a.name: b.name for a, b in zip(stage.axes, root.axes)}
    rows, columns = names[product.rows], names[product.columns]
    lanes = [v for v in around if v.bound == THREAD]
    halves = [v for v in around if v.bound == VTHREAD and v.axis == rows]
    pairs = [v for v in block.tile if v.stage == stage.name and v.axis == product.columns]
    steps = [v for v in block.reduce if v.axis == product.steps]
    own = NEIGHBOURS * product.side_by_side
    counts = [int(v.count) for v in (*halves[-1:], *pairs, *steps[-1:])]
    at_lanes = [(v.axis, int(v.count)) for v in lanes[-2:]]
    if at_lanes != [(rows, ROW_LANES), (columns, COLUMN_LANES)] or counts != [HALVES, own, STEPS]:
        raise Refusal("no matrix tile", f"the lanes of {root.name} do not have what matrix instructions give them")
    row, column, half, pair, step = lanes[-2], lanes[-1], halves[-1], pairs[0], steps[-1]
    conditions = values.inside(block, stage.reduce_axes)
    left, right = (Load(x.tensor, (values.address(x, block, conditions),), x.dtype) for x in (product.left, product.right))
    group, within = Var(f"{stage.name}.group"), Var(f"{stage.name}.within")  # of the lane's column of the right operand
    found: list[Statement] = []
    others = [v for v in block.tile if v.name not in (half.name, pair.name)]
    beside = product.side_by_side
    for *places, tile in itertools.product(*(range(int(v.count)) for v in others), range(beside)):
        here: dict[str, Expr] = {v.name: number(n) for v, n in zip(others, places)}
        sums = [{half.name: number(h), pair.name: number(n * beside + tile)} for h, n in SUMS]
        column_of = _plus(within if beside == 1 else Binary("mul", within, number(beside)), tile)
        of_left = [{half.name: number(o.half), step.name: _step(column, o.step)} for o in LEFT]
        of_right = [{column.name: group, pair.name: column_of, step.name: _step(column, o.step)} for o in RIGHT]
        found.append(
            Multiply(
                stage.name,
                tuple(substitute(values.stored(block), {**here, **one}) for one in sums),
                tuple(_at(left, {**here, **one}) for one in of_left),
                tuple(_at(right, {**here, **one}) for one in of_right),
            )
        )
    if conditions:  # whole steps of an instruction, because the axis has a whole number of them: all lanes agree
        found = [If(substitute(conjunction(conditions), {step.name: number(0)}), tuple(found))]
    loops = [v for v in block.reduce if v is not step]
    in_a_row = steps_in_a_row([int(v.count) for v in loops], int(block.unroll))
    for v, taken in zip(reversed(loops), reversed(in_a_row)):
        if int(v.count) != 1:
            found = [For(v.name, int(v.count), tuple(found), int(taken))]
    number_of_column = [
        Let(group.name, Binary("floordiv", Var(row.name), number(NEIGHBOURS)), COLUMN_LANES),
        Let(within.name, Binary("mod", Var(row.name), number(NEIGHBOURS)), NEIGHBOURS),
    ]
    return [*number_of_column, Meet(), *found]


def _step(column: LoopVar, distance: int) -> Expr:
    """The step of the sums that a lane gives, two neighbours for each of the lanes along columns."""
    return _plus(Binary("mul", Var(column.name), number(2)), distance)


def _plus(first: Expr, distance: int) -> Expr:
    return Binary("add", first, number(distance)) if distance else first


def _at(load: Load, places: dict[str, Expr]) -> Load:
    return Load(load.tensor, (substitute(load.indices[0], places),), load.dtype)
