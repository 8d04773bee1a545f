"""What convolutions and pooling share: channels-last layout, and the attributes that describe a window.

ONNX has images as N, C, spatial..; our operators are channels-last. Each handler puts a transpose before and after, and a pass
removes those that meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.table import OnnxNode
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value

Numbers = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def channels_last(b: Builder, x: Value) -> Value:
    """N, C, spatial.. -> N, spatial.., C"""
    rank = len(x.shape)
    return b.add("transpose", [x], order=(0, *range(2, rank), 1)) if rank > 2 else x


def channels_first(b: Builder, x: Value) -> Value:
    """N, spatial.., C -> N, C, spatial.."""
    rank = len(x.shape)
    return b.add("transpose", [x], order=(0, rank - 1, *range(1, rank - 1))) if rank > 2 else x


def per_channel(b: Builder, x: Value, rank: int) -> Value:
    """A vector with one number per channel, shaped so that it broadcasts against N, C, spatial.. of that rank."""
    return b.add("reshape", [x], shape=(*x.shape, *[1] * (rank - 2))) if rank > 2 else x


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


@dataclass(frozen=True)
class Window:
    """Kernel, stride, padding and dilation, one per spatial dimension."""

    kernel: Numbers
    stride: Numbers
    padding: Pairs
    dilation: Numbers

    @property
    def spans(self) -> Numbers:
        """How far the kernel reaches."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation))


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


def split_padding(totals: Sequence[int], more_after: bool) -> Pairs:
    """Padding in halves before and after; `more_after` says where an odd one goes."""
    return tuple((t // 2, t - t // 2) if more_after else (t - t // 2, t // 2) for t in totals)
