"""Formats of weights in blocks, as files of language models (GGUF) have them: what a weight is, and where its bits are.

    w[j, k] = factor * (n - middle) + least            n a small integer; factor and least of a part of 16 or 32 weights

The operands of a matrix are the fields of its blocks, each an array (M, blocks of a row, ...), so that they can be views of the
file. `Format.split` gives them. Two kinds of fields are put in another order there, which are few of the bytes: scales of six bits
become bytes, and the fifth bits of Q5_0 are gathered so that each is a byte's shift away (bit 4 h + g of byte k is that of weight
16 h + 4 g + k).

A part is what one f32 scale multiplies: the products in it are added up as integers. `outer` are the sizes of the loops over the
parts of a block, `inner` of those over the weights of a part.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.dtypes import Array
from tensorsmith.lang.expr import Expr, binary

Read = Callable[..., Expr]  # of one field: its element at indices behind (row, block)
Numbers = Sequence[Expr]  # of the loops over parts, or over the weights of one

ACTIVATIONS = 32  # neighbours of a row that are quantised with one scale
SUMMED = 16  # of them that are added up beforehand, for what is subtracted


@dataclass(frozen=True)
class Field:
    """One operand: (M, blocks, *shape)."""

    dtype: str
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Format:
    """One format. Expressions are made of reads of the fields and of the numbers of loops."""

    name: str
    weights: int  # of a block
    bytes: int  # of a block in a file
    fields: Mapping[str, Field]
    outer: tuple[int, ...]
    inner: tuple[int, ...]  # neighbours along the last one are neighbours in memory
    block: Callable[[Numbers], Expr | int]  # of `ACTIVATIONS` weights that a part is in, counted in the block
    place: Callable[[Numbers, Numbers], Expr]  # of a weight there
    number: Callable[[Mapping[str, Read], Numbers, Numbers], Expr]  # n, as u8
    factor: Callable[[Mapping[str, Read], Numbers], Expr]
    cut: Callable[[Array], dict[str, Array]] | None = None  # the fields of blocks (..., bytes); None where no file has them so
    least: Callable[[Mapping[str, Read], Numbers], Expr] | None = None
    middle: int = 0

    @property
    def halves(self) -> bool:
        """Whether a part is half of what activations are quantised by; the last of the outer numbers says which."""
        return math.prod(self.inner) == SUMMED

    def split(self, raw: Array) -> tuple[Array, ...]:
        """The operands of a matrix whose rows are given as bytes (M, bytes of a row), views of these where that can be."""
        if self.cut is None:
            raise UserError(f"{self.name}: no file has blocks of this format")
        if raw.dtype != np.uint8 or raw.ndim != 2 or raw.shape[1] % self.bytes or not raw.shape[1]:
            raise UserError(f"{self.name}: rows are whole blocks of {self.bytes} bytes; got {raw.dtype}{list(raw.shape)}")
        made = self.cut(raw.reshape(raw.shape[0], -1, self.bytes))
        return tuple(made[name] for name in self.fields)


@functools.cache
def format_of(name: str) -> Format:
    """The format of that name: one of `FORMATS`, or of `bits_format`."""
    if name in FORMATS:
        return FORMATS[name]
    of_bits = re.fullmatch(r"bits([48])_([1-9][0-9]{1,5})(|_zero|_real)", name)
    if of_bits is None or int(of_bits[2]) % ACTIVATIONS:
        raise UserError(f"there is no format {name!r} of weights in blocks; known are {', '.join(FORMATS)}")
    return _bits_format(name, int(of_bits[1]), int(of_bits[2]), of_bits[3])


def bits_format(bits: int, block: int, zero: str | None) -> str:
    """The name of the format of integers of 4 or 8 bits without a sign, with an f32 scale for each `block` of a multiple of 32.

    A zero point may be given for each block, as u8 or f32; without one it is in the middle of the range. Of 4 bits, each 16 bytes
    (M, blocks, 32s of a block, 16) have 16 neighbours in their lower halves and the next 16 in their upper ones.
    """
    return f"bits{bits}_{block}{'' if zero is None else '_zero' if zero == 'u8' else '_real'}"


def _right(byte: Expr, by: Expr | int) -> Expr:
    return binary("shr", byte, define.cast("u8", by) if isinstance(by, Expr) else by)


def _half(byte: Expr, upper: Expr) -> Expr:
    """The lower or the upper four bits of a byte."""
    return _right(byte, upper * 4) & 15


def _bits(byte: Expr, first: Expr, count: int) -> Expr:
    """So many bits of a byte, from one on, as the bits of a number behind its first four."""
    return binary("shl", _right(byte, first) & ((1 << count) - 1), 4)


def _real(e: Expr) -> Expr:
    return define.cast("f32", e)


def _field(raw: Array, start: int, stop: int, dtype: type, shape: tuple[int, ...] = ()) -> Array:
    """Bytes of blocks as numbers; a view."""
    found: Array = raw[..., start:stop].view(dtype)
    return found.reshape(*raw.shape[:-1], *shape) if shape else found[..., 0]


# -- blocks of 32 ------------------------------------------------------------------------------------------------------


def _q8_0(raw: Array) -> dict[str, Array]:
    return {"q": raw[..., 2:].view(np.int8), "d": _field(raw, 0, 2, np.float16)}


def _q4_0(raw: Array) -> dict[str, Array]:
    return {"q": raw[..., 2:], "d": _field(raw, 0, 2, np.float16)}


def _q4_1(raw: Array) -> dict[str, Array]:
    return {"q": raw[..., 4:], "d": _field(raw, 0, 2, np.float16), "m": _field(raw, 2, 4, np.float16)}


def _q5_0(raw: Array) -> dict[str, Array]:
    bits = np.unpackbits(raw[..., 2:6], axis=-1, bitorder="little").reshape(*raw.shape[:-1], 8, 4)  # 4 h + g, k
    high = np.packbits(np.moveaxis(bits, -1, -2), axis=-1, bitorder="little")[..., 0]
    return {"q": raw[..., 6:], "h": high, "d": _field(raw, 0, 2, np.float16)}


def _whole(outer: Numbers) -> int:
    return 0


_Q8_0 = Format(
    "q8_0", 32, 34, {"q": Field("i8", (32,)), "d": Field("f16")}, (), (32,),
    block=_whole,
    place=lambda outer, inner: inner[0],
    number=lambda f, outer, inner: define.cast("u8", f["q"](inner[0])) ^ 128,
    factor=lambda f, outer: _real(f["d"]()),
    cut=_q8_0, middle=128,
)  # fmt: skip
_Q4_0 = Format(
    "q4_0", 32, 18, {"q": Field("u8", (16,)), "d": Field("f16")}, (), (2, 16),
    block=_whole,
    place=lambda outer, inner: inner[0] * 16 + inner[1],
    number=lambda f, outer, inner: _half(f["q"](inner[1]), inner[0]),
    factor=lambda f, outer: _real(f["d"]()),
    cut=_q4_0, middle=8,
)  # fmt: skip
_Q4_1 = Format(
    "q4_1", 32, 20, {"q": Field("u8", (16,)), "d": Field("f16"), "m": Field("f16")}, (), (2, 16),
    block=_whole, place=_Q4_0.place, number=_Q4_0.number, factor=_Q4_0.factor,
    least=lambda f, outer: _real(f["m"]()),
    cut=_q4_1,
)  # fmt: skip
_Q5_0 = Format(
    "q5_0", 32, 22, {"q": Field("u8", (16,)), "h": Field("u8", (4,)), "d": Field("f16")}, (), (4, 2, 4),
    block=_whole,
    place=lambda outer, inner: inner[1] * 16 + inner[0] * 4 + inner[2],
    number=lambda f, outer, inner: _half(f["q"](inner[0] * 4 + inner[2]), inner[1])
    | _bits(f["h"](inner[2]), inner[1] * 4 + inner[0], 1),
    factor=lambda f, outer: _real(f["d"]()),
    cut=_q5_0, middle=16,
)  # fmt: skip

# -- blocks of 256 -----------------------------------------------------------------------------------------------------


def _six_bits(t: Array) -> tuple[Array, Array]:
    """Scales and minima of the eight parts of a block, bytes, out of twelve."""
    low, mid, high = t[..., 0:4], t[..., 4:8], t[..., 8:12]
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6 << 4)], -1)
    return scales, np.concatenate([mid & 63, (high >> 4) | (mid >> 6 << 4)], -1)


def _scales(raw: Array) -> dict[str, Array]:
    scales, minima = _six_bits(raw[..., 4:16])
    return {"a": scales, "b": minima, "d": _field(raw, 0, 2, np.float16), "dmin": _field(raw, 2, 4, np.float16)}


def _q4_k(raw: Array) -> dict[str, Array]:
    return {"q": raw[..., 16:].reshape(*raw.shape[:-1], 4, 32)} | _scales(raw)


def _q5_k(raw: Array) -> dict[str, Array]:
    return {"q": raw[..., 48:].reshape(*raw.shape[:-1], 4, 32), "h": raw[..., 16:48]} | _scales(raw)


def _q6_k(raw: Array) -> dict[str, Array]:
    return {
        "q": raw[..., :128].reshape(*raw.shape[:-1], 2, 2, 2, 16),
        "h": raw[..., 128:192].reshape(*raw.shape[:-1], 2, 2, 16),
        "c": raw[..., 192:208].view(np.int8),
        "d": _field(raw, 208, 210, np.float16),
    }


_OF_PARTS = {"a": Field("u8", (8,)), "b": Field("u8", (8,)), "d": Field("f16"), "dmin": Field("f16")}


def _part(outer: Numbers) -> Expr:
    return outer[0] * 2 + outer[1]


_Q4_K = Format(
    "q4_k", 256, 144, {"q": Field("u8", (4, 32))} | _OF_PARTS, (4, 2), (32,),
    block=_part,
    place=lambda outer, inner: inner[0],
    number=lambda f, outer, inner: _half(f["q"](outer[0], inner[0]), outer[1]),
    factor=lambda f, outer: _real(f["d"]()) * _real(f["a"](_part(outer))),
    least=lambda f, outer: -_real(f["dmin"]()) * _real(f["b"](_part(outer))),
    cut=_q4_k,
)  # fmt: skip
_Q5_K = Format(
    "q5_k", 256, 176, {"q": Field("u8", (4, 32)), "h": Field("u8", (32,))} | _OF_PARTS, (4, 2), (32,),
    block=_part,
    place=lambda outer, inner: inner[0],
    number=lambda f, outer, inner: _half(f["q"](outer[0], inner[0]), outer[1]) | _bits(f["h"](inner[0]), _part(outer), 1),
    factor=_Q4_K.factor, least=_Q4_K.least,
    cut=_q5_k,
)  # fmt: skip
# weight 32 (2 u + v) + 16 s + p of half t: its lower bits in the lower (u = 0) or upper halves of bytes [v, s, p]
_Q6_K = Format(
    "q6_k", 256, 210, {"q": Field("u8", (2, 2, 2, 16)), "h": Field("u8", (2, 2, 16)), "c": Field("i8", (16,)), "d": Field("f16")},
    (2, 2, 2, 2), (16,),
    block=lambda outer: outer[0] * 4 + _part(outer[1:]),
    place=lambda outer, inner: outer[3] * 16 + inner[0],
    number=lambda f, outer, inner: _half(f["q"](outer[0], outer[2], outer[3], inner[0]), outer[1])
    | _bits(f["h"](outer[0], outer[3], inner[0]), _part(outer[1:]) * 2, 2),
    factor=lambda f, outer: _real(f["d"]()) * _real(f["c"](outer[0] * 8 + _part(outer[1:]) * 2 + outer[3])),
    cut=_q6_k, middle=32,
)  # fmt: skip

# -- integers of some bits, with scales and zero points beside them ------------------------------------------------------


def _bits_format(name: str, bits: int, block: int, zero: str) -> Format:
    several = block // ACTIVATIONS
    outer = (several,) if several > 1 else ()
    like = _Q4_0 if bits == 4 else _Q8_0
    fields = {"q": Field("u8", (*outer, ACTIVATIONS * bits // 8)), "d": Field("f32")}
    if zero:
        fields["z"] = Field("u8" if zero == "_zero" else "f32")

    def number(f: Mapping[str, Read], at: Numbers, inner: Numbers) -> Expr:
        return _half(f["q"](*at, inner[1]), inner[0]) if bits == 4 else f["q"](*at, inner[0])

    def least(f: Mapping[str, Read], at: Numbers) -> Expr:
        off = f["z"]()
        return -(f["d"]() * (off if off.dtype == "f32" else _real(off)))

    return Format(
        name, block, block * bits // 8, fields, outer, like.inner,
        block=lambda at: at[0] if at else 0,
        place=like.place,
        number=number,
        factor=lambda f, at: f["d"](),
        least=least if zero else None,
        middle=0 if zero else 1 << (bits - 1),
    )  # fmt: skip


FORMATS = {f.name: f for f in (_Q8_0, _Q4_0, _Q4_1, _Q5_0, _Q4_K, _Q5_K, _Q6_K)}
