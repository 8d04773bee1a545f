"""Quantised operators: integer products are made of bytes, and added up in i32 (`graph/integer.py`).

Where bytes cannot do it (a zero point per row, weights that are computed and have one), they are made of numbers in i32 without
their zero points.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.convolution import Options, convolution, convolved, with_bias
from tensorsmith.frontends.common.matrix import multiplied, product
from tensorsmith.frontends.common.spatial import channels_first, channels_last
from tensorsmith.frontends.onnx.convolution import conv_window
from tensorsmith.frontends.onnx.read import type_of
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph import integer
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.ops.common import normal_axis


def _along(node: OnnxNode, b: Builder, parameter: Value, x: Value) -> Value:
    """A scale or zero point so shaped that it broadcasts against x: one number, one per slice along `axis`, or one per block."""
    rank = len(x.shape)
    axis, block = int(node.attribute("axis", 1)), int(node.attribute("block_size", 0))  # which say nothing about one number
    if parameter.elements == 1 and len(parameter.shape) <= 1:
        return b.add("reshape", [parameter], shape=())
    if not -rank <= axis < rank:
        raise UserError(f"{node}: axis is {axis}; the input has the shape {list(x.shape)}")
    axis %= rank
    if block:
        return _blocks(node, b, parameter, x, axis, block)
    if parameter.shape != (x.shape[axis],):
        raise UserError(f"{node}: a scale of {list(parameter.shape)} does not fit dimension {axis} of {list(x.shape)}")
    return b.add("reshape", [parameter], shape=(x.shape[axis], *[1] * (rank - axis - 1)))


def _blocks(node: OnnxNode, b: Builder, parameter: Value, x: Value, axis: int, block: int) -> Value:
    """One per `block` elements along an axis, repeated; the last block may be shorter."""
    wanted = tuple(-(-n // block) if d == axis else n for d, n in enumerate(x.shape))
    if parameter.shape != wanted:
        raise UserError(
            f"{node}: blocks of {block} along dimension {axis} of {list(x.shape)} need a scale of {list(wanted)}, "
            f"not {list(parameter.shape)}"
        )
    repeated = b.add("repeat", [parameter], times=tuple(block if d == axis else 1 for d in range(len(x.shape))))
    return b.add("slice", [repeated], starts=(0,) * len(x.shape), sizes=x.shape) if repeated.shape != x.shape else repeated


def _parameters(node: OnnxNode, b: Builder, x: Value) -> list[Value]:
    """Scale and, where given, zero point."""
    return [_along(node, b, v, x) for v in (node.required(1), node.optional(2)) if v is not None]


@onnx_operator("QuantizeLinear", since=10)
def quantize_linear(node: OnnxNode, b: Builder) -> Value:
    x, zero = node.required(0), node.optional(2)
    kind = node.attribute("output_dtype", 0)
    dtype = zero.dtype if zero is not None else type_of(kind, f"{node}: output_dtype") if kind else "u8"
    if dtype not in ("i8", "u8", "i16", "u16"):
        raise UserError(f"{node}: results are supported in 8 and 16 bits, not as {dtype}")
    x = b.add("cast", [x], to="f32") if x.dtype == "i32" else x
    return b.add("quantize", [x, *_parameters(node, b, x)], dtype=dtype)


@onnx_operator("DequantizeLinear", since=10)
def dequantize_linear(node: OnnxNode, b: Builder) -> Value:
    """Blocks of constants stay what they are until it is known what reads them."""
    x = node.required(0)
    if (block := int(node.attribute("block_size", 0))) and b.known(x) is not None and len(node.required(1).shape) == len(x.shape):
        operands = [v for v in (x, node.required(1), node.optional(2)) if v is not None]
        axis = normal_axis(int(node.attribute("axis", 1)), len(x.shape), str(node))
        kind = node.attribute("output_dtype", 0)
        dtype = type_of(kind, f"{node}: output_dtype") if kind else operands[1].dtype
        return b.add("dequantize_blocks", operands, axis=axis, block=block, dtype=dtype)
    kind = node.attribute("output_dtype", 0)
    dtype = type_of(kind, f"{node}: output_dtype") if kind else node.required(1).dtype
    return b.add("dequantize", [x, *_parameters(node, b, x)], dtype=dtype)


@onnx_operator("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(node: OnnxNode, b: Builder) -> Sequence[Value]:
    return b.add_all("dynamic_quantize", [node.required(0)])


def _centred(b: Builder, x: Value, zero: Value | None) -> Value:
    """x - zero in i32."""
    return b.add("centred", [x] if zero is None else [x, zero])


def _of_rows(b: Builder, zero: Value | None) -> Value | None:
    """A zero point per row of the left side of a product, as a column."""
    if zero is None or len(zero.shape) != 1 or zero.shape == (1,):
        return zero
    return b.add("reshape", [zero], shape=(*zero.shape, 1))


@onnx_operator("MatMulInteger", since=10)
def matmul_integer(node: OnnxNode, b: Builder) -> Value:
    return integer_product(node, b, node.required(0), node.optional(2), node.required(1), node.optional(3))


def integer_product(
    node: OnnxNode, b: Builder, left: Value, left_zero: Value | None, right: Value, right_zero: Value | None
) -> Value:
    """The matrix product in i32."""

    def in_bytes(left: Value, right: Value) -> Value | None:
        return integer.product(b, left, left_zero, right, right_zero)

    found = multiplied(node, b, left, right, in_bytes)
    if found is not None:
        return found
    return product(node, b, _centred(b, left, _of_rows(b, left_zero)), _centred(b, right, right_zero))


@onnx_operator("ConvInteger", since=10)
def conv_integer(node: OnnxNode, b: Builder) -> Value:
    return channels_first(b, _integer_conv(node, b, 0, 1, node.optional(2), node.optional(3)))


def _integer_conv(node: OnnxNode, b: Builder, x_at: int, w_at: int, x_zero: Value | None, w_zero: Value | None) -> Value:
    """The convolution in i32, channels-last; padding is zero after the zero point is taken off."""
    x, weight = node.required(x_at), node.required(w_at)
    w = conv_window(node, x, weight)
    if w_zero is not None and w_zero.shape == weight.shape[:1]:
        w_zero = b.add("reshape", [w_zero], shape=(*weight.shape[:1], *[1] * (len(weight.shape) - 1)))
    groups, centred = node.attribute("group", 1), integer.centred_weight(b, weight, w_zero)

    def in_bytes(depthwise: bool, x: Value, weight: Value, options: Options) -> Value | None:
        return integer.convolution(b, depthwise, x, x_zero, weight, None, options)

    if centred is not None and (found := convolved(node, b, channels_last(b, x), centred, w, groups, in_bytes)) is not None:
        return found
    return convolution(node, b, _centred(b, channels_last(b, x), x_zero), _centred(b, weight, w_zero), w, groups)


@onnx_operator("QLinearConv", since=10)
def qlinear_conv(node: OnnxNode, b: Builder) -> Value:
    x_scale, x_zero, w_scale, w_zero, y_scale, y_zero = (node.required(n) for n in (1, 2, 4, 5, 6, 7))
    total = with_bias(b, _integer_conv(node, b, 0, 3, x_zero, w_zero), node.optional(8))
    scale = b.add("divide", [b.add("multiply", [x_scale, w_scale]), y_scale])
    return channels_first(b, b.add("requantize", [total, scale, y_zero], dtype=y_zero.dtype))


@onnx_operator("QLinearMatMul", since=10)
def qlinear_matmul(node: OnnxNode, b: Builder) -> Value:
    a_scale, a_zero, b_scale, b_zero, y_scale, y_zero = (node.required(n) for n in (1, 2, 4, 5, 6, 7))
    total = integer_product(node, b, node.required(0), a_zero, node.required(3), b_zero)
    rows = _of_rows(b, a_scale)
    assert rows is not None
    scale = b.add("divide", [b.add("multiply", [rows, b_scale]), y_scale])
    return b.add("requantize", [total, scale, y_zero], dtype=y_zero.dtype)
