"""Algebra: nodes that do nothing go, and others take the one form that the passes after this one look for.

multiply(c, x)       ->  multiply(x, c)            a constant stands second
subtract(x, c)       ->  add(x, -c)
divide(x, c)         ->  multiply(x, 1 / c)        unless the result may be rounded or compared: 41 * (1 / 41) is below 1
add(x, 0)            ->  x                         and multiply(x, 1), cast to its own type, whole slices, ...
relu(relu(x))        ->  relu(x)
power(x, 2)          ->  square(x)                 and 0.5, 1, -1
conv(pad(x), w)      ->  conv(x, w, padding=...)   where zeros are added around the spatial dimensions
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorsmith.graph import operators
from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Array, Graph, Node, Value
from tensorsmith.graph.operators import Kind
from tensorsmith.lang.dtypes import canonical, is_float

_COMMUTATIVE = ("add", "multiply", "maximum", "minimum")
_STEPS = ("floor", "ceil", "round", "sign", "modulo", "remainder")  # besides all that make other types of floats
_NEVER_NEGATIVE = ("relu", "sigmoid", "softmax", "exp", "square", "absolute", "sqrt")


def run(graph: Graph) -> Graph:
    """The graph in simpler words."""
    stepped = _stepped(graph)

    def rewrite(builder: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
        return _rewrite(builder, node, inputs, node.outputs[0].name in stepped)

    return rebuilt(graph, lambda: rewrite)


def _stepped(graph: Graph) -> set[str]:
    """The floats that get, by elementwise nodes and movements alone, to where the last bit may decide."""
    found: set[str] = set()
    for node in reversed(graph.nodes):
        light = operators.kind(node) <= Kind.INJECTIVE
        steps = node.operator in _STEPS or not all(is_float(v.dtype) for v in node.outputs)
        if steps or (light and any(v.name in found for v in node.outputs)):
            found.update(name for name in node.inputs if is_float(graph.values[name].dtype))
    return found


def _rewrite(builder: Builder, node: Node, inputs: Sequence[Value], exactly: bool) -> Sequence[Value] | None:
    if len(node.outputs) != 1:
        return None
    if node.operator == "divide" and exactly:
        return None
    if len(inputs) == 2 and node.operator in (*_COMMUTATIVE, "subtract", "divide", "power"):
        done = _binary(builder, node.operator, inputs[0], inputs[1])
    elif node.operator == "conv" or node.operator == "depthwise_conv":
        done = _padded(builder, node, inputs)
    else:
        done = inputs[0] if inputs and _does_nothing(builder, node, inputs) else None
    return None if done is None else [done]


def _binary(builder: Builder, operator: str, a: Value, b: Value) -> Value | None:
    swapped = operator in _COMMUTATIVE and builder.known(a) is not None and builder.known(b) is None
    if swapped:
        a, b = b, a
    constant = builder.known(b)
    if constant is None:
        return None
    if is_float(b.dtype) and operator == "subtract":
        operator, b, constant = "add", *_made(builder, -constant, b)
        swapped = True
    elif b.dtype in ("f32", "f64") and operator == "divide" and _has_reciprocal(constant):
        operator, b, constant = "multiply", *_made(builder, (1 / constant.astype(np.float64)).astype(constant.dtype), b)
        swapped = True
    elif operator == "power" and is_float(a.dtype) and constant.size == 1 and len(b.shape) <= len(a.shape):
        return _power(builder, a, float(constant.item()))
    neutral = {"add": 0, "multiply": 1, "subtract": 0, "divide": 1}.get(operator)
    if neutral is not None and np.broadcast_shapes(a.shape, b.shape) == a.shape and bool((constant == neutral).all()):
        return a
    return builder.add(operator, [a, b]) if swapped else None


def _made(builder: Builder, array: Array, like: Value) -> tuple[Value, Array]:
    return builder.constant(array, like.name), array


def _has_reciprocal(constant: Array) -> bool:
    with np.errstate(all="ignore"):
        turned = 1 / constant.astype(np.float64)
        limits = np.finfo(constant.dtype)
        return bool((np.isfinite(turned) & (abs(turned) < limits.max) & (abs(turned) > limits.tiny)).all())


def _power(builder: Builder, x: Value, exponent: float) -> Value | None:
    if exponent == 1:
        return x
    names = {2.0: "square", 0.5: "sqrt", -1.0: "reciprocal"}
    return builder.add(names[exponent], [x]) if exponent in names else None


def _does_nothing(builder: Builder, node: Node, inputs: Sequence[Value]) -> bool:
    x, attributes = inputs[0], node.attributes
    same = x.shape == node.output.shape and x.dtype == node.output.dtype
    if node.operator in ("identity", "broadcast", "reshape"):
        return same
    if node.operator == "cast":
        return canonical(attributes["to"]) == x.dtype
    if node.operator == "slice":
        return same and all(step == 1 for step in attributes.get("steps") or ())
    if node.operator == "pad":
        return not any(p for pair in attributes["pairs"] for p in pair)
    if node.operator in ("tile", "repeat"):
        return same
    if node.operator == "concat":
        return len(inputs) == 1
    if node.operator == "transpose":
        return attributes["order"] == tuple(range(len(x.shape)))
    if node.operator == "relu":
        source = builder.producer(x)
        return source is not None and (source.operator in _NEVER_NEGATIVE or _limited_below(source))
    return False


def _limited_below(node: Node) -> bool:
    low = node.attributes.get("low")
    return node.operator == "clip" and low is not None and low >= 0


def _padded(builder: Builder, node: Node, inputs: Sequence[Value]) -> Value | None:
    source = builder.producer(inputs[0])
    if source is None or source.operator != "pad" or source.attributes.get("mode", "constant") != "constant":
        return None
    pairs = source.attributes["pairs"]
    if source.attributes.get("value", 0) != 0 or any(pairs[0]) or any(pairs[-1]) or any(p < 0 for pair in pairs for p in pair):
        return None
    padding = tuple((a + c, b + d) for (a, b), (c, d) in zip(node.attributes["padding"], pairs[1:-1]))
    attributes = {**node.attributes, "padding": padding}
    return builder.add(node.operator, [builder.read(source)[0], *inputs[1:]], name=node.output.name, **attributes)
