"""ONNX's ways to say how an image is resized. GridSample reads at computed places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.resize import Dimension, Rule, resized_image
from tensorsmith.frontends.common.spatial import channels_first, channels_last
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Array, Value
from tensorsmith.show.line import many


@onnx_operator("Resize", since=10)
def resize_10(node: OnnxNode, b: Builder) -> Value:
    return resized_image(
        node, b, node.required(0), _by_scales(node, node.constant(1, "scales")), Rule(_mode(node), "asymmetric", "simple")
    )


@onnx_operator("Upsample", since=7)
def upsample(node: OnnxNode, b: Builder) -> Value:
    scales = np.asarray(node.needed("scales")) if node.version < 9 else node.constant(1, "scales")
    return resized_image(node, b, node.required(0), _by_scales(node, scales), Rule(_mode(node), "asymmetric", "simple"))


@onnx_operator("Resize", since=11)
def resize(node: OnnxNode, b: Builder) -> Value:
    x = node.required(0)
    rank = len(x.shape)
    coordinates = node.attribute("coordinate_transformation_mode", "half_pixel")
    rule = Rule(
        _mode(node),
        coordinates,
        node.attribute("nearest_mode", "round_prefer_floor"),
        float(node.attribute("cubic_coeff_a", -0.75)),
        bool(node.attribute("antialias", 0)),
        bool(node.attribute("exclude_outside", 0)),
        float(node.attribute("extrapolation_value", 0.0)),
    )
    axes = [int(a) % rank for a in node.attribute("axes", range(rank))]
    region = node.optional(1)  # given in many files, and of no meaning but for tf_crop_and_resize
    roi = node.known(region, "roi") if region is not None and coordinates == "tf_crop_and_resize" else None
    scales, sizes = node.optional_constant(2, "scales"), node.optional_constant(3, "sizes")
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")  # says nothing about scales
    if sizes is not None and sizes.size:
        dimensions = _by_sizes(node, axes, [int(n) for n in sizes], policy)
    elif scales is not None and scales.size:
        dimensions = _by_scales(node, scales, axes)
    else:
        raise UserError(f"{node}: neither scales nor sizes are given")
    if coordinates == "tf_crop_and_resize":
        if roi is None or roi.size != 2 * len(axes):
            raise UserError(f"{node}: tf_crop_and_resize needs a roi of {2 * len(axes)} numbers")
        ends = [float(v) for v in roi]
        parts = zip(dimensions, ends, ends[len(axes) :])
        dimensions = [(axis, Dimension(d.extent, d.result, d.scale, first, last)) for (axis, d), first, last in parts]
    return resized_image(node, b, node.required(0), dimensions, rule)


def _mode(node: OnnxNode) -> str:
    mode = str(node.attribute("mode", "nearest"))
    return "linear" if mode == "bilinear" else mode


def _by_scales(node: OnnxNode, scales: Array, axes: Sequence[int] | None = None) -> list[tuple[int, Dimension]]:
    shape = node.required(0).shape
    axes = range(len(shape)) if axes is None else axes
    if scales.size != len(axes):
        raise UserError(f"{node}: scales has {scales.size} numbers; expected {len(axes)}")
    found = []
    for d, s in zip(axes, scales.ravel()):
        count = int(np.float32(shape[d]) * np.float32(s))  # rounded as ONNX's shape inference does: 10 * 1.3 is 13
        found.append((d, Dimension(shape[d], count, float(s))))
    return found


def _by_sizes(node: OnnxNode, axes: Sequence[int], sizes: Sequence[int], policy: str) -> list[tuple[int, Dimension]]:
    shape = node.required(0).shape
    if len(sizes) != len(axes):
        raise UserError(f"{node}: sizes has {many(len(sizes), 'number')}; expected {len(axes)}")
    if 0 in (shape[d] for d in axes):
        raise UserError(f"{node}: the input {list(shape)} is empty")
    scales = [n / shape[d] for d, n in zip(axes, sizes)]
    if policy == "stretch":
        return [(d, Dimension(shape[d], n, s)) for d, n, s in zip(axes, sizes, scales)]
    if policy not in ("not_larger", "not_smaller"):
        raise UserError(f"{node}: keep_aspect_ratio_policy is {policy!r}; known are stretch, not_larger and not_smaller")
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [(d, Dimension(shape[d], int(scale * shape[d] + 0.5), scale)) for d in axes]


_SAMPLING = {"bilinear": "linear", "bicubic": "cubic"}  # as they were called before version 20


@onnx_operator("GridSample", since=16)
def grid_sample(node: OnnxNode, b: Builder) -> Value:
    mode = node.attribute("mode", "linear")
    sampled = b.add(
        "grid_sample",
        [channels_last(b, node.required(0)), node.required(1)],
        mode=_SAMPLING.get(mode, mode),
        border=node.attribute("padding_mode", "zeros"),
        align_corners=bool(node.attribute("align_corners", 0)),
    )
    return channels_first(b, sampled)


@onnx_operator("RoiAlign", since=10)
def roi_align(node: OnnxNode, b: Builder) -> Value:
    """Before version 16 the centre of an element was at 0."""
    centre = "half_pixel" if node.version >= 16 else "output_half_pixel"
    if node.version >= 16:
        centre = node.choice("coordinate_transformation_mode", centre, ("half_pixel", "output_half_pixel"))
    samples = int(node.attribute("sampling_ratio", 0))
    if samples < 1:
        raise UserError(f"{node}: sampling_ratio is {samples}: a number that depends on the regions is not supported")
    pooled = b.add(
        "roi_align",
        [channels_last(b, node.required(0)), node.required(1), node.required(2)],
        size=(int(node.attribute("output_height", 1)), int(node.attribute("output_width", 1))),
        samples=samples,
        scale=float(node.attribute("spatial_scale", 1.0)),
        half_pixel=centre == "half_pixel",
        largest=node.choice("mode", "avg", ("avg", "max")) == "max",
    )
    return channels_first(b, pooled)
