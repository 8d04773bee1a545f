"""What the arithmetic of PTX computes, on arrays with an entry for each lane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tests.backends.gpu.ptx.parse import Instruction, PtxError

TYPES = {
    "u8": np.uint8, "s8": np.int8, "b8": np.uint8, "u16": np.uint16, "s16": np.int16, "b16": np.uint16, "f16": np.float16,
    "u32": np.uint32, "s32": np.int32, "b32": np.uint32, "f32": np.float32,
    "u64": np.uint64, "s64": np.int64, "b64": np.uint64, "f64": np.float64, "pred": np.bool_,
}  # fmt: skip
WIDER = {"u16": np.uint32, "s16": np.int32, "u32": np.uint64, "s32": np.int64}
Array = np.ndarray

_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
_BOOLEAN = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "rcp": lambda x: 1 / x, "ex2": np.exp2, "lg2": np.log2,
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "neg": np.negative, "abs": np.abs, "not": np.invert,
}  # fmt: skip
_ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def compare(words: tuple[str, ...], a: Array, b: Array) -> Array:
    """`setp`: ordered comparisons are false for NaN, those with a `u` true, and `ne` of numbers false for it."""
    name = words[1]
    floats = a.dtype.kind == "f"
    nan = np.isnan(a) | np.isnan(b) if floats else np.zeros(len(a), bool)
    if name in ("num", "nan"):
        return ~nan if name == "num" else nan
    if floats and name.endswith("u") and name[:-1] in {*_COMPARE, "ne"}:
        return _plainly(name[:-1], a, b) | nan
    return _plainly(name, a, b) & ~nan


def _plainly(name: str, a: Array, b: Array) -> Array:
    return a != b if name == "ne" else _COMPARE[name](a, b)


def combined(words: tuple[str, ...], p: Array, q: Array | None) -> Array:
    """`setp.lt.and`: the comparison and another predicate."""
    return p if q is None else _BOOLEAN[words[2]](p, q)


def one(i: Instruction, a: Array) -> Array:
    """Operations of one operand."""
    name = i.words[0]
    if name == "popc":
        return np.array([bin(int(x)).count("1") for x in a], np.uint32)
    if name == "clz":
        return np.array([a.dtype.itemsize * 8 - int(x).bit_length() for x in a], np.uint32)
    if name not in _FUNCTIONS:
        raise PtxError(f"not known here: {i.text}")
    if a.dtype == np.bool_:
        return ~a
    if a.dtype.kind != "f" or name in ("neg", "abs", "not"):
        return _FUNCTIONS[name](a).astype(a.dtype)
    return _FUNCTIONS[name](a.astype(np.float64)).astype(a.dtype)


def two(i: Instruction, a: Array, b: Array) -> Array:
    """Operations of two operands of one type."""
    name, floats = i.words[0], a.dtype.kind == "f"
    if name in ("add", "sub", "mul") and floats:
        return {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name](a, b)
    if name == "mul":
        return _product(i, a, b)
    if name in ("add", "sub"):
        return a + b if name == "add" else a - b
    if name in ("and", "or", "xor"):
        return {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[name](a, b)
    if name in ("min", "max"):
        plain = np.minimum if name == "min" else np.maximum
        return plain(a, b) if not floats or "NaN" in i.words else (np.fmin if name == "min" else np.fmax)(a, b)
    if name == "div" and floats:
        return (a.astype(np.float64) / b).astype(a.dtype)
    if name in ("div", "rem"):  # towards zero, as in C
        by = np.where(b == 0, np.ones_like(b), b)
        if a.dtype.kind == "u":
            return a // by if name == "div" else a % by
        quotient = (np.abs(a.astype(np.int64)) // np.abs(by.astype(np.int64))) * np.sign(a) * np.sign(by)
        return (quotient if name == "div" else a - quotient * by).astype(a.dtype)
    if name == "copysign":
        return np.copysign(b, a)
    raise PtxError(f"not known here: {i.text}")


def shifted(i: Instruction, a: Array, count: Array) -> Array:
    """`shl` and `shr`: counts beyond the width leave nothing, or the sign."""
    bits = a.dtype.itemsize * 8
    most = np.minimum(count.astype(np.int64), bits - 1)
    moved = np.left_shift(a, most.astype(a.dtype)) if i.words[0] == "shl" else np.right_shift(a, most.astype(a.dtype))
    if i.words[0] == "shr" and a.dtype.kind == "i":
        return moved
    return np.where(count >= bits, np.zeros_like(a), moved)


def _product(i: Instruction, a: Array, b: Array) -> Array:
    if "wide" in i.words:
        wide = WIDER[i.type]
        return a.astype(wide) * b.astype(wide)
    if "hi" in i.words:
        if a.dtype.itemsize == 8:
            return np.array([(int(x) * int(y)) >> 64 for x, y in zip(a, b)], object).astype(a.dtype)
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return (a.astype(wide) * b.astype(wide) >> wide(a.dtype.itemsize * 8)).astype(a.dtype)
    return a * b


def three(i: Instruction, a: Array, b: Array, c: Array) -> Array:
    """`fma`, `mad`: one rounding for floats."""
    if a.dtype.kind == "f":
        exact = np.float64 if a.dtype != np.float64 else np.longdouble
        return (a.astype(exact) * b.astype(exact) + c.astype(exact)).astype(a.dtype)
    product = _product(i, a, b)
    return product + c.astype(product.dtype)


def converted(i: Instruction, a: Array) -> Array:
    """`cvt.to.from`."""
    to = TYPES[[w for w in i.words if w in TYPES][-2]]
    rounding = next((_ROUND[w] for w in i.words if w in _ROUND), None)
    if a.dtype.kind == "f" and np.dtype(to).kind != "f":
        value = (rounding or np.trunc)(a.astype(np.float64))
        info = np.iinfo(to)
        value = np.where(np.isnan(value), 0, value)
        most = np.nextafter(float(info.max) + 1, 0)
        return np.clip(value, float(info.min), most).astype(to)
    if a.dtype.kind == "f" and rounding is not None:
        a = rounding(a)
    value = a.astype(to)
    return np.clip(np.nan_to_num(value), 0, 1).astype(to) if "sat" in i.words else value


def field(a: Array, start: Array, length: Array) -> Array:
    """`bfe` of 32 bits: so many of them from a place on, with their sign if the type has one."""
    at, n = np.minimum(start & 255, 32).astype(np.uint64), np.minimum(length & 255, 32).astype(np.uint64)
    value = (a.view(np.uint32).astype(np.uint64) >> at) & ((np.uint64(1) << n) - np.uint64(1))
    if a.dtype.kind != "i":
        return value.astype(a.dtype)
    top = np.maximum(np.minimum(at + n, np.uint64(32)).astype(np.int64) - 1 - at.astype(np.int64), 0)
    negative = (value >> top.astype(np.uint64) & np.uint64(1)).astype(bool) & (n > 0)
    return np.where(negative, value.astype(np.int64) - (np.int64(2) << top), value.astype(np.int64)).astype(np.int32)


def inserted(a: Array, b: Array, start: Array, length: Array) -> Array:
    """`bfi` of 32 bits: the lowest of `a` in place of some of `b`."""
    at, n = np.minimum(start & 255, 32).astype(np.uint64), np.minimum(length & 255, 32).astype(np.uint64)
    mask = ((np.uint64(1) << n) - np.uint64(1)) << at
    return ((b.astype(np.uint64) & ~mask) | (a.astype(np.uint64) << at & mask)).astype(b.dtype)


def matrix_product(a: list[Array], b: list[Array], c: list[Array]) -> list[Array]:
    """`mma.m16n8k16` with f16 factors and f32 sums, of whole warps: registers `[warps, 32]` of the fragments that PTX defines."""
    warps = a[0].shape[0]
    lane = np.arange(32)
    group, within = lane // 4, lane % 4
    first, second, total = np.zeros((warps, 16, 16)), np.zeros((warps, 16, 8)), np.zeros((warps, 16, 8))
    for n, register in enumerate(a):
        halves = np.ascontiguousarray(register).view(np.float16).reshape(warps, 32, 2)
        for h in range(2):
            first[:, group + 8 * (n % 2), within * 2 + h + 8 * (n // 2)] = halves[:, :, h]
    for n, register in enumerate(b):
        halves = np.ascontiguousarray(register).view(np.float16).reshape(warps, 32, 2)
        for h in range(2):
            second[:, within * 2 + h + 8 * n, group] = halves[:, :, h]
    for n, register in enumerate(c):
        total[:, group + 8 * (n // 2), within * 2 + n % 2] = register
    total = (total + first @ second).astype(np.float32)
    return [total[:, group + 8 * (n // 2), within * 2 + n % 2] for n in range(4)]
