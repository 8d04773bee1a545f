"""ATen's upsampling, and sampling at computed places."""

from __future__ import annotations

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.resize import Dimension, Rule, resized_image, selected
from tensorsmith.frontends.common.spatial import channels_first, channels_last
from tensorsmith.frontends.torch.table import AtenNode, aten_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value


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
        return resized_image(node, b, x, dimensions, Rule(mode, "align_corners" if corners else "half_pixel"))


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
