"""ATen's one operator for all convolutions."""

from __future__ import annotations

from tensorsmith.errors import UserError
from tensorsmith.frontends.common import convolution as common
from tensorsmith.frontends.common.spatial import Window, channels_first, channels_last
from tensorsmith.frontends.torch.table import AtenNode, aten_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value


@aten_operator("convolution")
def convolution(node: AtenNode, b: Builder) -> Value:
    x, weight, bias = node.value("input"), node.value("weight"), node.optional("bias")
    rank = len(x.shape) - 2
    if not 1 <= rank <= 3:
        raise UserError(f"{node}: the input is {x}; expected N, C and 1-3 spatial dimensions")
    if 0 in (*x.shape, *weight.shape):
        raise UserError(f"{node}: {x} or the weight {weight} is empty")
    pads = node.integers("padding", rank)
    w = Window(weight.shape[2:], node.integers("stride", rank), tuple((p, p) for p in pads), node.integers("dilation", rank))
    groups, extra = node.integer("groups"), node.integers("output_padding", rank)
    if node.plain("transposed"):
        result = common.transposed_convolution(b, x, weight, w, extra, groups)
    else:
        result = common.convolution(node, b, channels_last(b, x), weight, w, groups)
    return channels_first(b, common.with_bias(b, result, bias))
