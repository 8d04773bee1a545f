"""Convolutions. Weights are constants nearly always, so that their transposes are made here and now."""

from __future__ import annotations

from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.spatial import (
    Pairs,
    Window,
    channels_first,
    channels_last,
    numbers,
    spatial_extents,
    split_padding,
    window,
)
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value


@onnx_operator("Conv")
def conv(node: OnnxNode, b: Builder) -> Value:
    x, weight = node.required(0), node.required(1)
    result = convolution(node, b, channels_last(b, x), weight, conv_window(node, x, weight))
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


def convolution(node: OnnxNode, b: Builder, x: Value, weight: Value, w: Window) -> Value:
    """The convolution of x, which is channels-last already; the weight is as in the file."""
    groups = node.attribute("group", 1)
    outputs, each, *kernel = weight.shape
    if groups < 1 or each * groups != x.shape[-1] or outputs % groups:
        raise UserError(
            f"{node}: {x.shape[-1]} channels, a weight {list(weight.shape)} and {groups} groups do not fit: the weight must take "
            f"{x.shape[-1]} / {groups} channels, and {groups} must divide its {outputs} outputs"
        )
    spatial = range(2, len(weight.shape))
    options: dict[str, Any] = {"stride": w.stride, "padding": w.padding, "dilation": w.dilation}
    if groups > 1 and each == 1:
        flat = b.add("reshape", [b.add("transpose", [weight], order=(*spatial, 0, 1))], shape=(*kernel, outputs))
        if outputs > groups:  # several kernels for a channel: as many copies of it make it one each, which is the better kernel
            x = b.add("repeat", [x], times=(*[1] * (len(x.shape) - 1), outputs // groups))
        return b.add("depthwise_conv", [x, flat], **options)
    return b.add("conv", [x, b.add("transpose", [weight], order=(*spatial, 1, 0))], groups=groups, **options)


def with_bias(b: Builder, x: Value, bias: Value | None) -> Value:
    """x, channels-last, plus a bias per channel."""
    return x if bias is None else b.add("add", [x, bias])


@onnx_operator("ConvTranspose")
def conv_transpose(node: OnnxNode, b: Builder) -> Value:
    x, weight = node.required(0), node.required(1)
    w = conv_window(node, x, weight)
    padding, extra = _transposed_padding(node, x, w)
    spatial = range(2, len(weight.shape))
    kernel = b.add("transpose", [weight], order=(*spatial, 0, 1))
    if any(d > 1 and k > 1 for k, d in zip(w.kernel, w.dilation)):  # zeros between the taps, once
        kernel = b.add("spread", [kernel], steps=(*w.dilation, 1, 1))
    result = b.add(
        "transposed_conv",
        [channels_last(b, x), kernel],
        stride=w.stride,
        padding=padding,
        output_padding=extra,
        groups=node.attribute("group", 1),
    )
    return channels_first(b, with_bias(b, result, node.optional(2)))


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
