"""ATen's pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.resize import weighted
from tensorsmith.frontends.common.spatial import channels_first, channels_last
from tensorsmith.frontends.common.values import as_type, reshaped
from tensorsmith.frontends.torch.arithmetic import times
from tensorsmith.frontends.torch.table import AtenNode, aten_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value


def _batched(b: Builder, x: Value, rank: int) -> Value:
    """The input with a batch in front, channels-last."""
    return channels_last(b, x if len(x.shape) == rank + 2 else reshaped(b, x, (1, *x.shape)))


def _unbatched(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    return reshaped(b, channels_first(b, x), shape)


def _window(node: AtenNode, rank: int) -> dict[str, Any]:
    """What all windows have; the stride is the kernel where it is left out."""
    kernel = node.integers("kernel_size", rank)
    stride = node.integers("stride", rank) if node.plain("stride") else kernel
    pads = node.integers("padding", rank)
    return {
        "kernel": kernel,
        "stride": stride,
        "padding": tuple((p, p) for p in pads),
        "ceil_mode": bool(node.plain("ceil_mode")),
    }


def _max_pool(rank: int) -> None:
    @aten_operator(f"max_pool{rank}d")
    def values(node: AtenNode, b: Builder) -> Value:
        x = _batched(b, node.value("self"), rank)
        pooled = b.add("max_pool", [x], dilation=node.integers("dilation", rank), **_window(node, rank))
        return _unbatched(b, pooled, node.result[0])

    if rank == 1:
        return

    @aten_operator(f"max_pool{rank}d_with_indices")
    def both(node: AtenNode, b: Builder) -> Sequence[Value]:
        """Positions are counted in each image of a channel."""
        given = node.value("self")
        x = _batched(b, given, rank)
        options = {"dilation": node.integers("dilation", rank), **_window(node, rank)}
        shape = node.results[0][0]
        if not node.uses(1):
            return [_unbatched(b, b.add("max_pool", [x], **options), shape)]
        pooled, positions = b.add_all("max_pool_positions", [x], **options)
        area = b.constant(np.array(prod(x.shape[1:-1]), np.int64))
        inside = b.add("modulo", [positions, area])
        return [_unbatched(b, pooled, shape), _unbatched(b, inside, shape)]


def _avg_pool(rank: int) -> None:
    @aten_operator(f"avg_pool{rank}d")
    def handler(node: AtenNode, b: Builder) -> Value:
        x, options = _batched(b, node.value("self"), rank), _window(node, rank)
        count_pad, divisor = bool(node.plain("count_include_pad")), node.plain("divisor_override") if rank > 1 else None
        if divisor is not None:
            return _unbatched(b, _sum_pool(b, x, options, node.result[0][-rank:], 1 / divisor), node.result[0])
        pooled = b.add("avg_pool", [x], dilation=(1,) * rank, count_pad=count_pad, **options)
        return _unbatched(b, pooled, node.result[0])


def _sum_pool(b: Builder, x: Value, window: dict[str, Any], counts: Sequence[int], factor: float) -> Value:
    """The sum of each window, times a number; what lies beyond the input is 0."""
    kernel, stride = window["kernel"], window["stride"]
    spans = [(c - 1) * s + k for c, s, k in zip(counts, stride, kernel)]
    pairs = [(p, max(span - n - p, 0)) for span, n, (p, _) in zip(spans, x.shape[1:-1], window["padding"])]
    x = b.add("pad", [x], pairs=((0, 0), *pairs, (0, 0)), value=0, mode="constant") if any(map(any, pairs)) else x
    none, ones = ((0, 0),) * len(kernel), (1,) * len(kernel)
    return times(b, b.add("avg_pool", [x], kernel=kernel, stride=stride, padding=none, dilation=ones), prod(kernel) * factor)


for _rank in (1, 2, 3):
    _max_pool(_rank)
    _avg_pool(_rank)


def _bounds(extent: int, count: int) -> list[tuple[int, int]]:
    """Beginning and end of each of `count` windows that cover a dimension; neighbours may share an element."""
    return [(n * extent // count, -(-(n + 1) * extent // count)) for n in range(count)]


def _adaptive(node: AtenNode, b: Builder, rank: int, even: str, uneven: Callable[[Builder, Value, int, int], Value]) -> Value:
    """Windows of one size where the counts divide the extents, else one dimension after the other by its own windows."""
    x = _batched(b, node.value("self"), rank)
    counts = [c if c is not None else n for c, n in zip(node.plain("output_size"), x.shape[1:-1])]
    shape = node.results[0][0]
    if 0 in (*shape, *x.shape):
        raise UserError(f"{node}: {x} or the result is empty")
    if all(n % c == 0 for n, c in zip(x.shape[1:-1], counts)):
        kernel = tuple(n // c for n, c in zip(x.shape[1:-1], counts))
        ones, none = (1,) * rank, ((0, 0),) * rank
        if kernel == x.shape[1:-1]:
            return _unbatched(b, b.add(f"global_{even}", [x]), shape)
        return _unbatched(b, b.add(even, [x], kernel=kernel, stride=kernel, padding=none, dilation=ones), shape)
    for axis, count in enumerate(counts, 1):
        x = uneven(b, x, axis, count)
    return _unbatched(b, as_type(b, x, node.results[0][1]), shape)


def _mean_along(b: Builder, x: Value, axis: int, count: int) -> Value:
    bounds = _bounds(x.shape[axis], count)
    longest = max(end - start for start, end in bounds)
    places = np.array([[min(start + n, end - 1) for n in range(longest)] for start, end in bounds])
    weights = np.array([[(start + n < end) / (end - start) for n in range(longest)] for start, end in bounds])
    return weighted(b, x, axis, places, weights, np.zeros(count))


def _max_along(b: Builder, x: Value, axis: int, count: int) -> Value:
    bounds = _bounds(x.shape[axis], count)
    longest = max(end - start for start, end in bounds)
    places = np.array([[min(start + n, end - 1) for n in range(longest)] for start, end in bounds], np.int64)
    apart = b.add("gather", [x, b.constant(places, "places")], axis=axis)
    return b.add("reduce_max", [apart], axes=(axis + 1,), keepdims=False)


def _adaptive_pools(rank: int) -> None:
    @aten_operator(f"adaptive_avg_pool{rank}d")
    def mean(node: AtenNode, b: Builder) -> Value:
        return _adaptive(node, b, rank, "avg_pool", _mean_along)

    @aten_operator(f"adaptive_max_pool{rank}d")
    def largest(node: AtenNode, b: Builder) -> Sequence[Value]:
        if node.uses(1):
            raise UserError(f"{node}: the positions of the maxima are not supported")
        return [_adaptive(node, b, rank, "max_pool", _max_along)]


for _rank in (1, 2, 3):
    _adaptive_pools(_rank)
