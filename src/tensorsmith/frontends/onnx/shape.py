"""Constants and shapes: what is known when the model is compiled, computed with NumPy."""

from __future__ import annotations

import math

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.values import LARGEST_MADE
from tensorsmith.frontends.onnx.movement import numbers
from tensorsmith.frontends.onnx.read import LARGEST_CONSTANT, type_of
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import dtype


@onnx_operator("Constant")
def constant(node: OnnxNode, b: Builder) -> Value:
    for name, kind in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if node.has(name):
            return b.constant(np.array(node.needed(name), kind), node.name)
    if node.has("value"):
        return b.constant(node.needed("value"), node.name)
    given = ", ".join(node.unread()[0]) or "nothing"
    raise UserError(f"{node}: a constant must be given as a tensor, floats or ints; it has {given}")


def checked_size(node: OnnxNode, shape: list[int], largest: int = LARGEST_MADE) -> tuple[int, ...]:
    """A shape that a constant may have."""
    if any(n < 0 for n in shape) or math.prod(shape) > largest:
        raise UserError(f"{node}: {shape} is no shape that a constant can have")
    return tuple(shape)


@onnx_operator("ConstantOfShape")
def constant_of_shape(node: OnnxNode, b: Builder) -> Value:
    shape = checked_size(node, numbers(node.constant(0, "the shape")), LARGEST_CONSTANT)
    value = node.attribute("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise UserError(f"{node}: the value must be one number, not {list(value.shape)}")
    if math.prod(shape) <= 1 << 20:
        return b.constant(np.full(shape, value.reshape(())))
    return b.add("broadcast", [b.constant(value.reshape(()))], shape=shape)


@onnx_operator("Shape")
def shape(node: OnnxNode, b: Builder) -> Value:
    whole = node.required(0).shape
    return b.constant(np.array(whole[slice(node.attribute("start", 0), node.attribute("end", len(whole)))], np.int64))


@onnx_operator("Size")
def size(node: OnnxNode, b: Builder) -> Value:
    return b.constant(np.array(math.prod(node.required(0).shape), np.int64))


@onnx_operator("Range")
def range_(node: OnnxNode, b: Builder) -> Value:
    first, limit, step = (node.constant(n, what).reshape(()) for n, what in enumerate(("the start", "the limit", "the step")))
    if step == 0:
        raise UserError(f"{node}: the step is 0")
    count = max(0, math.ceil((limit.item() - first.item()) / step.item()))
    checked_size(node, [count])
    return b.constant((first + np.arange(count) * step).astype(first.dtype))


@onnx_operator("EyeLike")
def eye_like(node: OnnxNode, b: Builder) -> Value:
    x, number = node.required(0), node.attribute("dtype")
    kind = dtype(x.dtype if number is None else type_of(number, f"{node}: the result")).numpy
    rows, columns = checked_size(node, list(x.shape))
    return b.constant(np.eye(rows, columns, node.attribute("k", 0), dtype=kind))
