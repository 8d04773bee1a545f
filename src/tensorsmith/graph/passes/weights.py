"""Weights in fewer bits: stored in 16 or 8, unpacked in registers, multiplied in f32.

    matmul(x, w)      ->    matmul(x, w as bf16)                            "bf16", "f16"
    conv(x, w)        ->    multiply(conv(x, w / s as i8), s)               "int8": a scale s for each output channel
    gather(w, i)      ->    cast(gather(w as bf16, i))                      tables too; in 8 bits with a scale for each row

What is bound by reading its weights, a product of a matrix and a vector above all, then takes the time of fewer bytes. This is the
only pass that changes what a network gives, so it runs where it is asked for, behind all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.graph.builder import Builder, rebuilt
from tensorsmith.graph.graph import Array, Graph, Node, Value
from tensorsmith.lang.dtypes import converted

Weights = Literal["bf16", "f16", "int8"]

_FEW = 1 << 12  # elements up to which nothing is gained
_MOST = 127  # the range of int8 is symmetric, so that 0 is 0 and no zero point is needed
_PRODUCTS = ("conv", "depthwise_conv", "transposed_conv", "matmul")


def check_weights(given: object) -> Weights:
    """What weights may be stored as."""
    if given not in get_args(Weights):
        known = ", ".join(map(repr, get_args(Weights)))
        raise UserError(f"weights is {given!r}; give one of {known}, or None to keep them as they are")
    return given  # type: ignore[return-value]


def run(graph: Graph, weights: Weights) -> Graph:
    """The graph with the large f32 weights of its products, and its tables, in fewer bits."""

    def rewrite(builder: Builder, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
        if node.operator == "gather":
            found = _table(builder, node, inputs, weights)
        elif node.operator in _PRODUCTS:
            found = _product(builder, node, inputs, weights)
        else:
            return None
        return None if found is None else [found]

    return rebuilt(graph, lambda: rewrite)


def _product(b: Builder, node: Node, inputs: Sequence[Value], weights: Weights) -> Value | None:
    """A product with a constant operand: the right one, or of matrices the left one."""
    for place in (1, 0) if node.operator == "matmul" else (1,):
        array, other = b.known(inputs[place]), inputs[1 - place]
        if array is None or b.known(other) is not None or not _worth_it(array) or other.dtype != "f32":
            continue
        if weights != "int8":
            narrow = _rounded(array, weights)
            return None if narrow is None else _with(b, node, inputs, place, narrow)
        scale = _scale(array, _summed(node, array, place))
        quantised = b.constant(np.rint(array / scale).astype(np.int8), inputs[place].name)
        product = _with(b, node, inputs, place, b.known(quantised))
        return b.add("multiply", [product, b.constant(_of_result(node, scale, place), f"{inputs[place].name}_scale")])
    return None


def _with(b: Builder, node: Node, inputs: Sequence[Value], place: int, array: Array | None) -> Value:
    assert array is not None
    narrow = b.constant(array, inputs[place].name)
    return b.add(node.operator, [*inputs[:place], narrow, *inputs[place + 1 :]], name=node.output.name, **node.attributes)


def _table(b: Builder, node: Node, inputs: Sequence[Value], weights: Weights) -> Value | None:
    """Rows that are looked up in a constant."""
    array = b.known(inputs[0])
    if array is None or not _worth_it(array):
        return None
    if weights != "int8":
        narrow = _rounded(array, weights)
        if narrow is None:
            return None
        return b.add("cast", [b.add("gather", [b.constant(narrow, inputs[0].name), inputs[1]], **node.attributes)], to="f32")
    if node.attributes.get("axis", 0) != 0 or array.ndim < 2:
        return None
    scale = _scale(array, tuple(range(1, array.ndim)))
    rows = [b.constant(np.rint(array / scale).astype(np.int8), inputs[0].name), b.constant(scale, f"{inputs[0].name}_scale")]
    return b.add("dequantize", [b.add("gather", [v, inputs[1]], **node.attributes) for v in rows])


def _worth_it(array: Array) -> bool:
    return array.dtype == np.float32 and array.size > _FEW and bool(np.isfinite(array).all())


def _rounded(array: Array, weights: Weights) -> Array | None:
    """The weights in 16 bits; None where one of them would become infinite."""
    with np.errstate(over="ignore"):
        narrow = converted(array, weights)
        return narrow if bool(np.isfinite(narrow).all()) else None


def _summed(node: Node, array: Array, place: int) -> tuple[int, ...]:
    """The dimensions of a weight that are not its output channels."""
    if node.operator != "matmul":
        return tuple(range(array.ndim - 1))
    turned = node.attributes.get("transpose_b" if place else "transpose_a", False)
    return (array.ndim - (1 if bool(place) == bool(turned) else 2),)


def _scale(array: Array, over: tuple[int, ...]) -> Array:
    """What one step of an int8 is, for each channel; 1 where all weights of a channel are 0."""
    largest = np.abs(array).max(axis=over, keepdims=True) / np.float32(_MOST)
    return np.where(largest < np.finfo(np.float32).tiny, np.float32(1), largest).astype(np.float32)


def _of_result(node: Node, scale: Array, place: int) -> Array:
    """The scales so shaped that they broadcast against the product."""
    if node.operator != "matmul":
        return np.tile(scale.reshape(-1), node.attributes.get("groups", 1) if node.operator == "transposed_conv" else 1)
    turned = node.attributes.get("transpose_b" if place else "transpose_a", False)
    shaped = scale.swapaxes(-1, -2) if turned else scale
    return shaped.reshape(-1) if place and shaped.size == shaped.shape[-1] else shaped
