"""Between real numbers and quantised ones, and products of bytes, which are added up in i32."""

from __future__ import annotations

from tensorsmith.graph.operators import Kind, operator
from tensorsmith.graph.operators.complex import Numbers, Pairs
from tensorsmith.lang.define import Tensor
from tensorsmith.ops import blocks, integer_blocks, linalg, quantised
from tensorsmith.ops import conv as convolutions

operator("quantize", Kind.ELEMENTWISE)(quantised.quantize)
operator("dequantize", Kind.ELEMENTWISE)(quantised.dequantize)
operator("requantize", Kind.ELEMENTWISE)(quantised.requantize)
operator("centred", Kind.ELEMENTWISE)(quantised.centred)
operator("dynamic_quantize", Kind.REDUCTION)(quantised.dynamic_quantize)
operator("table", Kind.INJECTIVE)(quantised.table)


@operator("integer_conv", Kind.COMPLEX)
def integer_conv(
    x: Tensor,
    weight: Tensor,
    *,
    stride: Numbers,
    padding: Pairs,
    dilation: Numbers,
    groups: int = 1,
    fill: int = 0,
    small_weight: bool = False,
    name: str,
) -> Tensor:
    """`conv` of bytes in i32; padding holds `fill`."""
    return convolutions.conv(x, weight, stride, padding, dilation, groups, name, fill, "i32", small_weight)


@operator("integer_depthwise_conv", Kind.COMPLEX)
def integer_depthwise_conv(
    x: Tensor, weight: Tensor, *, stride: Numbers, padding: Pairs, dilation: Numbers, fill: int = 0, name: str
) -> Tensor:
    """`depthwise_conv` of bytes in i32; padding holds `fill`."""
    return convolutions.depthwise_conv(x, weight, stride, padding, dilation, name, fill, "i32")


@operator("integer_matmul", Kind.COMPLEX)
def integer_matmul(
    a: Tensor, b: Tensor, *, transpose_a: bool = False, transpose_b: bool = False, small_weight: bool = False, name: str
) -> Tensor:
    """`matmul` of bytes in i32."""
    return linalg.batch_matmul(a, b, transpose_a, transpose_b, name, "i32", small_weight)


@operator("block_matmul", Kind.COMPLEX)
def block_matmul(
    x: Tensor, q: Tensor, scale: Tensor, zero: Tensor | None = None, *, bits: int, middle: int = 0, rounds: bool = False, name: str
) -> Tensor:
    """x (..., K) times a matrix that is quantised in blocks: q (blocks, bytes of a block, M), scale and zero (blocks, M).

    `rounds`: x may be rounded to 8 bits in blocks, for a product of integers (`passes/rounded.py`); here it is not.
    """
    return blocks.block_matmul(x, q, scale, zero, bits, middle, name)


operator("quantize_blocks", Kind.REDUCTION)(integer_blocks.quantize_blocks)


@operator("integer_block_matmul", Kind.COMPLEX)
def integer_block_matmul(q: Tensor, scale: Tensor, sums: Tensor, *fields: Tensor, format: str, name: str) -> Tensor:
    """What `quantize_blocks` gives of x (..., K), times the transpose of a matrix (M, K) in blocks -> f32 (..., M).

    `fields` are what `ops.block_formats.format_of(format).split(rows)` gives of the matrix's rows as bytes (M, bytes of a row);
    they may be views of a file. Products that read one x share its `quantize_blocks`:

        quantised = b.add_all("quantize_blocks", [x])
        fields = [b.constant(a) for a in format_of("q4_0").split(rows)]
        y = b.add("integer_block_matmul", [*quantised, *fields], format="q4_0")
    """
    return integer_blocks.integer_block_matmul(q, scale, sums, *fields, format=format, name=name)


@operator("dequantize_blocks", Kind.INJECTIVE)
def dequantize_blocks(
    q: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int, block: int, dtype: str = "f32", name: str
) -> Tensor:
    """(q - zero) * scale, with a scale and a zero point for each `block` of elements along `axis`.

    Of constants it is no constant at once: `passes.blocks` makes it a part of the product that reads it.
    """
    return blocks.dequantize_blocks(q, scale, zero, axis, block, dtype, name)
