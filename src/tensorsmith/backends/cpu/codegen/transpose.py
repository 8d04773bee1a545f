"""Strided vectors by transposing contiguous ones in registers.

Lanes that run along a dimension of memory that is not the last one would be loaded one by one. Where neighbouring vectors are
wanted, pieces of rows are loaded instead, put one behind the other and interleaved until each vector is a column (`columns`):

    for n columns:  v[c] = memory[c + r * stride] for lane r     ->    a load for each lane, n * log2(n) shuffles

There are as many columns as interleaving works on at once: 16 bytes on x86, whose wider vectors are several of these side by side;
a whole vector elsewhere. Of fewer (the end of a row) the pieces are shorter. Where some lanes are idle, but not most, their rows
are not loaded.

A square is stored before the next one is loaded (`squares`), so that it is never spilled.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.backends.cpu.codegen.addresses import Running
from tensorsmith.backends.cpu.codegen.arith import Arithmetic
from tensorsmith.backends.cpu.codegen.body import BodyEmitter
from tensorsmith.backends.cpu.codegen.irtext import Function, Value, storage_type
from tensorsmith.backends.cpu.codegen.points import Lanes, LoopValues
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Load, loads
from tensorsmith.program.ir import Block, Loop

Point = tuple[LoopValues, Lanes | None]

_NARROWEST = 4  # columns of a square, or all that are interleaved at once: fewer are loaded lane by lane


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


def squares(body: BodyEmitter, block: Block, points: Sequence[Point]) -> list[list[int]]:
    """The numbers of the points, those together whose vectors are columns of one square; each is in one of the lists."""
    places: dict[tuple[Running | None, int, Lanes | None], dict[int, list[int]]] = {}
    (e, *_) = strided_loads(body, block)
    form, _ = body.offset(e, block)
    assert form is not None
    for number, (env, lanes) in enumerate(points):
        running, constant, step = body.linear(form, env, lanes)
        places.setdefault((running, step, lanes), {}).setdefault(constant, []).append(number)
    found: list[list[int]] = []
    for (_, _, lanes), numbers in places.items():
        left, width = set(numbers), 1 if lanes is None else _widest(body, e, lanes)
        while width > 1:
            found += [[n for c in range(first, first + width) for n in numbers[c]] for first in _runs(left, width)]
            width //= 2
        found += [[n for c in sorted(left) for n in numbers[c]]] if left else []
    return found


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
            width = widest = _widest(body, e, lanes)
            while width >= max(2, min(_NARROWEST, widest)):
                for first in _runs(constants, width):
                    pieces = [_piece(body, e, running, first + n * step, width) for n in range(lanes.active)]
                    for n, column in enumerate(columns(body.arith, pieces, lanes.width, widest)):
                        body.remember(("load", e.tensor, running, first + n, step, lanes, None), lambda v=column: v)
                width //= 2


def _widest(body: BodyEmitter, e: Load, lanes: Lanes) -> int:
    """How many columns are made at once."""
    return max(1, min(lanes.width, body.interleaved_bytes // dtype(e.dtype).bytes))


def _runs(left: set[int], length: int) -> list[int]:
    """Where runs of that many successive numbers begin, none overlapping; they are taken away."""
    starts = []
    for c in sorted(left):
        if c in left and all(c + n in left for n in range(length)):
            starts.append(c)
            left -= set(range(c, c + length))
    return starts


def _piece(body: BodyEmitter, e: Load, running: Running | None, constant: int, width: int) -> Value:
    pointer = body.pointer(e.tensor, running, constant)
    return body.f.op(f"load {storage_type(e.dtype, width)}, {pointer}, align {dtype(e.dtype).bytes}", e.dtype, width)


def columns(arith: Arithmetic, pieces: Sequence[Value], lanes: int, at_once: int) -> list[Value]:
    """The columns of pieces of rows, as vectors of so many lanes; interleaving works on `at_once` of them, which are at least as
    many as columns. Lanes without a row hold anything.

    In each part of `at_once` lanes the rows lie one behind the other, in several vectors: element c of row r is number
    r * width + c of them all. Interleaving vector k with k + width / 2 moves the highest binary digit of a number to its end. After
    as many times as r has digits those of c come first, and are the number of the vector.
    """
    width = pieces[0].lanes
    rows = [*pieces, *[Value("poison", pieces[0].dtype, width)] * (lanes - len(pieces))]
    count = at_once // width  # of rows of a part, in one vector
    vectors = [
        _joined(arith, [row for part in range(0, lanes, at_once) for row in rows[part + n * count : part + (n + 1) * count]])
        for n in range(width)
    ]
    for _ in range(at_once.bit_length() - 1):
        pairs = list(zip(vectors, vectors[width // 2 :]))
        vectors = [_interleaved(arith, a, b, at_once, start) for a, b in pairs for start in (0, at_once // 2)]
    return vectors


def _joined(arith: Arithmetic, parts: Sequence[Value]) -> Value:
    """One vector of several, which are a power of two."""
    while len(parts) > 1:
        parts = [arith.joined(a, b) for a, b in zip(parts[::2], parts[1::2])]
    return parts[0]


def _interleaved(arith: Arithmetic, a: Value, b: Value, at_once: int, start: int) -> Value:
    """Lanes of a and b in turn: of each part of `at_once` lanes the half that begins at `start`."""
    lanes = [part + start + n for part in range(0, a.lanes, at_once) for n in range(at_once // 2)]
    return shuffled(arith.f, a, b, [pick for n in lanes for pick in (n, a.lanes + n)])


def shuffled(f: Function, a: Value, b: Value, mask: Sequence[int]) -> Value:
    """Lanes of two vectors, counted through both."""
    items = ", ".join(f"i32 {n}" for n in mask)
    return f.op(f"shufflevector {a}, {b}, <{len(mask)} x i32> <{items}>", a.dtype, len(mask))
