"""Scale folding: multiplying and adding constants per channel disappears into the weights and one bias.

    multiply(conv(x, w), s)            ->    conv(x, w * s)
    multiply(add(conv(x, w), b), s)    ->    add(conv(x, w * s), b * s)
    conv(add(multiply(x, s), b), w)    ->    add(conv(x, s * w), b through w)      without padding, for the added part
    matmul(multiply(a, 0.125), b)      ->    multiply(matmul(a, b), 0.125)         where it is fused

Batch normalisation behind a convolution, or before one, is gone after this. A single number also passes transposes and reshapes
on its way to the weights (the scale of attention).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Array, Graph, Node, Value

_PRODUCTS = ("conv", "depthwise_conv", "transposed_conv", "matmul")


def run(graph: Graph) -> Graph:
    """The graph with constants of channels in the weights."""
    return rebuilt(graph, lambda: _Folding(graph).rewrite)


class _Folding:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.old: dict[str, str] = {}  # new values by name, and which old one each is

    def rewrite(self, builder: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
        self.old |= {new.name: old for new, old in zip(inputs, node.inputs)}
        if len(node.outputs) != 1 or node.output.dtype not in ("f32", "f64"):  # half precision has no digits to spare
            return None
        done: Value | None = None
        if node.operator in ("multiply", "add") and len(inputs) == 2:
            constant = builder.known(inputs[1])
            if constant is not None and self._alone(inputs[0]) and inputs[0].shape == node.output.shape:
                if node.operator == "multiply":
                    done = self._multiplied(builder, inputs[0], constant)
                else:
                    done = self._added(builder, inputs[0], constant)
        elif node.operator in ("conv", "depthwise_conv", "matmul"):
            done = self._before(builder, node, inputs) if self._alone(inputs[0]) else None
            if done is None and node.operator == "matmul":
                done = self._behind(builder, node, inputs)
        return None if done is None else [done]

    def _alone(self, value: Value) -> bool:
        """Whether only one node reads a value, so that another may take its place."""
        name = self.old.get(value.name)
        return name is not None and len(self.graph.consumers[name]) == 1 and name not in self.graph.returned

    # -- behind a product ------------------------------------------------------------------------------------------

    def _multiplied(self, builder: Builder, value: Value, constant: Array) -> Value | None:
        """value * constant, if the constant gets into some weights."""
        node = builder.producer(value)
        if node is None or not self._alone(value) or _channels(constant, value.shape) is None:
            return None
        inputs = builder.read(node)
        if node.operator in ("transpose", "reshape") and constant.size == 1:
            inner = self._multiplied(builder, inputs[0], constant)
            return None if inner is None else builder.add(node.operator, [inner], **node.attributes)
        if node.operator == "add" and (bias := builder.known(inputs[1])) is not None and inputs[0].shape == value.shape:
            inner = self._multiplied(builder, inputs[0], constant)
            if inner is None or np.broadcast_shapes(bias.shape, constant.shape) != _smaller(bias, constant):
                return None
            return builder.add("add", [inner, builder.constant(bias * constant, inputs[1].name)])
        if node.operator == "multiply" and (factor := builder.known(inputs[1])) is not None and inputs[0].shape == value.shape:
            return builder.add("multiply", [inputs[0], builder.constant(factor * constant, inputs[1].name)])
        if node.operator not in _PRODUCTS or (weight := builder.known(inputs[1])) is None or inputs[1].dtype != value.dtype:
            return None  # what is stored in fewer bits has no digits to spare
        scale = _channels(constant, value.shape)
        assert scale is not None
        if node.operator == "transposed_conv" and node.attributes.get("groups", 1) > 1 and scale.size > 1:
            return None
        along = scale.reshape(-1, 1) if node.attributes.get("transpose_b") and scale.size > 1 else scale
        scaled = builder.constant((weight * along).astype(weight.dtype), inputs[1].name)
        return builder.add(node.operator, [inputs[0], scaled], **node.attributes)

    def _added(self, builder: Builder, value: Value, constant: Array) -> Value | None:
        """(x + b) + c -> x + (b + c)"""
        node = builder.producer(value)
        if node is None or node.operator != "add":
            return None
        inputs = builder.read(node)
        known = builder.known(inputs[1])
        if (
            known is None
            or inputs[0].shape != value.shape
            or np.broadcast_shapes(known.shape, constant.shape) != _smaller(known, constant)
        ):
            return None
        return builder.add("add", [inputs[0], builder.constant(known + constant, inputs[1].name)])

    # -- before a product ------------------------------------------------------------------------------------------

    def _before(self, builder: Builder, node: Node, inputs: Sequence[Value]) -> Value | None:
        """conv(x * s, w) -> conv(x, s * w), and conv(x + b, w) -> conv(x, w) + (b through w) where there is no padding."""
        source, weight = builder.producer(inputs[0]), builder.known(inputs[1])
        if source is None or weight is None or source.operator not in ("multiply", "add") or inputs[1].dtype != node.output.dtype:
            return None
        if (
            node.attributes.get("transpose_a")
            or node.attributes.get("transpose_b")
            or (node.operator == "matmul" and weight.ndim != 2)
        ):
            return None
        x, second = builder.read(source)
        constant = builder.known(second)
        channels = None if constant is None else _channels(constant, inputs[0].shape)
        if channels is None or x.shape != inputs[0].shape:
            return None
        channels = np.broadcast_to(channels, inputs[0].shape[-1:])
        if source.operator == "multiply":
            scaled = (weight * _along_inputs(node, channels, weight)).astype(weight.dtype)
            return builder.add(node.operator, [x, builder.constant(scaled, inputs[1].name)], **node.attributes)
        if any(p for pair in node.attributes.get("padding", ()) for p in pair):
            return None
        shares = weight * _along_inputs(node, channels, weight)
        bias = shares.reshape(-1, weight.shape[-1]).sum(axis=0, dtype=np.float64).astype(weight.dtype)
        product = builder.add(node.operator, [x, inputs[1]], name=node.output.name, **node.attributes)
        return builder.add("add", [product, builder.constant(bias)])

    def _behind(self, builder: Builder, node: Node, inputs: Sequence[Value]) -> Value | None:
        """matmul(a * s, b) -> matmul(a, b) * s for a number s, which may stand before transposes and slices of a."""
        for n, value in enumerate(inputs):
            found = self._without_number(builder, value)
            if found is not None:
                bare, number = found
                product = builder.add("matmul", [*inputs[:n], bare, *inputs[n + 1 :]], name=node.output.name, **node.attributes)
                return builder.add("multiply", [product, builder.constant(number.reshape(()))])
        return None

    def _without_number(self, builder: Builder, value: Value) -> tuple[Value, Array] | None:
        node = builder.producer(value)
        if node is None or not self._alone(value):
            return None
        inputs = builder.read(node)
        if node.operator == "multiply" and (number := builder.known(inputs[1])) is not None and number.size == 1:
            return (inputs[0], number) if inputs[0].shape == value.shape else None
        if node.operator not in ("transpose", "reshape", "slice"):
            return None
        found = self._without_number(builder, inputs[0])
        return None if found is None else (builder.add(node.operator, [found[0]], **node.attributes), found[1])


def _channels(constant: Array, shape: tuple[int, ...]) -> Array | None:
    """A constant as one number, or one for each element of the last dimension; None if it is neither."""
    if constant.size == 1:
        return constant.reshape(())
    if shape and constant.shape[-1] == constant.size == shape[-1]:
        return constant.reshape(-1)
    return None


def _smaller(a: Array, b: Array) -> tuple[int, ...]:
    """The shape of whichever array has more elements: what both broadcast to, if nothing grows."""
    return a.shape if a.size >= b.size else b.shape


def _along_inputs(node: Node, channels: Array, weight: Array) -> Array:
    """Factors of input channels in the shape of the weight's last dimensions."""
    if node.operator == "depthwise_conv":
        return channels
    groups = node.attributes.get("groups", 1)
    return np.repeat(channels.reshape(groups, -1).T, weight.shape[-1] // groups, axis=1)
