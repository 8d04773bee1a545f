"""Pooling over windows of the spatial dimensions, channels-last, of 1-3 spatial dimensions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorsmith.errors import UserError
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor, reduce_axis, select
from tensorsmith.lang.dtypes import is_float
from tensorsmith.lang.evaluate import identity
from tensorsmith.lang.expr import Expr
from tensorsmith.ops import reduce
from tensorsmith.ops.common import (
    SPATIAL,
    Padding,
    PerDimension,
    as_type,
    at,
    compute_named,
    pad_pairs,
    per_dimension,
    scaled,
    widen,
)
from tensorsmith.ops.conv import pad_spatial, window_extents
from tensorsmith.ops.elementwise import apply
from tensorsmith.ops.norm import root, to_power

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


def max_pool_positions(
    x: Tensor,
    kernel: PerDimension,
    stride: PerDimension | None = None,
    padding: Padding = 0,
    dilation: PerDimension = 1,
    ceil_mode: bool = False,
    column_major: bool = False,
    name: str = "max_pool",
) -> tuple[Tensor, Tensor]:
    """`max_pool`, and where each maximum was found: its place (i64) in the input seen as N, C, spatial.. and laid out flat.

    Of equal maxima the first counts. With `column_major` the spatial dimensions are counted from the first to the last.
    """
    rank = len(x.shape) - 2
    largest = max_pool(x, kernel, stride, padding, dilation, ceil_mode, name)
    given = _arguments(x, kernel, stride, padding, dilation, ceil_mode, name)
    taps = [reduce_axis(k, f"k{a}") for k, a in zip(given.kernel, SPATIAL[rank])]
    extents = x.shape[1:-1]
    area = math.prod(extents)

    def first(i: tuple[Expr, ...]) -> Expr:
        window = [
            scaled(h, s, -b) + scaled(t, d) for h, s, t, d, (b, _) in zip(i[1:-1], given.stride, taps, given.dilation, given.pairs)
        ]
        place: Expr = window[0]
        for index, extent in zip(window[1:], extents[1:]):
            place = place * extent + index
        element = at(x, i[0], *window, i[-1])
        found = define.equal(element, largest[i])
        if is_float(x.dtype):
            found = found | define.not_equal(element, element)
        inside = [w >= 0 for w, (b, _) in zip(window, given.pairs) if b > 0]
        inside += [w < n for w, n, (_, a) in zip(window, extents, given.pairs) if a > 0]
        here = select(found, place, area)
        return define.min(select(functools.reduce(lambda a, b: a & b, inside), here, area) if inside else here, taps)

    spots = compute_named(largest.shape, ("n", *SPATIAL[rank], "c"), first, f"{name}_first")

    def flat(i: tuple[Expr, ...]) -> Expr:
        place = spots[i]
        if column_major:
            parts, rest, step = [], place, 1
            for extent in reversed(extents):
                parts.append(rest % extent)
                rest = rest // extent
            place = parts[-1]
            for part, extent in zip(reversed(parts[:-1]), extents):
                step *= extent
                place = place + part * step
        return (i[0] * x.shape[-1] + i[-1]) * area + place

    return largest, compute_named(largest.shape, ("n", *SPATIAL[rank], "c"), flat, f"{name}_positions")


def avg_pool(
    x: Tensor,
    kernel: PerDimension,
    stride: PerDimension | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_pad: bool = True,
    dilation: PerDimension = 1,
    name: str = "avg_pool",
) -> Tensor:
    """As max_pool. With `count_pad` padding counts as zeros (but not what lies past it), else not at all."""
    rank = len(x.shape) - 2
    total = _windows("sum", x, kernel, stride, padding, dilation, ceil_mode, f"{name}_sum", widen)
    given = _arguments(x, kernel, stride, padding, dilation, ceil_mode, name)
    spans = [(0, b + n + a) if count_pad else (b, b + n) for n, (b, a) in zip(x.shape[1:-1], pad_pairs(padding, rank))]

    def body(i: tuple[Expr, ...]) -> Expr:
        fixed, varying = 1, []
        for h, out, k, s, d, (low, high) in zip(i[1:-1], total.shape[1:-1], given.kernel, given.stride, given.dilation, spans):
            if low <= 0 and (out - 1) * s + d * (k - 1) < high:
                fixed *= k
            else:  # the taps before `high`, less those before `low`
                end = define.minimum(_taps_before(high, h, s, d), k)
                varying.append(end - define.maximum(_taps_before(low, h, s, d), 0) if low > 0 else end)
        if not varying:
            return as_type(x.dtype, total[i] * (1 / fixed))
        count = functools.reduce(lambda a, b: a * b, varying)
        return as_type(x.dtype, total[i] / define.cast(total.dtype, scaled(count, fixed)))

    return compute_named(total.shape, ("n", *SPATIAL[rank], "c"), body, name)


def _taps_before(limit: int, h: Expr, stride: int, dilation: int) -> Expr:
    """How many taps of window h, without end on both sides, lie before `limit`: ceil((limit - h * stride) / dilation)."""
    distance = limit + dilation - 1 - scaled(h, stride)
    return distance // dilation if dilation > 1 else distance


def lp_pool(
    x: Tensor,
    kernel: PerDimension,
    stride: PerDimension | None = None,
    padding: Padding = 0,
    dilation: PerDimension = 1,
    ceil_mode: bool = False,
    p: int = 2,
    name: str = "lp_pool",
) -> Tensor:
    """As max_pool: the p-th root of the sum of the p-th powers of each window's absolute values."""
    total = _windows("sum", x, kernel, stride, padding, dilation, ceil_mode, f"{name}_sum", functools.partial(to_power, p=p))
    return apply(functools.partial(root, p=p), total, name=name)


