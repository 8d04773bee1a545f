"""Maps over elements that are written out where that is cheaper."""

from __future__ import annotations

from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import is_float


def power_of(b: Builder, x: Value, exponent: float) -> Value | None:
    """The powers that real models use: a square costs a multiplication, a general power a hundred. None for all others."""
    if exponent == 1:
        return x
    if exponent in (2, 3):
        square = b.add("square", [x])
        return square if exponent == 2 else b.add("multiply", [square, x])
    if exponent in (0.5, -1, -0.5) and is_float(x.dtype):
        root = x if exponent == -1 else b.add("sqrt", [x])
        return root if exponent == 0.5 else b.add("reciprocal", [root])
    return None
