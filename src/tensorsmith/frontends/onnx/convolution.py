"""ONNX's convolutions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.convolution import convolution, transposed_convolution, with_bias
from tensorsmith.frontends.common.spatial import Pairs, Window, channels_first, channels_last, split_padding
from tensorsmith.frontends.onnx.spatial import numbers, spatial_extents, window
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import dtype


@onnx_operator("Conv")
def conv(node: OnnxNode, b: Builder) -> Value:
    x, weight = node.required(0), node.required(1)
    result = convolution(node, b, channels_last(b, x), weight, conv_window(node, x, weight), node.attribute("group", 1))
    return channels_first(b, with_bias(b, result, node.optional(2)))


def conv_window(node: OnnxNode, x: Value, weight: Value) -> Window:
    """The window of a convolution of x (N, C, spatial..) with a weight (CO, CI / groups, K..)."""
    extents = spatial_extents(node, x)
    if len(weight.shape) != len(x.shape):
        raise UserError(
            f"{node}: the weight has the shape {list(weight.shape)}, the input {list(x.shape)}; their ranks must be equal"
        )
    kernel = weight.shape[2:]
    if node.attribute("kernel_shape") and tuple(node.attribute("kernel_shape")) != kernel:
        raise UserError(f"{node}: kernel_shape is {list(node.attribute('kernel_shape'))}, the weight has {list(kernel)}")
    return window(node, extents, kernel)


@onnx_operator("ConvTranspose")
def conv_transpose(node: OnnxNode, b: Builder) -> Value:
    x, weight = node.required(0), node.required(1)
    w = conv_window(node, x, weight)
    padding, extra = _transposed_padding(node, x, w)
    result = transposed_convolution(b, x, weight, replace(w, padding=padding), extra, node.attribute("group", 1))
    return channels_first(b, with_bias(b, result, node.optional(2)))


@onnx_operator("DeformConv", since=19)
def deform_conv(node: OnnxNode, b: Builder) -> Value:
    """Every tap's elements are gathered as channels of their own; what is left is a convolution with a kernel of one element."""
    x, weight, offsets, mask = node.required(0), node.required(1), node.required(2), node.optional(4)
    w = conv_window(node, x, weight)
    if len(w.kernel) != 2 or len(offsets.shape) != 4:
        raise UserError(f"{node}: the input has the shape {list(x.shape)}; deformable convolutions are supported on images only")
    columns = b.add(
        "deformed_columns",
        [channels_last(b, x), offsets, *([] if mask is None else [mask])],
        kernel=w.kernel,
        stride=w.stride,
        before=tuple(first for first, _ in w.padding),
        dilation=w.dilation,
        groups=int(node.attribute("offset_group", 1)),
    )
    groups, (outputs, each), taps = int(node.attribute("group", 1)), weight.shape[:2], math.prod(w.kernel)
    if groups < 1 or each * groups != x.shape[1] or outputs % groups:
        raise UserError(f"{node}: {x.shape[1]} channels, a weight {list(weight.shape)} and {groups} groups do not fit")
    places = columns.shape[:3]
    apart = b.add("reshape", [columns], shape=(*places, taps, groups, each))
    grouped = b.add("reshape", [b.add("transpose", [apart], order=(0, 1, 2, 4, 3, 5))], shape=(*places, groups * taps * each))
    rows = b.add("reshape", [weight], shape=(outputs, each, taps))
    kernel = b.add("reshape", [b.add("transpose", [rows], order=(2, 1, 0))], shape=(1, 1, taps * each, outputs))
    point: dict[str, Any] = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1)}
    return channels_first(b, with_bias(b, b.add("conv", [grouped, kernel], groups=groups, **point), node.optional(3)))


@onnx_operator("Col2Im", since=18)
def columns_to_image(node: OnnxNode, b: Builder) -> Value:
    """Blocks added up where they lie in the image: a transposed convolution whose kernels are single ones, a group per channel."""
    x = node.required(0)
    image, block = (
        tuple(int(n) for n in node.constant(k, what)) for k, what in ((1, "the image's shape"), (2, "the block's shape"))
    )
    places = math.prod(block)
    if len(x.shape) != 3 or len(image) != len(block) or not places or x.shape[1] % places:
        raise UserError(f"{node}: {x} does not hold blocks of {list(block)} of an image of {list(image)}")
    w = window(node, image, block)
    counts = [(n + sum(p) - span) // s + 1 for n, p, span, s in zip(image, w.padding, w.spans, w.stride)]
    if math.prod(counts) != x.shape[2]:
        raise UserError(f"{node}: {x.shape[2]} blocks are given; {list(image)} has {counts} places for blocks of {list(block)}")
    channels = x.shape[1] // places
    ones = np.eye(places, dtype=dtype(x.dtype).numpy).reshape(1, places, 1, *block)
    weight = b.constant(np.broadcast_to(ones, (channels, places, 1, *block)).reshape(channels * places, 1, *block))
    full = [s * (n - 1) + span - sum(p) for n, s, span, p in zip(counts, w.stride, w.spans, w.padding)]
    blocks = b.add("reshape", [x], shape=(*x.shape[:2], *counts))
    return channels_first(b, transposed_convolution(b, blocks, weight, w, tuple(n - f for n, f in zip(image, full)), channels))


def _transposed_padding(node: OnnxNode, x: Value, w: Window) -> tuple[Pairs, tuple[int, ...]]:
    """What is cut off at both ends, and what is added at the far one.

    `output_shape`, or a SAME padding, fixes the result's extents; the padding follows from them.
    """
    extents = x.shape[2:]
    extra = numbers(node, "output_padding", len(extents), 0)
    mode = node.attribute("auto_pad", "NOTSET")
    wanted = node.attribute("output_shape")
    if not wanted and mode not in ("SAME_UPPER", "SAME_LOWER"):
        return w.padding, extra
    wanted = tuple(wanted or (n * s for n, s in zip(extents, w.stride)))[-len(extents) :]  # some write N and C in front
    full = [s * (n - 1) + span + e for n, s, span, e in zip(extents, w.stride, w.spans, extra)]
    padding = split_padding([max(f - n, 0) for f, n in zip(full, wanted)], mode == "SAME_UPPER")
    return padding, tuple(e + max(n - f, 0) for e, f, n in zip(extra, full, wanted))
