"""ATen's upsampling, and sampling at computed places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.resize import Dimension, Rule, merged, resized_image, selected, sources, taps, weighted
from tensorsmith.frontends.common.spatial import channels_first, channels_last
from tensorsmith.frontends.common.values import scalar
from tensorsmith.frontends.torch.table import AtenNode, aten_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Array, Value


def _image(node: AtenNode) -> tuple[Value, tuple[int, ...], list[float | None]]:
    """The input, the extents of the result, and for each the scale where it was given."""
    x, sizes = node.value("input"), node.result[0][2:]
    node.ignore("output_size")  # the result says it
    if 0 in (*x.shape, *sizes):
        raise UserError(f"{node}: {x} or the result is empty")
    return x, sizes, list(node.plain("scale_factors") or [None] * len(sizes))


def _nearest(rank: int, name: str, shift: float) -> None:
    @aten_operator(f"{name}{rank}d.vec")
    def handler(node: AtenNode, b: Builder) -> Value:
        """Places are computed in single precision, as PyTorch does: rounding decides between neighbours."""
        given, sizes, scales = _image(node)
        x = channels_last(b, given)
        for axis, (size, scale) in enumerate(zip(sizes, scales), 1):
            step = np.float32(1 / scale) if scale else np.float32(x.shape[axis]) / np.float32(size)
            places = np.floor((np.arange(size, dtype=np.float32) + np.float32(shift)) * step).astype(np.int64)
            x = selected(b, x, axis, np.minimum(places, x.shape[axis] - 1))
        return channels_first(b, x)


def _smooth(name: str, mode: str) -> None:
    @aten_operator(f"{name}.vec")
    def handler(node: AtenNode, b: Builder) -> Value:
        x, sizes, scales = _image(node)
        corners = bool(node.plain("align_corners"))
        dimensions = []
        for axis, (size, scale) in enumerate(zip(sizes, scales), 2):
            extent = x.shape[axis]
            dimensions.append((axis, Dimension(extent, size, size / extent if corners or not scale else float(scale))))
        rule = Rule(mode, "align_corners" if corners else "half_pixel")
        return _of_bytes(b, x, dimensions, rule) if x.dtype == "u8" else resized_image(node, b, x, dimensions, rule)


def _of_bytes(b: Builder, x: Value, dimensions: Sequence[tuple[int, Dimension]], rule: Rule) -> Value:
    """PyTorch resizes bytes along the last dimension first, with weights of 15 bits, and rounds to bytes after each dimension.

    The sums are whole numbers below 2^24, which f32 holds exactly: the result is PyTorch's to the last bit.
    """
    x = channels_last(b, x)
    for axis, d in sorted(dimensions, reverse=True):
        places, weights = merged(*taps(sources(d, rule.coordinates), d, rule))
        total = weighted(b, x, axis - 1, places, _in_fixed_point(weights), np.zeros(d.result))
        if total is not x:
            rounded = b.add("floor", [b.add("add", [total, scalar(b, 0.5, total)])])
            x = b.add("cast", [b.add("clip", [rounded], low=0.0, high=255.0)], to="u8")
    return channels_first(b, x)


def _in_fixed_point(weights: Array) -> Array:
    """Weights rounded to as many binary places as leave the largest below 2^15, at most 22."""
    places = next((n for n in range(22) if int(0.5 + weights.max() * 2 ** (n + 1)) >= 2**15), 22)
    scaled = weights * 2.0**places
    return np.trunc(scaled + np.where(scaled < 0, -0.5, 0.5)) / 2.0**places


for _rank in (1, 2, 3):
    _nearest(_rank, "upsample_nearest", 0.0)
    _nearest(_rank, "_upsample_nearest_exact", 0.5)
for _name in ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"):
    _smooth(_name, "linear")
_smooth("upsample_bicubic2d", "cubic")

_MODES, _BORDERS = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")  # by PyTorch's numbers


@aten_operator("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(node: AtenNode, b: Builder) -> Value:
    mode, border = _MODES[node.integer("interpolation_mode")], _BORDERS[node.integer("padding_mode")]
    x, grid = node.value("input"), node.value("grid")
    if 0 in (*x.shape, *grid.shape):
        raise UserError(f"{node}: {x} or the grid {grid} is empty")
    corners = bool(node.plain("align_corners"))
    sampled = b.add("grid_sample", [channels_last(b, x), grid], mode=mode, border=border, align_corners=corners)
    return channels_first(b, sampled)
