"""Small steps on values that all front ends take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import dtype

LARGEST_MADE = 1 << 27  # elements: a tensor that is made when the model is compiled, and has more, is taken for a mistake


def reshaped(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    """x itself where it has the shape already."""
    return x if tuple(shape) == x.shape else b.add("reshape", [x], shape=tuple(shape))


def transposed(b: Builder, x: Value, order: Sequence[int]) -> Value:
    """x itself where the order is its own."""
    return x if list(order) == list(range(len(x.shape))) else b.add("transpose", [x], order=tuple(order))


def sliced(b: Builder, x: Value, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int] | None = None) -> Value:
    """x itself where the slice is all of it."""
    if tuple(sizes) == x.shape and (steps is None or all(s == 1 or n <= 1 for s, n in zip(steps, sizes))):
        return x
    given = None if steps is None or all(s == 1 for s in steps) else tuple(steps)
    return b.add("slice", [x], starts=tuple(starts), sizes=tuple(sizes), steps=given)


def scalar(b: Builder, number: float, like: Value) -> Value:
    """A constant number of the type of a value."""
    return scalar_of(b, number, like.dtype)


def scalar_of(b: Builder, number: float, to: str) -> Value:
    """A constant number of a type."""
    return b.constant(np.array(number, dtype(to).numpy))


def as_type(b: Builder, x: Value, to: str) -> Value:
    """x, cast where it is of another type."""
    return x if x.dtype == to else b.add("cast", [x], to=to)
