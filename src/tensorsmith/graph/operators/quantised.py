"""Between real numbers and quantised ones."""

from __future__ import annotations

from tensorsmith.graph.operators import Kind, operator
from tensorsmith.ops import quantised

operator("quantize", Kind.ELEMENTWISE)(quantised.quantize)
operator("dequantize", Kind.ELEMENTWISE)(quantised.dequantize)
operator("requantize", Kind.ELEMENTWISE)(quantised.requantize)
operator("centred", Kind.ELEMENTWISE)(quantised.centred)
operator("dynamic_quantize", Kind.REDUCTION)(quantised.dynamic_quantize)
