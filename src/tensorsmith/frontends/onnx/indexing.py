"""Gather, scatter, one-hot, top-k: elements found by indices, known or computed."""

from __future__ import annotations

import math

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.movement import reshaped, sliced
from tensorsmith.frontends.onnx.read import LARGEST_MADE
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Array, Value
from tensorsmith.lang.dtypes import is_int
from tensorsmith.ops.common import normal_axis


def _indices(node: OnnxNode, n: int) -> Value:
    value = node.required(n)
    if not is_int(value.dtype):
        raise UserError(f"{node}: the indices are {value.dtype}; they must be integers")
    return value


@onnx_operator("Gather")
def gather(node: OnnxNode, b: Builder) -> Value:
    """Indices known to be evenly spaced are a slice, which the code generator can see through."""
    x, indices = node.required(0), _indices(node, 1)
    axis = normal_axis(node.attribute("axis", 0), len(x.shape), str(node))
    known = b.known(indices)
    if known is not None:
        _check_range(node, known, x.shape[axis])
        spaced = _evenly_spaced(known, x.shape[axis])
        if spaced is not None:
            start, step, count = spaced
            starts = [start if d == axis else 0 for d in range(len(x.shape))]
            steps = [step if d == axis else 1 for d in range(len(x.shape))]
            piece = sliced(b, x, starts, [count if d == axis else n for d, n in enumerate(x.shape)], steps)
            return reshaped(b, piece, (*x.shape[:axis], *known.shape, *x.shape[axis + 1 :]))
    return b.add("gather", [x, indices], axis=axis)


def _check_range(node: OnnxNode, indices: Array, extent: int) -> None:
    if indices.size and (indices.min() < -extent or indices.max() >= extent):
        raise UserError(f"{node}: the indices {indices.min()}..{indices.max()} are not all in {-extent}..{extent - 1}")


def _evenly_spaced(indices: Array, extent: int) -> tuple[int, int, int] | None:
    """Start, step and number of the indices, if they are 1-D or a number and the step is not 0."""
    if indices.ndim > 1 or indices.size == 0:
        return None
    flat = np.where(indices < 0, indices.astype(np.int64) + extent, indices).reshape(-1)
    steps = np.diff(flat)
    if len(steps) == 0:
        return int(flat[0]), 1, 1
    return (int(flat[0]), int(steps[0]), len(flat)) if steps[0] != 0 and np.all(steps == steps[0]) else None


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
    """With known indices, which update an element takes is known as well: a constant map replaces the search."""
    x, indices, updates = node.required(0), _indices(node, 1), node.required(2)
    reduction = node.attribute("reduction", "none")
    known = b.known(indices)
    large = math.prod(x.shape) > LARGEST_MADE
    if known is None or reduction != "none" or not known.ndim or not known.size or large:
        return b.add("scatter_nd", [x, indices, updates], reduction=reduction)
    depth = known.shape[-1]
    if depth > len(x.shape) or updates.shape != (*known.shape[:-1], *x.shape[depth:]):
        raise UserError(f"{node}: indices {list(known.shape)} and updates {updates} do not fit {x}")
    lead = x.shape[:depth]
    flat = known.reshape(-1, depth).astype(np.int64)
    flat = np.where(flat < 0, flat + np.array(lead), flat)
    if np.any(flat < 0) or np.any(flat >= np.array(lead)):
        raise UserError(f"{node}: some of the indices are not in {list(lead)}")
    position = np.full(lead, -1, np.int64)
    position[tuple(flat.T)] = np.arange(len(flat))  # of several for one element the last counts
    rows = reshaped(b, updates, (len(flat), *x.shape[depth:]))
    return b.add("overlay", [x, rows, b.constant(position)])


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
    kept = np.flatnonzero(node.constant(1, "the condition"))
    if axis is None:
        x, axis = reshaped(b, x, (x.elements,)), 0
    return b.add("gather", [x, b.constant(kept.astype(np.int64))], axis=axis)
