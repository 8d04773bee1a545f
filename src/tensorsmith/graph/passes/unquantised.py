"""Bytes that are only moved, or compared, stay bytes.

    quantize(max_pool(dequantize(x, s, p)), s, p)    ->    max_pool(x)

and so what quantising and dequantising with the same scale and zero point is around, and nothing at all. A byte times a scale,
rounded, divided by it and rounded again is that byte, if f32 has room for the product.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Graph, Node, Value

_LEAST = 1e-30  # of a scale
_KEEPING = ("max_pool", "global_max_pool", "transpose", "reshape", "slice", "copy")  # the order, and bytes as they are


def run(graph: Graph) -> Graph:
    """The graph with fewer numbers that are real in between."""
    return rebuilt(graph, lambda: _rewrite)


def _rewrite(builder: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
    if node.operator != "quantize":
        return None
    between: list[Node] = []
    source = builder.producer(inputs[0])
    while source is not None and source.operator in _KEEPING:
        between.insert(0, source)
        source = builder.producer(builder.read(source)[0])
    if source is None or source.operator != "dequantize":
        return None
    found, *parameters = builder.read(source)
    if found.dtype != node.output.dtype or not _same(builder, parameters, inputs[1:]):
        return None
    for one in between:
        found = builder.add(one.operator, [found], **one.attributes)
    return [found]


def _same(builder: Builder, one: Sequence[Value], other: Sequence[Value]) -> bool:
    """Whether scales, above zero, and zero points are equal: one number each."""
    if len(one) != len(other) or not one:
        return False
    for a, b in zip(one, other):
        known, wanted = builder.known(a), builder.known(b)
        if known is None or wanted is None or known.size != 1 or wanted.size != 1 or known.dtype != wanted.dtype:
            return False
        if known.flat[0] != wanted.flat[0]:
            return False
    scale = builder.known(one[0])
    return scale is not None and bool(_LEAST < scale.flat[0] < 1 / _LEAST)
