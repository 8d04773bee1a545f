"""Whole numbers of few bits, made of real ones and used as real ones again: quantised numbers, without conversions that do nothing.

    f32(u8(min(max(round(v) + z, 0.0), 255.0)))    ->    min(max(round(v) + z, 0.0), 255.0)
    u8(min(max(round(v) + z, 0.0), 255.0))         ->    the last byte of  bits(min(max(v, 0.0 - z), 255.0 - z) + 1.5 * 2^23) + z

What is clamped by whole numbers may as well be rounded afterwards, and rounding is the addition of a number so large that nothing
smaller than 1 has room beside it: the sum's last bits are the whole number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorsmith.backends.cpu.codegen.arith import Arithmetic
from tensorsmith.backends.cpu.codegen.irtext import Value, const
from tensorsmith.lang.dtypes import dtype, is_int
from tensorsmith.lang.expr import Binary, Cast, Const, Expr, Unary

_ROUNDING = 1.5 * 2.0**23  # an f32 from which the next one is 1 away, in the middle of those of its size
_FEW_BYTES = 2  # of an integer type whose numbers, and sums of several, are far smaller than that


@dataclass(frozen=True)
class Clamped:
    """min(max(round(value) + zero, low), high) in f32, its limits and `zero`, an integer of few bits, being whole numbers."""

    value: Expr
    zero: Expr | None
    low: int
    high: int


def passed_through(e: Cast) -> Clamped | None:
    """The clamped whole number that e, an f32, is, though it goes through an integer type."""
    found = clamped(e.a) if e.dtype == "f32" and isinstance(e.a, Cast) else None
    if found is None:
        return None
    limits = np.iinfo(dtype(e.a.dtype).numpy)
    return found if limits.min <= found.low and found.high <= limits.max else None


def clamped(e: Cast) -> Clamped | None:
    """What e makes an integer of few bits of, if that is a clamped whole number."""
    return _clamped(e.a) if _is_small(e.dtype) else None


def as_float(arith: Arithmetic, found: Clamped, value: Value, zero: Value | None) -> Value:
    """The number in f32."""
    whole = arith.unary("round", value)
    whole = whole if zero is None else arith.binary("add", whole, arith.cast("f32", zero))
    return _between(arith, whole, const(float(found.low), "f32"), const(float(found.high), "f32"))


def as_integer(arith: Arithmetic, found: Clamped, value: Value, zero: Value | None) -> Value:
    """An i32 whose last two bytes are those of the number."""
    limits = [const(float(n), "f32") for n in (found.low, found.high)]
    if zero is not None:
        limits = [arith.binary("sub", n, arith.cast("f32", zero)) for n in limits]
    rounded = arith.binary("add", _between(arith, value, *limits), const(_ROUNDING, "f32"))
    bits = arith.bitcast("i32", rounded)
    return bits if zero is None else arith.binary("add", bits, arith.cast("i32", zero))


def _between(arith: Arithmetic, value: Value, low: Value, high: Value) -> Value:
    """The value, or the limit that it is beyond; of NaN the lower one, so that it is an integer like any other."""
    for word, limit in (("ogt", low), ("olt", high)):
        value, limit = arith.same_lanes(value, limit)
        value = arith.select(arith.f.op(f"fcmp {word} {value}, {limit.text}", "bool", value.lanes), value, limit)
    return value


def _clamped(e: Expr) -> Clamped | None:
    above = e.a if isinstance(e, Binary) and e.op == "min" and e.dtype == "f32" else None
    if not isinstance(e, Binary) or not isinstance(above, Binary) or above.op != "max":
        return None
    whole, low, high = above.a, _number(above.b), _number(e.b)
    zero: Expr | None = None
    if low is None or high is None or low > high:
        return None
    if isinstance(whole, Binary) and whole.op == "add" and isinstance(whole.b, Cast) and _is_small(whole.b.a.dtype):
        zero = whole.b.a
        whole = whole.a
    return Clamped(whole.a, zero, low, high) if isinstance(whole, Unary) and whole.op == "round" else None


def _number(e: Expr) -> int | None:
    """A constant that is a whole number of few bits."""
    if not isinstance(e, Const) or not float(e.value).is_integer() or abs(e.value) >= 1 << 8 * _FEW_BYTES:
        return None
    return int(e.value)


def _is_small(name: str) -> bool:
    return is_int(name) and dtype(name).bytes <= _FEW_BYTES
