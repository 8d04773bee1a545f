"""Arithmetic on values: one method per operation of the language, for scalars and vectors of every type."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tensorsmith.backends.cpu.codegen import vecmath
from tensorsmith.backends.cpu.codegen.irtext import Function, Value, const, in_lanes, number, type_text
from tensorsmith.errors import Refusal
from tensorsmith.lang.dtypes import dtype

_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INT = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or"}
_BITS = {"bitand": "and", "bitor": "or", "bitxor": "xor", "shl": "shl"}
_ROUNDING = {"floor": "floor", "ceil": "ceil", "round": "roundeven", "sqrt": "sqrt", "abs": "fabs"}


class MultiplyAdds(Protocol):
    """What a machine says of its multiply-adds: a target of CPUs, and `Fused` for all that have them."""

    @property
    def fuses(self) -> bool: ...

    @property
    def fuses_half(self) -> bool: ...

    @property
    def chooses_half(self) -> bool: ...

    @property
    def relaxed_bytes(self) -> int: ...


@dataclass(frozen=True)
class Fused:
    """A machine that multiplies and adds f32 and f64 in one instruction, and f16 by way of f32."""

    fuses: bool = True
    fuses_half: bool = False
    chooses_half: bool = True
    relaxed_bytes: int = 0


class Arithmetic:
    """Writes arithmetic into a function, and collects the helper functions and intrinsics it needs."""

    def __init__(self, function: Function, helpers: dict[str, str], declarations: set[str], target: MultiplyAdds) -> None:
        self.f, self.target, self.fuses = function, target, target.fuses
        self.helpers = helpers
        self.declarations = declarations
        self._splats: dict[tuple[str, int], tuple[str, Value]] = {}
        self._declared: set[str] = set()

    # -- lanes -----------------------------------------------------------------------------------------------------

    def splat(self, v: Value, lanes: int) -> Value:
        """A scalar in every lane."""
        if v.lanes == lanes:
            return v
        if not v.text.startswith("%"):
            return in_lanes(v, lanes)
        known = self._splats.get((v.text, lanes))
        if known is not None and known[0] == self.f.basic_block:
            return known[1]
        vector = type_text(v.dtype, lanes)
        one = self.f.op(f"insertelement {vector} poison, {v}, i32 0", v.dtype, lanes)
        result = self.f.op(f"shufflevector {one}, {vector} poison, <{lanes} x i32> zeroinitializer", v.dtype, lanes)
        self._splats[v.text, lanes] = (self.f.basic_block, result)
        return result

    def same_lanes(self, *values: Value) -> list[Value]:
        lanes = max([v.lanes for v in values])
        return [self.splat(v, lanes) if v.lanes != lanes else v for v in values]

    def piece(self, v: Value, start: int, lanes: int) -> Value:
        """Some neighbouring lanes of a vector; a scalar if it is just one."""
        if lanes == 1:
            return self.f.op(f"extractelement {v}, i32 {start}", v.dtype)
        if start == 0 and lanes == v.lanes:
            return v
        picks = ", ".join(f"i32 {start + n}" for n in range(lanes))
        return self.f.op(f"shufflevector {v}, {v.type} poison, <{lanes} x i32> <{picks}>", v.dtype, lanes)

    def joined(self, a: Value, b: Value) -> Value:
        """The lanes of one vector, then those of another of the same width."""
        picks = ", ".join(f"i32 {n}" for n in range(2 * a.lanes))
        return self.f.op(f"shufflevector {a}, {b}, <{2 * a.lanes} x i32> <{picks}>", a.dtype, 2 * a.lanes)

    def iota(self, name: str, lanes: int) -> Value:
        items = ", ".join(f"{type_text(name)} {n}" for n in range(lanes))
        return Value(f"<{items}>", name, lanes)

    # -- operations ------------------------------------------------------------------------------------------------

    def call(self, intrinsic: str, args: Sequence[Value], name: str, lanes: int) -> Value:
        result = type_text(name, lanes)
        if intrinsic not in self._declared:
            self._declared.add(intrinsic)  # by their names, they differ where their types do
            self.declarations.add(f"declare {result} @{intrinsic}({', '.join(a.type for a in args)})")
        return self.f.op(f"call {result} @{intrinsic}({', '.join(map(str, args))})", name, lanes)

    def overloaded(self, intrinsic: str, *args: Value) -> Value:
        """An LLVM intrinsic named after the type of its first operand."""
        first = args[0]
        return self.call(f"{intrinsic}.{_suffix(first)}", args, first.dtype, first.lanes)

    def binary(self, op: str, a: Value, b: Value) -> Value:
        if a.lanes != b.lanes:
            a, b = self.same_lanes(a, b)
        kind, lanes = dtype(a.dtype).kind, a.lanes
        if a.dtype == "bf16":  # rounded once, at the end; what compares has nothing to round
            return self._rounded("bf16", self.binary(op, self.cast("f32", a), self.cast("f32", b)))
        if op in ("lt", "le", "eq", "ne"):
            return self.compare(op, a, b)
        if op in ("max", "min"):
            return self.extremum(op, a, b)
        if kind == "f":
            if op in _FLOAT:
                return self.f.op(f"{_FLOAT[op]} {a}, {b.text}", a.dtype, lanes)
            if op == "pow":
                return self.function("pow", a, b)
            if a.dtype == "f16":  # rounded once, at the end
                return self.cast("f16", self.binary(op, self.cast("f32", a), self.cast("f32", b)))
            return self.float_floordiv(a, b) if op == "floordiv" else self.float_mod(a, b)
        if op in _INT:
            return self.f.op(f"{_INT[op]} {a}, {b.text}", a.dtype, lanes)
        if op in _BITS:
            return self.f.op(f"{_BITS[op]} {a}, {b.text}", a.dtype, lanes)
        if op == "shr":
            return self.f.op(f"{'lshr' if kind == 'u' else 'ashr'} {a}, {b.text}", a.dtype, lanes)
        return self.int_division(op, a, b)

    def float_floordiv(self, a: Value, b: Value) -> Value:
        """The quotient that goes with `float_mod`, as in Python; floor(a / b) is one too many where a / b rounds up (1 // 0.1).

        It always has the sign of a / b, if it is zero too, as NumPy's does.
        """
        lanes = a.lanes
        rest, wrong = self._float_remainder(a, b)
        exact = self.f.op(f"fsub {a}, {rest.text}", a.dtype, lanes)
        quotient = self.overloaded("llvm.roundeven", self.f.op(f"fdiv {exact}, {b.text}", a.dtype, lanes))
        down = self.f.op(f"fsub {quotient}, {const(1.0, a.dtype, lanes).text}", a.dtype, lanes)
        by_zero = self.f.op(f"fcmp oeq {b}, {const(0.0, a.dtype, lanes).text}", "bool", lanes)
        ratio = self.f.op(f"fdiv {a}, {b.text}", a.dtype, lanes)
        return self.overloaded("llvm.copysign", self.select(by_zero, ratio, self.select(wrong, down, quotient)), ratio)

    def float_mod(self, a: Value, b: Value) -> Value:
        """The remainder with the divisor's sign, if it is zero too; exact as C's fmod is."""
        rest, wrong = self._float_remainder(a, b)
        return self.overloaded("llvm.copysign", self.select(wrong, self.f.op(f"fadd {rest}, {b.text}", a.dtype, a.lanes), rest), b)

    def _float_remainder(self, a: Value, b: Value) -> tuple[Value, Value]:
        """C's fmod, and whether it has the wrong sign."""
        rest = self.f.op(f"frem {a}, {b.text}", a.dtype, a.lanes)
        zero = const(0.0, a.dtype, a.lanes)
        nonzero = self.f.op(f"fcmp une {rest}, {zero.text}", "bool", a.lanes)
        negative_rest = self.f.op(f"fcmp olt {rest}, {zero.text}", "bool", a.lanes)
        negative_b = self.f.op(f"fcmp olt {b}, {zero.text}", "bool", a.lanes)
        differ = self.f.op(f"xor {negative_rest}, {negative_b.text}", "bool", a.lanes)
        return rest, self.f.op(f"and {differ}, {nonzero.text}", "bool", a.lanes)

    def int_division(self, op: str, a: Value, b: Value) -> Value:
        """Rounds down, as Python does; LLVM's signed division rounds to zero. Division by 0 gives 0, as NumPy's does."""
        signed = dtype(a.dtype).kind == "i"
        lanes = a.lanes
        zero, one = const(0, a.dtype, lanes), const(1, a.dtype, lanes)
        unsafe = (zero.text, const(-1, a.dtype, lanes).text) if signed else (zero.text,)
        constant = not b.text.startswith("%") and b.text not in unsafe
        if not constant:
            # idle lanes may hold poison, and a division by that is undefined as a whole: make it some number first
            a = self.f.op(f"freeze {a}", a.dtype, lanes)
            b = self.f.op(f"freeze {b}", b.dtype, lanes)
            by_zero = self.f.op(f"icmp eq {b}, {zero.text}", "bool", lanes)
            b = self.select(by_zero, one, b)
            if signed:  # the one quotient that overflows, lowest / -1, wraps instead of trapping
                lowest = const(-(1 << (dtype(a.dtype).bytes * 8 - 1)), a.dtype, lanes)
                minus = self.f.op(f"icmp eq {b}, {const(-1, a.dtype, lanes).text}", "bool", lanes)
                is_lowest = self.f.op(f"icmp eq {a}, {lowest.text}", "bool", lanes)
                wraps = self.f.op(f"and {minus}, {is_lowest.text}", "bool", lanes)
                b = self.select(wraps, one, b)
        divide, remain = ("sdiv", "srem") if signed else ("udiv", "urem")
        rest = self.f.op(f"{remain} {a}, {b.text}", a.dtype, lanes)
        if op == "floordiv":
            quotient = self.f.op(f"{divide} {a}, {b.text}", a.dtype, lanes)
        if signed:
            mixed = self.f.op(f"xor {rest}, {b.text}", a.dtype, lanes)
            differ = self.f.op(f"icmp slt {mixed}, {zero.text}", "bool", lanes)
            nonzero = self.f.op(f"icmp ne {rest}, {zero.text}", "bool", lanes)
            off = self.f.op(f"and {differ}, {nonzero.text}", "bool", lanes)
            if op == "floordiv":
                down = self.f.op(f"sub {quotient}, {one.text}", a.dtype, lanes)
                result = self.select(off, down, quotient)
            else:
                up = self.f.op(f"add {rest}, {b.text}", a.dtype, lanes)
                result = self.select(off, up, rest)
        else:
            result = quotient if op == "floordiv" else rest
        return result if constant else self.select(by_zero, zero, result)

    def compare(self, op: str, a: Value, b: Value) -> Value:
        self._check_half(a)
        kind = dtype(a.dtype).kind
        if kind == "f":
            word = {"lt": "fcmp olt", "le": "fcmp ole", "eq": "fcmp oeq", "ne": "fcmp une"}[op]
        else:
            sign = "s" if kind == "i" else "u"
            word = {"lt": f"icmp {sign}lt", "le": f"icmp {sign}le", "eq": "icmp eq", "ne": "icmp ne"}[op]
        return self.f.op(f"{word} {a}, {b.text}", "bool", a.lanes)

    def extremum(self, op: str, a: Value, b: Value) -> Value:
        """max or min; NaN wins, as in NumPy. `a > b ? a : b` is one x86 instruction and gives b when either is NaN."""
        kind = dtype(a.dtype).kind
        if kind != "f":
            return self.overloaded(f"llvm.{'s' if kind == 'i' else 'u'}{op}", a, b)
        if not b.text.startswith("%") and a.text.startswith("%"):
            a, b = b, a
        word = "ogt" if op == "max" else "olt"
        better = self.f.op(f"fcmp {word} {a}, {b.text}", "bool", a.lanes)
        result = self.select(better, a, b)
        if not a.text.startswith("%") and not _is_nan(a):
            return result
        lost = self.f.op(f"fcmp uno {a}, {a.text}", "bool", a.lanes)
        return self.select(lost, a, result)

    def select(self, cond: Value, a: Value, b: Value) -> Value:
        if cond.lanes or a.lanes or b.lanes:
            a, b = self.same_lanes(a, b)
            if cond.lanes and not a.lanes:
                a, b = self.splat(a, cond.lanes), self.splat(b, cond.lanes)
        self._check_half(a)
        return self.f.op(f"select {cond}, {a}, {b}", a.dtype, a.lanes)

    def _check_half(self, a: Value) -> None:
        if a.dtype == "f16" and a.lanes and not self.target.chooses_half:
            raise Refusal("LLVM does not end where this machine compares vectors of f16, or chooses between them")

    def unary(self, op: str, a: Value) -> Value:
        kind, lanes = dtype(a.dtype).kind, a.lanes
        if a.dtype == "bf16":
            return self._rounded("bf16", self.unary(op, self.cast("f32", a)))
        if op == "not":
            return self.f.op(f"xor {a}, {const(True, 'bool', lanes).text}", "bool", lanes)
        if op == "neg":
            if kind == "f":
                return self.f.op(f"fneg {a}", a.dtype, lanes)
            return self.f.op(f"sub {a.type} {const(0, a.dtype, lanes).text}, {a.text}", a.dtype, lanes)
        if op == "abs" and kind != "f":
            if kind == "u":
                return a
            return self.call(f"llvm.abs.{_suffix(a)}", [a, Value("false", "bool")], a.dtype, lanes)
        if op in _ROUNDING:
            return self.overloaded(f"llvm.{_ROUNDING[op]}", a)
        return self.function(op, a)

    def function(self, op: str, *args: Value) -> Value:
        """A transcendental function, by our own polynomial code."""
        name, lanes = args[0].dtype, args[0].lanes
        if dtype(name).is_half:
            wide = [self.cast("f32", a) for a in args]
            return self.cast(name, self.function(op, *wide))
        symbol = vecmath.function_name(op, lanes or 1, name)
        if symbol not in self.helpers:
            text, declarations = vecmath.definition(op, lanes or 1, name)
            self.helpers[symbol] = text
            self.declarations |= declarations
        result = type_text(name, lanes)
        return self.f.op(f'call {result} @"{symbol}"({", ".join(map(str, args))})', name, lanes)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c, rounded once where the machine can do that; elsewhere a product and a sum."""
        a, b, c = self.same_lanes(a, b, c)
        if dtype(a.dtype).is_half and not (a.dtype == "f16" and self.target.fuses_half):
            # LLVM would go through f64, lane by lane; a product of two such is exact in f32
            return self.cast(a.dtype, self.fma(*(self.cast("f32", v) for v in (a, b, c))))
        if self.fuses:
            return self.overloaded("llvm.fma", a, b, c)
        if 0 < a.lanes * dtype(a.dtype).bytes == self.target.relaxed_bytes:
            return self.overloaded("llvm.wasm.relaxed.madd", a, b, c)
        return self.binary("add", self.binary("mul", a, b), c)

    def cast(self, to: str, a: Value) -> Value:
        source, target, lanes = dtype(a.dtype), dtype(to), a.lanes
        if a.dtype == to:
            return a
        if a.dtype == "bf16":
            return self.cast(to, self._from_bf16(a))
        if to == "bf16":
            return self._to_bf16(self.rounded_to_odd(a) if a.dtype == "f64" else self.cast("f32", a))
        if to == "bool":
            zero = const(0, a.dtype, lanes)
            return self.f.op(f"{'fcmp une' if source.kind == 'f' else 'icmp ne'} {a}, {zero.text}", "bool", lanes)
        if a.dtype == "f64" and to == "f16":
            return self.cast("f16", self.rounded_to_odd(a))
        if source.kind == "f":
            if target.kind == "f":
                word = "fpext" if target.bytes > source.bytes else "fptrunc"
            else:
                return self.float_to_int(to, a)
        elif target.kind == "f":
            word = "sitofp" if source.kind == "i" else "uitofp"
        elif source.kind != "b" and target.bytes == source.bytes:
            return Value(a.text, to, lanes)  # signed and unsigned ones differ in name only
        elif source.kind != "b" and target.bytes < source.bytes:
            word = "trunc"
        else:
            word = "sext" if source.kind == "i" else "zext"
        return self.f.op(f"{word} {a} to {type_text(to, lanes)}", to, lanes)

    def bitcast(self, to: str, a: Value) -> Value:
        """The same bits as another type of the same size."""
        if type_text(to, a.lanes) == a.type:
            return Value(a.text, to, a.lanes)
        return self.f.op(f"bitcast {a} to {type_text(to, a.lanes)}", to, a.lanes)

    def _rounded(self, to: str, a: Value) -> Value:
        """A result as the type it was asked for in; a truth stays one."""
        return a if a.dtype == "bool" else self.cast(to, a)

    def _from_bf16(self, a: Value) -> Value:
        """The same number as an f32, whose upper half it is."""
        lanes, bits = a.lanes, type_text("i32", a.lanes)
        wide = self.f.op(f"zext {a} to {bits}", "i32", lanes)
        upper = self.f.op(f"shl {wide}, {const(16, 'i32', lanes).text}", "i32", lanes)
        return self.f.op(f"bitcast {upper} to {type_text('f32', lanes)}", "f32", lanes)

    def _to_bf16(self, a: Value) -> Value:
        """An f32 rounded to the nearest, of two as near to the even one, in integers: just below half of the last bit that stays is
        added, and that bit. A number too large becomes infinity so, as it has to. NaN keeps its sign, and is quiet.

        AVX512-BF16 has an instruction for it, which takes numbers below the normal ones for 0.
        """
        lanes, bits = a.lanes, type_text("i32", a.lanes)

        def op(word: str, x: Value, y: Value) -> Value:
            return self.f.op(f"{word} {x}, {y.text}", "i32", lanes)

        def constant(n: int) -> Value:
            return const(n, "i32", lanes)

        pattern = self.f.op(f"bitcast {a} to {bits}", "i32", lanes)
        last = op("and", op("lshr", pattern, constant(16)), constant(1))
        rounded = op("add", op("add", pattern, constant(0x7FFF)), last)
        nothing = self.f.op(f"fcmp uno {a}, {a.text}", "bool", lanes)
        chosen = self.select(nothing, op("or", pattern, constant(0x400000)), rounded)
        upper = op("lshr", chosen, constant(16))
        return self.f.op(f"trunc {upper} to {type_text('bf16', lanes)}", "bf16", lanes)

    def rounded_to_odd(self, a: Value) -> Value:
        """An f64 as the f32 towards zero, with its last bit set where something was lost.

        Rounded from there to f16, which has more than a bit less, it is what one rounding of the f64 would give: no halfway case
        appears that was none. LLVM has no code for the direct way on most machines; it calls a function that many processes lack.
        """
        lanes, bits = a.lanes, type_text("i32", a.lanes)
        near = self.f.op(f"fptrunc {a} to {type_text('f32', lanes)}", "f32", lanes)
        back = self.f.op(f"fpext {near} to {a.type}", "f64", lanes)
        size, back_size = self.overloaded("llvm.fabs", a), self.overloaded("llvm.fabs", back)
        away = self.f.op(f"fcmp ogt {back_size}, {size.text}", "bool", lanes)
        lost = self.f.op(f"fcmp one {back}, {a.text}", "bool", lanes)  # false for NaN, which stays as it is
        pattern = self.f.op(f"bitcast {near} to {bits}", "i32", lanes)
        one_less = self.f.op(f"sub {pattern}, {self.cast('i32', away).text}", "i32", lanes)
        odd = self.f.op(f"or {one_less}, {self.cast('i32', lost).text}", "i32", lanes)
        return self.f.op(f"bitcast {odd} to {near.type}", "f32", lanes)

    def float_to_int(self, to: str, a: Value) -> Value:
        """Truncates towards zero; what does not fit wraps from the i64 (or, beyond that, is anything but never a trap)."""
        if to == "u64":
            return self._float_to_u64(a)
        wide = "i32" if dtype(to).bytes < 4 else "i64" if to == "u32" else to
        type_ = type_text(wide, a.lanes)
        cast = self.f.op(f"fptosi {a} to {type_}", wide, a.lanes)
        safe = self.f.op(f"freeze {type_} {cast.text}", wide, a.lanes)
        return self.cast(to, safe)

    def _float_to_u64(self, a: Value) -> Value:
        """From 2^63 on, by way of what is left beyond that; what is below 0 wraps around as an i64 does."""
        lanes = a.lanes
        if dtype(a.dtype).is_half:
            a = self.cast("f32", a)
        limit = const(2.0**63, a.dtype, lanes)
        large = self.f.op(f"fcmp oge {a}, {limit.text}", "bool", lanes)
        rest = self.select(large, self.f.op(f"fsub {a}, {limit.text}", a.dtype, lanes), a)
        low = self.float_to_int("i64", rest)
        high = self.f.op(f"xor {low}, {const(-(1 << 63), 'i64', lanes).text}", "i64", lanes)
        return Value(self.select(large, high, low).text, "u64", lanes)


def _is_nan(constant: Value) -> bool:
    """Whether a constant (a scalar, or the same in all lanes) is NaN."""
    return any(number(nan, constant.dtype) in constant.text for nan in (math.nan, -math.nan))


def _suffix(v: Value) -> str:
    """`v8f32`, `i64`: how LLVM spells a type in the names of its intrinsics."""
    return _spelled(v.dtype, v.lanes)


@functools.cache
def _spelled(name: str, lanes: int) -> str:
    facts = dtype(name)
    scalar = f"{'f' if facts.kind == 'f' and name != 'bf16' else 'i'}{facts.bytes * 8}"
    return f"v{lanes}{scalar}" if lanes else scalar
