"""Reshapes: chains become one, those that change nothing go, and the rest sinks below elementwise nodes and rows.

    add(reshape(matmul(a, w), (1, n, m)), r)    ->    reshape(add(matmul(a, w), reshape(r, (n, m))), (1, n, m))

A reshape costs nothing, but what stands behind it cannot be fused with what stands before it. Below the elementwise nodes it parts
nothing. Softmax and normalisation along the last dimension let a reshape of the others pass as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.graph import operators
from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Graph, Node, Value
from tensorsmith.graph.operators import Kind
from tensorsmith.graph.passes.movement import reshaped, unreshaped

_ROWS = ("softmax", "log_softmax", "masked_softmax", "hardmax", "lp_normalize")


def run(graph: Graph) -> Graph:
    """The graph with few reshapes, late."""

    def rewrite(builder: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
        if len(node.outputs) != 1 or node.output.elements == 0:
            return None
        if node.operator == "reshape":
            return [reshaped(builder, inputs[0], node.output.shape)]
        if operators.kind(node) is Kind.ELEMENTWISE:
            alone = [v for v, name in zip(inputs, node.inputs) if len(graph.consumers[name]) == 1 and name not in graph.returned]
            return _below_map(builder, node, inputs, alone)
        if node.operator in _ROWS or node.operator == "normalize":
            return _below_rows(builder, node, inputs[0])
        return None

    return rebuilt(graph, lambda: rewrite)


def _below_map(builder: Builder, node: Node, inputs: Sequence[Value], alone: Sequence[Value]) -> list[Value] | None:
    """Takes the shape of an operand that could be fused with this node, which only one is that nobody else reads (`alone`)."""
    shape = node.output.shape
    full = [v for v in inputs if v.shape == shape]
    views = [v for v in full if unreshaped(builder, v).shape != shape]
    anchored = [v for v in views if v in alone and _follows_product(builder, unreshaped(builder, v))]
    if not views:
        return None
    target = unreshaped(builder, (anchored or views)[0]).shape
    others = [v for v in full if v not in views and v in alone]
    if any(_moves(builder, v) or _follows_product(builder, v) for v in others):
        return None  # it would be fused with this node, were it not for the reshape
    if not anchored and any(unreshaped(builder, v).shape != target for v in full):
        return None
    operands: list[Value] = []
    for value in inputs:
        if value.shape == shape:
            operands.append(reshaped(builder, value, target))
        elif value.elements == 1:
            operands.append(reshaped(builder, value, ()) if len(value.shape) > len(target) else value)
        elif (row := _row(value.shape, shape, target)) is not None:
            operands.append(reshaped(builder, value, row))
        else:
            return None
    result = builder.add(node.operator, operands, name=node.output.name, **node.attributes)
    return [reshaped(builder, result, shape)]


def _moves(builder: Builder, value: Value) -> bool:
    node = builder.producer(value)
    return node is not None and node.operator != "reshape" and operators.kind(node) is Kind.INJECTIVE


def _follows_product(builder: Builder, value: Value) -> bool:
    """Whether a value is computed from a product by elementwise nodes alone, all of its shape."""
    seen: set[str] = set()
    todo = [value]
    while todo:
        value = todo.pop()
        node = builder.producer(value)
        if node is None or value.name in seen:
            continue
        seen.add(value.name)
        if operators.kind(node) is Kind.COMPLEX:
            return True
        if operators.kind(node) is Kind.ELEMENTWISE:
            todo += [v for v in builder.read(node) if v.shape == value.shape]
    return False


def _row(own: tuple[int, ...], shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of an operand that is broadcast along all but the last dimensions, if both shapes end in those."""
    while own and own[0] == 1:
        own = own[1:]
    ends = shape[len(shape) - len(own) :] == own and target[len(target) - len(own) :] == own and len(target) >= len(own)
    return own if ends else None


def _below_rows(builder: Builder, node: Node, value: Value) -> list[Value] | None:
    source = unreshaped(builder, value)
    rank = len(value.shape)
    axes = node.attributes["axes"] if node.operator == "normalize" else (node.attributes["axis"],)
    if (
        source.shape == value.shape
        or not source.shape
        or source.shape[-1] != value.shape[-1]
        or [a % rank for a in axes] != [rank - 1]
    ):
        return None
    last = len(source.shape) - 1
    attributes = dict(node.attributes) | ({"axes": (last,)} if node.operator == "normalize" else {"axis": last})
    return [reshaped(builder, builder.add(node.operator, [source], name=node.output.name, **attributes), value.shape)]
