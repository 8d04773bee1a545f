"""Conditions that hold for one candidate, or for some of a batch: a bool, or an array with one entry per candidate.

Whatever is decided about code is decided by these, so that one rule serves a single candidate and a whole population.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from tensorsmith.program.linear import Number

Array = np.ndarray[Any, np.dtype[Any]]
Flag: TypeAlias = bool | Array


def flag(value: object) -> Flag:
    """A comparison's result: a Python bool or an array."""
    found: Flag = value if getattr(value, "ndim", 0) else bool(value)  # type: ignore[assignment]
    return found


def both(a: Flag, b: Flag) -> Flag:
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return a & b


def either(a: Flag, b: Flag) -> Flag:
    if isinstance(a, bool):
        return True if a else b
    if isinstance(b, bool):
        return True if b else a
    return a | b


def opposite(a: Flag) -> Flag:
    return not a if isinstance(a, bool) else ~a


def where(condition: Flag, a: Number, b: Number) -> Number:
    """`a` where the condition holds, else `b`."""
    if isinstance(condition, (bool, np.bool_)):
        return a if condition else b
    return np.where(condition, a, b)
