"""Operators of ONNX Runtime (domain `com.microsoft`) that real quantised files use."""

from __future__ import annotations

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Array, Value
from tensorsmith.lang.dtypes import is_float

_DOMAIN = "com.microsoft"
_LEAST_BLOCK = 16


@onnx_operator("MatMulNBits", domain=_DOMAIN)
def matmul_n_bits(node: OnnxNode, b: Builder) -> Value:
    """x (..., K) times a matrix (K, N) of 4 or 8 bits, quantised in blocks along K; in files it is (N, blocks, bytes of a block).

    Products are of f32, whatever `accuracy_level` allows.
    """
    x, depth, columns = node.required(0), int(node.needed("K")), int(node.needed("N"))
    bits, block = int(node.attribute("bits", 4)), int(node.needed("block_size"))
    node.attribute("accuracy_level", 0)
    if bits not in (4, 8):
        raise UserError(f"{node}: weights of {bits} bits are not supported; 4 and 8 are")
    if block < _LEAST_BLOCK or block & (block - 1):
        raise UserError(f"{node}: block_size is {block}; it must be a power of two, {_LEAST_BLOCK} or more")
    if node.optional(4) is not None:
        raise UserError(f"{node}: g_idx, another order of the rows, is not supported")
    if not is_float(x.dtype) or not x.shape or x.shape[-1] != depth:
        raise UserError(f"{node}: the input is {x}; it must be of floats and end in K = {depth}")
    blocks = -(-depth // block)
    q = _shaped(node, node.constant(1, "the weights"), (columns, blocks, block * bits // 8), "the weights")
    scale = _shaped(node, node.constant(2, "the scales"), (columns, blocks), "the scales")
    operands = [b.constant(_turned(q.view(np.uint8)), "weights"), b.constant(_turned(scale), "scales")]
    zero = node.optional_constant(3, "the zero points")
    if zero is not None:
        operands.append(b.constant(_turned(_zero_points(node, zero, columns, blocks, bits)), "zero_points"))
    if depth < blocks * block:  # what is beyond the end is multiplied by 0
        x = b.add("pad", [x], pairs=(*[(0, 0)] * (len(x.shape) - 1), (0, blocks * block - depth)))
    product = b.add("block_matmul", [x, *operands], bits=bits, middle=1 << (bits - 1))
    bias = node.optional(5)
    return product if bias is None else b.add("add", [product, bias])


def _zero_points(node: OnnxNode, zero: Array, columns: int, blocks: int, bits: int) -> Array:
    """One for each block of each column: floats as they are, integers packed as the weights are, each column from a byte on."""
    if zero.dtype != np.uint8:
        return _shaped(node, zero, (columns, blocks), "the zero points")
    packed = _shaped(node, zero, (columns, -(-blocks * bits // 8)), "the zero points")
    if bits == 8:
        return packed
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(columns, -1)[:, :blocks]


def _shaped(node: OnnxNode, array: Array, shape: tuple[int, ...], what: str) -> Array:
    """A constant in the shape that it has to have; files write some of them flat."""
    if array.size != np.prod(shape):
        raise UserError(f"{node}: {what} have the shape {list(array.shape)}; expected {list(shape)}")
    return array.reshape(shape)


def _turned(array: Array) -> Array:
    """The columns last."""
    return np.ascontiguousarray(np.moveaxis(array, 0, -1))
