"""The element types: their names, sizes and NumPy equivalents; arrays of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorsmith.errors import UserError

Array = np.ndarray[Any, np.dtype[Any]]  # of any shape and type


@dataclass(frozen=True)
class DType:
    """Facts about one element type. `kind` is "f" (float), "i" (signed), "u" (unsigned) or "b" (bool)."""

    name: str
    kind: str
    bytes: int
    numpy: np.dtype


_TABLE = {
    name: DType(name, kind, size, np.dtype(numpy))
    for name, kind, size, numpy in [
        ("f16", "f", 2, "float16"),
        ("f32", "f", 4, "float32"),
        ("f64", "f", 8, "float64"),
        ("i8", "i", 1, "int8"),
        ("u8", "u", 1, "uint8"),
        ("i32", "i", 4, "int32"),
        ("i64", "i", 8, "int64"),
        ("bool", "b", 1, "bool"),
    ]
}

_LONG_NAMES = {facts.numpy.name: name for name, facts in _TABLE.items()}

NAMES = tuple(_TABLE)


def dtype(name: str) -> DType:
    """The facts about a type by its name."""
    return _TABLE[name]


def canonical(given: object) -> str:
    """Our name of a type given as our name, NumPy's name, a NumPy dtype or a NumPy scalar type."""
    if isinstance(given, str) and given in _TABLE:
        return given
    try:
        name = np.dtype(given).name if given is not None else ""  # type: ignore[call-overload]  # NumPy takes None for float64
    except (TypeError, ValueError):
        name = ""
    if name in _LONG_NAMES:
        return _LONG_NAMES[name]
    raise UserError(f"unknown element type {given!r}; known are {', '.join(_TABLE)}")


def is_float(name: str) -> bool:
    return _TABLE[name].kind == "f"


def is_int(name: str) -> bool:
    return _TABLE[name].kind in "iu"
