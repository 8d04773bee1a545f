"""Operators of ONNX Runtime (domain `com.microsoft`) that real quantised files use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.values import as_type, reshaped, scalar, scalar_of, sliced, transposed
from tensorsmith.frontends.onnx.quantised import integer_product
from tensorsmith.frontends.onnx.recurrent import Layer, lstm_layer
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Array, Value
from tensorsmith.lang.dtypes import is_float

_DOMAIN = "com.microsoft"
_LEAST_BLOCK = 16
_LEVEL_OF_BYTES = 4  # of accuracy: the other side in 8 bits


@onnx_operator("MatMulNBits", domain=_DOMAIN)
def matmul_n_bits(node: OnnxNode, b: Builder) -> Value:
    """x (..., K) times a matrix (K, N) of 4 or 8 bits, quantised in blocks along K; in files it is (N, blocks, bytes of a block).

    With `accuracy_level` 4 the other side may be rounded to 8 bits; other levels are less exact than f32, which is used.
    """
    x, depth, columns = node.required(0), int(node.needed("K")), int(node.needed("N"))
    bits, block = int(node.attribute("bits", 4)), int(node.needed("block_size"))
    rounds = int(node.attribute("accuracy_level", 0)) == _LEVEL_OF_BYTES
    if node.attribute("weight_prepacked", 0):
        raise UserError(f"{node}: weights packed for another machine are not supported (weight_prepacked)")
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
    product = b.add("block_matmul", [x, *operands], bits=bits, middle=1 << (bits - 1), rounds=rounds)
    bias = node.optional(5)
    return product if bias is None else b.add("add", [product, bias])


@onnx_operator("QGemm", domain=_DOMAIN)
def quantised_gemm(node: OnnxNode, b: Builder) -> Value:
    """alpha * (A B + C) of quantised matrices; C is of i32, with the scale of the product. A result without a scale is f32."""
    left, a_scale, a_zero, right, b_scale, b_zero = (node.required(n) for n in range(6))
    added, y_scale, y_zero = (node.optional(n) for n in (6, 7, 8))
    if len(left.shape) != 2 or len(right.shape) != 2:
        raise UserError(f"{node}: the inputs have the shapes {list(left.shape)} and {list(right.shape)}; expected two matrices")
    left = transposed(b, left, (1, 0)) if node.attribute("transA", 0) else left
    right = transposed(b, right, (1, 0)) if node.attribute("transB", 0) else right
    total = integer_product(node, b, left, a_zero, right, b_zero)
    total = total if added is None else b.add("add", [total, added])
    alpha = float(node.attribute("alpha", 1.0))
    scale = b.add("multiply", [a_scale, b_scale])
    scale = scale if alpha == 1 else b.add("multiply", [scale, scalar(b, alpha, scale)])
    if y_scale is None:
        if y_zero is not None:
            raise UserError(f"{node}: a zero point of the result is given, and no scale")
        return b.add("multiply", [as_type(b, total, scale.dtype), scale])
    y_zero = scalar_of(b, 0, left.dtype) if y_zero is None else y_zero
    return b.add("requantize", [total, b.add("divide", [scale, y_scale]), y_zero], dtype=y_zero.dtype)


class _QuantisedLayer(Layer):
    """Weights of bytes, the gates last. Inputs, all steps at once, and the state of each step are quantised as they come."""

    @staticmethod
    def weight_shapes(directions: int, gates: int, inputs: int, hidden: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (directions, inputs, gates), (directions, hidden, gates)

    def product(self, rows: Value, n: int, direction: int) -> Value:
        b, node = self.b, self.node
        scales, zeros = (8, 9) if n == 1 else (10, 11)
        q, scale, zero = b.add_all("dynamic_quantize", [rows])
        weight_zero = node.optional(zeros)
        own = None if weight_zero is None else self._own(weight_zero, direction)
        total = integer_product(node, b, q, zero, self.part(node.required(n), direction), own)
        factor = b.add("multiply", [scale, self._own(node.required(scales), direction)])
        return b.add("multiply", [as_type(b, total, factor.dtype), factor])

    def _own(self, parameter: Value, direction: int) -> Value:
        """What a scale or a zero point has for a direction: one number, or one for each column."""
        if len(parameter.shape) == 2:
            return self.part(parameter, direction)
        return reshaped(self.b, sliced(self.b, parameter, (direction,), (1,)), ())


@onnx_operator("DynamicQuantizeLSTM", domain=_DOMAIN)
def dynamic_quantize_lstm(node: OnnxNode, b: Builder) -> Sequence[Value]:
    return lstm_layer(node, b, _QuantisedLayer)


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
