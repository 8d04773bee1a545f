"""Softmax and normalisations; each names the dimensions it works along, so that it fits any layout."""

from __future__ import annotations

from tensorsmith.graph.operators import Kind, operator
from tensorsmith.lang import define
from tensorsmith.lang.define import Tensor
from tensorsmith.ops import norm
from tensorsmith.ops.elementwise import apply


@operator("softmax", Kind.REDUCTION)
def softmax(x: Tensor, *, axis: int, name: str) -> Tensor:
    """exp(x - max) / sum(exp(x - max)) along a dimension."""
    return norm.softmax(x, axis, name)


@operator("log_softmax", Kind.REDUCTION)
def log_softmax(x: Tensor, *, axis: int, name: str) -> Tensor:
    """The logarithm of `softmax`, computed without it."""
    return norm.log_softmax(x, axis, name)


@operator("masked_softmax", Kind.REDUCTION)
def masked_softmax(x: Tensor, *, axis: int, name: str) -> Tensor:
    """`softmax`, with 0 instead of NaN along rows that are -inf throughout."""
    return norm.softmax(x, axis, name, masked=True)


@operator("normalize", Kind.REDUCTION)
def normalize(x: Tensor, *, axes: tuple[int, ...], epsilon: float, centre: bool = True, name: str) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) over some dimensions; without `centre` the mean counts as 0."""
    return norm.normalize(x, axes, epsilon, centre, name)


@operator("moments", Kind.REDUCTION)
def moments(x: Tensor, *, axes: tuple[int, ...], epsilon: float, name: str) -> tuple[Tensor, ...]:
    """The mean and 1 / sqrt(variance + epsilon) over some dimensions, which stay with extent 1."""
    return norm.moments(x, axes, epsilon, name)


@operator("lp_normalize", Kind.REDUCTION)
def lp_normalize(x: Tensor, *, axis: int, p: int, name: str) -> Tensor:
    """x / (its p-norm along a dimension)."""
    return norm.lp_normalize(x, axis, p, name)


@operator("local_response_norm", Kind.REDUCTION)
def local_response_norm(x: Tensor, *, size: int, alpha: float, beta: float, bias: float, name: str) -> Tensor:
    """x (..., C) / (bias + alpha / size * the squares of `size` neighbouring channels) ** beta."""
    return norm.local_response_norm(x, size, alpha, beta, bias, name)


@operator("inverse_deviation", Kind.ELEMENTWISE)
def inverse_deviation(variance: Tensor, *, epsilon: float, name: str) -> Tensor:
    """1 / sqrt(variance + epsilon)"""
    return apply(lambda v: define.rsqrt(v + epsilon), variance, name=name)
