"""Elements found by indices: what is known about the indices when the model is compiled is used."""

from __future__ import annotations

import math

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.values import LARGEST_MADE, reshaped, sliced
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Array, Value


def gathered(what: object, b: Builder, x: Value, indices: Value, axis: int) -> Value:
    """The slices of x along `axis` that `indices` say. Those known to be evenly spaced are a slice, which costs no lookup."""
    known = b.known(indices)
    if known is not None:
        _check_range(what, known, x.shape[axis])
        spaced = _evenly_spaced(known, x.shape[axis])
        if spaced is not None:
            start, step, count = spaced
            starts = [start if d == axis else 0 for d in range(len(x.shape))]
            steps = [step if d == axis else 1 for d in range(len(x.shape))]
            piece = sliced(b, x, starts, [count if d == axis else n for d, n in enumerate(x.shape)], steps)
            return reshaped(b, piece, (*x.shape[:axis], *known.shape, *x.shape[axis + 1 :]))
    return b.add("gather", [x, indices], axis=axis)


def _check_range(what: object, indices: Array, extent: int) -> None:
    if indices.size and (indices.min() < -extent or indices.max() >= extent):
        raise UserError(f"{what}: the indices {indices.min()}..{indices.max()} are not all in {-extent}..{extent - 1}")


def _evenly_spaced(indices: Array, extent: int) -> tuple[int, int, int] | None:
    """Start, step and number of the indices, if they are 1-D or a number and the step is not 0."""
    if indices.ndim > 1 or indices.size == 0:
        return None
    flat = np.where(indices < 0, indices.astype(np.int64) + extent, indices).reshape(-1)
    steps = np.diff(flat)
    if len(steps) == 0:
        return int(flat[0]), 1, 1
    return (int(flat[0]), int(steps[0]), len(flat)) if steps[0] != 0 and np.all(steps == steps[0]) else None


def scattered(what: object, b: Builder, x: Value, indices: Value, updates: Value, reduction: str = "none") -> Value:
    """x with slices replaced by `updates`, or combined with them; the last dimension of `indices` holds their leading indices.

    With known indices, which update an element takes is known as well: a constant map replaces the search.
    """
    known = b.known(indices)
    large = math.prod(x.shape) > LARGEST_MADE
    if known is None or reduction != "none" or not known.ndim or not known.size or large:
        return b.add("scatter_nd", [x, indices, updates], reduction=reduction)
    depth = known.shape[-1]
    if depth > len(x.shape) or updates.shape != (*known.shape[:-1], *x.shape[depth:]):
        raise UserError(f"{what}: indices {list(known.shape)} and updates {updates} do not fit {x}")
    lead = x.shape[:depth]
    flat = known.reshape(-1, depth).astype(np.int64)
    flat = np.where(flat < 0, flat + np.array(lead), flat)
    if np.any(flat < 0) or np.any(flat >= np.array(lead)):
        raise UserError(f"{what}: some of the indices are not in {list(lead)}")
    position = np.full(lead, -1, np.int64)
    position[tuple(flat.T)] = np.arange(len(flat))  # of several for one element the last counts
    rows = reshaped(b, updates, (len(flat), *x.shape[depth:]))
    return b.add("overlay", [x, rows, b.constant(position)])