def global_max_pool(x: Tensor, keepdims: bool = True, name: str = "global_max_pool") -> Tensor:
    """The maximum over all spatial dimensions."""
    return reduce.max(x, range(1, len(x.shape) - 1), keepdims, name)


def global_avg_pool(x: Tensor, keepdims: bool = True, name: str = "global_avg_pool") -> Tensor:
    """The mean over all spatial dimensions."""
    return reduce.mean(x, range(1, len(x.shape) - 1), keepdims, name)


@dataclass(frozen=True)
class _Arguments:
    """The arguments per spatial dimension; `pairs` include what overhanging windows need."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pairs: Pairs


def _arguments(
    x: Tensor,
    kernel: PerDimension,
    stride: PerDimension | None,
    padding: Padding,
    dilation: PerDimension,
    ceil_mode: bool,
    name: str,
) -> _Arguments:
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
    return _Arguments(kernels, strides, dilations, pairs)


def _windows(
    op: str,
    x: Tensor,
    kernel: PerDimension,
    stride: PerDimension | None,
    padding: Padding,
    dilation: PerDimension,
    ceil_mode: bool,
    name: str,
    of: Callable[[Expr], Expr] = lambda e: e,
) -> Tensor:
    """`op` over each window, of `of` each element, which must leave the padding (the identity of `op`) as it is."""
    given = _arguments(x, kernel, stride, padding, dilation, ceil_mode, name)
    letters = SPATIAL[len(x.shape) - 2]
    out = window_extents(x.shape[1:-1], given.kernel, given.stride, given.pairs, given.dilation, name)
    source = pad_spatial(x, given.pairs, identity(op, x.dtype), f"{name}_pad")
    taps = [reduce_axis(k, f"k{a}") for k, a in zip(given.kernel, letters)]
    combine = define.max if op == "max" else define.sum

    def body(i: tuple[Expr, ...]) -> Expr:
        window = [scaled(h, s) + scaled(t, d) for h, s, t, d in zip(i[1:-1], given.stride, taps, given.dilation)]
        return combine(of(at(source, i[0], *window, i[-1])), taps)

    return compute_named((x.shape[0], *out, x.shape[-1]), ("n", *letters, "c"), body, name)


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
