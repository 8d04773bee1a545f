"""The two subgraphs of the Ansor paper's evaluation."""

from __future__ import annotations

from tensorsmith.errors import UserError
from tensorsmith.lang.define import Tensor, compute
from tensorsmith.ops.common import Padding, PerDimension, check_rank
from tensorsmith.ops.conv import conv2d
from tensorsmith.ops.elementwise import bias_add, relu
from tensorsmith.ops.linalg import batch_matmul
from tensorsmith.ops.norm import batch_norm, softmax


def conv_layer(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    scale: Tensor,
    shift: Tensor,
    stride: PerDimension = 1,
    padding: Padding = 0,
    name: str = "layer",
) -> Tensor:
    """relu((conv2d(x, weight) + bias) * scale + shift)"""
    product = conv2d(x, weight, stride, padding, name=f"{name}_conv")
    normal = batch_norm(bias_add(product, bias, f"{name}_bias"), scale, shift, f"{name}_bn")
    return relu(normal, name)


def tbs(query: Tensor, key: Tensor, name: str = "tbs") -> Tensor:
    """Attention scores: two (batch, length, heads, dim) -> softmax(query key^T), (batch, heads, length, length)."""
    scores = tbm(query, key, f"{name}_scores")
    return softmax(scores, -1, name)


def tbm(query: Tensor, key: Tensor, name: str = "tbm") -> Tensor:
    """The transposes and the batched matmul of `tbs` alone."""
    check_rank(query, 4, name, "(batch, length, heads, dim)")
    check_rank(key, 4, name, "(batch, length, heads, dim)")
    batch, length, heads, dim = query.shape
    if (batch, heads, dim) != (key.shape[0], key.shape[2], key.shape[3]):
        raise UserError(f"{name}: {query.name} {list(query.shape)} and {key.name} {list(key.shape)} differ in more than length")
    q = compute((batch, heads, length, dim), lambda b, h, i, d: query[b, i, h, d], name=f"{name}_query")
    k = compute((batch, heads, dim, key.shape[1]), lambda b, h, d, i: key[b, i, h, d], name=f"{name}_key")
    return batch_matmul(q, k, name=name)
