"""Integer products: what is multiplied in real numbers that were bytes a moment ago is multiplied in bytes.

    conv(dequantize(x, s, p), dequantize(w, t, q))    ->    dequantize(integer_conv(x, w) - .., s * t)

and so depthwise convolutions and matrix products; dequantised numbers may be transposed and reshaped on the way. Scales are one
number, or one for each channel that the product gives. What zero points add is taken off as `graph/integer.py` says.

The sums are exact, and are scaled once, in f32: dequantised numbers, each rounded, are not multiplied and added any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorsmith.graph import integer
from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Array, Graph, Node, Value

_PRODUCTS = ("conv", "depthwise_conv", "matmul")
_MOVEMENTS = ("transpose", "reshape")


def run(graph: Graph) -> Graph:
    """The graph with products of bytes."""
    return rebuilt(graph, lambda: _rewrite)


def _rewrite(builder: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
    if node.operator not in _PRODUCTS or node.output.dtype != "f32":
        return None
    left, right = (_quantised(builder, v) for v in inputs)
    if left is None or right is None or left.channels is not None:
        return None
    flipped = bool(node.attributes.get("transpose_b"))
    if right.channels is not None and flipped:
        known = builder.known(right.bytes)
        if known is None:
            return None
        order = (*range(known.ndim - 2), known.ndim - 1, known.ndim - 2)
        right, flipped = right.moved(builder, order), False
    scale = right.scale_of_last(builder)
    if scale is None:
        return None
    if node.operator == "matmul":
        flips = {"transpose_a": bool(node.attributes.get("transpose_a")), "transpose_b": flipped}
        total = integer.product(builder, left.bytes, left.zero, right.bytes, right.zero, **flips)
    else:
        depthwise = node.operator == "depthwise_conv"
        total = integer.convolution(builder, depthwise, left.bytes, left.zero, right.bytes, right.zero, node.attributes)
    if total is None:
        return None
    factor = builder.add("multiply", [left.scale, scale])
    return [builder.add("dequantize", [total, factor], name=node.output.name)]


@dataclass(frozen=True)
class _Quantised:
    """Bytes, and what they stand for: (bytes - zero) * scale."""

    bytes: Value
    scale: Value  # one number, unless there are channels
    zero: Value | None
    channels: Array | None = None  # a scale for every element, where there are several

    def moved(self, builder: Builder, order: tuple[int, ...]) -> _Quantised:
        assert self.channels is not None
        zero = None if self.zero is None else builder.add("transpose", [self.zero], order=order)
        return _Quantised(builder.add("transpose", [self.bytes], order=order), self.scale, zero, self.channels.transpose(order))

    def scale_of_last(self, builder: Builder) -> Value | None:
        """The scale as one number, or one for each step of the last dimension; None where it differs along another one."""
        if self.channels is None:
            return self.scale
        rows = self.channels.reshape(-1, self.channels.shape[-1])
        return builder.constant(rows[0].copy(), "scale") if (rows == rows[0]).all() else None


def _quantised(builder: Builder, value: Value) -> _Quantised | None:
    """The bytes that a value is made of by dequantising, and perhaps moving, them."""
    movements: list[Node] = []
    node = builder.producer(value)
    while node is not None and node.operator in _MOVEMENTS:
        movements.insert(0, node)
        node = builder.producer(builder.read(node)[0])
    if node is None or node.operator != "dequantize" or node.output.dtype != "f32":
        return None
    found, scale, *rest = builder.read(node)
    zero = rest[0] if rest else None
    if found.dtype not in integer.BYTES or scale.dtype != "f32":
        return None
    points, factors = (None if v is None else builder.known(v) for v in (zero, scale))
    channels = None
    if scale.elements != 1 or (zero is not None and zero.elements != 1):
        if factors is None or builder.known(found) is None or (zero is not None and points is None):
            return None  # of what is computed, one scale and one zero point for all
        channels = np.broadcast_to(factors, found.shape)
        zero = None if points is None else builder.constant(np.broadcast_to(points, found.shape), "zero")
    elif zero is not None:
        zero = builder.add("reshape", [zero], shape=())
    for move in movements:
        found = builder.add(move.operator, [found], **move.attributes)
        if channels is not None:
            given = move.attributes["order"] if move.operator == "transpose" else move.attributes["shape"]
            channels = channels.transpose(given) if move.operator == "transpose" else channels.reshape(given)
            zero = None if zero is None else builder.add(move.operator, [zero], **move.attributes)
    single = scale if channels is not None else builder.add("reshape", [scale], shape=())
    return _Quantised(found, single, zero, channels)
