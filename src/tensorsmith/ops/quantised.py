"""Affine quantisation: a real number is (q - zero_point) * scale, with q a small integer.

Scales and zero points broadcast as in NumPy, so one number, one per channel and one per block are all the same definition.
"""

from __future__ import annotations

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, compute
from tensorsmith.lang.dtypes import dtype as facts
from tensorsmith.lang.dtypes import is_int
from tensorsmith.lang.expr import Expr
from tensorsmith.ops import reduce
from tensorsmith.ops.common import at, compute_named
from tensorsmith.ops.elementwise import apply, saturated


def _quantised(value: Expr, zero: Expr | None, dtype: str) -> Expr:
    """A float, already divided by the scale, as a quantised number; halves go to the even neighbour."""
    moved = define.round(value)
    return saturated(dtype, moved if zero is None else moved + _wide(zero))


def _check(dtype: str, name: str) -> None:
    if not is_int(dtype) or facts(dtype).bytes > 2:
        raise UserError(f"{name}: cannot quantise to {dtype}; known are i8, u8, i16 and u16")


def _wide(v: Expr) -> Expr:
    return define.cast("f32", v) if v.dtype != "f32" else v


def quantize(x: Tensor, scale: Tensor, zero_point: Tensor | None = None, dtype: str = "u8", name: str = "quantize") -> Tensor:
    """saturate(round(x / scale) + zero_point)"""
    _check(dtype, name)
    operands = [x, scale] if zero_point is None else [x, scale, zero_point]
    return apply(lambda v, s, z=None: _quantised(_wide(v) / _wide(s), z, dtype), *operands, name=name)


def dequantize(x: Tensor, scale: Tensor, zero_point: Tensor | None = None, dtype: str = "f32", name: str = "dequantize") -> Tensor:
    """(x - zero_point) * scale"""

    def real(v: Expr, s: Expr, z: Expr | None = None) -> Expr:
        moved = _wide(v) if z is None else _wide(v) - _wide(z)
        result = moved * _wide(s)
        return result if dtype == "f32" else define.cast(dtype, result)

    operands = [x, scale] if zero_point is None else [x, scale, zero_point]
    return apply(real, *operands, name=name)


def requantize(x: Tensor, scale: Tensor, zero_point: Tensor | None = None, dtype: str = "u8", name: str = "requantize") -> Tensor:
    """saturate(round(x * scale) + zero_point): a sum of products (i32) back in a few bits."""
    _check(dtype, name)
    operands = [x, scale] if zero_point is None else [x, scale, zero_point]
    return apply(lambda v, s, z=None: _quantised(_wide(v) * _wide(s), z, dtype), *operands, name=name)


def centred(x: Tensor, zero_point: Tensor | None = None, name: str = "centred") -> Tensor:
    """x - zero_point in i32, which integer products are made of."""
    if zero_point is None:
        return apply(lambda v: define.cast("i32", v), x, name=name)
    return apply(lambda v, z: define.cast("i32", v) - define.cast("i32", z), x, zero_point, name=name)


def dynamic_quantize(x: Tensor, name: str = "dynamic_quantize") -> tuple[Tensor, Tensor, Tensor]:
    """x in u8, with the scale and the zero point chosen so that its range, and 0, fit. Zeros alone have the scale 1 / 255."""
    low, high = reduce.min(x, name=f"{name}_min"), reduce.max(x, name=f"{name}_max")

    def width() -> Expr:
        span = define.maximum(high[()], 0.0) - define.minimum(low[()], 0.0)
        return define.select(define.equal(span, 0.0), 1.0, span) / 255.0

    scale = compute((), width, name=f"{name}_scale")

    def place() -> Expr:
        return saturated("u8", define.round(-define.minimum(low[()], 0.0) / scale[()]))

    zero = compute((), place, name=f"{name}_zero_point")
    return quantize(x, scale, zero, "u8", name), scale, zero


def table(x: Tensor, entries: Tensor, name: str = "table") -> Tensor:
    """A function of bytes, given by what it makes of each of them, the smallest first."""
    if facts(x.dtype).bytes != 1 or not is_int(x.dtype) or entries.shape != (256,):
        raise UserError(f"{name}: {x.name} is {x.dtype} and {entries.name} {list(entries.shape)}; expected bytes and 256 entries")
    first = -128 if x.dtype == "i8" else 0

    def body(indices: tuple[Expr, ...]) -> Expr:
        return entries[define.cast("i64", at(x, *indices)) - first]

    return compute_named(x.shape, [f"i{d}" for d in range(len(x.shape))], body, name)
