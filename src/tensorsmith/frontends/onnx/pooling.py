"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.spatial import channels_first, channels_last
from tensorsmith.frontends.onnx.spatial import spatial_extents, window
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value


def _options(node: OnnxNode, x: Value) -> dict[str, Any]:
    """The attributes that all kinds of pooling have."""
    extents = spatial_extents(node, x)
    kernel = tuple(node.needed("kernel_shape"))
    if len(kernel) != len(extents):
        raise UserError(f"{node}: kernel_shape is {list(kernel)}; the input {list(x.shape)} has {len(extents)} spatial dimensions")
    w = window(node, extents, kernel)
    return {
        "kernel": kernel,
        "stride": w.stride,
        "padding": w.padding,
        "dilation": w.dilation,
        "ceil_mode": bool(node.attribute("ceil_mode", 0)),
    }


@onnx_operator("MaxPool")
def max_pool(node: OnnxNode, b: Builder) -> Value | Sequence[Value]:
    x = node.required(0)
    options = _options(node, x)
    order = bool(node.version >= 8 and node.attribute("storage_order", 0))  # of the positions, the second output
    if node.output_count == 1:
        return channels_first(b, b.add("max_pool", [channels_last(b, x)], **options))
    return [channels_first(b, v) for v in b.add_all("max_pool_positions", [channels_last(b, x)], column_major=order, **options)]


@onnx_operator("AveragePool")
def average_pool(node: OnnxNode, b: Builder) -> Value:
    x = node.required(0)
    count_pad = bool(node.attribute("count_include_pad", 0))
    return channels_first(b, b.add("avg_pool", [channels_last(b, x)], count_pad=count_pad, **_options(node, x)))


@onnx_operator("LpPool")
def lp_pool(node: OnnxNode, b: Builder) -> Value:
    x = node.required(0)
    return channels_first(b, b.add("lp_pool", [channels_last(b, x)], p=int(node.attribute("p", 2)), **_options(node, x)))


@onnx_operator("GlobalAveragePool")
def global_average_pool(node: OnnxNode, b: Builder) -> Value:
    return _global(node, b, "global_avg_pool")


@onnx_operator("GlobalMaxPool")
def global_max_pool(node: OnnxNode, b: Builder) -> Value:
    return _global(node, b, "global_max_pool")


def _global(node: OnnxNode, b: Builder, operator: str) -> Value:
    x = node.required(0)
    if len(x.shape) < 3:
        raise UserError(f"{node}: the input has the shape {list(x.shape)}; expected N, C and spatial dimensions")
    return channels_first(b, b.add(operator, [channels_last(b, x)]))


@onnx_operator("GlobalLpPool")
def global_lp_pool(node: OnnxNode, b: Builder) -> Value:
    x = node.required(0)
    extents = spatial_extents(node, x)
    rank = len(extents)
    ones, none = (1,) * rank, ((0, 0),) * rank
    p = int(node.attribute("p", 2))
    pooled = b.add("lp_pool", [channels_last(b, x)], kernel=extents, stride=ones, padding=none, dilation=ones, p=p)
    return channels_first(b, pooled)
