"""Subgraphs that the catalogue does not have, as definitions of ours, as functions of PyTorch and as ONNX nodes.

Dense      gelu(x @ weight + bias)                          Attention  softmax(query key^T / sqrt(dim)) value, head by head
Residual   relu(conv2d(x, weight) + bias + other)           DepLayer   hard_swish(depthwise(x, weight) + bias)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tensorsmith.lang.define import Tensor, compute, placeholder
from tensorsmith.ops import conv, elementwise, linalg, subgraphs
from tensorsmith.ops.catalogue import Case
from tensorsmith.ops.norm import softmax
from tensorsmith.runtime.buffers import aligned_copy

Array = np.ndarray


@dataclass(frozen=True)
class Subgraph:
    """What a framework gets: `inputs` in its own order (images with channels first), constants, `torch` as a function of the
    inputs and then the constants, and ONNX nodes from these names to `y`. `restore` takes the result to our layout."""

    inputs: dict[str, Array]
    constants: dict[str, Array]
    torch: Callable[..., Any]
    nodes: list[onnx.NodeProto]
    restore: Callable[[Array], Array] = lambda y: y
    image: bool = False
    more: dict[str, Array] = field(default_factory=dict)  # constants of the nodes alone


# -- ours ------------------------------------------------------------------------------------------------------------------


def _constant(name: str, *shape: int) -> Tensor:
    return placeholder(shape, name=name, constant=True)


def _dense(batch: int, rows: int, depth: int, columns: int) -> list[Tensor]:
    x, weight, bias = placeholder((batch * rows, depth), name="x"), _constant("weight", depth, columns), _constant("bias", columns)
    return [x, weight, bias, elementwise.gelu(linalg.dense(x, weight, bias))]


def _attention(batch: int, length: int, heads: int, dim: int) -> list[Tensor]:
    query, key, value = (placeholder((batch, length, heads, dim), name=name) for name in ("query", "key", "value"))
    scores = elementwise.multiply(subgraphs.tbm(query, key, "scores"), 1 / math.sqrt(dim), name="scaled")
    heads_first = compute((batch, heads, length, dim), lambda b, h, i, d: value[b, i, h, d], name="value_heads")
    mixed = linalg.batch_matmul(softmax(scores, -1, "shares"), heads_first, name="mixed")
    out = compute((batch, length, heads, dim), lambda b, i, h, d: mixed[b, h, i, d], name="attention")
    return [query, key, value, out]


def _residual(n: int, h: int, w: int, ci: int, co: int, k: int, stride: int, pad: int) -> list[Tensor]:
    x, weight, bias = placeholder((n, h, w, ci), name="x"), _constant("weight", k, k, ci, co), _constant("bias", co)
    product = elementwise.bias_add(conv.conv2d(x, weight, stride, pad), bias)
    other = placeholder(product.shape, name="other")
    return [x, weight, bias, other, elementwise.relu(elementwise.add(product, other))]


def _dep_layer(n: int, h: int, w: int, c: int, k: int, stride: int, pad: int) -> list[Tensor]:
    x, weight, bias = placeholder((n, h, w, c), name="x"), _constant("weight", k, k, c), _constant("bias", c)
    return [x, weight, bias, elementwise.hard_swish(elementwise.bias_add(conv.depthwise_conv2d(x, weight, stride, pad), bias))]


BUILDERS: dict[str, Callable[..., list[Tensor]]] = {
    "Dense": _dense, "Attention": _attention, "Residual": _residual, "DepLayer": _dep_layer,
}  # fmt: skip


# -- theirs ----------------------------------------------------------------------------------------------------------------


def subgraph(case: Case, arrays: Sequence[Array]) -> Subgraph:
    """Of a case of `BUILDERS`; `arrays` are its inputs in its own order."""
    return _THEIRS[case.operator](case, *arrays)


def _their_dense(case: Case, x: Array, weight: Array, bias: Array) -> Subgraph:
    nodes = [helper.make_node("Gemm", ["x", "weight", "bias"], ["z"], transB=1), *_gelu("z", "y")]
    constants = {"weight": np.ascontiguousarray(weight.T), "bias": bias}

    def function(x: Any, weight: Any, bias: Any) -> Any:
        return _functional().gelu(_functional().linear(x, weight, bias))

    halves = {"root": np.float32(math.sqrt(2)), "one": np.float32(1), "half": np.float32(0.5)}
    return Subgraph({"x": x}, constants, function, nodes, more={name: np.asarray(value) for name, value in halves.items()})


def _gelu(x: str, y: str) -> list[onnx.NodeProto]:
    """As exporters write it for versions that have no GELU; ONNX Runtime and OpenVINO make one of it."""
    return [
        helper.make_node("Div", [x, "root"], ["g1"]),
        helper.make_node("Erf", ["g1"], ["g2"]),
        helper.make_node("Add", ["g2", "one"], ["g3"]),
        helper.make_node("Mul", [x, "g3"], ["g4"]),
        helper.make_node("Mul", ["g4", "half"], [y]),
    ]


def _their_attention(case: Case, query: Array, key: Array, value: Array) -> Subgraph:
    def function(query: Any, key: Any, value: Any) -> Any:
        q, k, v = (t.transpose(1, 2) for t in (query, key, value))
        return _functional().scaled_dot_product_attention(q, k, v).transpose(1, 2)

    nodes = [
        helper.make_node("Transpose", ["query"], ["q"], perm=(0, 2, 1, 3)),
        helper.make_node("Transpose", ["key"], ["k"], perm=(0, 2, 3, 1)),
        helper.make_node("Transpose", ["value"], ["v"], perm=(0, 2, 1, 3)),
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Mul", ["s", "scale"], ["t"]),
        helper.make_node("Softmax", ["t"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["m"]),
        helper.make_node("Transpose", ["m"], ["y"], perm=(0, 2, 1, 3)),
    ]
    scale = np.asarray(1 / math.sqrt(query.shape[-1]), np.float32)
    return Subgraph({"query": query, "key": key, "value": value}, {}, function, nodes, more={"scale": scale})


def _their_residual(case: Case, x: Array, weight: Array, bias: Array, other: Array) -> Subgraph:
    stride, pad = case.shape[-2:]

    def function(x: Any, other: Any, weight: Any, bias: Any) -> Any:
        return (_functional().conv2d(x, weight, bias, stride, pad) + other).relu_()

    nodes = [
        helper.make_node("Conv", ["x", "weight", "bias"], ["c"], strides=(stride,) * 2, pads=(pad,) * 4),
        helper.make_node("Add", ["c", "other"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    constants = {"weight": np.ascontiguousarray(weight.transpose(3, 2, 0, 1)), "bias": bias}
    return Subgraph({"x": _first(x), "other": _first(other)}, constants, function, nodes, _last, image=True)


def _their_dep_layer(case: Case, x: Array, weight: Array, bias: Array) -> Subgraph:
    channels, (stride, pad) = x.shape[-1], case.shape[-2:]

    def function(x: Any, weight: Any, bias: Any) -> Any:
        return _functional().hardswish(_functional().conv2d(x, weight, bias, stride, pad, 1, channels))

    nodes = [
        helper.make_node("Conv", ["x", "weight", "bias"], ["c"], strides=(stride,) * 2, pads=(pad,) * 4, group=channels),
        helper.make_node("HardSwish", ["c"], ["y"]),
    ]
    constants = {"weight": np.ascontiguousarray(np.moveaxis(weight, -1, 0)[:, None]), "bias": bias}
    return Subgraph({"x": _first(x)}, constants, function, nodes, _last, image=True)


_THEIRS: dict[str, Callable[..., Subgraph]] = {
    "Dense": _their_dense, "Attention": _their_attention, "Residual": _their_residual, "DepLayer": _their_dep_layer,
}  # fmt: skip


def _functional() -> Any:
    """Imported when it is called: ONNX Runtime takes part without PyTorch, too."""
    import torch

    return torch.nn.functional


def _first(x: Array) -> Array:
    return aligned_copy(np.moveaxis(x, -1, 1))


def _last(y: Array) -> Array:
    return np.moveaxis(y, 1, -1)
