"""The statements of one block of a loop program: a register tile of one thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorsmith.backends.gpu.simt import ir
from tensorsmith.backends.gpu.simt.ir import Array, Barrier, For, If, Move, Statement, Store
from tensorsmith.backends.gpu.simt.values import Values, conjunction, number, plus
from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Binary, Expr, Load, Select, Var, substitute
from tensorsmith.program.ir import Block, LoopVar, Program
from tensorsmith.program.unrolling import steps_in_a_row
from tensorsmith.space.sketch.rewrite import identity

_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
WIDTHS = (8, 4, 2)  # elements that can be moved at once, as far as they have no more than so many bytes
MOST_BYTES = 16

Deal = Callable[[int, Sequence[LoopVar], Sequence[Statement], str], list[Statement]]


@dataclass(frozen=True)
class Parts:
    """A reduction of a block in pieces: what computes its partial results, the array of those, and the tile's loops."""

    compute: list[Statement]
    array: str
    element: Expr


class Blocks:
    """Writes blocks; private arrays that it needs are added to `private`."""

    def __init__(self, program: Program, values: Values, private: dict[str, Array]) -> None:
        self.program, self.values, self.private = program, values, private

    def block(self, block: Block) -> list[Statement]:
        """All that a thread does for a block."""
        if block.stage.reduction is None:
            return self._pointwise(block)
        if self.program.buffers[block.stage.name].kind == "local":
            where = self.values.stored(block)
            return self._reduced(block, Load(block.stage.name, (where,), block.stage.dtype), None)
        parts = self.block_parts(block, None)
        value = Load(parts.array, (parts.element,), block.stage.dtype)
        return [*parts.compute, *self._tile(block, self._guarded(block, Store(block.stage.name, self.values.stored(block), value)))]

    # -- without a reduction -------------------------------------------------------------------------------------------

    def _pointwise(self, block: Block) -> list[Statement]:
        moved = self._moved(block)
        if moved is not None:
            return moved
        value = self.values.value(block.stage.body, block, self._asked(block))
        return self._tile(block, self._guarded(block, Store(block.stage.name, self.values.stored(block), value)))

    def _moved(self, block: Block) -> list[Statement] | None:
        """A copy whose innermost loop runs through neighbours on both sides, several at once."""
        body = block.stage.body
        if not isinstance(body, Load) or not block.tile or block.tile[-1].name != block.vector:
            return None
        lanes = block.tile[-1]
        width = int(lanes.count)
        conditions = self._asked(block)
        index, start = self.values.stored(block), self.values.address(body, block, conditions)
        size = dtype(block.stage.dtype).bytes
        if width not in WIDTHS or width * size > MOST_BYTES or not all(_steps_by_one(e, lanes.name, width) for e in (index, start)):
            return None
        along = block.axes[lanes.axis]
        if any(n % width for n in (int(along.length), along.extent)):
            return None
        at_start = [_without(e, lanes.name) for e in (index, start, *conditions)]
        move: Statement = Move(block.stage.name, at_start[0], body.tensor, at_start[1], width)
        if conditions:
            move = If(conjunction(at_start[2:]), (move,))
        return self._loops(block.tile[:-1], [move])

    # -- reductions ----------------------------------------------------------------------------------------------------

    def block_parts(self, block: Block, deal: Deal | None) -> Parts:
        """A reduction into registers of its own; `deal` shares its bound loops among threads."""
        stage = block.stage
        assert stage.reduction is not None
        name = f"{stage.name}.sum"
        points = math.prod(int(v.count) for v in block.tile)
        self.private[name] = Array(name, stage.dtype, points, ir.PRIVATE)
        element: Expr | None = None
        stride = 1
        for v in reversed(block.tile):
            if int(v.count) > 1:
                element = plus(element, Var(v.name), stride)
            stride *= int(v.count)
        where = number(0) if element is None else element
        start: Expr = identity(stage.reduction, stage.dtype)
        again = [Binary("ne", Var(v.name), number(0)) for v in block.outer_reduce if int(v.count) > 1]
        if again:  # an earlier pass has stored what it has
            later = again[0]
            for condition in again[1:]:
                later = Binary("or", later, condition)
            inside = self.values.inside(block, stage.axes)
            held = self.values.stored(block)
            if inside:  # nothing is stored of a point that is not asked for
                later = Binary("and", later, conjunction(inside))
                held = Select(conjunction(inside), held, number(0))
            start = Select(later, Load(stage.name, (held,), stage.dtype), start)
        begin = self._tile(block, [Store(name, where, start)])
        return Parts([*begin, *self._reduced(block, Load(name, (where,), stage.dtype), deal)], name, where)

    def _reduced(self, block: Block, held: Load, deal: Deal | None) -> list[Statement]:
        """The reduction loops of a block, with its tile inside, over results that are held."""
        stage = block.stage
        conditions = self.values.inside(block, stage.reduce_axes)
        value = self.values.value(stage.body, block, conditions)
        step: Statement = Store(held.tensor, held.indices[0], Binary(_COMBINE[stage.reduction or ""], held, value))
        if held.tensor == stage.name:  # its region may be less than whole tiles
            body = self._tile(block, self._guarded(block, step))
        else:
            body = self._tile(block, [step])
        if conditions:
            body = [If(conjunction(conditions), tuple(body))]
        dealt = [v for v in block.reduce if deal is not None and v.bound]
        loops = [v for v in block.reduce if not v.bound]
        rows = steps_in_a_row([int(v.count) for v in loops], int(block.unroll))
        for v, row in zip(reversed(loops), reversed(rows)):
            whole = v.name in block.laid_out or int(row) >= int(v.count)
            if int(v.count) != 1:
                body = [For(v.name, int(v.count), tuple(body), int(v.count) if whole else int(row))]
        if dealt and deal is not None:
            body = deal(math.prod(int(v.count) for v in dealt), dealt, body, f"{stage.name}.step")
        return body

    def combine(self, block: Block, parts: Parts, partial: str, lanes: int, lane: Expr) -> list[Statement]:
        """What the threads of a group have, reduced to one: in halves, each behind a barrier; its first thread stores it.

        That thread has the result without a barrier; only another point of the tile has to wait for it.
        """
        op, kind = _COMBINE[block.stage.reduction or ""], block.stage.dtype
        mine = Load(partial, (ir.THREAD,), kind)
        body: list[Statement] = [Store(partial, ir.THREAD, Load(parts.array, (parts.element,), kind)), Barrier()]
        left = lanes
        while left > 1:
            half = -(-left // 2)
            other = Load(partial, (Binary("add", ir.THREAD, number(half)),), kind)
            joined = Store(partial, ir.THREAD, Binary(op, mine, other))
            body.append(If(Binary("lt", lane, number(left - half)), (joined,)))
            body += [Barrier()] if half > 1 else []
            left = half
        stored = self._guarded(block, Store(block.stage.name, self.values.stored(block), mine))
        body.append(If(Binary("eq", lane, number(0)), tuple(stored)))
        if any(int(v.count) > 1 for v in block.tile):
            body.append(Barrier())
        return self._tile(block, body)

    # -- tiles ---------------------------------------------------------------------------------------------------------

    def _tile(self, block: Block, body: list[Statement]) -> list[Statement]:
        return self._loops(block.tile, body)

    def _loops(self, loops: Sequence[LoopVar], body: list[Statement]) -> list[Statement]:
        for v in reversed(loops):
            if int(v.count) != 1:
                body = [For(v.name, int(v.count), tuple(body), int(v.count))]
        return body

    def _guarded(self, block: Block, store: Statement) -> list[Statement]:
        conditions = self._asked(block)
        return [If(conjunction(conditions), (store,))] if conditions else [store]

    def _asked(self, block: Block) -> list[Expr]:
        """The conditions under which a result is stored. To private memory go all that its region has room for: nobody reads what
        lies outside of the tensor."""
        private = self.program.buffers[block.stage.name].kind == "local"
        return self.values.inside(block, block.stage.axes, in_region=private)


def _steps_by_one(e: Expr, name: str, width: int) -> bool:
    """Whether an index goes from neighbour to neighbour with a loop, and begins at multiples of the loop's steps."""
    form = affine(e)
    if form is None or form.terms.get(name) != 1:
        return False
    return form.offset % width == 0 and all(c % width == 0 for n, c in form.terms.items() if n != name)


def _without(e: Expr, name: str) -> Expr:
    """An expression at the first step of a loop."""
    return substitute(e, {name: number(0)})
