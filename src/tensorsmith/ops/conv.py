"""Padding and convolutions, channels-last: data N, spatial.., C and weights K.., CI, CO."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, compute, reduce_axis, select
from tensorsmith.lang.expr import Expr
from tensorsmith.ops.common import (
    SPATIAL,
    Padding,
    PerDimension,
    at,
    check_rank,
    compute_named,
    pad_pairs,
    per_dimension,
    scaled,
    sum_of_products,
)
from tensorsmith.show.line import many


def pad(x: Tensor, pairs: Sequence[tuple[int, int]], value: float = 0, name: str = "pad") -> Tensor:
    """`x` with `value` around it: a (before, after) pair per dimension; negative ones cut. `x` itself if all are 0."""
    if len(pairs) != len(x.shape):
        raise UserError(f"{name}: {len(pairs)} pairs of padding for {many(len(x.shape), 'dimension')} of {x.name}")
    if not any(before or after for before, after in pairs):
        return x
    shape = [before + n + after for n, (before, after) in zip(x.shape, pairs)]
    if any(n < 0 for n in shape):
        raise UserError(f"{name}: padding {list(pairs)} cuts more than {x.name} {list(x.shape)} has")

    def body(indices: tuple[Expr, ...]) -> Expr:
        inside: list[Expr] = []
        for i, n, (before, after) in zip(indices, x.shape, pairs):
            inside += [i >= before] if before > 0 else []
            inside += [i < before + n] if after > 0 else []
        element = x[tuple(scaled(i, 1, -before) for i, (before, _) in zip(indices, pairs))]
        return select(functools.reduce(lambda a, b: a & b, inside), element, value) if inside else element

    rank = len(x.shape)
    axes = ["n", *SPATIAL[rank - 2], "c"] if 3 <= rank <= 5 else [f"i{d}" for d in range(rank)]
    return compute_named(shape, axes, body, name)


def pad_spatial(x: Tensor, pairs: Sequence[tuple[int, int]], value: float = 0, name: str = "pad") -> Tensor:
    """`pad` with pairs for the spatial dimensions only: those after the batch, before the channels."""
    rest = len(x.shape) - 1 - len(pairs)
    return pad(x, [(0, 0), *pairs, *[(0, 0)] * rest], value, name)


def window_extents(
    shape: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    pairs: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    name: str,
) -> list[int]:
    """How many windows fit in each spatial dimension of `shape`."""
    result = []
    for n, k, s, (before, after), d in zip(shape, kernel, stride, pairs, dilation):
        free = n + before + after - (d * (k - 1) + 1)
        if free < 0:
            raise UserError(f"{name}: the window spans {d * (k - 1) + 1} elements, the padded input {n + before + after}")
        result.append(free // s + 1)
    return result


def conv(
    x: Tensor,
    weight: Tensor,
    stride: PerDimension = 1,
    padding: Padding = 0,
    dilation: PerDimension = 1,
    groups: int = 1,
    name: str = "conv",
    fill: int = 0,
    sums: str | None = None,
    small_weight: bool = False,
) -> Tensor:
    """The convolution of any number of spatial dimensions (1-3); see conv1d, conv2d, conv3d.

    `fill` is what padding holds; `sums` is the type in which products are made and added, that of the operands if not given;
    `small_weight` as in `sum_of_products`.
    """
    rank = len(x.shape) - 2
    check_rank(weight, rank + 2, name, "K.., CI, CO")
    strides, dilations = per_dimension(stride, rank, "stride"), per_dimension(dilation, rank, "dilation")
    pairs = pad_pairs(padding, rank)
    *kernel, ci, co = weight.shape
    dilations = tuple(d if k > 1 else 1 for d, k in zip(dilations, kernel))  # one tap: the same convolution, the same key
    if groups < 1 or co % groups or ci * groups != x.shape[-1]:
        raise UserError(
            f"{name}: {x.name} has {x.shape[-1]} channels, {weight.name} takes {ci} in each of {groups} groups "
            f"and gives {co}; the first must be {ci} * {groups}, and {groups} must divide {co}"
        )
    out = window_extents(x.shape[1:-1], kernel, strides, pairs, dilations, name)
    source = pad_spatial(x, pairs, fill, name=f"{name}_pad")
    taps = [reduce_axis(k, f"k{a}") for k, a in zip(kernel, SPATIAL[rank])]
    rc = reduce_axis(ci, "ci")

    def product(n: Expr, place: Sequence[Expr], channel_in: Expr, channel_out: Expr) -> Expr:
        window = [scaled(i, s) + scaled(t, d) for i, s, t, d in zip(place, strides, taps, dilations)]
        data, factor = at(source, n, *window, channel_in), at(weight, *taps, rc, channel_out)
        return sum_of_products(data, factor, [*taps, rc], sums, small_weight)

    if groups == 1:
        return compute_named(
            (x.shape[0], *out, co),
            ("n", *SPATIAL[rank], "co"),
            lambda i: product(i[0], i[1:-1], rc, i[-1]),
            name,
        )
    each = co // groups
    grouped = compute_named(
        (x.shape[0], *out, groups, each),
        ("n", *SPATIAL[rank], "g", "co"),
        lambda i: product(i[0], i[1:-2], scaled(i[-2], ci) + rc, scaled(i[-2], each) + i[-1]),
        name,
    )
    return compute_named(
        (x.shape[0], *out, co),
        ("n", *SPATIAL[rank], "c"),
        lambda i: at(grouped, *i[:-1], i[-1] // each, i[-1] % each),
        f"{name}_out",
    )


def conv1d(
    x: Tensor,
    weight: Tensor,
    stride: PerDimension = 1,
    padding: Padding = 0,
    dilation: PerDimension = 1,
    groups: int = 1,
    name: str = "conv1d",
) -> Tensor:
    """x (N, L, CI), weight (K, CI / groups, CO) -> (N, L', CO)"""
    check_rank(x, 3, name, "(N, L, CI)")
    return conv(x, weight, stride, padding, dilation, groups, name)


def conv2d(
    x: Tensor,
    weight: Tensor,
    stride: PerDimension = 1,
    padding: Padding = 0,
    dilation: PerDimension = 1,
    groups: int = 1,
    name: str = "conv2d",
) -> Tensor:
    """x (N, H, W, CI), weight (KH, KW, CI / groups, CO) -> (N, H', W', CO)"""
    check_rank(x, 4, name, "(N, H, W, CI)")
    return conv(x, weight, stride, padding, dilation, groups, name)


def conv3d(
    x: Tensor,
    weight: Tensor,
    stride: PerDimension = 1,
    padding: Padding = 0,
    dilation: PerDimension = 1,
    groups: int = 1,
    name: str = "conv3d",
) -> Tensor:
    """x (N, D, H, W, CI), weight (KD, KH, KW, CI / groups, CO) -> (N, D', H', W', CO)"""
    check_rank(x, 5, name, "(N, D, H, W, CI)")
    return conv(x, weight, stride, padding, dilation, groups, name)


def depthwise_conv(
    x: Tensor,
    weight: Tensor,
    stride: PerDimension = 1,
    padding: Padding = 0,
    dilation: PerDimension = 1,
    name: str = "depthwise",
    fill: int = 0,
    sums: str | None = None,
) -> Tensor:
    """x (N, spatial.., C), weight (K.., C) -> (N, spatial.., C): each channel with its own kernel, of 1-3 dimensions.

    `fill` and `sums` are as in `conv`."""
    rank = len(x.shape) - 2
    check_rank(weight, rank + 1, name, "K.., C")
    strides, dilations = per_dimension(stride, rank, "stride"), per_dimension(dilation, rank, "dilation")
    pairs = pad_pairs(padding, rank)
    *kernel, channels = weight.shape
    dilations = tuple(d if k > 1 else 1 for d, k in zip(dilations, kernel))  # one tap: the same convolution, the same key
    if channels != x.shape[-1]:
        raise UserError(f"{name}: {x.name} has {x.shape[-1]} channels, {weight.name} has {channels}")
    out = window_extents(x.shape[1:-1], kernel, strides, pairs, dilations, name)
    source = pad_spatial(x, pairs, fill, name=f"{name}_pad")
    taps = [reduce_axis(k, f"k{a}") for k, a in zip(kernel, SPATIAL[rank])]

    def body(i: tuple[Expr, ...]) -> Expr:
        window = [scaled(h, s) + scaled(t, d) for h, s, t, d in zip(i[1:-1], strides, taps, dilations)]
        return sum_of_products(at(source, i[0], *window, i[-1]), at(weight, *taps, i[-1]), taps, sums)

    return compute_named((x.shape[0], *out, channels), ("n", *SPATIAL[rank], "c"), body, name)


def depthwise_conv2d(
    x: Tensor,
    weight: Tensor,
    stride: PerDimension = 1,
    padding: Padding = 0,
    dilation: PerDimension = 1,
    name: str = "depthwise",
) -> Tensor:
    """x (N, H, W, C), weight (KH, KW, C) -> (N, H', W', C): each channel with its own kernel."""
    check_rank(x, 4, name, "(N, H, W, C)")
    return depthwise_conv(x, weight, stride, padding, dilation, name)


def capsule_conv2d(x: Tensor, weight: Tensor, stride: PerDimension = 1, padding: Padding = 0, name: str = "capsule") -> Tensor:
    """x (N, H, W, P, R, CI), weight (KH, KW, R, Q, CI, CO) -> (N, H', W', P, Q, CO): a product of P x R and R x Q
    capsule matrices in place of the product of elements."""
    check_rank(x, 6, name, "(N, H, W, P, R, CI)")
    check_rank(weight, 6, name, "(KH, KW, R, Q, CI, CO)")
    sh, sw = per_dimension(stride, 2, "stride")
    pairs = pad_pairs(padding, 2)
    height, width, r_extent, q_extent, ci_extent, co_extent = weight.shape
    if (r_extent, ci_extent) != (x.shape[4], x.shape[5]):
        raise UserError(
            f"{name}: {x.name} has capsules of {x.shape[4]} columns and {x.shape[5]} channels, "
            f"{weight.name} takes {r_extent} and {ci_extent}"
        )
    out = window_extents(x.shape[1:3], (height, width), (sh, sw), pairs, (1, 1), name)
    source = pad_spatial(x, pairs, name=f"{name}_pad")
    kh, kw = reduce_axis(height, "kh"), reduce_axis(width, "kw")
    r, ci = reduce_axis(r_extent, "r"), reduce_axis(ci_extent, "ci")

    def body(n: Expr, h: Expr, w: Expr, p: Expr, q: Expr, co: Expr) -> Expr:
        element = source[n, scaled(h, sh) + kh, scaled(w, sw) + kw, p, r, ci]
        return define.sum(element * weight[kh, kw, r, q, ci, co], axis=[kh, kw, r, ci])

    return compute((x.shape[0], *out, x.shape[3], q_extent, co_extent), body, name=name)
