"""The element types of definitions, found by any of their names; arrays of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorsmith.elements import TABLE, DType
from tensorsmith.elements import converted as converted
from tensorsmith.errors import UserError

Array = np.ndarray[Any, np.dtype[Any]]  # of any shape and type

_LONG_NAMES = {facts.long_name: name for name, facts in TABLE.items()}

NAMES = tuple(TABLE)


def dtype(name: str) -> DType:
    """The facts about a type by its name."""
    return TABLE[name]


def canonical(given: object) -> str:
    """Our name of a type given as our name, NumPy's name, a NumPy dtype or a NumPy scalar type."""
    if isinstance(given, str) and given in TABLE:
        return given
    if isinstance(given, str) and given in _LONG_NAMES:
        return _LONG_NAMES[given]
    try:
        name = np.dtype(given).name if given is not None else ""  # type: ignore[call-overload]  # NumPy takes None for float64
    except (TypeError, ValueError):
        name = ""
    if name in _LONG_NAMES:
        return _LONG_NAMES[name]
    raise UserError(f"unknown element type {given!r}; known are {', '.join(TABLE)}")


def is_float(name: str) -> bool:
    return TABLE[name].kind == "f"


def is_int(name: str) -> bool:
    return TABLE[name].kind in "iu"


def widened(name: str) -> str:
    """The type that values are computed in where every digit counts: f32 for floats of 16 bits, else their own."""
    return "f32" if TABLE[name].is_half else name
