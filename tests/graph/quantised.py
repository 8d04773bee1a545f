"""Quantised networks in QDQ form, and their exact answers: whole numbers are added up, then scaled once in f32 and rounded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Graph, Value
from tensorsmith.graph.model import Model

KINDS = {"i8": np.int8, "u8": np.uint8}
Array = np.ndarray


def quantised(x: Array, scale: Array, zero: Array) -> Array:
    """x in bytes, as `QuantizeLinear` says."""
    limits = np.iinfo(zero.dtype)
    return np.clip(np.rint(x / scale) + zero.astype(np.float32), limits.min, limits.max).astype(zero.dtype)


def requantised(sums: Array, factor: Array, zero: Array, relu: bool) -> Array:
    """Exact sums in bytes again."""
    limits = np.iinfo(zero.dtype)
    found = np.rint(sums.astype(np.int32).astype(np.float32) * factor) + zero.astype(np.float32)
    found = np.clip(found, limits.min, limits.max).astype(zero.dtype)
    return np.maximum(found, zero) if relu else found


@dataclass(frozen=True)
class Layer:
    """Numbers of one layer: x and y are in bytes of a kind, weights have a scale for all or for each channel."""

    kind: str
    x_scale: Array
    x_zero: Array
    weight: Array  # (K, M), or (K.., CI, CO), or (K.., C)
    w_scale: Array
    w_zero: Array
    bias: Array  # i32, of the scale x_scale * w_scale
    y_scale: Array
    y_zero: Array
    relu: bool

    @property
    def sums_scale(self) -> Array:
        return (self.x_scale * self.w_scale).astype(np.float32)

    @property
    def factor(self) -> Array:
        return (self.sums_scale / self.y_scale).astype(np.float32)


def layer(rng: np.random.Generator, shape: tuple[int, ...], kind: str, w_kind: str, per_channel: bool, ends: bool) -> Layer:
    """A layer with zero points anywhere, or at the ends of their types."""
    limits, w_limits = np.iinfo(KINDS[kind]), np.iinfo(KINDS[w_kind])

    def point(bounds: np.iinfo) -> Array:
        at = rng.choice([bounds.min, bounds.max]) if ends else rng.integers(bounds.min, bounds.max + 1)
        return np.array(at, bounds.dtype)

    weight = rng.integers(w_limits.min, w_limits.max + 1, shape).astype(KINDS[w_kind])
    channels = shape[-1]
    w_scale = (rng.random(channels if per_channel else ()) * 0.01 + 0.001).astype(np.float32)
    w_zero = np.zeros(channels if per_channel else (), KINDS[w_kind]) + (0 if w_kind == "i8" else 128)
    bias = rng.integers(-3000, 3000, channels).astype(np.int32)
    depth = max(1, weight.size // channels)
    y_scale = np.float32(0.004 * np.sqrt(depth) + 0.001)
    return Layer(
        kind, np.float32(0.03), point(limits), weight, w_scale, w_zero.astype(KINDS[w_kind]), bias, y_scale, point(limits),
        bool(rng.random() < 0.5),
    )  # fmt: skip


def _real(b: Builder, x: Value, scale: Array, zero: Array) -> Value:
    return b.add("dequantize", [x, b.constant(np.asarray(scale)), b.constant(np.asarray(zero))])


def _bytes(b: Builder, x: Value, scale: Array, zero: Array) -> Value:
    kind = {"int8": "i8", "uint8": "u8"}[zero.dtype.name]
    return b.add("quantize", [x, b.constant(np.asarray(scale)), b.constant(np.asarray(zero))], dtype=kind)


def network(given: Layer, shape: tuple[int, ...], operator: str, **attributes: object) -> Model:
    """x in f32 -> quantised, dequantised, multiplied by dequantised weights, biased, quantised."""
    b = Builder("quantised")
    x = b.input("x", shape, "f32")
    data = _real(b, _bytes(b, x, given.x_scale, given.x_zero), given.x_scale, given.x_zero)
    weight = _real(b, b.constant(given.weight), given.w_scale, given.w_zero)
    made = b.add(operator, [data, weight], **attributes)
    biased = b.add("add", [made, b.constant((given.bias * given.sums_scale).astype(np.float32))])
    b.output("y", _bytes(b, b.add("relu", [biased]) if given.relu else biased, given.y_scale, given.y_zero))
    return Model.from_graph(b.graph())


def operators(graph: Graph) -> list[str]:
    return [node.operator for node in graph.nodes]


def centred_input(given: Layer, x: Array) -> Array:
    return quantised(x, given.x_scale, given.x_zero).astype(np.int64) - int(given.x_zero)


def centred_weight(given: Layer) -> Array:
    return given.weight.astype(np.int64) - given.w_zero.astype(np.int64)
