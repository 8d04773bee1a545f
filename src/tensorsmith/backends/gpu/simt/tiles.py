"""The statements of a block that matrix instructions compute: one for each tile of 16 x 8 that a warp has.

    for k.1: for each of the warp's tiles: C.cache[lane's four] += (lane's eight of A) by warps with (lane's four of B)

A lane's sums are its own points of the block's tile. What it gives of the operands belongs to other lanes' points too:
`gpu/matrix.py` says which.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorsmith.backends.gpu.matrix import (
    COLUMN_LANES,
    HALVES,
    LEFT,
    NEIGHBOURS,
    PIECE,
    RIGHT,
    ROW_LANES,
    STEPS,
    SUMS,
    matrix_product,
)
from tensorsmith.backends.gpu.simt.ir import For, If, Let, Meet, Multiply, Row, Statement
from tensorsmith.backends.gpu.simt.values import Values, conjunction, number
from tensorsmith.errors import Refusal
from tensorsmith.lang.affine import affine
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
    counts = [int(v.count) for v in (*halves[-1:], *pairs, *steps[-1:])]
    at_lanes = [(v.axis, int(v.count)) for v in lanes[-2:]]
    if at_lanes != [(rows, ROW_LANES), (columns, COLUMN_LANES)] or counts != [HALVES, NEIGHBOURS, STEPS]:
        raise Refusal("no matrix tile", f"the lanes of {root.name} do not have what matrix instructions give them")
    row, column, half, pair, step = lanes[-2], lanes[-1], halves[-1], pairs[0], steps[-1]
    conditions = values.inside(block, stage.reduce_axes)
    left, right = (Load(x.tensor, (values.address(x, block, conditions),), x.dtype) for x in (product.left, product.right))
    group, within = Var(f"{stage.name}.group"), Var(f"{stage.name}.within")  # of the lane's column of the right operand
    named = _Rows(stage.name, row, column, half, pair, step)
    left_row, right_row = named.left(left), named.right(right)
    found: list[Statement] = []
    others = [v for v in block.tile if v.name not in (half.name, pair.name)]
    of_left = [{half.name: number(o.half), step.name: _step(column, o.step)} for o in LEFT]
    of_right = [{column.name: group, pair.name: within, step.name: _step(column, o.step)} for o in RIGHT]
    for places in itertools.product(*(range(int(v.count)) for v in others)):
        here: dict[str, Expr] = {v.name: number(n) for v, n in zip(others, places)}
        sums = [{half.name: number(h), pair.name: number(n)} for h, n in SUMS]
        found.append(
            Multiply(
                stage.name,
                tuple(substitute(values.stored(block), {**here, **one}) for one in sums),
                tuple(_at(left, {**here, **one}) for one in of_left),
                tuple(_at(right, {**here, **one}) for one in of_right),
                *(None if x is None else replace(x, first=_at(x.first, here)) for x in (left_row, right_row)),
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
    return [*number_of_column, *(named.lets() if left_row or right_row else ()), Meet(), *found]


class _Rows:
    """The rows that a lane names for `ldmatrix`, where the elements of an operand lie like that."""

    def __init__(self, name: str, row: LoopVar, column: LoopVar, half: LoopVar, pair: LoopVar, step: LoopVar) -> None:
        self.row, self.column, self.half, self.pair, self.step = row.name, column.name, half.name, pair.name, step.name
        self.number, self.upper, self.later = (Var(f"{name}.{word}") for word in ("row", "upper", "later"))

    def lets(self) -> list[Statement]:
        """Of lane `4 * row + column`: its number among eight, and the two bits of the piece's."""
        odd = Binary("mul", Binary("mod", Var(self.row), number(2)), number(COLUMN_LANES))
        piece = Binary("floordiv", Var(self.row), number(2))
        return [
            Let(self.number.name, Binary("add", odd, Var(self.column)), PIECE),
            Let(self.upper.name, Binary("mod", piece, number(2)), 2),
            Let(self.later.name, Binary("floordiv", piece, number(2)), 2),
        ]

    def left(self, load: Load) -> Row | None:
        steps = _eights(self.later)
        if in_rows(load, {self.step: 1}):
            return Row(_at(load, {self.row: self.number, self.half: self.upper, self.step: steps}), False)
        if in_rows(load, {self.row: 1}):
            at_step = Binary("add", steps, self.number)
            return Row(_at(load, {self.row: number(0), self.half: self.upper, self.step: at_step}), True)
        return None

    def right(self, load: Load) -> Row | None:
        steps = _eights(self.upper)
        if in_rows(load, {self.step: 1}):
            lane, own = (Binary(op, self.number, number(NEIGHBOURS)) for op in ("floordiv", "mod"))
            return Row(_at(load, {self.column: lane, self.pair: own, self.step: steps}), False)
        if in_rows(load, {self.column: NEIGHBOURS, self.pair: 1}):
            at_step = Binary("add", steps, self.number)
            return Row(_at(load, {self.column: number(0), self.pair: number(0), self.step: at_step}), True)
        return None


def in_rows(load: Load, neighbours: Mapping[str, int]) -> bool:
    """Whether eight elements are neighbours, by how far the steps of some loops go, and begin at a multiple of eight elements."""
    form = affine(load.indices[0])
    if form is None or any(form.terms.get(name) != distance for name, distance in neighbours.items()):
        return False
    return form.offset % PIECE == 0 and all(c % PIECE == 0 for name, c in form.terms.items() if name not in neighbours)


def _eights(e: Expr) -> Expr:
    return Binary("mul", e, number(PIECE))


def _step(column: LoopVar, distance: int) -> Expr:
    """The step of the sums that a lane gives, two neighbours for each of the lanes along columns."""
    return _plus(Binary("mul", Var(column.name), number(2)), distance)


def _plus(first: Expr, distance: int) -> Expr:
    return Binary("add", first, number(distance)) if distance else first


def _at(load: Load, places: dict[str, Expr]) -> Load:
    return Load(load.tensor, (substitute(load.indices[0], places),), load.dtype)
