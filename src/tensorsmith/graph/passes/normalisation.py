"""Normalisation written out, as one node.

    d = x - mean(x); d / sqrt(mean(d * d) + epsilon)    ->    normalize(x, axes, epsilon)
    x / sqrt(mean(x * x) + epsilon)                     ->    normalize(x, axes, epsilon, centre=False)

One node is one kernel that reads a row once; in its parts it would be three.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Graph, Node, Value


def run(graph: Graph) -> Graph:
    """The graph with `normalize` for what computes it; `algebra` comes before."""
    return rebuilt(graph, lambda: _rewrite)


def _rewrite(builder: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
    found: tuple[Value, tuple[int, ...], float] | None = None
    if node.operator == "divide":
        found = _divided(builder, inputs[0], _argument(builder, inputs[1], "sqrt"))
    elif node.operator == "multiply":
        for a, b in (inputs, reversed(inputs)):
            found = found or _divided(builder, a, _argument(builder, _argument(builder, b, "reciprocal"), "sqrt"))
    if found is None:
        return None
    x, axes, epsilon = found
    middle = _centred(builder, x, axes)
    source = x if middle is None else middle
    if source.shape != node.output.shape:
        return None
    return [builder.add("normalize", [source], name=node.output.name, axes=axes, epsilon=epsilon, centre=middle is not None)]


def _divided(builder: Builder, x: Value, variance: Value | None) -> tuple[Value, tuple[int, ...], float] | None:
    """(x, axes, epsilon), if the variance is the mean of the squares of x plus a number."""
    node = builder.producer(variance) if variance is not None else None
    if node is None or node.operator != "add":
        return None
    mean, added = builder.read(node)
    epsilon = builder.known(added)
    mean_node = builder.producer(mean)
    if epsilon is None or epsilon.size != 1 or mean_node is None or mean_node.operator != "reduce_mean":
        return None
    if not mean_node.attributes.get("keepdims"):
        return None
    (squares,) = builder.read(mean_node)
    if not _is_square(builder, squares, x):
        return None
    return x, _axes(mean_node, len(x.shape)), float(epsilon.item())


def _is_square(builder: Builder, squares: Value, x: Value) -> bool:
    node = builder.producer(squares)
    if node is None:
        return False
    return (node.operator == "square" and node.inputs == (x.name,)) or (
        node.operator == "multiply" and node.inputs == (x.name, x.name)
    )


def _centred(builder: Builder, value: Value, axes: tuple[int, ...]) -> Value | None:
    """What a value is, less its mean."""
    node = builder.producer(value)
    if node is None or node.operator != "subtract":
        return None
    x, mean = builder.read(node)
    mean_node = builder.producer(mean)
    if mean_node is None or mean_node.operator != "reduce_mean" or mean_node.inputs != (x.name,):
        return None
    same = mean_node.attributes.get("keepdims") and _axes(mean_node, len(x.shape)) == axes
    return x if same else None


def _axes(node: Node, rank: int) -> tuple[int, ...]:
    given = node.attributes.get("axes")
    return tuple(range(rank)) if given is None else tuple(sorted(a % rank for a in given))


def _argument(builder: Builder, value: Value | None, operator: str) -> Value | None:
    """What an operator was applied to, if a value is its result."""
    node = builder.producer(value) if value is not None else None
    return builder.read(node)[0] if node is not None and node.operator == operator else None
