"""Resizing, along one dimension after the other: every mode is a table of places and weights, made here.

A nearest-neighbour resize by a whole factor is a repetition or a slice, which needs no table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.spatial import channels_first, channels_last
from tensorsmith.frontends.common.values import scalar
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Array, Value
from tensorsmith.lang.dtypes import is_float


@dataclass(frozen=True)
class Rule:
    """How places in the result are mapped to the input, and how values between elements come about."""

    mode: str  # nearest, linear, cubic
    coordinates: str  # ONNX's coordinate_transformation_mode
    nearest: str = "round_prefer_floor"  # ONNX's nearest_mode; "simple": as before version 11
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False
    outside: float = 0.0  # ONNX's extrapolation_value


@dataclass(frozen=True)
class Dimension:
    """One dimension: its extents before and after, the scale, and the part of the input that is looked at."""

    extent: int
    result: int
    scale: float
    first: float = 0.0
    last: float = 1.0


def sources(d: Dimension, coordinates: str) -> Array:
    """The place in the input, a real number, of every element of the result."""
    x = np.arange(d.result, dtype=np.float64)
    length = d.scale * d.extent  # of the result, before it was rounded to a whole number
    if coordinates == "align_corners":
        return x * 0 if length == 1 else x * (d.extent - 1) / (length - 1)
    if coordinates == "asymmetric":
        return x / d.scale
    if coordinates == "tf_crop_and_resize":
        span = (d.last - d.first) * (d.extent - 1)
        return d.first * (d.extent - 1) + (x * 0 + span / 2 if length == 1 else x * span / (length - 1))
    if coordinates == "pytorch_half_pixel" and d.result == 1:
        return x * 0
    if coordinates in ("half_pixel", "pytorch_half_pixel"):
        return (x + 0.5) / d.scale - 0.5
    if coordinates == "tf_half_pixel_for_nn":  # of version 11 only
        return (x + 0.5) / d.scale
    if coordinates == "half_pixel_symmetric":
        return d.extent / 2 * (1 - d.result / length) + (x + 0.5) / d.scale - 0.5
    raise UserError(f"the coordinate_transformation_mode {coordinates!r} is not known")


def nearest_places(x: Array, mode: str, scale: float, extent: int) -> Array:
    """The element nearest to each place."""
    rounding = {
        "round_prefer_floor": lambda: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda: np.floor(x + 0.5),
        "floor": lambda: np.floor(x),
        "ceil": lambda: np.ceil(x),
        "simple": lambda: np.ceil(x) if scale < 1 else np.floor(x),
    }
    if mode not in rounding:
        raise UserError(f"the nearest_mode {mode!r} is not known")
    return np.clip(rounding[mode](), 0, extent - 1).astype(np.int64)


def taps(x: Array, d: Dimension, rule: Rule) -> tuple[Array, Array]:
    """The elements each place is made of, and their weights: two arrays (result, taps)."""
    stretch = min(d.scale, 1.0) if rule.antialias else 1.0  # a smaller result averages over more elements
    reach = 2 if rule.mode == "cubic" else 1
    first = math.floor(-reach / stretch) + 1
    steps = np.arange(first, 2 - first)
    base = np.ceil(x) - 1  # so that the place lies in (base, base + 1]
    distance = np.abs((steps - (x - base)[:, None]) * stretch)
    if rule.mode == "cubic":
        a = rule.cubic
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    else:
        weights = np.clip(1 - distance, 0, 1)
    places = base[:, None].astype(np.int64) + steps
    if rule.exclude_outside:
        weights = np.where((places < 0) | (places >= d.extent), 0, weights)
    if rule.exclude_outside or rule.antialias:
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
    return np.clip(places, 0, d.extent - 1), weights


def merged(places: Array, weights: Array) -> tuple[Array, Array]:
    """The same taps, with all the weight of a place that a row has twice, as at a border, on the first of the two."""
    weights = weights.copy()
    for second in range(1, places.shape[1]):
        for first in range(second):
            same = places[:, first] == places[:, second]
            weights[same, first] += weights[same, second]
            weights[same, second] = 0
    return places, weights


def resized(b: Builder, x: Value, dimensions: Sequence[tuple[int, Dimension]], rule: Rule) -> Value:
    """x with some dimensions resized, the ones that shrink first."""
    for axis, d in sorted(dimensions, key=lambda item: item[1].scale):
        places = sources(d, rule.coordinates)
        beyond = (places < 0) | (places > d.extent - 1) if rule.coordinates == "tf_crop_and_resize" else np.zeros(d.result, bool)
        if rule.mode == "nearest" and not beyond.any():
            x = selected(b, x, axis, nearest_places(places, rule.nearest, d.scale, d.extent))
            continue
        if rule.mode == "nearest":
            table = nearest_places(places, rule.nearest, d.scale, d.extent)[:, None]
            weights = np.ones(table.shape)
        else:
            table, weights = taps(places, d, rule)
        x = weighted(b, x, axis, table, np.where(beyond[:, None], 0, weights), np.where(beyond, rule.outside, 0))
    return x


def selected(b: Builder, x: Value, axis: int, places: Array) -> Value:
    """The elements of x along a dimension at those places."""
    extent, count = x.shape[axis], len(places)
    if np.array_equal(places, np.arange(extent)):
        return x
    if count % extent == 0 and np.array_equal(places, np.arange(count) // (count // extent)):
        return b.add("repeat", [x], times=tuple(count // extent if d == axis else 1 for d in range(len(x.shape))))
    steps = np.diff(places)
    if count > 1 and steps[0] > 0 and (steps == steps[0]).all():
        starts = tuple(int(places[0]) if d == axis else 0 for d in range(len(x.shape)))
        sizes = tuple(count if d == axis else n for d, n in enumerate(x.shape))
        strides = tuple(int(steps[0]) if d == axis else 1 for d in range(len(x.shape)))
        return b.add("slice", [x], starts=starts, sizes=sizes, steps=strides)
    return b.add("gather", [x, b.constant(places, "places")], axis=axis)


def weighted(b: Builder, x: Value, axis: int, places: Array, weights: Array, outside: Array) -> Value:
    extent = x.shape[axis]
    used = weights.any(axis=0)
    if used.any():  # a tap that never counts (linear at whole places) is not read
        places, weights = places[:, used], weights[:, used]
    identity = places.shape == (extent, 1) and np.array_equal(places[:, 0], np.arange(extent)) and (weights == 1).all()
    if identity and not outside.any():
        return x
    kind = np.float64 if x.dtype == "f64" else np.float32
    tables = [b.constant(places, "places"), b.constant(weights.astype(kind), "weights")]
    if outside.any():
        tables.append(b.constant(outside.astype(kind), "outside"))
    return b.add("resample", [x, *tables], axis=axis, dtype="f64" if kind is np.float64 else "f32")


def resized_image(what: object, b: Builder, x: Value, dimensions: Sequence[tuple[int, Dimension]], rule: Rule) -> Value:
    """x with some dimensions resized, in its own type; channels-last where only spatial dimensions change."""
    if rule.mode not in ("nearest", "linear", "cubic"):
        raise UserError(f"{what}: mode is {rule.mode!r}; known are nearest, linear and cubic")
    dimensions = [(axis, d) for axis, d in dimensions if (d.extent, d.scale, d.first, d.last) != (d.result, 1.0, 0.0, 1.0)]
    if any(d.result < 1 or d.scale <= 0 for _, d in dimensions):
        raise UserError(f"{what}: cannot resize {list(x.shape)} by {[d.scale for _, d in dimensions]}: nothing would be left")
    if 0 in x.shape:
        raise UserError(f"{what}: the input {list(x.shape)} is empty")
    spatial = len(x.shape) > 2 and all(axis > 1 for axis, _ in dimensions)
    if spatial:
        inner = resized(b, channels_last(b, x), [(axis - 1, d) for axis, d in dimensions], rule)
        return channels_first(b, _back(b, inner, x.dtype))
    return _back(b, resized(b, x, dimensions, rule), x.dtype)


def _back(b: Builder, x: Value, dtype: str) -> Value:
    """In the type of the input; an integer type gets the nearest number in its range."""
    if x.dtype == dtype:
        return x
    if is_float(dtype):
        return b.add("cast", [x], to=dtype)
    return b.add("quantize", [x, scalar(b, 1.0, x)], dtype=dtype)
