"""What convolutions and pooling share: channels-last layout, and windows.

Front ends have images as N, C, spatial..; our operators are channels-last. Each handler puts a transpose before and after, and a
pass removes those that meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


def split_padding(totals: Sequence[int], more_after: bool) -> Pairs:
    """Padding in halves before and after; `more_after` says where an odd one goes."""
    return tuple((t // 2, t - t // 2) if more_after else (t - t // 2, t // 2) for t in totals)
