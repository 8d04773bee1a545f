"""Gather, scatter, one-hot, top-k: elements found by indices, known or computed."""

from __future__ import annotations

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.indexing import gathered, scattered
from tensorsmith.frontends.common.values import reshaped
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import is_int
from tensorsmith.ops.common import normal_axis


def _indices(node: OnnxNode, n: int) -> Value:
    value = node.required(n)
    if not is_int(value.dtype):
        raise UserError(f"{node}: the indices are {value.dtype}; they must be integers")
    return value


@onnx_operator("Gather")
def gather(node: OnnxNode, b: Builder) -> Value:
    x, indices = node.required(0), _indices(node, 1)
    return gathered(node, b, x, indices, normal_axis(node.attribute("axis", 0), len(x.shape), str(node)))


@onnx_operator("GatherElements")
def gather_elements(node: OnnxNode, b: Builder) -> Value:
    return b.add("gather_elements", [node.required(0), _indices(node, 1)], axis=node.attribute("axis", 0))


@onnx_operator("GatherND")
def gather_nd(node: OnnxNode, b: Builder) -> Value:
    return b.add("gather_nd", [node.required(0), _indices(node, 1)], batch=node.attribute("batch_dims", 0))


@onnx_operator("ScatterElements")
@onnx_operator("Scatter")
def scatter_elements(node: OnnxNode, b: Builder) -> Value:
    inputs = [node.required(0), _indices(node, 1), node.required(2)]
    return b.add("scatter_elements", inputs, axis=node.attribute("axis", 0), reduction=node.attribute("reduction", "none"))


@onnx_operator("ScatterND")
def scatter_nd(node: OnnxNode, b: Builder) -> Value:
    inputs = node.required(0), _indices(node, 1), node.required(2)
    return scattered(node, b, *inputs, reduction=node.attribute("reduction", "none"))


@onnx_operator("TensorScatter", since=24)
def tensor_scatter(node: OnnxNode, b: Builder) -> Value:
    """Updates of a cache, in each batch entry from its own index on; 0 where none are given."""
    x, updates, starts = node.required(0), node.required(1), node.optional(2)
    if starts is None:
        starts = b.constant(np.zeros(x.shape[:1], np.int64))
    circular = node.choice("mode", "linear", ("linear", "circular")) == "circular"
    return b.add("written", [x, updates, starts], axis=node.attribute("axis", -2), circular=circular)


@onnx_operator("OneHot")
def one_hot(node: OnnxNode, b: Builder) -> Value:
    indices, values = node.required(0), node.required(2)
    depth = int(node.constant(1, "the depth").reshape(()))
    if depth < 0 or values.shape != (2,):
        raise UserError(f"{node}: the depth is {depth}, the values are {values}; expected at least 0, and two numbers")
    return b.add("one_hot", [b.add("cast", [indices], to="i64"), values], depth=depth, axis=node.attribute("axis", -1))


@onnx_operator("TopK")
def top_k_by_attribute(node: OnnxNode, b: Builder) -> tuple[Value, ...]:
    return _top_k(node, b, node.needed("k"))


@onnx_operator("TopK", since=10)
def top_k(node: OnnxNode, b: Builder) -> tuple[Value, ...]:
    return _top_k(node, b, int(node.constant(1, "k").reshape(())))


def _top_k(node: OnnxNode, b: Builder, k: int) -> tuple[Value, ...]:
    largest = bool(node.attribute("largest", 1))
    return b.add_all("top_k", [node.required(0)], k=k, axis=node.attribute("axis", -1), largest=largest)


@onnx_operator("Compress")
def compress(node: OnnxNode, b: Builder) -> Value:
    x, axis = node.required(0), node.attribute("axis")
    kept = np.flatnonzero(node.data(1, "the condition"))
    if axis is None:
        x, axis = reshaped(b, x, (x.elements,)), 0
    return b.add("gather", [x, b.constant(kept.astype(np.int64))], axis=axis)
