"""The attributes of ONNX that describe a window of a convolution or a pooling."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.spatial import Numbers, Window, split_padding
from tensorsmith.frontends.onnx.table import OnnxNode
from tensorsmith.graph.graph import Value


def spatial_extents(node: OnnxNode, x: Value) -> Numbers:
    """The extents of the 1-3 spatial dimensions of an input N, C, spatial.."""
    if not 3 <= len(x.shape) <= 5:
        raise UserError(f"{node}: the input has the shape {list(x.shape)}; expected N, C and 1-3 spatial dimensions")
    return x.shape[2:]


def numbers(node: OnnxNode, name: str, count: int, default: int) -> Numbers:
    """An attribute with a number per spatial dimension."""
    given = tuple(node.attribute(name) or (default,) * count)
    if len(given) != count:
        raise UserError(f"{node}: {name} is {list(given)}; expected {count} numbers")
    return given


def window(node: OnnxNode, extents: Sequence[int], kernel: Numbers) -> Window:
    """The window of a convolution or a pooling with that kernel over those extents; `auto_pad` becomes numbers."""
    rank = len(extents)
    stride, dilation = numbers(node, "strides", rank, 1), numbers(node, "dilations", rank, 1)
    mode = node.attribute("auto_pad", "NOTSET")
    pads = numbers(node, "pads", 2 * rank, 0)
    found = Window(kernel, stride, tuple(zip(pads[:rank], pads[rank:])), dilation)
    if mode in ("NOTSET", ""):
        return found
    if mode == "VALID":
        return Window(kernel, stride, ((0, 0),) * rank, dilation)
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise UserError(f"{node}: auto_pad is {mode!r}; known are NOTSET, VALID, SAME_UPPER and SAME_LOWER")
    totals = [max((-(-n // s) - 1) * s + span - n, 0) for n, s, span in zip(extents, stride, found.spans)]
    return Window(kernel, stride, split_padding(totals, mode == "SAME_UPPER"), dilation)
