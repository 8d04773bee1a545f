"""Functions of a byte are tables.

    quantize(erf(dequantize(x, s, p)), t, q)    ->    table(x, its 256 values)

Quantised models quantise again behind every step of GELU and the like: whatever is made of one byte, element by element, and ends
as a byte, has no more than 256 values. They are worked out once, by the reference evaluator.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorsmith.graph import operators
from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Array, Graph, Node, Value
from tensorsmith.graph.integer import BYTES
from tensorsmith.graph.operators import Kind
from tensorsmith.lang.dtypes import dtype

_MANY = 8  # operators from which on a table is the shorter way
_LONG = ("erf", "exp", "log", "tanh", "sigmoid", "power", "gelu", "silu", "softplus", "mish", "elu", "table")  # each by itself


def run(graph: Graph) -> Graph:
    """The graph with tables for what is made of single bytes."""
    return rebuilt(graph, lambda: _rewrite)


def _rewrite(builder: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
    if node.operator != "quantize" or node.output.dtype not in BYTES:
        return None
    found = _Function(builder, node.output.shape)
    if not all(found.visit(v) for v in inputs) or len(found.sources) != 1:
        return None
    if not any(n.operator in _LONG for n in found.nodes) and len(found.nodes) < _MANY:
        return None
    (source,) = found.sources.values()
    entries = found.values(source, node, inputs)
    return [builder.add("table", [source, builder.constant(entries, "table")], name=node.output.name)]


class _Function:
    """What a value is made of, element by element: the nodes, those first that others read, and the bytes that they begin with."""

    def __init__(self, builder: Builder, shape: tuple[int, ...]) -> None:
        self.builder, self.shape = builder, shape
        self.nodes: list[Node] = []
        self.sources: dict[str, Value] = {}
        self._seen: set[str] = set()

    def visit(self, value: Value) -> bool:
        """Whether a value is a number, or made of bytes: as far back as that goes."""
        if self.builder.known(value) is not None:
            return value.elements == 1
        if value.name in self._seen:
            return True
        node = self.builder.producer(value)
        if node is not None and value.shape == self.shape and len(node.outputs) == 1 and _maps(node):
            before = list(self.nodes), dict(self.sources), set(self._seen)
            inputs = self.builder.read(node)
            if all(self.visit(v) for v in (inputs[:1] if node.operator == "table" else inputs)):
                self.nodes.append(node)
                self._seen.add(value.name)
                return True
            self.nodes, self.sources, self._seen = before
        if value.dtype not in BYTES or value.shape != self.shape:
            return False
        self.sources[value.name] = value
        self._seen.add(value.name)
        return True

    def values(self, source: Value, last: Node, inputs: Sequence[Value]) -> Array:
        """What `last`, on these inputs, gives for every byte, the smallest first."""
        limits = np.iinfo(dtype(source.dtype).numpy)
        arrays: dict[str, Array] = {source.name: np.arange(limits.min, limits.max + 1).astype(limits.dtype)}

        def of(value: Value) -> Array:
            known = self.builder.known(value)
            return arrays[value.name] if known is None else known.reshape(()) if known.size == 1 else known

        for node in self.nodes:
            (arrays[node.output.name],) = operators.evaluate(
                node.operator, [of(v) for v in self.builder.read(node)], node.attributes
            )
        (result,) = operators.evaluate(last.operator, [of(v) for v in inputs], last.attributes)
        return result


def _maps(node: Node) -> bool:
    return node.operator == "table" or operators.kind(node) is Kind.ELEMENTWISE
