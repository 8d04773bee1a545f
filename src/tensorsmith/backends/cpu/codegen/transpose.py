"""Strided vectors by transposing contiguous ones in registers.

Lanes that run along a dimension of memory that is not the last one would be loaded one by one. Where as many neighbouring vectors
are wanted as one has lanes, that square is loaded row by row and turned over:

    for w rows:  v[r] = memory[r + n * stride] for lane n        ->    w contiguous loads, log2(w) * w shuffles

Where some lanes are idle, but not most, their rows are not loaded. Of fewer vectors than lanes (a short row of an image of bytes)
narrower squares are made, one below the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.backends.cpu.codegen.addresses import Running
from tensorsmith.backends.cpu.codegen.body import BodyEmitter
from tensorsmith.backends.cpu.codegen.irtext import Function, Value, const, storage_type
from tensorsmith.backends.cpu.codegen.points import Lanes, LoopValues
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Load, loads
from tensorsmith.program.ir import Block, Loop

Point = tuple[LoopValues, Lanes | None]

_NARROWEST = 4  # vectors of a square: fewer are loaded lane by lane


def strided_loads(body: BodyEmitter, block: Block) -> list[Load]:
    """The loads of a block whose lanes are apart in memory, and that are always in bounds."""
    if block.vector is None or block.stage.reduction:
        return []
    found = []
    for e in loads(block.stage.body):
        form, safe = body.offset(e, block)
        if form is not None and safe and e.tensor not in body.registers and e.dtype != "bool":
            step = int(form.terms.get(block.vector, 0))
            if step not in (0, 1):
                found.append(e)
    return found


def turns_over(body: BodyEmitter, loop: Loop, lanes: int) -> bool:
    """Whether the steps of a loop around a block read neighbours in memory while its lanes are apart."""
    if len(loop.body) != 1 or loop.unrolled or int(loop.var.stride) != 1:
        return False
    (block,) = loop.body
    if not isinstance(block, Block) or block.before or block.vector is None or 2 * int(block.loop(block.vector).count) <= lanes:
        return False
    forms = [body.offset(e, block)[0] for e in strided_loads(body, block)]
    return any(form is not None and form.terms.get(loop.var.name) == 1 for form in forms)


def preload(body: BodyEmitter, block: Block, points: Sequence[Point]) -> None:
    """Loads squares of what the points will read, and lets the body remember the vectors in them."""
    for e in strided_loads(body, block):
        form, _ = body.offset(e, block)
        assert form is not None
        groups: dict[tuple[Running | None, int, Lanes], set[int]] = {}
        for env, lanes in points:
            if lanes is not None and 2 * lanes.active > lanes.width:
                running, constant, step = body.linear(form, env, lanes)
                groups.setdefault((running, step, lanes), set()).add(constant)
        for (running, step, lanes), constants in groups.items():
            width = lanes.width
            while width >= _NARROWEST:
                for first in _runs(constants, width):
                    rows = [_row(body, e, running, first + n * step, width) for n in range(lanes.active)]
                    rows += [const(0, e.dtype, width)] * (lanes.width - lanes.active)
                    for n, column in enumerate(_columns(body, rows, width)):
                        body.remember(("load", e.tensor, running, first + n, step, lanes, None), lambda v=column: v)
                width //= 2


def _runs(left: set[int], length: int) -> list[int]:
    """Where runs of that many successive numbers begin, none overlapping; they are taken away."""
    starts = []
    for c in sorted(left):
        if c in left and all(c + n in left for n in range(length)):
            starts.append(c)
            left -= set(range(c, c + length))
    return starts


def _columns(body: BodyEmitter, rows: Sequence[Value], width: int) -> list[Value]:
    """The columns of so many rows, which are as wide as they are many, or narrower: squares one below the other then."""
    squares = [transposed(body.f, rows[n : n + width]) for n in range(0, len(rows), width)]
    while len(squares) > 1:
        pairs = zip(squares[::2], squares[1::2])
        squares = [[body.arith.joined(a, b) for a, b in zip(upper, lower)] for upper, lower in pairs]
    return squares[0]


def _row(body: BodyEmitter, e: Load, running: Running | None, constant: int, width: int) -> Value:
    pointer = body.pointer(e.tensor, running, constant)
    return body.f.op(f"load {storage_type(e.dtype, width)}, {pointer}, align {dtype(e.dtype).bytes}", e.dtype, width)


def transposed(f: Function, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square of vectors: in each round, pairs of rows exchange the halves of ever larger blocks."""
    square, width = list(rows), len(rows)
    distance = 1
    while distance < width:
        for n in range(width):
            if not n & distance:
                a, b = square[n], square[n + distance]
                low = [p if not p & distance else width + p - distance for p in range(width)]
                high = [p + distance if not p & distance else width + p for p in range(width)]
                square[n], square[n + distance] = _shuffled(f, a, b, low), _shuffled(f, a, b, high)
        distance *= 2
    return square


def _shuffled(f: Function, a: Value, b: Value, mask: Sequence[int]) -> Value:
    items = ", ".join(f"i32 {n}" for n in mask)
    return f.op(f"shufflevector {a}, {b}, <{len(mask)} x i32> <{items}>", a.dtype, len(mask))
