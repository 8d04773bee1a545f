"""Sums of products with reuse: convolutions, channels-last, and matrix products."""

from __future__ import annotations

from tensorsmith.graph.operators import Kind, operator
from tensorsmith.lang.define import Tensor
from tensorsmith.ops import conv as convolutions
from tensorsmith.ops import linalg, transposed

Pairs = tuple[tuple[int, int], ...]
Numbers = tuple[int, ...]


@operator("conv", Kind.COMPLEX)
def conv(x: Tensor, weight: Tensor, *, stride: Numbers, padding: Pairs, dilation: Numbers, groups: int = 1, name: str) -> Tensor:
    """x (N, spatial.., CI), weight (K.., CI / groups, CO) -> (N, spatial.., CO)."""
    return convolutions.conv(x, weight, stride, padding, dilation, groups, name)


@operator("depthwise_conv", Kind.COMPLEX)
def depthwise_conv(x: Tensor, weight: Tensor, *, stride: Numbers, padding: Pairs, dilation: Numbers, name: str) -> Tensor:
    """x (N, spatial.., C), weight (K.., C) -> (N, spatial.., C), each channel with its own kernel."""
    return convolutions.depthwise_conv(x, weight, stride, padding, dilation, name)


@operator("transposed_conv", Kind.COMPLEX)
def transposed_conv(
    x: Tensor, weight: Tensor, *, stride: Numbers, padding: Pairs, output_padding: Numbers, groups: int = 1, name: str
) -> Tensor:
    """x (N, spatial.., CI), weight (K.., CI, CO / groups) -> (N, spatial.., CO)."""
    return transposed.transposed_conv(x, weight, stride, padding, output_padding, groups, name)


@operator("matmul", Kind.COMPLEX)
def matmul(a: Tensor, b: Tensor, *, transpose_a: bool = False, transpose_b: bool = False, name: str) -> Tensor:
    """(..., N, K) x (..., K, M) -> (..., N, M), the leading dimensions broadcast."""
    return linalg.batch_matmul(a, b, transpose_a, transpose_b, name)
