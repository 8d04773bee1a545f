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
    turned = _split_and_turned(packed, array)
    return _picked(packed, array) if turned is None else _copied(turned)


def _split_and_turned(packed: PackedRead, array: Array) -> Array | None:
    """A view of an array in loop order, where every dimension is just split into loops; of the array with zeros behind it, where
    loops run past it. None where loops go another way."""
    counts = {v.name: int(v.count) for v in packed.loops}
    names: list[str] = []
    behind = []
    for index, extent in zip(packed.indices, array.shape):
        steps = sorted(((int(c), name) for name, c in index.terms.items()), reverse=True)
        reach = 1
        for coefficient, name in reversed(steps):
            if coefficient != reach and counts[name] > 1:
                return None
            reach *= counts[name]
        if index.offset != 0 or reach < extent:
            return None
        names += [name for _, name in steps]
        behind.append((0, reach - extent))
    if sorted(names) != sorted(counts):
        return None
    whole = np.pad(array, behind) if any(after for _, after in behind) else array
    return whole.reshape([counts[name] for name in names]).transpose([names.index(v.name) for v in packed.loops])


def _copied(turned: Array) -> Array:
    """A copy in order; what stays together is moved together."""
    together = turned.shape[-1] * turned.itemsize if turned.ndim else 0
    if turned.size and together in (2, 4, 8) and turned.strides[-1] == turned.itemsize:
        return np.ascontiguousarray(turned.view(f"u{together}")).view(turned.dtype)
    return np.ascontiguousarray(turned).reshape(turned.shape)  # which makes one dimension out of none


def _picked(packed: PackedRead, array: Array) -> Array:
    """Every element by its indices."""
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
