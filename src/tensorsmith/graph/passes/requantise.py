"""Requantising: sums of products of bytes become bytes again by one factor.

    quantize(add(dequantize(sum, s), c), t, p)    ->    requantize(sum + c / s, s / t, p)

`sum` is i32, and c / s whole numbers, as a bias is that was quantised with the scale of the products. A relu or a clip in between
is a limit of what comes out: quantising keeps the order. The one factor, s / t in f32, is what an integer operator of ONNX
(`QLinearConv`) has: results are exact sums, scaled once in f32 and rounded to the nearest, halves to even.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Array, Graph, Node, Value
from tensorsmith.lang.dtypes import dtype

_LARGEST_SUM = 1 << 30  # of products, and of what is added to them: together they are still an i32


def run(graph: Graph) -> Graph:
    """The graph with one factor between sums and bytes."""
    return rebuilt(graph, lambda: _rewrite)


def _rewrite(builder: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
    if node.operator != "quantize":
        return None
    known = [builder.known(v) for v in inputs[1:]]
    if any(a is None or a.size != 1 for a in known):
        return None
    step, point = known[0], known[1] if len(known) > 1 else None
    assert step is not None
    source, limits = builder.producer(inputs[0]), _Limits()
    while source is not None and source.operator in ("relu", "clip"):
        limits = limits.under(source)
        source = builder.producer(builder.read(source)[0])
    bias: Array | None = None
    if source is not None and source.operator == "add":
        value, added = builder.read(source)
        bias, source = builder.known(added), builder.producer(value)
        if bias is None or value.shape != inputs[0].shape:
            return None
    if source is None or source.operator != "dequantize":
        return None
    total, *factors = builder.read(source)
    scale = builder.known(factors[0])
    if total.dtype != "i32" or len(factors) != 1 or scale is None or scale.dtype != np.float32 or not _fits(builder, total):
        return None
    if bias is not None:
        whole = _whole(bias, scale)
        if whole is None:
            return None
        total = _plus(builder, total, whole)
    factor = builder.constant((scale / step.reshape(()).astype(np.float32)).astype(np.float32), "factor")
    zero = [builder.constant(point.reshape(()), "zero")] if point is not None and point.any() else []
    result = builder.add("requantize", [total, factor, *zero], dtype=node.output.dtype, name=node.output.name)
    return [limits.of(builder, result, step, point)]


@dataclass(frozen=True)
class _Limits:
    """What real numbers are limited to before they are quantised."""

    low: float = -np.inf
    high: float = np.inf

    def under(self, node: Node) -> _Limits:
        """With the limits of a node that comes before."""
        low, high = (0.0, None) if node.operator == "relu" else (node.attributes.get("low"), node.attributes.get("high"))
        return _Limits(max(self.low, -np.inf if low is None else low), min(self.high, np.inf if high is None else high))

    def of(self, builder: Builder, value: Value, step: Array, point: Array | None) -> Value:
        """The bytes with the limits as bytes, where these are any."""
        kind = dtype(value.dtype).numpy.type
        ends = np.iinfo(kind)
        for limit, end, operator in ((self.low, ends.min, "maximum"), (self.high, ends.max, "minimum")):
            if not np.isfinite(limit):
                continue
            moved = np.rint(np.float32(limit) / step.reshape(()).astype(np.float32)) + (
                0 if point is None else float(point.flat[0])
            )
            byte = int(np.clip(moved, ends.min, ends.max))
            if byte != end:
                value = builder.add(operator, [value, builder.constant(np.array(byte, kind), "limit")])
        return value


def _plus(builder: Builder, total: Value, whole: Array) -> Value:
    """The sum and a constant, added to one that is added already."""
    node = builder.producer(total)
    if node is not None and node.operator == "add":
        inner, added = builder.read(node)
        known = builder.known(added)
        if known is not None and known.dtype == whole.dtype and inner.shape == total.shape:
            total, whole = inner, known + whole
    return builder.add("add", [total, builder.constant(whole, "bias")])


def _fits(builder: Builder, total: Value) -> bool:
    """Whether a value is a sum of products of bytes, and so small that a bias of some size cannot make it overflow."""
    node = builder.producer(total)
    while node is not None and node.operator in ("add", "subtract", "transpose", "reshape"):
        node = builder.producer(builder.read(node)[0])
    if node is None or not node.operator.startswith("integer_"):
        return False
    weight = builder.read(node)[1]
    depth = max(weight.elements // max(1, weight.shape[-1]), *weight.shape[-2:])
    return 4 * depth * 255 * 128 <= _LARGEST_SUM  # with what zero points take off


def _whole(bias: Array, scale: Array) -> Array | None:
    """A bias as whole numbers of the scale, up to what f32 can tell apart; None where it is not that."""
    with np.errstate(all="ignore"):
        numbers = np.rint(bias.astype(np.float64) / scale.astype(np.float64))
        near = np.abs(numbers * scale.astype(np.float64) - bias) <= 2 * np.spacing(np.abs(bias.astype(np.float32)))
    if not near.all() or np.abs(numbers).max(initial=0) > _LARGEST_SUM:
        return None
    return numbers.astype(np.int32)
