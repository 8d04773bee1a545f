"""Small weights are said to be small, for machines that multiply those faster (`lang/small.py`).

    integer_conv(x, w)    ->    integer_conv(x, w, small_weight=True)        where w is a constant, of numbers from -64 to 63

ONNX Runtime's tool quantises weights so with `reduce_range`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Graph, Node, Value
from tensorsmith.lang.small import are_small


def run(graph: Graph) -> Graph:
    """The graph with products by small weights."""
    return rebuilt(graph, lambda: _rewrite)


def _rewrite(builder: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
    if node.operator not in ("integer_conv", "integer_matmul") or node.attributes.get("small_weight"):
        return None
    weight = builder.known(inputs[1])
    if weight is None or inputs[1].dtype != "i8" or not are_small(weight):
        return None
    return [builder.add(node.operator, inputs, name=node.output.name, **{**node.attributes, "small_weight": True})]
