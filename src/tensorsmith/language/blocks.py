"""How matrices are stored in GGUF files, bit by bit.

A row is a whole number of blocks. The weights of a block are small integers times a scale, less a minimum; some formats have
several parts with scales of their own. `unpacked` gives the integers and the numbers of each part, `expanded` the weights in f32.

| format | weights | bytes | fields |
| q8_0 | 32 | 34 | f16 d; i8 q[32] |
| q4_0 | 32 | 18 | f16 d; u8 s[16]: weight j is the low half of s[j], weight 16 + j the high half; less 8 |
| q4_1 | 32 | 20 | f16 d, m; s as before |
| q5_0, q5_1 | 32 | 22, 24 | the same with u32 h, whose bit j is the fifth bit of weight j; q5_0 less 16 |
| q4_k | 256 | 144 | f16 d, dmin; 12 bytes with 8 scales and 8 minima of 6 bits; u8 s[128], two parts in every 32 bytes |
| q5_k | 256 | 176 | the same with u8 h[32] before s: bit i of h[j] is the fifth bit of weight j of part i |
| q6_k | 256 | 210 | u8 l[128]; u8 h[64]; i8 c[16], scales of parts of 16; f16 d; less 32 |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tensorsmith.lang.dtypes import Array


@dataclass(frozen=True)
class Unpacked:
    """Weights as integers: w = q * scale - minimum, with a scale and a minimum for each part of a row.

    `q` is i8 (rows, parts, weights of a part), `scale` and `minimum` are f32 (rows, parts); formats around 0 have no minimum.
    """

    q: Array
    scale: Array
    minimum: Array | None


@dataclass(frozen=True)
class Format:
    """`weights` lie in a block of `bytes`; `part` of them share a scale."""

    weights: int
    bytes: int
    part: int = 0
    bits: int = 0
    unpack: Callable[[Array], Unpacked] | None = None  # of blocks: u8 (rows, blocks of a row, bytes)


def unpacked(rows: Array, format: str) -> Unpacked:
    """The integers and scales of rows, u8 (rows, bytes of a row)."""
    facts = FORMATS[format]
    assert facts.unpack is not None
    return facts.unpack(rows.reshape(len(rows), -1, facts.bytes))


def expanded(rows: Array, format: str) -> Array:
    """The weights of rows in f32."""
    if format in _PLAIN:
        return np.ascontiguousarray(rows).view(_PLAIN[format]).astype(np.float32)
    found = unpacked(rows, format)
    weights = found.q.astype(np.float32)
    weights *= found.scale[..., None]
    if found.minimum is not None:
        weights -= found.minimum[..., None]
    return weights.reshape(len(rows), -1)


def quantised(weights: Array, format: str) -> Array:
    """f32 rows in a format that can be written, as bytes: 16 bits, "q8_0" or "q4_0"."""
    if format in _PLAIN:
        return weights.astype(_PLAIN[format]).view(np.uint8).reshape(len(weights), -1)
    blocks = weights.reshape(len(weights), -1, FORMATS[format].weights)
    return _WRITTEN[format](blocks).reshape(len(weights), -1)


def _halves(s: Array) -> Array:
    """The integers of 4 bits in bytes (..., n): those in the low halves, then those in the high halves."""
    return np.concatenate([s & 15, s >> 4], axis=-1)


def _f16(bytes_: Array) -> Array:
    """The f32 of a pair of bytes (..., 2)."""
    return np.ascontiguousarray(bytes_).view("<f2")[..., 0].astype(np.float32)


def _fifth(bits: Array, weights: int = 32) -> Array:
    """Bit j of four bytes as 16 for weight j."""
    return np.unpackbits(np.ascontiguousarray(bits), axis=-1, bitorder="little")[..., :weights] << 4


def _q8_0(b: Array) -> Unpacked:
    return Unpacked(np.ascontiguousarray(b[..., 2:]).view(np.int8), _f16(b[..., :2]), None)


def _q4_0(b: Array) -> Unpacked:
    return Unpacked(_halves(b[..., 2:]).astype(np.int8) - np.int8(8), _f16(b[..., :2]), None)


def _q4_1(b: Array) -> Unpacked:
    return Unpacked(_halves(b[..., 4:]).astype(np.int8), _f16(b[..., :2]), -_f16(b[..., 2:4]))


def _q5_0(b: Array) -> Unpacked:
    return Unpacked((_halves(b[..., 6:]) | _fifth(b[..., 2:6])).astype(np.int8) - np.int8(16), _f16(b[..., :2]), None)


def _q5_1(b: Array) -> Unpacked:
    return Unpacked((_halves(b[..., 8:]) | _fifth(b[..., 4:8])).astype(np.int8), _f16(b[..., :2]), -_f16(b[..., 2:4]))


def _six_bits(t: Array) -> tuple[Array, Array]:
    """The eight scales and eight minima in twelve bytes."""
    low, high, rest = t[..., :4], t[..., 4:8], t[..., 8:]
    scales = np.concatenate([low & 63, (rest & 15) | (low >> 6) << 4], axis=-1)
    return scales, np.concatenate([high & 63, (rest >> 4) | (high >> 6) << 4], axis=-1)


def _k_scales(b: Array) -> tuple[Array, Array]:
    scales, minima = _six_bits(b[..., 4:16])
    d, least = _f16(b[..., :2])[..., None], _f16(b[..., 2:4])[..., None]
    return (d * scales).reshape(len(b), -1), (least * minima).reshape(len(b), -1)


def _k_halves(s: Array) -> Array:
    """The integers (..., 8, 32) of 128 bytes: parts 2 g and 2 g + 1 are the halves of group g of 32 bytes."""
    groups = s.reshape(*s.shape[:-1], 4, 1, 32)
    return np.concatenate([groups & 15, groups >> 4], axis=-2).reshape(*s.shape[:-1], 8, 32)


def _q4_k(b: Array) -> Unpacked:
    return Unpacked(_k_halves(b[..., 16:]).astype(np.int8).reshape(len(b), -1, 32), *_k_scales(b))


def _q5_k(b: Array) -> Unpacked:
    fifth = (b[..., 16:48][..., None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1) << 4
    return Unpacked((_k_halves(b[..., 48:]) | fifth).astype(np.int8).reshape(len(b), -1, 32), *_k_scales(b))


def _q6_k(b: Array) -> Unpacked:
    low = b[..., :128].reshape(*b.shape[:-1], 2, 1, 64)
    low = np.concatenate([low & 15, low >> 4], axis=-2).reshape(*b.shape[:-1], 2, 4, 32)
    high = b[..., 128:192].reshape(*b.shape[:-1], 2, 1, 32) >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    scales = np.ascontiguousarray(b[..., 192:208]).view(np.int8) * _f16(b[..., 208:210])[..., None]
    return Unpacked((low | high << 4).astype(np.int8).reshape(len(b), -1, 16) - np.int8(32), scales.reshape(len(b), -1), None)


def _bytes(numbers: Array) -> Array:
    """f16 of numbers (...), as bytes (..., 2)."""
    return numbers.astype("<f2")[..., None].view(np.uint8)


def _inverse(d: Array) -> Array:
    return np.divide(1, d, out=np.zeros_like(d), where=d != 0)


def _write_q8_0(w: Array) -> Array:
    d = np.abs(w).max(axis=-1) / np.float32(127)
    steps = w * _inverse(d)[..., None]
    q = (np.sign(steps) * np.floor(np.abs(steps) + np.float32(0.5))).astype(np.int8)
    return np.concatenate([_bytes(d), q.view(np.uint8)], axis=-1)


def _write_q4_0(w: Array) -> Array:
    """The weight of the largest size becomes -8."""
    largest = np.take_along_axis(w, np.abs(w).argmax(axis=-1)[..., None], axis=-1)[..., 0]
    d = largest / np.float32(-8)
    q = np.minimum(np.trunc(w * _inverse(d)[..., None] + np.float32(8.5)), 15).astype(np.uint8)
    return np.concatenate([_bytes(d), q[..., :16] | q[..., 16:] << 4], axis=-1)


_PLAIN = {"f32": np.dtype("<f4"), "f16": np.dtype("<f2"), "bf16": np.dtype(ml_dtypes.bfloat16)}
_WRITTEN: dict[str, Callable[[Array], Array]] = {"q8_0": _write_q8_0, "q4_0": _write_q4_0}

FORMATS = {
    "f32": Format(1, 4),
    "f16": Format(1, 2),
    "bf16": Format(1, 2),
    "q8_0": Format(32, 34, 32, 8, _q8_0),
    "q4_0": Format(32, 18, 32, 4, _q4_0),
    "q4_1": Format(32, 20, 32, 4, _q4_1),
    "q5_0": Format(32, 22, 32, 8, _q5_0),
    "q5_1": Format(32, 24, 32, 8, _q5_1),
    "q4_k": Format(256, 144, 32, 4, _q4_k),
    "q5_k": Format(256, 176, 32, 8, _q5_k),
    "q6_k": Format(256, 210, 16, 8, _q6_k),
}
