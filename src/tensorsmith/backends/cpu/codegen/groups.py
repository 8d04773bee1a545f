"""Sums of products of small numbers, several of them in every lane at once (`program/grouping.py`).

One step of a tile loads four bytes, or two i16 or bf16, of every row and as many of every lane. How they are multiplied is the
machine's affair:

* by an instruction for just these types (`vpdpbusd`, `sdot`, `vdpbf16ps`, ...)
* by one for other types: the rows' bytes are moved by 128, into the other type. That adds 128 times the sum of the lanes' bytes to
  every result, or takes it away; the same instruction makes that sum, once for all rows, and it is taken off in the end
* as pairs of i16 (`vpmaddwd`), which they are, or which bytes in even places and bytes in odd ones become
* in plain i32 or f32
* two rows by two columns (`row_pairs.py`). A lane has twice as much then, 64 bits; what has no partner takes them in two halves

All give the same integers: nothing is rounded, and what overflows wraps around. Of what is left of a group the rest is zero: of one
factor for integers, of both for bf16, where zero times what happens to lie there may be no number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorsmith.backends.cpu.codegen.group_operands import LANE_BITS, GroupOperands
from tensorsmith.backends.cpu.codegen.irtext import BOUNDARY, Value, const, type_text
from tensorsmith.backends.cpu.codegen.points import Lanes, LoopValue
from tensorsmith.backends.cpu.codegen.row_pairs import RowPairs
from tensorsmith.backends.cpu.codegen.shape import Key
from tensorsmith.backends.cpu.instructions import OTHER, Instruction, dot, moved, pairs
from tensorsmith.lang.expr import loads

if TYPE_CHECKING:
    from tensorsmith.backends.cpu.codegen.reduction import Reduction

_MOVED = 0x80  # a byte with it added, as one of the other type


class Groups(GroupOperands):
    """The products of one variant of a tile."""

    def __init__(self, reduction: Reduction) -> None:
        super().__init__(reduction)
        self.sums = self._sums()  # of the lanes' bytes, by what they depend on
        self.pairs = RowPairs(self)
        widths = {self.width(key) for key in reduction.keys}
        self._added_later = any(self._pair(width) is not None or self._adds_pairs(width) for width in widths)
        self.chains = 1 if self._added_later else self.target.chains  # a sum of products made before waits for nothing

    # -- state -----------------------------------------------------------------------------------------------------

    def width(self, key: Key) -> int:
        lanes = self.reduction.shape.chunks[key[1]]
        return lanes.width if lanes and lanes.width > 1 else 0

    def _moves(self, width: int) -> Instruction | None:
        """The instruction for which the rows have to be moved into the other type."""
        return moved(self.target, width, *self.kinds) if self.apart and width else None

    def _sums(self) -> dict[Key, Key]:
        """For every point: the first one with the same bytes in its lanes, whose sum it shares; none where nothing is moved."""
        forms = [form for x in loads(self.second) if (form := self.body.offset(x, self.block)[0]) is not None]
        names = [v.name for v in self.block.tile if v.name != self.block.vector]
        found: dict[Key, Key] = {}
        first: dict[tuple[object, ...], Key] = {}
        for key in self.reduction.keys:
            if self._moves(self.width(key)) is not None:
                moving = tuple(n for n, name in zip(key[0], names) if any(name in form.terms for form in forms))
                found[key] = first.setdefault((moving, key[1]), key)
        return found

    @property
    def summed(self) -> list[Key]:
        """The points at which a sum of lanes is kept besides the results."""
        return list(dict.fromkeys(self.sums.values()))

    def start(self) -> list[Value]:
        return [const(0, "i32", self.width(key)) for key in self.summed]

    def finish(self, results: list[Value], sums: list[Value]) -> list[Value]:
        """The results without what moving the rows has added to them."""
        totals, found = dict(zip(self.summed, sums)), dict(zip(self.reduction.keys, results))
        for one, other in self.pairs.second.items():
            found[one], found[other] = self.pairs.rows(found[one], found[other])
        return [self.arith.binary("sub", v, totals[self.sums[k]]) if k in self.sums else v for k, v in found.items()]

    # -- one step --------------------------------------------------------------------------------------------------

    def step(self, env: dict[str, LoopValue], state: list[Value], count: int) -> list[Value]:
        """The products of `count` steps, a whole group or what is left, at every point."""
        self.made = {}
        keys, summed = self.reduction.keys, self.summed
        sums = dict(zip(summed, state[len(keys) :]))
        found = dict(zip(keys, state))
        for key in keys:
            if key in self.pairs.others:
                continue
            if self._added_later and key[1] == 0:
                # products of several rows at once, before they are added, would take the registers that the sums need
                self.arith.declarations.add(BOUNDARY)
                self.f.boundary()
            point, lanes = self.tile.point(self.block, self.reduction.shape, env, key)
            partner = self.pairs.second.get(key)
            if partner is not None:
                beside, _ = self.tile.point(self.block, self.reduction.shape, env, partner)
                rows = self.row(self.first, point, count), self.row(self.first, beside, count)
                columns = self._second(point, lanes, count)
                found[key], found[partner] = self.pairs.product((found[key], found[partner]), rows, columns)
                continue
            a = self.operand(self.first, point, lanes, count, cut=count < self.steps)
            b = self._second(point, lanes, count)
            width = lanes.width if lanes is not None else 0
            for n in range(2 if self.whole else 1):
                self._add(key, found, sums, self._half_lane(a, n, width), self._half_lane(b, n, width), width)
        return [*found.values(), *sums.values()]

    def _second(self, point: dict[str, LoopValue], lanes: Lanes | None, count: int) -> Value:
        """The second factor of every lane."""
        found = self.operand(self.second, point, lanes, count)
        return self.without_rest(found, count) if self.floats and count < self.steps else found

    def _add(self, key: Key, found: dict[Key, Value], sums: dict[Key, Value], a: Value, b: Value, width: int) -> None:
        """Adds the products of what lanes of 32 bits have to a point, and to the sum of the lanes' bytes that is kept there."""
        instruction = self._moves(width)
        if instruction is None:
            found[key] = self._product(found[key], a, b)
            return
        other = OTHER[self.first.dtype]
        if key in sums:
            sums[key] = self._by(instruction, sums[key], const(_MOVED, "u8", 4 * width), b, other)
        found[key] = self._by(instruction, found[key], self._other_type(a), b, other)

    def _half_lane(self, v: Value, n: int, width: int) -> Value:
        """The first or the second 32 bits of what every lane takes; all of it, where it takes no more."""
        if not self.whole:
            return v

        def make() -> Value:
            wide = self.f.op(f"bitcast {v} to {type_text('i64', width)}", "i64", width)
            wide = self.f.op(f"lshr {wide}, {const(LANE_BITS, 'i64', width).text}", "i64", width) if n else wide
            return self.factors_of(self.f.op(f"trunc {wide} to {type_text('i32', width)}", "i32", width))

        return self.once((v.text, n, "half"), make)

    def _by(self, instruction: Instruction, old: Value, a: Value, b: Value, type_of_a: str) -> Value:
        if instruction.types[0] != type_of_a:
            a, b = b, a
        return self.call(instruction, [old, a, b])

    def call(self, instruction: Instruction, operands: list[Value]) -> Value:
        self.arith.declarations.update(instruction.declarations)
        if instruction.pairs is not None:
            operands = [self._as_it_is(operands[0]), *operands[1:]]
        self.arith.helpers.setdefault(instruction.function, instruction.definition())
        given = ", ".join(map(str, operands))
        return self.f.op(f'call {instruction.result} @"{instruction.function}"({given})', instruction.sums, instruction.lanes)

    def _product(self, old: Value, a: Value, b: Value) -> Value:
        """old + a * b, with no byte moved."""
        width = old.lanes
        found = dot(self.target, width, *self.kinds)
        if found is not None:
            instruction, swapped = found
            return self.call(instruction, [old, b, a] if swapped else [old, a, b])
        if self.floats:
            for n in range(2):
                old = self.arith.fma(self._one_float(a, n, width), self._one_float(b, n, width), old)
            return old
        pair = self._pair(width)
        if pair is not None and LANE_BITS // self.bits == pair.pieces:
            return self.arith.binary("add", self._as_it_is(old), self.call(pair, [a, b]))
        for n in range(2 if pair else LANE_BITS // self.bits):
            if pair is not None:
                term = self.call(pair, [self._half(a, self.first.dtype, n, width), self._half(b, self.second.dtype, n, width)])
            else:
                term = self.arith.binary("mul", self._one(a, self.first.dtype, n, width), self._one(b, self.second.dtype, n, width))
            old = self.arith.binary("add", old, term)
        return old

    def _as_it_is(self, v: Value) -> Value:
        """A sum that LLVM does not look into: it would add the products of several steps to each other before they are added to the
        sum, and spill those that wait."""
        return self.f.op(f'call {v.type} asm "", "={"v" if self.target.has("avx512f") else "x"},0"({v})', v.dtype, v.lanes)

    def _adds_pairs(self, width: int) -> bool:
        """Whether an instruction for bytes makes sums of two products first."""
        found = dot(self.target, width, *self.kinds)
        instruction = self._moves(width) if found is None else found[0]
        return instruction is not None and instruction.pairs is not None

    def _pair(self, width: int) -> Instruction | None:
        """The instruction for pairs of i16, where there is none for bytes."""
        if self.floats or dot(self.target, width, *self.kinds) is not None or self._moves(width) is not None:
            return None
        return next((i for i in pairs(self.target) if i.lanes == width), None)

    def _half(self, v: Value, name: str, odd: int, width: int) -> Value:
        """The bytes in even, or odd, places as numbers of 16 bits."""
        return self._part(v, name, odd, 16, 2 * width)

    def _one(self, v: Value, name: str, n: int, width: int) -> Value:
        """One factor of every lane as an i32."""
        return self._part(v, name, n, 32, width)

    def _part(self, v: Value, name: str, n: int, bits: int, lanes: int) -> Value:
        """Factor `n` of every number of so many bits, with its sign if it has one."""
        key = (v.text, n, bits)
        if key in self.made:
            return self.made[key]
        kind = f"i{bits}"
        vector = f"<{lanes} x {kind}>" if lanes else kind

        def shifted(op: str, text: str, by: int) -> str:
            amount = f"splat ({kind} {by})" if lanes else str(by)
            return self.f.op(f"{op} {vector} {text}, {amount}", kind, lanes).text if by else text

        text = self.f.op(f"bitcast {v} to {vector}", kind, lanes).text
        text = shifted("shl", text, bits - self.bits * (n + 1))
        text = shifted("lshr" if name == "u8" else "ashr", text, bits - self.bits)
        return self.once(key, lambda: Value(text, kind, lanes))

    def _one_float(self, v: Value, n: int, width: int) -> Value:
        """One bf16 of every lane as an f32, whose upper half it is."""
        key = (v.text, n, "f32")
        if key not in self.made:
            whole = self.f.op(f"bitcast {v} to {type_text('i32', width)}", "i32", width)
            word, by = ("bitand", -(1 << 16)) if n else ("shl", 16)
            self.made[key] = self.arith.bitcast("f32", self.arith.binary(word, whole, const(by, "i32", width)))
        return self.made[key]

    def _other_type(self, v: Value) -> Value:
        key = (v.text, "moved")
        if key not in self.made:
            self.made[key] = self.f.op(f"xor {v}, {const(_MOVED, 'u8', v.lanes).text}", v.dtype, v.lanes)
        return self.made[key]
