"""The types of elements: one table, from which everyone takes what a type is called and what it is made of.

A new type is a row here. bf16 is the upper half of an f32: NumPy has no such type of its own, so its arrays are those of the
package `ml_dtypes`, which users of ONNX and JAX know too. `array.view(ml_dtypes.bfloat16)` makes one of 16 bits held otherwise.

Arithmetic of f16 and bf16 is f32's, each result rounded to the nearest (of two as near, the even one).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class DType:
    """Facts about one element type. `kind` is "f" (float), "i" (signed), "u" (unsigned) or "b" (bool)."""

    name: str
    kind: str
    bytes: int
    numpy: np.dtype
    c: str  # what C calls it; where C has nothing like it, integers of its bits
    onnx: str  # what ONNX's TensorProto calls it
    digits: int = 0  # binary ones of a float, the leading one included

    @property
    def long_name(self) -> str:
        """NumPy's and PyTorch's name of it."""
        return str(self.numpy.name)

    @property
    def is_half(self) -> bool:
        """A float of 16 bits, computed in f32."""
        return self.kind == "f" and self.bytes == 2

    @property
    def lane_bytes(self) -> int:
        """What a value takes in a register while it is computed."""
        return 4 if self.is_half else self.bytes

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next number of a float."""
        return float(2.0 ** (1 - self.digits))


def _row(name: str, kind: str, bytes_: int, numpy: Any, c: str, onnx: str, digits: int = 0) -> DType:
    return DType(name, kind, bytes_, np.dtype(numpy), c, onnx, digits)


TABLE: dict[str, DType] = {
    facts.name: facts
    for facts in [
        _row("f32", "f", 4, np.float32, "float", "FLOAT", 24),
        _row("f64", "f", 8, np.float64, "double", "DOUBLE", 53),
        _row("f16", "f", 2, np.float16, "uint16_t", "FLOAT16", 11),
        _row("bf16", "f", 2, ml_dtypes.bfloat16, "uint16_t", "BFLOAT16", 8),
        _row("i8", "i", 1, np.int8, "int8_t", "INT8"),
        _row("i16", "i", 2, np.int16, "int16_t", "INT16"),
        _row("i32", "i", 4, np.int32, "int32_t", "INT32"),
        _row("i64", "i", 8, np.int64, "int64_t", "INT64"),
        _row("u8", "u", 1, np.uint8, "uint8_t", "UINT8"),
        _row("u16", "u", 2, np.uint16, "uint16_t", "UINT16"),
        _row("u32", "u", 4, np.uint32, "uint32_t", "UINT32"),
        _row("u64", "u", 8, np.uint64, "uint64_t", "UINT64"),
        _row("bool", "b", 1, np.bool_, "uint8_t", "BOOL"),
    ]
}

BY_NUMPY: dict[np.dtype, str] = {facts.numpy: name for name, facts in TABLE.items()}


def kind_of(numpy_dtype: np.dtype) -> str:
    """The kind of a NumPy type, "f" for bf16 too, which NumPy itself takes for some bytes."""
    return TABLE[BY_NUMPY[numpy_dtype]].kind if numpy_dtype in BY_NUMPY else numpy_dtype.kind


def converted(array: np.ndarray[Any, np.dtype[Any]], name: str, copy: bool = False) -> np.ndarray[Any, np.dtype[Any]]:
    """An array as another type: floats are rounded once to the nearest, and cut off towards zero where they become integers.

    `ml_dtypes` goes from f64 to bf16 by way of f32, and what was rounded twice may be off by one. So what the f32 lacks is put into
    its last bit, which decides all cases that look like a tie and are none.
    """
    facts = TABLE[name]
    if facts.name == "bf16" and array.dtype == np.float64:
        array = _rounded_to_odd(array)
    with np.errstate(all="ignore"):  # of a NaN that signals, and of what does not fit
        return array.astype(facts.numpy, copy=copy)


def _rounded_to_odd(array: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """f64 as the f32 towards zero, with its last bit set where something was lost."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        near = np.atleast_1d(array.astype(np.float32))
        back = near.astype(np.float64)
        wide = np.atleast_1d(array)
        bits = near.view(np.uint32)
        bits = bits - (np.abs(back) > np.abs(wide)).astype(np.uint32)
        bits |= ((back != wide) & ~np.isnan(wide)).astype(np.uint32)
    return bits.view(np.float32).reshape(array.shape)
