"""Convolutions. Weights are constants nearly always, so that their transposes are made here and now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.spatial import Window, channels_last
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value

Made = TypeVar("Made")
Options = Mapping[str, Any]


def convolution(what: object, b: Builder, x: Value, weight: Value, w: Window, groups: int) -> Value:
    """The convolution of x, which is channels-last already, with a weight (CO, CI / groups, K..); `what` it is, for errors."""

    def add(depthwise: bool, x: Value, weight: Value, options: Options) -> Value:
        return b.add("depthwise_conv" if depthwise else "conv", [x, weight], **options)

    return convolved(what, b, x, weight, w, groups, add)


def convolved(
    what: object, b: Builder, x: Value, weight: Value, w: Window, groups: int, make: Callable[[bool, Value, Value, Options], Made]
) -> Made:
    """As `convolution`, by `make(depthwise, x, weight, options)`, which gets a weight in our order: (K.., CI, CO) or (K.., C)."""
    outputs, each, *kernel = weight.shape
    if groups < 1 or each * groups != x.shape[-1] or outputs % groups:
        raise UserError(
            f"{what}: {x.shape[-1]} channels, a weight {list(weight.shape)} and {groups} groups do not fit: the weight must take "
            f"{x.shape[-1]} / {groups} channels, and {groups} must divide its {outputs} outputs"
        )
    spatial = range(2, len(weight.shape))
    options: dict[str, Any] = {"stride": w.stride, "padding": w.padding, "dilation": w.dilation}
    if groups > 1 and each == 1:
        flat = b.add("reshape", [b.add("transpose", [weight], order=(*spatial, 0, 1))], shape=(*kernel, outputs))
        if outputs > groups:  # several kernels for a channel: as many copies of it make it one each, which is the better kernel
            x = b.add("repeat", [x], times=(*[1] * (len(x.shape) - 1), outputs // groups))
        return make(True, x, flat, options)
    return make(False, x, b.add("transpose", [weight], order=(*spatial, 1, 0)), {**options, "groups": groups})


def with_bias(b: Builder, x: Value, bias: Value | None) -> Value:
    """x, channels-last, plus a bias per channel."""
    return x if bias is None else b.add("add", [x, bias])


def transposed_convolution(b: Builder, x: Value, weight: Value, w: Window, extra: tuple[int, ...], groups: int) -> Value:
    """The transposed convolution of x (N, C, spatial..) with a weight (CI, CO / groups, K..), channels-last."""
    kernel = b.add("transpose", [weight], order=(*range(2, len(weight.shape)), 0, 1))
    if any(d > 1 and k > 1 for k, d in zip(w.kernel, w.dilation)):  # zeros between the taps, once
        kernel = b.add("spread", [kernel], steps=(*w.dilation, 1, 1))
    options: dict[str, Any] = {"stride": w.stride, "padding": w.padding, "output_padding": extra, "groups": groups}
    return b.add("transposed_conv", [channels_last(b, x), kernel], **options)
