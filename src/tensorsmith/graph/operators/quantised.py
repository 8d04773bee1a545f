"""Between real numbers and quantised ones."""

from __future__ import annotations

from tensorsmith.graph.operators import Kind, operator
from tensorsmith.lang.define import Tensor
from tensorsmith.ops import blocks, quantised

operator("quantize", Kind.ELEMENTWISE)(quantised.quantize)
operator("dequantize", Kind.ELEMENTWISE)(quantised.dequantize)
operator("requantize", Kind.ELEMENTWISE)(quantised.requantize)
operator("centred", Kind.ELEMENTWISE)(quantised.centred)
operator("dynamic_quantize", Kind.REDUCTION)(quantised.dynamic_quantize)


@operator("block_matmul", Kind.COMPLEX)
def block_matmul(
    x: Tensor, q: Tensor, scale: Tensor, zero: Tensor | None = None, *, bits: int, middle: int = 0, name: str
) -> Tensor:
    """x (..., K) times a matrix that is quantised in blocks: q (blocks, bytes of a block, M), scale and zero (blocks, M)."""
    return blocks.block_matmul(x, q, scale, zero, bits, middle, name)


@operator("dequantize_blocks", Kind.INJECTIVE)
def dequantize_blocks(
    q: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int, block: int, dtype: str = "f32", name: str
) -> Tensor:
    """(q - zero) * scale, with a scale and a zero point for each `block` of elements along `axis`.

    Of constants it is no constant at once: `passes.blocks` makes it a part of the product that reads it.
    """
    return blocks.dequantize_blocks(q, scale, zero, axis, block, dtype, name)
