"""Pooling over windows, channels-last."""

from __future__ import annotations

from tensorsmith.graph.operators import Kind, operator
from tensorsmith.lang.define import Tensor
from tensorsmith.ops import pool

Pairs = tuple[tuple[int, int], ...]
Numbers = tuple[int, ...]


@operator("max_pool", Kind.REDUCTION)
def max_pool(
    x: Tensor, *, kernel: Numbers, stride: Numbers, padding: Pairs, dilation: Numbers, ceil_mode: bool = False, name: str
) -> Tensor:
    """x (N, spatial.., C): the largest element of each window."""
    return pool.max_pool(x, kernel, stride, padding, dilation, ceil_mode, name)


@operator("max_pool_positions", Kind.REDUCTION)
def max_pool_positions(
    x: Tensor,
    *,
    kernel: Numbers,
    stride: Numbers,
    padding: Pairs,
    dilation: Numbers,
    ceil_mode: bool = False,
    column_major: bool = False,
    name: str,
) -> tuple[Tensor, ...]:
    """`max_pool`, and the place (i64) of each maximum in the input seen as N, C, spatial.. and laid out flat."""
    return pool.max_pool_positions(x, kernel, stride, padding, dilation, ceil_mode, column_major, name)


@operator("avg_pool", Kind.REDUCTION)
def avg_pool(
    x: Tensor,
    *,
    kernel: Numbers,
    stride: Numbers,
    padding: Pairs,
    dilation: Numbers,
    ceil_mode: bool = False,
    count_pad: bool = False,
    name: str,
) -> Tensor:
    """x (N, spatial.., C): the mean of each window; with `count_pad` padding counts as zeros."""
    return pool.avg_pool(x, kernel, stride, padding, ceil_mode, count_pad, dilation, name)


@operator("lp_pool", Kind.REDUCTION)
def lp_pool(
    x: Tensor,
    *,
    kernel: Numbers,
    stride: Numbers,
    padding: Pairs,
    dilation: Numbers,
    ceil_mode: bool = False,
    p: int = 2,
    name: str,
) -> Tensor:
    """x (N, spatial.., C): the p-norm of each window."""
    return pool.lp_pool(x, kernel, stride, padding, dilation, ceil_mode, p, name)


@operator("global_max_pool", Kind.REDUCTION)
def global_max_pool(x: Tensor, *, name: str) -> Tensor:
    """x (N, spatial.., C) -> (N, 1.., C): the largest element of each channel."""
    return pool.global_max_pool(x, name=name)


@operator("global_avg_pool", Kind.REDUCTION)
def global_avg_pool(x: Tensor, *, name: str) -> Tensor:
    """x (N, spatial.., C) -> (N, 1.., C): the mean of each channel."""
    return pool.global_avg_pool(x, name=name)
