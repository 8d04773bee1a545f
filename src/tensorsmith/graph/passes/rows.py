"""Rows: what many steps take from one value, and give to one, lies in one piece of memory for each.

    x[:, 0:1], x[:, 1:2], ..                ->    y = transpose(x, (1, 0)); y[0:1], y[1:2], .., each reshaped
    concat(a, b, c, .., axis=1)             ->    transpose(concat(a, b, c, .., axis=0), (1, 0)), each reshaped before
    concat(input, a, b, c, .., axis=0)      ->    concat(input, concat(a, b, c, .., axis=0), axis=0)
    input[0:1], input[1:2], ..              ->    y = copy(input); y[0:1], y[1:2], ..

A loop along an axis that is not the first was laid out, and each of its steps reads and writes at places of its own. As rows these
are views (`graph.pieces`), so that the steps are calls of the same kernels. Only many steps are worth the transpose. What no step
computes, the state before the first one, cannot be written to its place: it gets there with a copy of all the others. And kernels
are given an input of the network as a whole, so there pieces are those of a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Graph, Node, Value
from tensorsmith.graph.passes.movement import Order, inverse, reshaped, turned, unreshaped
from tensorsmith.graph.pieces import MANY, cut, joined


def run(graph: Graph) -> Graph:
    """The graph with steps along first axes."""
    found = Counter((node.inputs[0], axis) for node in graph.nodes if (axis := _axis(graph, node)) is not None)
    many = {place for place, count in found.items() if count > MANY}
    pieces = Counter(node.inputs[0] for node in graph.nodes if node.operator == "slice" and cut(graph, node) is not None)
    often = {name for name, count in pieces.items() if count > MANY}

    def rewrite(builder: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
        if node.operator == "slice" and node.inputs[0] in often and builder.producer(unreshaped(builder, inputs[0])) is None:
            return [builder.add("slice", [builder.add("copy", inputs)], name=node.output.name, **node.attributes)]
        if node.operator == "slice" and (axis := _axis(graph, node)) is not None and (node.inputs[0], axis) in many:
            return [_row(builder, node, inputs[0], axis)]
        if _is_long(node):
            return _stacked(builder, node, inputs) if joined(graph, node) is None else _grouped(builder, node, inputs)
        return None

    return rebuilt(graph, lambda: rewrite) if many or often or any(_is_long(node) for node in graph.nodes) else graph


def _is_long(node: Node) -> bool:
    return node.operator == "concat" and len(node.inputs) > MANY


def _axis(graph: Graph, node: Node) -> int | None:
    """The axis of which a slice takes one step and all of the others, unless that is one piece of memory."""
    if node.operator != "slice":
        return None
    shape, sizes = graph.values[node.inputs[0]].shape, node.attributes["sizes"]
    axes = [d for d, (size, extent) in enumerate(zip(sizes, shape)) if size != extent]
    steps = node.attributes.get("steps") or (1,) * len(sizes)
    if len(axes) != 1 or sizes[axes[0]] != 1 or 0 in sizes or any(s != 1 and n > 1 for s, n in zip(steps, sizes)):
        return None
    return None if cut(graph, node) is not None else axes[0]


def _row(builder: Builder, node: Node, x: Value, axis: int) -> Value:
    order = _first(axis, len(x.shape))
    starts, sizes = (tuple(node.attributes[key][d] for d in order) for key in ("starts", "sizes"))
    return reshaped(builder, builder.add("slice", [turned(builder, x, order)], starts=starts, sizes=sizes), node.output.shape)


def _stacked(builder: Builder, node: Node, inputs: Sequence[Value]) -> list[Value] | None:
    rank = len(node.output.shape)
    axis = node.attributes["axis"] % rank
    if any(v.shape[axis] != 1 or 0 in v.shape for v in inputs):
        return None
    order = _first(axis, rank)
    rows = [reshaped(builder, v, tuple(v.shape[d] for d in order)) for v in inputs]
    return [turned(builder, builder.add("concat", rows, axis=0), inverse(order))]


def _grouped(builder: Builder, node: Node, inputs: Sequence[Value]) -> list[Value] | None:
    """Those parts in a row that are computed, as a part of their own, where there are others."""
    computed = [builder.producer(unreshaped(builder, v)) is not None for v in inputs]
    runs = [[v for _, v in run] for _, run in groupby(zip(computed, inputs), key=itemgetter(0))]
    if all(computed) or len(runs) == len(inputs):
        return None
    parts = [run[0] if len(run) == 1 else builder.add("concat", run, **node.attributes) for run in runs]
    return [builder.add("concat", parts, **node.attributes)]


def _first(axis: int, rank: int) -> Order:
    """The transpose that puts an axis before the others."""
    return (axis, *(d for d in range(rank) if d != axis))
