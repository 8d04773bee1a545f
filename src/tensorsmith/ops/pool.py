"""Pooling over windows of the spatial dimensions, channels-last, of 1-3 spatial dimensions."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, reduce_axis
from tensorsmith.lang.evaluate import identity
from tensorsmith.lang.expr import Expr
from tensorsmith.ops import reduce
from tensorsmith.ops.common import SPATIAL, Padding, PerDimension, at, compute_named, pad_pairs, per_dimension, scaled
from tensorsmith.ops.conv import pad_spatial, window_extents

Pairs = tuple[tuple[int, int], ...]


def max_pool(
    x: Tensor,
    kernel: PerDimension,
    stride: PerDimension | None = None,
    padding: Padding = 0,
    dilation: PerDimension = 1,
    ceil_mode: bool = False,
    name: str = "max_pool",
) -> Tensor:
    """x (N, spatial.., C); the stride is the kernel by default. With `ceil_mode`, windows may overhang the end."""
    return _windows("max", x, kernel, stride, padding, dilation, ceil_mode, name)


def avg_pool(
    x: Tensor,
    kernel: PerDimension,
    stride: PerDimension | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_pad: bool = True,
    name: str = "avg_pool",
) -> Tensor:
    """As max_pool. With `count_pad` padding counts as zeros (but not what lies past it), else not at all."""
    rank = len(x.shape) - 2
    kernels = per_dimension(kernel, rank, "kernel")
    strides = kernels if stride is None else per_dimension(stride, rank, "stride")
    pairs = pad_pairs(padding, rank)
    total = _windows("sum", x, kernel, stride, padding, 1, ceil_mode, f"{name}_sum")
    spans = [(0, b + n + a) if count_pad else (b, b + n) for n, (b, a) in zip(x.shape[1:-1], pairs)]

    def body(i: tuple[Expr, ...]) -> Expr:
        fixed, varying = 1, []
        for h, out, k, s, (low, high) in zip(i[1:-1], total.shape[1:-1], kernels, strides, spans):
            if low <= 0 and (out - 1) * s + k <= high:
                fixed *= k
            else:
                end = define.minimum(scaled(h, s, k), high)
                varying.append(end - (define.maximum(scaled(h, s), low) if low > 0 else scaled(h, s)))
        if not varying:
            return total[i] * (1 / fixed)
        count = functools.reduce(lambda a, b: a * b, varying)
        return total[i] / define.cast(x.dtype, scaled(count, fixed))

    return compute_named(total.shape, ("n", *SPATIAL[rank], "c"), body, name)


def global_max_pool(x: Tensor, keepdims: bool = True, name: str = "global_max_pool") -> Tensor:
    """The maximum over all spatial dimensions."""
    return reduce.max(x, range(1, len(x.shape) - 1), keepdims, name)


def global_avg_pool(x: Tensor, keepdims: bool = True, name: str = "global_avg_pool") -> Tensor:
    """The mean over all spatial dimensions."""
    return reduce.mean(x, range(1, len(x.shape) - 1), keepdims, name)


def _windows(
    op: str,
    x: Tensor,
    kernel: PerDimension,
    stride: PerDimension | None,
    padding: Padding,
    dilation: PerDimension,
    ceil_mode: bool,
    name: str,
) -> Tensor:
    rank = len(x.shape) - 2
    if rank not in SPATIAL:
        raise UserError(f"{name}: {x.name} has the shape {list(x.shape)}; expected N, 1-3 spatial dimensions, C")
    kernels = per_dimension(kernel, rank, "kernel")
    strides = kernels if stride is None else per_dimension(stride, rank, "stride")
    dilations = per_dimension(dilation, rank, "dilation")
    pairs = pad_pairs(padding, rank)
    if any(max(pair) >= d * (k - 1) + 1 for pair, k, d in zip(pairs, kernels, dilations)):
        raise UserError(f"{name}: padding {pairs} must be smaller than the kernel {kernels}, or a window is all padding")
    if ceil_mode:
        pairs = _overhang(x.shape[1:-1], kernels, strides, pairs, dilations)
    out = window_extents(x.shape[1:-1], kernels, strides, pairs, dilations, name)
    source = pad_spatial(x, pairs, identity(op, x.dtype), f"{name}_pad")
    taps = [reduce_axis(k, f"k{a}") for k, a in zip(kernels, SPATIAL[rank])]
    combine = define.max if op == "max" else define.sum

    def body(i: tuple[Expr, ...]) -> Expr:
        window = [scaled(h, s) + scaled(t, d) for h, s, t, d in zip(i[1:-1], strides, taps, dilations)]
        return combine(at(source, i[0], *window, i[-1]), taps)

    return compute_named((x.shape[0], *out, x.shape[-1]), ("n", *SPATIAL[rank], "c"), body, name)


def _overhang(shape: Sequence[int], kernel: Sequence[int], stride: Sequence[int], pairs: Pairs, dilation: Sequence[int]) -> Pairs:
    """More padding after the end, for windows that hang over it but start inside the input or the padding before it."""
    result = []
    for n, k, s, (before, after), d in zip(shape, kernel, stride, pairs, dilation):
        span = d * (k - 1) + 1
        windows = math.ceil((n + before + after - span) / s) + 1
        if (windows - 1) * s >= n + before:
            windows -= 1
        result.append((before, max(after, (windows - 1) * s + span - n - before)))
    return tuple(result)
