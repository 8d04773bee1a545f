"""Constants in loop order: the arrays that packed reads expect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorsmith.lang.small import kept_if_small
from tensorsmith.program.ir import PackedRead
from tensorsmith.program.linear import Linear

Array = np.ndarray[Any, np.dtype[Any]]


def evaluate_linear(form: Linear, values: Mapping[str, Any]) -> Any:
    """A linear form at given values (numbers or arrays) of its variables."""
    total: Any = form.offset
    for name, coefficient in form.terms.items():
        total = total + coefficient * values[name]
    return total


def pack(packed: PackedRead, array: Array) -> Array:
    """An array in loop order; zero where the loops run past it."""
    array = kept_if_small(array) if packed.small else array
    grids = np.meshgrid(*(np.arange(int(v.count)) for v in packed.loops), indexing="ij", sparse=True)
    values = dict(zip((v.name for v in packed.loops), grids))
    indices = [evaluate_linear(i, values) for i in packed.indices]
    inside = np.ones((), bool)
    clipped = []
    for index, extent in zip(indices, array.shape):
        inside = inside & (index >= 0) & (index < extent)
        clipped.append(np.clip(index, 0, extent - 1))
    shape = tuple(int(v.count) for v in packed.loops)
    picked = np.broadcast_to(array[tuple(clipped)], shape)
    # (ascontiguousarray makes one dimension out of none)
    return np.ascontiguousarray(np.where(inside, picked, np.zeros((), array.dtype))).reshape(shape)
