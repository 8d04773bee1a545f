"""Operators whose results have a size that only the data tell: computed with NumPy, where the data are known."""

from __future__ import annotations

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Array, Value
from tensorsmith.ops.common import normal_axis


@onnx_operator("NonZero")
def non_zero(node: OnnxNode, b: Builder) -> Value:
    return b.constant(np.array(np.nonzero(np.atleast_1d(node.data(0, "the data"))), np.int64))


@onnx_operator("Unique", since=11)
def unique(node: OnnxNode, b: Builder) -> list[Value]:
    """The distinct elements or, with an axis, slices; where each was found first; which each was; how often it was there."""
    data, axis = node.data(0, "the data"), node.attribute("axis")
    if axis is not None:
        axis = normal_axis(axis, data.ndim, str(node))
    elements, first, inverse, counts = np.unique(data, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not node.attribute("sorted", 1):
        order = np.argsort(first)
        elements = np.take(elements, order, axis=0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    return [b.constant(elements), *(b.constant(a.astype(np.int64)) for a in (first, inverse, counts))]


@onnx_operator("NonMaxSuppression", since=10)
def non_max_suppression(node: OnnxNode, b: Builder) -> Value:
    """Batch entry, class and box of each box chosen: from the highest score on, those that overlap no better one too much."""
    boxes, scores = node.data(0, "the boxes").astype(np.float64), node.data(1, "the scores")
    most = node.optional_constant(2, "the most boxes of a class")
    overlap = node.optional_constant(3, "the limit of the overlap")
    least = node.optional_constant(4, "the limit of the scores")
    if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape[2] != 4 or boxes.shape[:2] != (scores.shape[0], scores.shape[2]):
        raise UserError(f"{node}: boxes {list(boxes.shape)} and scores {list(scores.shape)} do not fit")
    limit = 0 if most is None else int(most.reshape(()))
    corners = _corners(boxes, bool(node.attribute("center_point_box", 0)))
    chosen = []
    for batch, of_batch in enumerate(scores):
        for kind, of_class in enumerate(of_batch):
            order = np.argsort(-of_class, kind="stable")
            if least is not None:
                order = order[of_class[order] > least.reshape(())]
            kept = _kept(corners[batch], order, limit, 0.0 if overlap is None else float(overlap.reshape(())))
            chosen += [(batch, kind, box) for box in kept]
    return b.constant(np.array(chosen, np.int64).reshape(-1, 3))


def _corners(boxes: Array, centred: bool) -> Array:
    """The boxes by their low and their high corner, whichever way the file has them."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if centred:  # centre, then size
        return np.concatenate([first - second / 2, first + second / 2], axis=-1)
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=-1)


def _kept(corners: Array, order: Array, limit: int, overlap: float) -> list[int]:
    kept: list[int] = []
    for box in order:
        if len(kept) == limit:
            break
        if all(_overlap(corners[box], corners[other]) <= overlap for other in kept):
            kept.append(int(box))
    return kept


def _overlap(a: Array, b: Array) -> float:
    """The share of two boxes' union that is in both."""
    both = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
    union = np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - both
    return float(both / union) if union > 0 else 0.0
