"""Constants in bytes that nothing multiplies as bytes become real numbers, once.

    dequantize(w, s)    ->    a constant

Building a graph leaves them quantised, so that `integer` finds them; what it has left is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.graph import operators
from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Graph, Node, Value


def run(graph: Graph) -> Graph:
    """The graph without constants that are dequantised whenever it runs."""
    return rebuilt(graph, lambda: _rewrite)


def _rewrite(builder: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
    if node.operator != "dequantize":
        return None
    arrays = [a for v in inputs if (a := builder.known(v)) is not None]
    if len(arrays) < len(inputs):
        return None
    (made,) = operators.evaluate(node.operator, arrays, node.attributes)
    return [builder.constant(made, node.output.name)]
